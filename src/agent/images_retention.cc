// What stays on the node and what goes, and the pins of those who restart from it. See images.h.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "agent/agent.h"
#include "agent/assignment.h"
#include "agent/flush.h"
#include "agent/held_sets.h"
#include "agent/images.h"
#include "agent/own_slots.h"
#include "agent/protect.h"
#include "agent/publish.h"
#include "agent/sessions.h"
#include "agent/tiers.h"
#include "agent/waiters.h"
#include "base/crc32c.h"
#include "base/log.h"
#include "format/image_record.h"
#include "os/files.h"

namespace kedge {
namespace {

bool IsLostIn(const Image& image) {
  auto lost = [](const ImageChunk& chunk) {
    return (chunk.unit != nullptr && chunk.unit->lost) || (chunk.file_unit != nullptr && chunk.file_unit->lost);
  };
  return lost(image.record) || std::any_of(image.chunks.begin(), image.chunks.end(), lost);
}

template <typename Function>
void ForEachSlot(const Image& image, Function function) {
  for (const ImageChunk& chunk : image.chunks) {
    if (chunk.unit != nullptr) function(*chunk.unit->space, chunk.slot);
  }
  if (image.record.unit != nullptr) function(*image.record.unit->space, image.record.slot);
}

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
  if (version.in_store) return Level::kStore;
  if (version.at_node) return Level::kNode;
  return version.IsWhole() ? Level::kLocal : Level::kNone;
}

bool Images::IsOwed(const Image& image) const {
  if (!image.ended) return true;
  switch (image.flush) {
    case FlushState::kNone:
    case FlushState::kFailed: return agent_.protect().IsOwed(*image.version);
    // Its files are still to be written to where they belong, which needs the version to be complete.
    case FlushState::kStored:
      if (agent_.protect().IsOwed(*image.version)) return true;
      return image.has_files && !image.files_published && image.version->job->hello.keys.files_publish && image.version->in_store;
    default: return true;
  }
}

void Images::CountPending(const Job* job, uint64_t* images, uint64_t* bytes) const {
  *images = *bytes = 0;
  for (const auto& [id, image] : by_id_) {
    if (image->doomed || (job != nullptr && image->version->job != job) || !IsOwed(*image)) continue;
    ++*images;
    *bytes += image->image_bytes;
  }
}

uint32_t Images::Capturing() const {
  constexpr Duration kPause = std::chrono::milliseconds(50);
  const int64_t since_ns = agent_.clock().NowNs() - kPause.count();
  return static_cast<uint32_t>(std::count_if(by_id_.begin(), by_id_.end(), [&](const auto& entry) {
    return !entry.second->ended && !entry.second->doomed && entry.second->progress_ns > since_ns;
  }));
}

bool Images::HasOnlyCopies() const {
  return std::any_of(by_id_.begin(), by_id_.end(), [&](const auto& entry) {
    const Image& image = *entry.second;
    if (image.doomed || !image.ended) return false;
    return IsOwed(image) || (image.flush != FlushState::kStored && !image.version->in_store);
  });
}

void Images::UpdatePin(Image& image) {
  const bool pinned = image.owed || image.readers > 0;
  if (pinned == image.pinned) return;
  image.pinned = pinned;
  ForEachSlot(image, [&](SlotSpace& space, uint32_t slot) { pinned ? space.Pin(slot) : space.Unpin(slot); });
  agent_.held_sets().UpdatePins(*image.version);
  if (!pinned) agent_.assignment().PumpSoon();  // its slots can be had now
}

void Images::SetOwed(Image& image, bool owed) {
  image.owed = owed;
  UpdatePin(image);
}

void Images::Reconsider(const Job& job, const std::string& name) {
  const bool is_first = to_reconsider_.empty();
  to_reconsider_.emplace(JobKey(job.store_id, job.name), name);
  if (!is_first) return;
  agent_.loop().Post([this] {
    ReconsiderPending();
    agent_.assignment().Pump();  // who waits for room that this has made
  });
}

void Images::ReconsiderPending() {
  for (const auto& [key, name] : std::exchange(to_reconsider_, {})) {
    Job* job = agent_.FindJob(key.first, key.second);
    if (job != nullptr) ReconsiderNow(*job, name);
  }
}

void Images::ReconsiderAll(const Job& job) {
  for (const std::string& name : job.Names()) Reconsider(job, name);
}

void Images::ReconsiderNow(Job& job, const std::string& name) {
  std::vector<Version*> newest_first;
  std::vector<LocalGeneration> generations;
  for (auto entry = job.versions.rbegin(); entry != job.versions.rend(); ++entry) {
    Version& version = *entry->second;
    if (version.generation.name != name) continue;
    LocalGeneration generation;
    generation.generation = version.generation;
    generation.whole = version.IsWhole();
    generation.in_store = version.in_store;
    generation.at_node = version.at_node;
    generation.hopeless = !agent_.sessions().HasAttempt(job, version.generation.attempt);
    for (const auto& [rank, image] : version.images) generation.owed = generation.owed || (!image->doomed && IsOwed(*image));
    newest_first.push_back(&version);
    generations.push_back(std::move(generation));
  }
  const std::vector<Keeping> keeping = KeepLocal(generations, job.hello.keys.keep_local);
  for (size_t i = 0; i < keeping.size(); ++i) {
    std::vector<Image*> images;
    for (const auto& [rank, image] : newest_first[i]->images) images.push_back(image.get());
    for (Image* image : images) {
      if (image->doomed) continue;
      const bool is_lost = image->ended && image->flush == FlushState::kFailed && image->HasReleased();
      if (keeping[i] == Keeping::kDrop || is_lost) {
        ++agent_.counters().images_dropped;
        Doom(*image);
      } else {
        SetOwed(*image, keeping[i] == Keeping::kPinned);
      }
    }
  }
  agent_.Nudge();
}

void Images::SkipQueued(Version& newest) {
  for (auto& [generation, version] : newest.job->versions) {
    if (generation.name != newest.generation.name || !(generation < newest.generation) || version->skipped ||
        version->scheduled < Level::kStore || version->in_store || !version->IsWhole()) {
      continue;
    }
    const bool untouched = std::all_of(version->images.begin(), version->images.end(), [&](const auto& entry) {
      return entry.second->flush == FlushState::kFlushing && !agent_.flush().HasBegun(*entry.second);
    });
    if (!untouched) continue;
    version->skipped = true;
    version->scheduled = version->to_node ? Level::kNode : Level::kLocal;
    ++agent_.counters().versions_skipped;
    LogInfo("agent", "{}: its flush is left out for {}", generation.ToString(), newest.generation.version);
    for (auto& [rank, image] : version->images) {
      agent_.flush().Forget(*image);
      SaveFile(*image);
      OnSettled(*image);
    }
  }
}

void Images::Doom(Image& image) {
  if (image.doomed) return;
  image.doomed = true;
  agent_.flush().Forget(image);
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
  ForEachSlot(image, [&](SlotSpace& space, uint32_t slot) { space.RemoveChunk(slot, image.pinned); });
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
    agent_.publish().OnVersionGone(version);
    agent_.protect().OnVersionGone(version);
    agent_.held_sets().DropAll(version);
    const Generation generation = version.generation;
    job.versions.erase(generation);
  }
  agent_.assignment().PumpSoon();
}

// The oldest cached version with a chunk in the unit goes; the newest of its name only when no other is left.
bool Images::EvictOldest(TierUnit* unit) {
  Version* victim = nullptr;
  bool victim_is_newest = true;
  int64_t victim_ended_ns = INT64_MAX;
  for (auto& [key, job] : agent_.jobs()) {
    std::set<std::string> seen;  // names whose newest whole version came already
    for (auto entry = job->versions.rbegin(); entry != job->versions.rend(); ++entry) {
      Version& version = *entry->second;
      if (!version.IsWhole()) continue;
      const bool is_newest = seen.insert(version.generation.name).second;
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
  for (Image* image : images) {
    ++agent_.counters().images_evicted;
    Doom(*image);
  }
  return true;
}

bool Images::MakeRoom(TierUnit* unit) {
  while (unit->space->free_slots() == 0) {
    if (unit->space->evictable_slots() == 0) agent_.own_slots().CloseEvictable(unit);
    if (unit->space->evictable_slots() == 0 || !EvictOldest(unit)) return false;
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
    if (image->doomed || IsOwed(*image) || !image->version->in_store) continue;
    images.push_back(image);
  }
  for (Image* image : images) {
    ++reply.images;
    reply.bytes += image->image_bytes;
    Doom(*image);
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
    if (!image->IsHeld() || IsLostIn(*image)) continue;
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
  if (version == nullptr || entry == version->images.end() || !entry->second->IsHeld() || IsLostIn(*entry->second)) {
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
  auto opened = session.open_images.find(handle);
  if (opened == session.open_images.end()) return Status(Code::kInvalidArgument, fmt::format("image {} is not open", handle));
  Image* image = Find(opened->second);
  session.open_images.erase(opened);
  KEDGE_CHECK(image != nullptr && image->readers > 0);
  --image->readers;
  UpdatePin(*image);
  OnReleased(*image);
  agent_.Nudge();
  return Status::Ok();
}

void Images::CloseAll(Session& session) {
  while (!session.open_images.empty()) (void)Close(session, session.open_images.begin()->first);
}

const Image* Images::FindWhole(const Generation& generation, uint32_t rank) const {
  const Version* version = FindVersion(generation);
  if (version == nullptr) return nullptr;
  auto found = version->images.find(rank);
  if (found == version->images.end()) return nullptr;
  const Image& image = *found->second;
  return image.IsHeld() && !image.HasReleased() && !IsLostIn(image) ? &image : nullptr;
}

void Images::OnProtected(Version& version) {
  for (const auto& [rank, image] : version.images) {
    if (image->doomed || !image->ended) continue;
    SaveFile(*image);
    // One that goes to the store is settled there.
    if (image->flush == FlushState::kNone) OnSettled(*image);
  }
}

Version& Images::VersionOf(Job& job, const ImageIdentity& identity) {
  auto& version = job.versions[identity.generation];
  if (version == nullptr) {
    version = std::make_unique<Version>();
    version->generation = identity.generation;
    version->job = &job;
    version->ranks = identity.ranks;
    version->scheduled = Level::kLocal;
  }
  return *version;
}

std::unique_ptr<Image> Images::MakeFound(const ImageRecord& record, FoundPlaces places) const {
  KEDGE_CHECK(places.chunks.size() == record.chunks.size());
  auto image = std::make_unique<Image>();
  image->ended = image->recovered = true;
  image->ended_ns = agent_.clock().NowNs();
  image->chunks = std::move(places.chunks);
  for (size_t i = 0; i < record.chunks.size(); ++i) {
    ImageChunk& chunk = image->chunks[i];
    chunk.bytes = chunk.captured_bytes = record.chunks[i].bytes;
    chunk.in_own_object = record.chunks[i].object == 0;
    chunk.object_offset = record.chunks[i].object_offset;
    if (chunk.in_own_object) {
      image->record_object_offset = std::max(image->record_object_offset, AlignChunkOffset(chunk.object_offset + chunk.bytes));
    }
  }
  image->record = std::move(places.record);
  image->record_bytes = places.record_bytes;
  image->record_crc32c = places.record_crc32c;
  image->image_bytes = record.RegionBytes();
  for (const Region& region : record.regions) image->has_files = image->has_files || region.kind == RegionKind::kFile;
  return image;
}

Image& Images::Put(Version& version, uint32_t rank, std::unique_ptr<Image> image) {
  auto& place = version.images[rank];
  KEDGE_CHECK(place == nullptr);
  image->id = ++last_id_;
  image->version = &version;
  image->rank = rank;
  by_id_[image->id] = image.get();
  place = std::move(image);
  return *place;
}

Status Images::Adopt(const AdoptedImage& adopted) {
  const ImageRecord& record = *adopted.record;
  const ImageIdentity& identity = record.identity;
  Job* job = agent_.FindJob(identity.generation.store_id, identity.generation.job);
  if (job == nullptr) return Status(Code::kNotFound, "its job is not known any more");
  const bool is_new = FindVersion(identity.generation) == nullptr;
  Version& version = VersionOf(*job, identity);
  for (const JobNode& node : job->members.nodes) {
    if (is_new && node.name == agent_.settings().node)
      version.node_ranks = std::max<uint32_t>(1, static_cast<uint32_t>(node.ranks.size()));
  }
  if (auto here = version.images.find(identity.rank); here != version.images.end()) {
    const Image& bad = *here->second;
    if (!adopted.replace) return Status(Code::kAlreadyExists, "an image of that rank is here already");
    const bool in_use = !bad.ended || bad.readers > 0 || bad.pieces_in_flight > 0 || Flush::IsActive(bad);
    if (in_use) return Status(Code::kBusy, "the image that is to be replaced is in use");
    (void)os::UnlinkIfPresent(fs(), bad.record_path);
    FreePlaces(bad);
    by_id_.erase(bad.id);
    version.images.erase(here);
  }
  auto in_slot = [](const OwnRange& range) {
    ImageChunk chunk;
    chunk.unit = range.unit;
    chunk.slot = range.slot;
    chunk.slot_generation = range.slot_generation;
    chunk.offset = range.offset;
    return chunk;
  };
  FoundPlaces places;
  for (const OwnRange& range : adopted.chunks) places.chunks.push_back(range.unit != nullptr ? in_slot(range) : ImageChunk());
  places.record = in_slot(adopted.record_range);
  places.record.bytes = places.record_bytes = adopted.record_bytes;
  places.record_crc32c = adopted.record_crc32c;
  Image& image = Put(version, identity.rank, MakeFound(record, std::move(places)));
  image.brought_for_attempt = adopted.in_store ? 0 : job->members.attempt;
  image.record_path = agent_.Path(fmt::format("records/{:016x}", static_cast<uint64_t>(WallTimeNs()) ^ (image.id << 48)));
  if (adopted.in_store) {
    version.in_store = true;
    version.scheduled = Level::kStore;
    agent_.flush().SetState(image, FlushState::kStored);
  } else if (adopted.for_store && !version.in_store) {
    version.scheduled = Level::kStore;
    agent_.flush().Start(image);
  }
  SaveFile(image);
  return Status::Ok();
}

void Images::OnSettled(Image& image) {
  Session* session = agent_.sessions().Find(image.session_id);
  if (session != nullptr) {
    session->pending_serials.erase(image.serial);
    if (!image.failure.ok()) {
      ++session->images_failed;
      AgentMessage message{};
      message.kind = AgentMessageKind::kFlushFailed;
      message.number = image.serial;
      message.code = static_cast<int32_t>(image.failure.code());
      message.errno_value = image.failure.errno_value();
      image.failure.message().copy(message.text, sizeof(message.text) - 1);
      agent_.sessions().Send(*session, message);
    }
    agent_.sessions().PublishCounts(*session);
  }
}

Status Images::Recover(const std::string& path, const ImageFile& file) {
  const PlacementTable& table = file.local.table;
  const ImageIdentity& identity = table.identity;
  Job* job = agent_.FindJob(identity.generation.store_id, identity.generation.job);
  if (job == nullptr) return Status(Code::kNotFound, "its job is not known any more");
  auto unit_of = [&](uint32_t index) { return agent_.tiers().FindKey(table.tiers[index]); };
  auto locate = [&](const Placement& placement, ImageChunk* chunk) -> Status {
    chunk->bytes = placement.bytes;
    chunk->offset = placement.offset;
    if (placement.kind == PlacementKind::kStore) return Status::Ok();
    TierUnit* unit = unit_of(placement.tier);
    if (unit == nullptr) return Status(Code::kNotFound, "its tier " + table.tiers[placement.tier] + " is gone");
    if (placement.kind == PlacementKind::kFile) {
      chunk->file_unit = unit;
      KEDGE_ASSIGN_OR_RETURN(chunk->file, FilePath(*unit, table.files[placement.slot]));
      return Status::Ok();
    }
    const uint64_t slot_bytes = unit->info().slot_bytes;
    if (!unit->space->IsCurrent(placement.slot, placement.slot_generation) || placement.offset > slot_bytes ||
        placement.bytes > slot_bytes - placement.offset) {
      return Status(Code::kNotFound,
                    fmt::format("slot {} of tier {} holds something else by now", placement.slot, unit->info().name));
    }
    chunk->unit = unit;
    chunk->slot = placement.slot;
    chunk->slot_generation = placement.slot_generation;
    return Status::Ok();
  };
  FoundPlaces places;
  places.record_bytes = file.record_bytes;
  places.record_crc32c = file.local.image_record_crc32c;
  KEDGE_RETURN_IF_ERROR(locate(file.local.image_record, &places.record));
  if (places.record.unit == nullptr || file.record_bytes > places.record.bytes) return Status(Code::kCorrupt, "no image record");
  Buffer bytes(file.record_bytes);
  KEDGE_RETURN_IF_ERROR(places.record.unit->tier->Read(places.record.slot, places.record.offset, bytes.data(), bytes.size()));
  if (crc32c::Compute(bytes.data(), bytes.size()) != places.record_crc32c) {
    return Status(Code::kCorrupt, "its image record fails its checksum");
  }
  KEDGE_ASSIGN_OR_RETURN(ImageRecord record, DecodeImageRecord(bytes));
  if (record.identity != identity || record.chunks.size() != table.chunks.size()) {
    return Status(Code::kCorrupt, "its image record is of another image");
  }
  for (size_t i = 0; i < table.chunks.size(); ++i) {
    if (table.chunks[i].bytes != record.chunks[i].bytes)
      return Status(Code::kCorrupt, "a chunk has another size than its record says");
    KEDGE_RETURN_IF_ERROR(locate(table.chunks[i], &places.chunks.emplace_back()));
  }
  const bool is_new = FindVersion(identity.generation) == nullptr;
  Version& version = VersionOf(*job, identity);
  if (version.images.contains(identity.rank)) return Status(Code::kAlreadyExists, "another record of that image is there");
  if (is_new) {
    version.node_ranks = file.node_ranks;
    version.scheduled = file.scheduled;
  }
  version.in_store = version.in_store || file.in_store;
  version.skipped = version.skipped || file.skipped;
  version.to_node = version.to_node || file.to_node;
  version.at_node = version.at_node || file.at_node;
  Image& image = Put(version, identity.rank, MakeFound(record, std::move(places)));
  image.session_id = file.session_id;
  image.serial = file.serial;
  image.record_path = path;
  const bool wanted = version.scheduled >= Level::kStore && !version.skipped;
  // Waiting from here on, so that nobody lets go of it before its flush is begun again (recovery.cc).
  const bool stored = file.stored || file.in_store;
  agent_.flush().SetState(image, stored ? FlushState::kStored : wanted ? FlushState::kWaiting : FlushState::kNone);
  ForEachSlot(image, [](SlotSpace& space, uint32_t index) { space.AddChunk(index); });
  ++agent_.counters().images_recovered;
  return Status::Ok();
}

}  // namespace kedge
