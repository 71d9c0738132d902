#include "agent/images/image_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "agent/images/image_flusher.h"
#include "agent/space/assignment.h"
#include "agent/space/tiers.h"
#include "agent/tables/agent_core.h"
#include "agent/tables/record_file.h"
#include "agent/tables/run_folder.h"
#include "base/log.h"
#include "os/files/files.h"

namespace kedge {

Image* ImageTable::Find(uint64_t id) const {
  auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : found->second;
}

Image& ImageTable::Put(Version& version, uint32_t rank, std::unique_ptr<Image> image) {
  auto& place = version.images[rank];
  KEDGE_CHECK(place == nullptr);
  image->id = ++last_id_;
  image->version = &version;
  image->rank = rank;
  by_id_[image->id] = image.get();
  place = std::move(image);
  return *place;
}

void ImageTable::Discard(Version& version, uint32_t rank) {
  const auto found = version.images.find(rank);
  KEDGE_CHECK(found != version.images.end());
  const Image& image = *found->second;
  (void)os::UnlinkIfPresent(fs(), image.record_path);
  FreePlaces(image);
  by_id_.erase(image.id);
  version.images.erase(found);
}

void ImageTable::RemoveNow(Image& image) {
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

void ImageTable::FreePlaces(const Image& image) {
  image.ForEachSlot([&](SlotSpace& space, uint32_t slot) { space.RemoveChunk(slot, image.pinned); });
  for (const ImageChunk& chunk : image.chunks) {
    if (!chunk.file.empty()) (void)os::UnlinkIfPresent(fs(), chunk.file);
  }
}

void ImageTable::Doom(Image& image) {
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

void ImageTable::OnReleased(Image& image) {
  if (!image.doomed || image.readers > 0 || image.pieces_in_flight > 0 || image.flush == FlushState::kPublishing) return;
  RemoveNow(image);
}

void ImageTable::UpdatePin(Image& image) {
  const bool pinned = image.owed || image.readers > 0;
  if (pinned == image.pinned) return;
  image.pinned = pinned;
  image.ForEachSlot([&](SlotSpace& space, uint32_t slot) { pinned ? space.Pin(slot) : space.Unpin(slot); });
  core_.events().pins_changed(*image.version);
  if (!pinned) assignment_.PumpSoon();  // its slots can be had now
}

void ImageTable::SetOwed(Image& image, bool owed) {
  image.owed = owed;
  UpdatePin(image);
}

void ImageTable::AddReader(Image& image) {
  ++image.readers;
  UpdatePin(image);
}

void ImageTable::RemoveReader(Image& image) {
  KEDGE_CHECK(image.readers > 0);
  --image.readers;
  UpdatePin(image);
  OnReleased(image);
}

std::string ImageTable::NewRecordPath(const Image& image) const {
  return core_.Path(fmt::format("records/{:016x}", static_cast<uint64_t>(WallTimeNs()) ^ (image.id << 48)));
}

void ImageTable::Save(Image& image) {
  if (!image.ended || image.doomed) return;
  const Version& version = *image.version;
  ImageFile file;
  file.local.table.identity = ImageIdentity{version.generation, image.rank, version.ranks};
  auto tier_index = [&](const TierUnit* unit) {
    auto& tiers = file.local.table.tiers;
    auto found = std::find(tiers.begin(), tiers.end(), unit->info().key);
    if (found == tiers.end()) found = tiers.insert(tiers.end(), unit->info().key);
    return static_cast<uint32_t>(found - tiers.begin());
  };
  auto place_of = [&](const ImageChunk& chunk) {
    if (chunk.unit != nullptr) {
      return Placement{PlacementKind::kSlot,  tier_index(chunk.unit), chunk.slot,
                       chunk.slot_generation, chunk.offset,           chunk.bytes};
    }
    if (chunk.file.empty()) return Placement{PlacementKind::kStore, 0, 0, 0, 0, chunk.bytes};
    auto& files = file.local.table.files;
    files.push_back(chunk.file.substr(TierFolder(chunk.file_unit->info()).size() + 1));
    const auto index = static_cast<uint32_t>(files.size() - 1);
    return Placement{PlacementKind::kFile, tier_index(chunk.file_unit), index, 0, chunk.offset, chunk.bytes};
  };
  for (const ImageChunk& chunk : image.chunks) file.local.table.chunks.push_back(place_of(chunk));
  file.local.image_record = place_of(image.record);
  file.local.image_record_crc32c = image.record_crc32c;
  file.local.store = version.job->hello.keys.store_path;
  file.local.wall_time_ns = WallTimeNs();
  file.record_bytes = image.record_bytes;
  file.session_id = image.session_id;
  file.serial = image.serial;
  file.node_ranks = version.node_ranks;
  file.scheduled = version.scheduled();
  file.passing = image.IsPassing();
  if (version.undecided) file.undecided = version.undecided->due;
  file.stored = image.flush == FlushState::kStored;
  file.in_store = version.in_store();
  file.skipped = version.skipped;
  file.to_node = version.to_node;
  file.at_node = version.at_node;
  file.at_local = version.at_local;
  file.weakened = version.at_node && !version.node_failure.ok();
  file.damaged = image.damaged;
  file.files_published = image.files_published;
  const Status saved = WriteImageFile(image.record_path, file);
  image.is_saved = image.is_saved || saved.ok();
  if (saved.ok()) return;
  if (!image.is_saved) unsaved_.insert(image.id);
  static LogRateLimit limit(std::chrono::seconds(1));
  LogLimited(limit, LogLevel::kError, "agent", "the local record of {} rank {} cannot be written: {}",
             version.generation.ToString(), image.rank, saved.ToString());
}

std::vector<uint64_t> ImageTable::SaveUnsaved() {
  std::vector<uint64_t> saved;
  for (const uint64_t id : std::exchange(unsaved_, {})) {
    Image* image = Find(id);
    if (image == nullptr || image->doomed) continue;
    Save(*image);
    if (image->is_saved) saved.push_back(id);
  }
  return saved;
}

void ImageTable::OnSettled(Image& image) {
  Session* session = core_.sessions().Find(image.session_id);
  if (session != nullptr) {
    session->pending_serials.erase(image.serial);
    if (!image.failure.ok()) core_.sessions().SendFailure(*session, image.serial, image.failure);
    core_.sessions().PublishCounts(*session);
  }
}

void ImageTable::OnProtected(Version& version) {
  for (const auto& [rank, image] : version.images) {
    if (image->doomed || !image->ended) continue;
    Save(*image);
    // One that goes to the store is settled there.
    if (image->flush == FlushState::kNone) OnSettled(*image);
  }
}

}  // namespace kedge
