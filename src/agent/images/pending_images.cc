#include "agent/images/pending_images.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <vector>

#include "agent/images/image_table.h"
#include "agent/tables/agent_core.h"

namespace kedge {
namespace {

// It stays, is of that job or (null) of any, and is on its way to the level.
bool IsPending(const Image& image, const Job* job, Level level) {
  return !image.doomed && (job == nullptr || image.version->job == job) && image.IsOwed(level);
}

// It is on its way to some level, and nobody else sees to that.
bool KeepsAgent(const Image& image) {
  return !image.doomed && image.IsOwed() && !(image.is_handed_over && !image.version->IsOwedToNodes());
}

}  // namespace

PendingImages::PendingImages(AgentCore& core, const ImageTable& images) : core_(core), images_(images) {
  core.requests().On<PendingRequest>(std::bind_front(&PendingImages::Of, this));
}

void PendingImages::Count(const Job* job, Level level, uint64_t* images, uint64_t* bytes) const {
  *images = *bytes = 0;
  for (const auto& [id, image] : images_.all()) {
    if (!IsPending(*image, job, level)) continue;
    ++*images;
    *bytes += image->image_bytes;
  }
}

PendingReply PendingImages::Of(const PendingRequest& request) const {
  PendingReply reply;
  for (const auto& [id, image] : images_.all()) {
    const Generation& generation = image->version->generation;
    const bool is_meant = generation.store_id == request.store_id && generation.job == request.job &&
                          generation.attempt == request.attempt && image->rank == request.rank;
    if (!is_meant || image->doomed || !image->IsOwed()) continue;
    ++reply.images;
    reply.bytes += image->image_bytes;
  }
  return reply;
}

std::string PendingImages::Name(const Job* job, Level level) const {
  constexpr size_t kNamedMax = 4;
  std::vector<std::string> named;
  for (const auto& [id, image] : images_.all()) {
    if (!IsPending(*image, job, level)) continue;
    if (named.size() == kNamedMax) {
      named.emplace_back("...");
      break;
    }
    const char* what = !image->ended               ? "not captured to its end"
                       : image->version->undecided ? "its levels are not decided"
                       : image->IsOwedToStore()    ? FlushStateName(image->flush)
                                                   : "not at level node";
    named.push_back(fmt::format("{} rank {} ({})", image->version->generation.ToString(), image->rank, what));
  }
  return fmt::format("{}", fmt::join(named, ", "));
}

bool PendingImages::HasAny() const {
  return std::any_of(images_.all().begin(), images_.all().end(), [&](const auto& entry) { return KeepsAgent(*entry.second); });
}

bool PendingImages::HasAnyWithStore() const {
  return std::any_of(images_.all().begin(), images_.all().end(),
                     [&](const auto& entry) { return KeepsAgent(*entry.second) && entry.second->version->absence.ok(); });
}

bool PendingImages::HasOnlyCopies() const {
  return std::any_of(images_.all().begin(), images_.all().end(), [&](const auto& entry) {
    const Image& image = *entry.second;
    if (image.doomed || !image.ended) return false;
    return KeepsAgent(image) || (!image.is_handed_over && image.flush != FlushState::kStored && !image.version->in_store());
  });
}

uint32_t PendingImages::HandedOver() const {
  return static_cast<uint32_t>(
      std::count_if(images_.all().begin(), images_.all().end(), [](const auto& entry) { return entry.second->is_handed_over; }));
}

uint32_t PendingImages::Capturing() const {
  constexpr Duration kPause = std::chrono::milliseconds(50);
  const int64_t since_ns = core_.clock().NowNs() - kPause.count();
  uint32_t capturing = 0;
  for (const Session* session : core_.sessions().all()) {
    for (const auto& [serial, id] : session->images) {
      const Image* image = images_.Find(id);
      if (image != nullptr && !image->ended && !image->doomed && image->progress_ns > since_ns) ++capturing;
    }
  }
  return capturing;
}

}  // namespace kedge
