// What stays on the node and what goes, and the pins of those who restart from it. See images.h.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "agent/images/image_flusher.h"
#include "agent/images/images.h"
#include "agent/space/assignment.h"
#include "agent/space/tiers.h"
#include "agent/tables/agent_core.h"
#include "agent/tables/run_folder.h"
#include "agent/tables/session.h"
#include "base/log.h"
#include "os/files/files.h"

namespace kedge {
namespace {

// With very many versions, going over them is to leave the loop time for other things.
constexpr Duration kReconsiderAtOnce = std::chrono::milliseconds(1);
constexpr Duration kReconsiderPauseMax = std::chrono::milliseconds(20);

bool HasRedundancyIn(const Version& version, const TierUnit* unit) {
  for (const auto& [identity, set] : version.sets) {
    for (const auto& [member, object] : set->objects) {
      if (std::any_of(object.ranges.begin(), object.ranges.end(), [&](const OwnRange& range) { return range.unit == unit; }))
        return true;
    }
  }
  return false;
}

}  // namespace

Level Images::LevelOf(const Version& version) const {
  if (!version.in_store()) return LevelByNodes(version);
  return version.IsOnBufferOnly() ? Level::kBuffer : Level::kStore;
}

Level Images::LevelByNodes(const Version& version) {
  if (version.at_node && version.node_failure.ok()) return Level::kNode;
  return version.IsAtLocal() ? Level::kLocal : Level::kNone;
}

bool Images::IsOwedToStore(const Image& image) const {
  switch (image.flush) {
    case FlushState::kNone:
    case FlushState::kFailed: return false;
    // Its files are still to be written to where they belong, which needs the version to be complete.
    case FlushState::kStored:
      return image.has_files && !image.files_published && image.version->job->hello.keys.files_publish &&
             image.version->in_store();
    default: return true;
  }
}

bool Images::IsOwed(const Image& image, Level level) const {
  if (!image.ended) return true;
  if (image.version->undecided) return level > Level::kLocal;
  const bool to_store = IsOwedToStore(image), to_node = image.version->IsOwedToNodes();
  switch (level) {
    case Level::kNone:
    case Level::kLocal: return false;
    // What comes to the store has survived a node, too.
    case Level::kNode: return (to_store || to_node) && LevelOf(*image.version) < Level::kNode;
    case Level::kBuffer: return to_store;
    case Level::kStore: return to_store || image.version->IsOnBufferOnly();
    case Level::kLast: break;
  }
  return to_store || to_node;
}

bool Images::IsPending(const Image& image, const Job* job, Level level) const {
  return !image.doomed && (job == nullptr || image.version->job == job) && IsOwed(image, level);
}

void Images::CountPending(const Job* job, Level level, uint64_t* images, uint64_t* bytes) const {
  *images = *bytes = 0;
  for (const auto& [id, image] : by_id_) {
    if (!IsPending(*image, job, level)) continue;
    ++*images;
    *bytes += image->image_bytes;
  }
}

std::string Images::NamePending(const Job* job, Level level) const {
  constexpr size_t kNamedMax = 4;
  std::vector<std::string> named;
  for (const auto& [id, image] : by_id_) {
    if (!IsPending(*image, job, level)) continue;
    if (named.size() == kNamedMax) {
      named.emplace_back("...");
      break;
    }
    const char* what = !image->ended               ? "not captured to its end"
                       : image->version->undecided ? "its levels are not decided"
                       : IsOwedToStore(*image)     ? FlushStateName(image->flush)
                                                   : "not at level node";
    named.push_back(fmt::format("{} rank {} ({})", image->version->generation.ToString(), image->rank, what));
  }
  return fmt::format("{}", fmt::join(named, ", "));
}

uint32_t Images::Capturing() const {
  constexpr Duration kPause = std::chrono::milliseconds(50);
  const int64_t since_ns = core_.clock().NowNs() - kPause.count();
  uint32_t capturing = 0;
  for (const Session* session : core_.sessions().all()) {
    for (const auto& [serial, id] : session->images) {
      const auto found = by_id_.find(id);
      const Image* image = found == by_id_.end() ? nullptr : found->second;
      if (image != nullptr && !image->ended && !image->doomed && image->progress_ns > since_ns) ++capturing;
    }
  }
  return capturing;
}

bool Images::KeepsAgent(const Image& image) const {
  return !image.doomed && IsOwed(image) && !(image.is_handed_over && !image.version->IsOwedToNodes());
}

bool Images::HasPending() const {
  return std::any_of(by_id_.begin(), by_id_.end(), [&](const auto& entry) { return KeepsAgent(*entry.second); });
}

uint32_t Images::HandedOver() const {
  return static_cast<uint32_t>(
      std::count_if(by_id_.begin(), by_id_.end(), [](const auto& entry) { return entry.second->is_handed_over; }));
}

bool Images::HasPendingWithStore() const {
  return std::any_of(by_id_.begin(), by_id_.end(),
                     [&](const auto& entry) { return KeepsAgent(*entry.second) && entry.second->version->absence.ok(); });
}

bool Images::HasFilesIn(const TierUnit& unit) const {
  return std::any_of(by_id_.begin(), by_id_.end(), [&](const auto& entry) {
    const std::vector<ImageChunk>& chunks = entry.second->chunks;
    return std::any_of(chunks.begin(), chunks.end(), [&](const ImageChunk& chunk) { return chunk.file_unit == &unit; });
  });
}

bool Images::HasOnlyCopies() const {
  return std::any_of(by_id_.begin(), by_id_.end(), [&](const auto& entry) {
    const Image& image = *entry.second;
    if (image.doomed || !image.ended) return false;
    return KeepsAgent(image) || (!image.is_handed_over && image.flush != FlushState::kStored && !image.version->in_store());
  });
}

void Images::UpdatePin(Image& image) {
  const bool pinned = image.owed || image.readers > 0;
  if (pinned == image.pinned) return;
  image.pinned = pinned;
  image.ForEachSlot([&](SlotSpace& space, uint32_t slot) { pinned ? space.Pin(slot) : space.Unpin(slot); });
  core_.events().pins_changed(*image.version);
  if (!pinned) assignment_.PumpSoon();  // its slots can be had now
}

void Images::SetOwed(Image& image, bool owed) {
  image.owed = owed;
  UpdatePin(image);
}

void Images::Reconsider(const Job& job, const std::string& name) {
  const bool is_first = to_reconsider_.empty();
  to_reconsider_.emplace(job.key(), name);
  if (!is_first) return;
  const auto reconsider = [this] {
    ReconsiderPending();
    assignment_.Pump();  // who waits for room that this has made
  };
  if (reconsidering_took_ < kReconsiderAtOnce) {
    core_.loop().Post(reconsider);
  } else {
    core_.loop().AddTimer(std::min(3 * reconsidering_took_, kReconsiderPauseMax), reconsider);
  }
}

void Images::ReconsiderPending() {
  if (to_reconsider_.empty()) return;
  const int64_t begin_ns = core_.clock().NowNs();
  for (const auto& [key, name] : std::exchange(to_reconsider_, {})) {
    Job* job = core_.FindJob(key);
    if (job != nullptr) ReconsiderNow(*job, name);
  }
  reconsidering_took_ = Duration(core_.clock().NowNs() - begin_ns);
}

void Images::ReconsiderAll(const Job& job) {
  for (const std::string& name : job.Names()) Reconsider(job, name);
}

void Images::LearnRestarts(Job& job, const std::vector<RestoredRecord>& restarts) {
  bool is_news = false;
  for (const RestoredRecord& record : restarts) is_news = job.LearnRestored(record) || is_news;
  if (!is_news) return;
  core_.events().job_changed(job);
  ReconsiderAll(job);
}

void Images::ReconsiderNow(Job& job, const std::string& name) {
  core_.events().retention_begins(job, name);
  const Lineage lineage = job.LineageOf(name);
  std::vector<Version*> newest_first;
  std::vector<LocalGeneration> generations;
  for (auto entry = job.versions.rbegin(); entry != job.versions.rend(); ++entry) {
    Version& version = *entry->second;
    if (version.generation.name != name) continue;
    LocalGeneration generation;
    generation.attempt = version.generation.attempt;
    generation.take = version.generation.take;
    generation.whole = version.IsWhole();
    // What a burst buffer alone has would be lost with that, though no node was.
    generation.in_store = version.in_store() && !version.IsOnBufferOnly();
    generation.at_node = version.at_node;
    generation.at_local = version.IsAtLocal();
    generation.promised = version.IsPromised();
    generation.abandoned = !lineage.Has(version.generation);
    generation.hopeless =
        !core_.sessions().HasAttempt(job, version.generation.attempt) && !core_.events().may_be_in_store(version);
    for (const auto& [rank, image] : version.images) generation.owed = generation.owed || (!image->doomed && IsOwed(*image));
    newest_first.push_back(&version);
    generations.push_back(generation);
  }
  const auto stored = job.stored_newest.find(name);
  const Moment newest = stored == job.stored_newest.end() ? Moment() : stored->second;
  std::vector<Keeping> keeping = KeepLocal(generations, job.hello.keys.keep_local, {newest.attempt, newest.take});
  // A node that writes for others holds nothing beyond that.
  for (size_t i = 0; i < keeping.size() && job.is_enlisted; ++i) {
    if (generations[i].in_store && !generations[i].owed) keeping[i] = Keeping::kDrop;
  }
  std::vector<Image*> dropped;
  for (size_t i = 0; i < keeping.size(); ++i) {
    for (const auto& [rank, image] : newest_first[i]->images) {
      if (image->doomed) continue;
      const bool is_lost = image->ended && image->flush == FlushState::kFailed && image->HasReleased();
      // One that an image is being built on goes when that has ended: it is looked at again then.
      if ((keeping[i] == Keeping::kDrop || is_lost) && MayGo(*image)) {
        dropped.push_back(image.get());
      } else {
        SetOwed(*image, keeping[i] == Keeping::kPinned);
      }
    }
  }
  // Their versions may go with them.
  for (Image* image : dropped) {
    ++core_.counters().images_dropped;
    Doom(*image);
  }
  core_.Nudge();
}

void Images::SkipQueued(Version& newest) {
  // One that does not get to the store itself takes no other's place there.
  if (newest.undecided || newest.scheduled() < Level::kStore) return;
  for (auto& [generation, version] : newest.job->versions) {
    if (generation.name != newest.generation.name || !(generation < newest.generation) || version->skipped ||
        version->scheduled() < Level::kStore || version->in_store() || !version->IsWhole()) {
      continue;
    }
    const bool untouched = std::all_of(version->images.begin(), version->images.end(), [&](const auto& entry) {
      return entry.second->flush == FlushState::kFlushing && !flush_.HasBegun(*entry.second);
    });
    if (!untouched) continue;
    version->Skip();
    ++core_.counters().versions_skipped;
    LogInfo("agent", "{}: its flush is left out for {}", generation.ToString(), newest.generation.version);
    for (auto& [rank, image] : version->images) {
      flush_.Forget(*image);
      SaveFile(*image);
      OnSettled(*image);
    }
  }
}

void Images::Doom(Image& image) {
  if (image.doomed) return;
  image.doomed = true;
  flush_.Forget(image);
  // A successor must not find it any more; its slots stay until nothing reads them.
  if (!image.record_path.empty()) {
    Status removed = os::UnlinkIfPresent(fs(), image.record_path);
    if (!removed.ok()) LogError("agent", "local record {} stays: {}", image.record_path, removed.ToString());
  }
  OnReleased(image);
}

void Images::OnReleased(Image& image) {
  if (!image.doomed || image.readers > 0 || image.pieces_in_flight > 0 || image.flush == FlushState::kPublishing) return;
  RemoveNow(image);
}

void Images::FreePlaces(const Image& image) {
  image.ForEachSlot([&](SlotSpace& space, uint32_t slot) { space.RemoveChunk(slot, image.pinned); });
  for (const ImageChunk& chunk : image.chunks) {
    if (!chunk.file.empty()) (void)os::UnlinkIfPresent(fs(), chunk.file);
  }
}

void Images::RemoveNow(Image& image) {
  FreePlaces(image);
  Version& version = *image.version;
  Job& job = *version.job;
  version.went_through = version.went_through || std::any_of(image.chunks.begin(), image.chunks.end(),
                                                             [](const ImageChunk& chunk) { return !chunk.in_own_object; });
  by_id_.erase(image.id);
  version.images.erase(image.rank);
  if (version.images.empty()) {
    core_.events().version_gone(version);
    const Generation generation = version.generation;
    job.RemoveVersion(generation);
  }
  assignment_.PumpSoon();
}

const Version* Images::NewestComplete(const Job& job, const std::string& name) const {
  const Lineage lineage = job.LineageOf(name);
  for (auto entry = job.versions.rbegin(); entry != job.versions.rend(); ++entry) {
    const Version& version = *entry->second;
    const bool is_such = version.generation.name == name && version.IsWhole() && LevelOf(version) >= Level::kLocal;
    if (is_such && lineage.Has(version.generation)) return &version;
  }
  return nullptr;
}

bool Images::EvictOldest(TierUnit* unit, bool also_newest) {
  Version* victim = nullptr;
  bool victim_is_newest = true;
  int64_t victim_ended_ns = INT64_MAX;
  for (auto& [key, job] : core_.jobs()) {
    std::map<std::string, const Version*> newest;
    for (auto& [generation, held] : job->versions) {
      Version& version = *held;
      if (!version.IsWhole()) continue;
      bool all_cached = true, touches_unit = false;
      int64_t ended_ns = 0;
      for (const auto& [rank, image] : version.images) {
        all_cached = all_cached && !image->pinned && !image->doomed;
        touches_unit = touches_unit || image->record.unit == unit;
        for (const ImageChunk& chunk : image->chunks) touches_unit = touches_unit || chunk.unit == unit;
        ended_ns = std::max(ended_ns, image->ended_ns);
      }
      touches_unit = touches_unit || HasRedundancyIn(version, unit);
      if (!all_cached || !touches_unit) continue;
      const auto [known, is_first] = newest.try_emplace(generation.name);
      if (is_first) known->second = NewestComplete(*job, generation.name);
      const bool is_newest = known->second == &version;
      if (is_newest && !also_newest) continue;
      if (std::pair(is_newest, ended_ns) < std::pair(victim_is_newest, victim_ended_ns)) {
        victim = &version;
        victim_is_newest = is_newest;
        victim_ended_ns = ended_ns;
      }
    }
  }
  if (victim == nullptr) return false;
  std::vector<Image*> images;
  for (const auto& [rank, image] : victim->images) images.push_back(image.get());
  if (!std::all_of(images.begin(), images.end(), [this](const Image* image) { return MayGo(*image); })) return false;
  for (Image* image : images) {
    ++core_.counters().images_evicted;
    Doom(*image);
  }
  return true;
}

CleanupReply Images::Cleanup(const CleanupRequest& request) {
  CleanupReply reply;
  std::vector<Image*> images;
  for (const auto& [id, image] : by_id_) {
    const Generation& generation = image->version->generation;
    if (generation.store_id != request.store_id || generation.job != request.job || image->rank != request.rank) continue;
    if (!request.name.empty() && generation.name != request.name) continue;
    // Only what the store has; a copy that is owed or the only one is not a user's to lose by tidying up.
    if (image->doomed || IsOwed(*image, Level::kStore) || !image->version->in_store() || !MayGo(*image)) continue;
    images.push_back(image);
  }
  for (Image* image : images) {
    ++reply.images;
    reply.bytes += image->image_bytes;
    Doom(*image);
  }
  return reply;
}

PendingReply Images::PendingOf(const PendingRequest& request) const {
  PendingReply reply;
  for (const auto& [id, image] : by_id_) {
    const Generation& generation = image->version->generation;
    const bool is_meant = generation.store_id == request.store_id && generation.job == request.job &&
                          generation.attempt == request.attempt && image->rank == request.rank;
    if (!is_meant || image->doomed || !IsOwed(*image)) continue;
    ++reply.images;
    reply.bytes += image->image_bytes;
  }
  return reply;
}

std::vector<LocalVersion> Images::LocalVersions(const LocalVersionsRequest& request) const {
  std::vector<LocalVersion> found;
  for (const auto& [id, image] : by_id_) {
    const Version& version = *image->version;
    const Generation& generation = version.generation;
    if (generation.store_id != request.store_id || generation.job != request.job) continue;
    if (!request.name.empty() && generation.name != request.name) continue;
    if (!image->IsHeld()) continue;
    found.push_back({generation, image->rank, version.ranks, LevelOf(version)});
  }
  std::sort(found.begin(), found.end(), [](const LocalVersion& a, const LocalVersion& b) {
    return std::tie(b.generation, a.rank) < std::tie(a.generation, b.rank);
  });
  return found;
}

Result<OpenImageReply> Images::Open(Session& session, const OpenImageRequest& request) {
  Version* version = FindVersion(request.generation);
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
  ++image.readers;
  UpdatePin(image);
  return reply;
}

Status Images::Close(Session& session, uint64_t handle) {
  if (session.CloseWindow(handle)) return Status::Ok();
  auto opened = session.open_images.find(handle);
  if (opened == session.open_images.end()) return Status(Code::kInvalidArgument, fmt::format("image {} is not open", handle));
  Image* image = Find(opened->second);
  session.open_images.erase(opened);
  KEDGE_CHECK(image != nullptr && image->readers > 0);
  --image->readers;
  UpdatePin(*image);
  OnReleased(*image);
  core_.Nudge();
  return Status::Ok();
}

void Images::CloseAll(Session& session) {
  session.CloseWindow(session.shown.handle);
  while (!session.open_images.empty()) (void)Close(session, session.open_images.begin()->first);
}

const Image* Images::FindWhole(const Generation& generation, uint32_t rank) const {
  const Version* version = FindVersion(generation);
  if (version == nullptr) return nullptr;
  auto found = version->images.find(rank);
  if (found == version->images.end()) return nullptr;
  const Image& image = *found->second;
  return image.IsHeld() && !image.HasReleased() ? &image : nullptr;
}

void Images::OnProtected(Version& version) {
  for (const auto& [rank, image] : version.images) {
    if (image->doomed || !image->ended) continue;
    SaveFile(*image);
    // One that goes to the store is settled there.
    if (image->flush == FlushState::kNone) OnSettled(*image);
  }
}

void Images::OnSettled(Image& image) {
  Session* session = core_.sessions().Find(image.session_id);
  if (session != nullptr) {
    session->pending_serials.erase(image.serial);
    if (!image.failure.ok()) core_.sessions().SendFailure(*session, image.serial, image.failure);
    core_.sessions().PublishCounts(*session);
  }
}

}  // namespace kedge
