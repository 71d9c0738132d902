// See image_opener.h.
#include "client/restart/image_opener.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <span>
#include <utility>

#include "base/log.h"
#include "client/restart/second_try.h"
#include "client/restart/shared_objects.h"
#include "client/restart/window_source.h"
#include "format/envelope.h"
#include "os/machine/machine.h"
#include "store/lineage.h"
#include "store/publish.h"
#include "store/retention.h"
#include "store/versions.h"

namespace kedge::client {
namespace {

constexpr Duration kAgentTimeout = std::chrono::seconds(30);
// More do not copy faster: by then the memory is the bound.
constexpr size_t kMemoryThreadsMax = 4;

RestoreCandidate CandidateOf(const Generation& generation, uint32_t ranks) {
  return {generation.version, generation.attempt, generation.take, ranks};
}

// For the log: "7 (attempt 2, take 1), 6 (attempt 1, take 1)".
std::string Listed(std::span<const RestoreCandidate> candidates) {
  std::string text;
  for (const RestoreCandidate& candidate : candidates) {
    text +=
        fmt::format("{}{} (attempt {}, take {})", text.empty() ? "" : ", ", candidate.version, candidate.attempt, candidate.take);
  }
  return text.empty() ? "none" : text;
}

Status CheckIdentity(const ImageRecord& record, const ImageIdentity& identity) {
  if (record.identity == identity) return Status::Ok();
  return Status(Code::kCorrupt, fmt::format("expected {}, found {}", identity.ToString(), record.identity.ToString()));
}

Result<ImageRecord> DecodeRecordOf(const ImageIdentity& identity, ByteSpan bytes) {
  KEDGE_ASSIGN_OR_RETURN(ImageRecord record, DecodeImageRecord(bytes));
  KEDGE_RETURN_IF_ERROR(CheckIdentity(record, identity));
  return record;
}

}  // namespace

OpenImage::~OpenImage() {
  // Should it get lost, the pins end with the session.
  if (connection_) (void)connection_->Call<DoneReply>(CloseImageRequest{handle_}, kAgentTimeout);
}

Status ImageOpener::AddStored(const std::string& name, int64_t at_most, const std::optional<RestoreCandidate>& known,
                              StoredCandidates* found) {
  // Newer is what has a greater version, and what was taken later: a job may have gone back, or begun anew. A rank that lacks
  // what is known has all ranks look again (CommonCandidates::is_newest), for everything.
  auto versions = ListVersions(*core_->catalog, core_->job.job, name, [&](const Generation& generation) {
    return !known || generation.version > known->version || MomentOf(generation) > Moment{known->attempt, known->take};
  });
  if (!versions.ok() && versions.status().code() != Code::kNotFound) return versions.status();
  const auto withdrawn = ReadWithdrawn(*core_->catalog, core_->job.job, name);
  if (!withdrawn.ok()) return withdrawn.status();
  for (const Generation& generation : *withdrawn) found->withdrawn.push_back(CandidateOf(generation, 0));
  // None, or a store that is not there any more.
  if (!versions.ok() || (versions->empty() && !known)) return core_->catalog->Confirm();
  Status unreadable;  // of one that may be the newest
  for (const VersionInfo& version : *versions) {
    if (found->candidates.size() == kStoredCandidatesMax) break;
    if (at_most >= 0 && version.generation.version > at_most) continue;
    if (unreadable.ok() && MayPass(version.unreadable)) unreadable = version.unreadable;
    StoredCandidate stored{CandidateOf(version.generation, version.ranks), {}};
    bool usable = version.complete;
    // Whoever finds all parts finishes the version; a part with a rank's image is a good source for it in any case.
    if (!usable && version.finishable) {
      const auto outcome = FinishVersion(*core_->catalog, version.generation);
      usable = outcome.ok() && outcome->complete;
    }
    if (!usable && version.ranks > 0) {
      const auto parts = ReadParts(*core_->catalog, version.generation, nullptr);
      if (unreadable.ok() && MayPass(parts.status())) unreadable = parts.status();
      if (parts.ok()) stored.ranks = RanksIn(*parts);
      usable = !stored.ranks.empty();
    }
    if (usable) found->candidates.push_back(std::move(stored));
  }
  return unreadable;
}

StoredCandidates ImageOpener::Stored(const std::string& name, int64_t at_most, const std::optional<RestoreCandidate>& known) {
  StoredCandidates stored;
  stored.status = TryAgain([&] {
    stored = StoredCandidates();
    return AddStored(name, at_most, known, &stored);
  });
  return stored;
}

Status ImageOpener::AddLocal(const std::string& name, uint32_t rank, bool everywhere, Found* found) {
  session_->Pump();
  // Without an agent ever, the store has what there is.
  if (!session_->current()) return Status::Ok();
  LocalVersionsRequest request;
  request.store_id = core_->catalog->id();
  request.job = core_->job.job;
  request.name = name;
  request.everywhere = everywhere;
  const auto ask = [&](const auto& agent) { return agent->template Call<LocalVersionsReply>(request, kAgentTimeout); };
  KEDGE_ASSIGN_OR_RETURN(const LocalVersionsReply reply, session_->AskAgent(ask));
  for (const LocalVersion& local : reply.versions) {
    const Generation& generation = local.generation;
    if (generation.store_id != request.store_id || generation.job != request.job || generation.name != name) continue;
    const RestoreCandidate candidate = CandidateOf(generation, local.ranks);
    if (local.level >= Level::kLocal) found->safe.push_back(candidate);
    if (local.rank == rank) found->candidates.push_back(candidate);
  }
  for (const LostVersion& lost : reply.lost) {
    if (!lost.was_safe || lost.generation.name != name) continue;
    found->lost = fmt::format("{}: {}", lost.generation.ToString(), lost.why);
    break;
  }
  found->silent = fmt::to_string(fmt::join(reply.silent_nodes, ", "));
  return Status::Ok();
}

ImageOpener::Found ImageOpener::FindOnNodes(const std::string& name, uint32_t rank, bool everywhere) {
  Found found;
  found.agent = AddLocal(name, rank, everywhere, &found);
  if (!found.agent.ok()) found.silent = core_->node.node;
  return found;
}

std::vector<RestoreCandidate> ImageOpener::Merge(const std::string& name, int64_t at_most, uint32_t rank, const Found& on_nodes,
                                                 const StoredCandidates& stored) const {
  std::vector<RestoreCandidate> candidates = on_nodes.candidates;
  for (const StoredCandidate& one : stored.candidates) {
    if (one.HasRank(rank)) candidates.push_back(one.candidate);
  }
  const std::span all(candidates);
  LogDebug("client", "rank {}: versions of '{}' with an image of rank {}: on this node {}; in the store {}", core_->rank(), name,
           rank, Listed(all.first(on_nodes.candidates.size())), Listed(all.subspan(on_nodes.candidates.size())));
  for (const Status* status : {&on_nodes.agent, &stored.status}) {
    if (!status->ok()) LogWarning("client", "rank {}: looking for versions of '{}': {}", core_->rank(), name, status->message());
  }
  if (at_most >= 0) std::erase_if(candidates, [&](const RestoreCandidate& candidate) { return candidate.version > at_most; });
  SortCandidates(&candidates);
  return candidates;
}

Result<std::unique_ptr<OpenImage>> ImageOpener::Open(const std::string& name, const RestoreCandidate& candidate, uint32_t rank) {
  ImageIdentity identity;
  identity.generation = {core_->catalog->id(), core_->job.job, name, candidate.version, candidate.attempt, candidate.take};
  identity.rank = rank;
  identity.ranks = candidate.ranks;
  auto local = OpenLocal(identity, /*replace=*/false);
  const Status no_room = local.status().code() == Code::kNoSpace ? local.status() : Status::Ok();
  if (!no_room.ok()) local = OpenShown(identity, /*replace=*/false);
  if (local.ok()) return local;
  if (local.status().code() != Code::kNotFound) {
    LogWarning("client", "rank {}: {} {}: {}", core_->rank(), identity.ToString(),
               no_room.ok() ? "on this node" : "from other nodes", local.status().message());
    if (local.status().code() == Code::kCorrupt) ++core_->statistics.corrupt_copies;
  }
  auto stored = OpenStored(identity);
  // What cannot be had is not lost: who hears that there is none begins anew.
  if (stored.status().code() != Code::kNotFound) return stored;
  if (local.status().code() != Code::kNotFound) return local.status();
  return no_room.ok() ? stored.status() : no_room;
}

bool ImageOpener::MayBeReplaced(const OpenImage& image, const Status& why) const {
  const Code code = why.code();
  const bool bad_copy = code == Code::kCorrupt || code == Code::kIo || code == Code::kNotFound || code == Code::kTimeout ||
                        code == Code::kUnavailable;
  return bad_copy && core_->protects && image.is_local();
}

Result<std::unique_ptr<OpenImage>> ImageOpener::OpenReplaced(const ImageIdentity& identity, const Status& why) {
  LogWarning("client", "rank {}: {}; a copy is asked for from other nodes", core_->rank(), why.message());
  auto replaced = OpenLocal(identity, /*replace=*/true);
  const Code code = replaced.status().code();
  // Where other ranks of the node read the bad one, it stays for as long.
  if (code == Code::kNoSpace || code == Code::kBusy) replaced = OpenShown(identity, /*replace=*/true);
  if (!replaced.ok()) LogWarning("client", "rank {}: {}", core_->rank(), replaced.status().message());
  return replaced;
}

Result<std::unique_ptr<OpenImage>> ImageOpener::OpenLocal(const ImageIdentity& identity, bool replace) {
  if (!session_->current()) return Status(Code::kNotFound, "no agent");
  // One that is not on the node comes whole from the others first.
  const Duration timeout = core_->brings_images ? std::max(kAgentTimeout, core_->job.wait_timeout) : kAgentTimeout;
  const OpenImageRequest request{identity.generation, identity.rank, replace};
  std::shared_ptr<Connection> connection;
  KEDGE_ASSIGN_OR_RETURN(const OpenImageReply reply, session_->AskAgent([&](const auto& agent) {
    connection = agent;
    return agent->template Call<OpenImageReply>(request, timeout);
  }));
  // From here on the pins end with `open`, or with the close that a failure sends.
  auto open = std::make_unique<OpenImage>(session_->current(), connection, reply.image, nullptr, reply.was_brought);
  const std::vector<Tier*> tiers = session_->Tiers();
  const SlotRange& place = reply.record;
  if (place.tier >= tiers.size() || place.bytes > tiers[place.tier]->info().slot_bytes) {
    return Status(Code::kCorrupt, "the image record's place is outside the tiers");
  }
  Buffer bytes(place.bytes);
  KEDGE_RETURN_IF_ERROR(tiers[place.tier]->Read(place.slot, place.offset, bytes.data(), bytes.size()));
  KEDGE_ASSIGN_OR_RETURN(ImageRecord record, DecodeRecordOf(identity, bytes));
  KEDGE_ASSIGN_OR_RETURN(auto slots, SlotSource::Make(record, tiers, reply.chunks));
  std::vector<std::unique_ptr<ChunkSource>> sources;
  sources.push_back(std::move(slots));
  sources.push_back(std::make_unique<StoreSource>(&*core_->catalog, record));
  // The processors of the node are shared by its ranks, which all restart at once.
  const size_t threads = static_cast<size_t>(os::UsableCpuCount()) / std::max(core_->ranks_on_node, 1u);
  open->SetReader(std::make_unique<ImageReader>(std::move(record), std::move(sources), std::min(threads, kMemoryThreadsMax)));
  return open;
}

Result<std::unique_ptr<OpenImage>> ImageOpener::OpenShown(const ImageIdentity& identity, bool replace) {
  LogWarning("client", "rank {}: this node cannot take {}: it is read from other nodes", core_->rank(), identity.ToString());
  KEDGE_ASSIGN_OR_RETURN(auto window,
                         ImageView::Open(session_, identity, replace, std::max(kAgentTimeout, core_->job.wait_timeout)));
  if (window->record_bytes() > kRecordBytesMax) return Status(Code::kCorrupt, "an image record of no possible length");
  Buffer bytes(window->record_bytes());
  KEDGE_RETURN_IF_ERROR(window->Read(window->record_offset(), bytes.data(), bytes.size()));
  KEDGE_ASSIGN_OR_RETURN(ImageRecord record, DecodeRecordOf(identity, bytes));
  std::vector<std::unique_ptr<ChunkSource>> sources;
  sources.push_back(std::make_unique<WindowSource>(record, std::move(window)));
  sources.push_back(std::make_unique<StoreSource>(&*core_->catalog, record));
  auto reader = std::make_unique<ImageReader>(std::move(record), std::move(sources));
  return std::make_unique<OpenImage>(session_->current(), nullptr, 0, std::move(reader), /*was_brought=*/true);
}

Result<std::unique_ptr<OpenImage>> ImageOpener::OpenStored(const ImageIdentity& identity) {
  auto read = ReadImage(*core_->catalog, identity.generation, identity.rank);
  // What others have on their nodes only is not complete there.
  if (read.status().code() == Code::kNotFound) read = ReadPublishedImage(*core_->catalog, identity.generation, identity.rank);
  KEDGE_ASSIGN_OR_RETURN(StoredImage image, std::move(read));
  KEDGE_RETURN_IF_ERROR(CheckIdentity(image.record, identity));
  ImageRecord record = image.record;
  std::vector<std::unique_ptr<ChunkSource>> sources;
  if (const auto shared = SharedObjects::Make(core_, session_, image)) {
    const auto open = [shared](const std::string& key) { return shared->Open(key); };
    sources.push_back(std::make_unique<StoreSource>(&*core_->catalog, image, open));
  }
  sources.push_back(std::make_unique<StoreSource>(&*core_->catalog, std::move(image)));
  return std::make_unique<OpenImage>(nullptr, nullptr, 0, std::make_unique<ImageReader>(std::move(record), std::move(sources)));
}

}  // namespace kedge::client
