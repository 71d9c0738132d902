#include "agent/images/open_images.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <tuple>

#include "agent/images/image_table.h"
#include "agent/tables/agent_core.h"

namespace kedge {

std::vector<LocalVersion> ListLocalVersions(const ImageTable& images, const LocalVersionsRequest& request) {
  std::vector<LocalVersion> found;
  for (const auto& [id, image] : images.all()) {
    const Version& version = *image->version;
    const Generation& generation = version.generation;
    if (generation.store_id != request.store_id || generation.job != request.job) continue;
    if (!request.name.empty() && generation.name != request.name) continue;
    if (!image->IsHeld()) continue;
    found.push_back({generation, image->rank, version.ranks, version.ReachedLevel()});
  }
  std::sort(found.begin(), found.end(), [](const LocalVersion& a, const LocalVersion& b) {
    return std::tie(b.generation, a.rank) < std::tie(a.generation, b.rank);
  });
  return found;
}

OpenImages::OpenImages(AgentCore& core, ImageTable& images) : core_(core), images_(images) {
  core.requests().OnSession<OpenImageRequest>(std::bind_front(&OpenImages::OnOpen, this));
  core.requests().OnSession<CloseImageRequest>(
      [this](Session& session, const CloseImageRequest& request) { return Close(session, request.image); });
}

void OpenImages::OnOpen(Session& session, const OpenImageRequest& request, const Question& question) {
  if (!request.replace) {
    const auto reply = Open(session, request);
    if (reply.status().code() != Code::kNotFound || !session.job->BringsImages()) return question.Answer(reply);
  }
  core_.events().image_missed(*session.job, request.generation, request.rank, {.replace = request.replace},
                              [this, question, id = session.id, request](const Status& brought) {
                                Session* found = core_.sessions().Find(id);
                                if (found == nullptr || found->connection != question.connection()) return;
                                question.Answer(brought.ok() ? Open(*found, request) : Result<OpenImageReply>(brought));
                              });
}

Result<OpenImageReply> OpenImages::Open(Session& session, const OpenImageRequest& request) {
  Version* version = core_.FindVersion(request.generation);
  auto entry = version == nullptr ? decltype(version->images.begin()){} : version->images.find(request.rank);
  if (version == nullptr || entry == version->images.end() || !entry->second->IsHeld()) {
    return Status(Code::kNotFound, fmt::format("{} rank {} is not on this node", request.generation.ToString(), request.rank));
  }
  Image& image = *entry->second;
  auto place = [&](const ImageChunk& chunk, SlotRange* range) {
    *range = SlotRange{kTierNone, 0, 0, 0, chunk.bytes};
    auto unit = std::find(session.tiers.begin(), session.tiers.end(), chunk.unit);
    if (chunk.unit == nullptr || unit == session.tiers.end()) return;
    *range = SlotRange{static_cast<uint32_t>(unit - session.tiers.begin()), chunk.slot, chunk.slot_generation, chunk.offset,
                       chunk.bytes};
  };
  OpenImageReply reply;
  place(image.record, &reply.record);
  reply.record.bytes = image.record_bytes;
  if (reply.record.tier == kTierNone) {
    return Status(Code::kNotFound, fmt::format("{} rank {} lies in a tier that is not this session's",
                                               request.generation.ToString(), request.rank));
  }
  for (const ImageChunk& chunk : image.chunks) place(chunk, &reply.chunks.emplace_back());
  reply.was_brought = image.brought_for_attempt == session.hello.attempt;
  reply.image = ++session.last_handle;
  session.open_images[reply.image] = image.id;
  images_.AddReader(image);
  return reply;
}

Status OpenImages::Close(Session& session, uint64_t handle) {
  if (session.CloseWindow(handle) || session.line_readers.erase(handle) > 0) return Status::Ok();
  auto opened = session.open_images.find(handle);
  if (opened == session.open_images.end()) return Status(Code::kInvalidArgument, fmt::format("image {} is not open", handle));
  Image* image = images_.Find(opened->second);
  session.open_images.erase(opened);
  KEDGE_CHECK(image != nullptr);
  images_.RemoveReader(*image);
  core_.Nudge();
  return Status::Ok();
}

void OpenImages::CloseAll(Session& session) {
  session.CloseWindow(session.shown.handle);
  session.line_readers.clear();
  while (!session.open_images.empty()) (void)Close(session, session.open_images.begin()->first);
}

}  // namespace kedge
