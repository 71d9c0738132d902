// Capture: what clients say of their images, checked. Retention and restart are in images_retention.cc.
#include "agent/images/images.h"

#include <fmt/format.h>

#include <algorithm>

#include "agent/images/image_flusher.h"
#include "agent/space/throughput.h"
#include "agent/space/tiers.h"
#include "agent/tables/agent_core.h"
#include "base/crc32c.h"
#include "base/log.h"
#include "format/image_record.h"
#include "os/files/files.h"
#include "os/process/kill_point.h"

namespace kedge {
namespace {

constexpr size_t kChunksMax = 1 << 20;
// That progress may leave out between what it has named and the next.
constexpr size_t kChunksSkippedMax = 1 << 12;

Status Refused(std::string why) {
  return Status(Code::kInvalidArgument, std::move(why));
}

}  // namespace

Image* Images::Find(uint64_t id) const {
  auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : found->second;
}

Version* Images::FindVersion(const Generation& generation) const {
  Job* job = core_.FindJobOf(generation);
  if (job == nullptr) return nullptr;
  auto found = job->versions.find(generation);
  return found == job->versions.end() ? nullptr : found->second.get();
}

Status Images::CheckRange(const Session& session, const SlotRange& range, TierUnit** unit) const {
  if (range.tier >= session.tiers.size()) return Refused(fmt::format("tier {} of {}", range.tier, session.tiers.size()));
  *unit = session.tiers[range.tier];
  const TierInfo& info = (*unit)->info();
  if (range.slot >= info.slots || range.offset > info.slot_bytes || range.bytes > info.slot_bytes - range.offset) {
    return Refused(fmt::format("{} bytes at {} of slot {} in tier {}", range.bytes, range.offset, range.slot, info.name));
  }
  const SlotEntry entry = (*unit)->space->Get(range.slot);
  if (entry.state != SlotState::kAssigned || entry.owner != session.id || entry.generation != range.slot_generation) {
    return Refused(fmt::format("slot {} of tier {} is not assigned to session {} in generation {}", range.slot, info.name,
                               session.id, range.slot_generation));
  }
  return Status::Ok();
}

Result<Buffer> Images::ReadRange(const Session& session, const SlotRange& range, TierUnit** unit) const {
  KEDGE_RETURN_IF_ERROR(CheckRange(session, range, unit));
  Buffer bytes(range.bytes);
  KEDGE_RETURN_IF_ERROR((*unit)->tier->Read(range.slot, range.offset, bytes.data(), bytes.size()));
  return bytes;
}

Status Images::CheckIdentity(const Session& session, const ImageIdentity& identity) const {
  const Hello& hello = session.hello;
  const Generation& generation = identity.generation;
  if (generation.store_id != hello.store_id || generation.job != hello.job || generation.attempt != hello.attempt ||
      identity.rank != hello.rank || identity.ranks != hello.ranks) {
    return Refused(fmt::format("image of {} from session {}, which is {} attempt {} rank {} of {}", identity.ToString(),
                               session.id, hello.job, hello.attempt, hello.rank, hello.ranks));
  }
  return Status::Ok();
}

Version& Images::VersionFor(Job& job, const ImageIdentity& identity, uint32_t node_ranks, uint32_t due_levels) {
  const auto [version, is_new] = job.AddVersion(identity);
  if (is_new) {
    version->node_ranks = node_ranks;
    core_.events().version_begun(*version, DecodeDueLevels(due_levels));
  }
  return *version;
}

Image& Images::NewImage(Session& session, const ImageIdentity& identity, uint64_t serial, uint32_t due_levels) {
  Version& version = VersionFor(*session.job, identity, session.hello.ranks_on_node, due_levels);
  Image& image = Put(version, identity.rank, std::make_unique<Image>());
  image.session_id = session.id;
  image.serial = serial;
  image.progress_ns = core_.clock().NowNs();
  image.flush = version.scheduled() >= Level::kStore ? FlushState::kFlushing : FlushState::kNone;
  session.images[serial] = image.id;
  session.pending_serials.insert(serial);
  session.NoteSerial(serial);
  return image;
}

Status Images::OnBegin(Session& session, const ImageBegin& begin) {
  if (session.images.contains(begin.image_serial)) return Refused("an image of that number is begun already");
  TierUnit* unit = nullptr;
  KEDGE_ASSIGN_OR_RETURN(Buffer bytes, ReadRange(session, begin.identity, &unit));
  KEDGE_ASSIGN_OR_RETURN(ImageIdentity identity, DecodeImageIdentity(bytes));
  KEDGE_RETURN_IF_ERROR(CheckIdentity(session, identity));
  Version* version = FindVersion(identity.generation);
  if (version != nullptr && version->images.contains(identity.rank)) return Refused("an image of that rank is there already");
  NewImage(session, identity, begin.image_serial, begin.due_levels);
  return Status::Ok();
}

Status Images::OnProgress(Session& session, const ChunkProgress& progress) {
  auto begun = session.images.find(progress.image_serial);
  Image* image = begun == session.images.end() ? nullptr : Find(begun->second);
  if (image == nullptr || image->doomed) return Refused("progress of an image that was not begun");
  TierUnit* unit = nullptr;
  KEDGE_RETURN_IF_ERROR(CheckRange(session, progress.range, &unit));
  // Not every chunk is told of: not one captured before the image began (small ones), nor one written through, nor what finds the
  // ring full. The table at the image's end names them all, and is checked against what was said here.
  if (progress.chunk >= kChunksMax) return Refused("more chunks than an image may have");
  if (progress.chunk > image->chunks.size() + kChunksSkippedMax || progress.captured_bytes > progress.range.bytes) {
    return Refused("progress of an impossible chunk");
  }
  if (progress.object_offset % kChunkAlignment != 0 || progress.object_offset > (uint64_t{1} << 50)) {
    return Refused("progress at an impossible place of the object");
  }
  if (progress.chunk >= image->chunks.size()) image->chunks.resize(progress.chunk + 1);
  ImageChunk& chunk = image->chunks[progress.chunk];
  if (chunk.released) return Refused("progress of a chunk that was whole");
  if (chunk.unit == nullptr) {  // the first that is said of it
    chunk.unit = unit;
    chunk.slot = progress.range.slot;
    chunk.slot_generation = progress.range.slot_generation;
    chunk.offset = progress.range.offset;
    chunk.bytes = progress.range.bytes;
    chunk.object_offset = progress.object_offset;
    unit->space->AddChunk(chunk.slot);
  }
  if (chunk.unit != unit || chunk.slot != progress.range.slot || chunk.slot_generation != progress.range.slot_generation ||
      chunk.offset != progress.range.offset || chunk.object_offset != progress.object_offset) {
    return Refused("progress of a chunk that lies elsewhere");
  }
  chunk.captured_bytes = std::max(chunk.captured_bytes, progress.captured_bytes);
  image->progress_ns = core_.clock().NowNs();
  if (image->flush == FlushState::kFlushing) {
    if (MayRelease(*image, chunk) && image->version->absence.ok()) chunk.CountAsFlushing(true);
    flush_.QueueCaptured(*image, progress.chunk);
  }
  return Status::Ok();
}

Result<std::string> Images::FilePath(const TierUnit& unit, const std::string& relative) const {
  // Below "files/", and no way out of it.
  if (!relative.starts_with("files/") || ("/" + relative + "/").find("/../") != std::string::npos ||
      relative.find('\0') != std::string::npos) {
    return Refused(fmt::format("a routed file at \"{}\"", relative));
  }
  return os::JoinPath(TierFolder(unit.info()), relative);
}

Result<Images::Announced> Images::ReadAnnouncement(const Session& session, const ImageEnd& end) const {
  TierUnit* record_unit = nullptr;
  KEDGE_ASSIGN_OR_RETURN(Buffer bytes, ReadRange(session, end.range, &record_unit));
  if (end.record_bytes > bytes.size()) return Refused("the image record is longer than what was announced");
  if (crc32c::Compute(bytes.data(), bytes.size()) != end.crc32c) return Status(Code::kCorrupt, "image record: bad checksum");
  Announced announced;
  const ByteSpan record_bytes = ByteSpan(bytes).first(end.record_bytes);
  KEDGE_ASSIGN_OR_RETURN(announced.record, DecodeImageRecord(record_bytes));
  ByteSpan tables = ByteSpan(bytes).subspan(end.record_bytes);
  if (end.gap_table_bytes > tables.size()) return Refused("the gap table is longer than what was announced");
  if (end.gap_table_bytes > 0) {
    KEDGE_ASSIGN_OR_RETURN(announced.gaps, DecodeGapTable(tables.last(end.gap_table_bytes)));
  }
  tables = tables.first(tables.size() - end.gap_table_bytes);
  KEDGE_ASSIGN_OR_RETURN(announced.table, DecodePlacementTable(tables));
  announced.record_crc32c = crc32c::Compute(record_bytes.data(), record_bytes.size());
  KEDGE_ASSIGN_OR_RETURN(announced.captured, CapturedRuns(announced.record, core_.settings().piece_bytes));
  KEDGE_RETURN_IF_ERROR(CheckIdentity(session, announced.record.identity));
  if (announced.table.identity != announced.record.identity) return Refused("record and placement table are of two images");
  const auto& placements = announced.table.chunks;
  if (placements.size() != announced.record.chunks.size()) return Refused("record and placement table differ in chunks");
  return announced;
}

Status Images::FindChunks(const Session& session, const Image* begun, Announced* announced) const {
  const auto& placements = announced->table.chunks;
  for (size_t i = 0; i < placements.size(); ++i) {
    const Placement& placement = placements[i];
    ImageChunk chunk;
    chunk.bytes = placement.bytes;
    chunk.offset = placement.offset;
    chunk.in_own_object = announced->record.chunks[i].object == 0;
    chunk.object_offset = announced->record.chunks[i].object_offset;
    if (placement.bytes != announced->record.chunks[i].bytes) return Refused("record and placement table differ in lengths");
    const ImageChunk* released =
        begun != nullptr && i < begun->chunks.size() && begun->chunks[i].released ? &begun->chunks[i] : nullptr;
    if (released != nullptr) {
      const bool is_same = placement.kind == PlacementKind::kSlot && released->slot == placement.slot &&
                           released->slot_generation == placement.slot_generation && released->offset == placement.offset &&
                           released->bytes == placement.bytes && released->object_offset == chunk.object_offset &&
                           chunk.in_own_object;
      if (!is_same) return Refused("a chunk that was whole has become another one");
      chunk = *released;
    } else if (placement.kind != PlacementKind::kStore) {
      auto unit = std::find_if(session.tiers.begin(), session.tiers.end(), [&](const TierUnit* candidate) {
        return candidate->info().key == announced->table.tiers[placement.tier];
      });
      if (unit == session.tiers.end()) return Refused("a chunk in a tier that is not the session's");
      if (placement.kind == PlacementKind::kFile) {
        KEDGE_ASSIGN_OR_RETURN(chunk.file, FilePath(**unit, announced->table.files[placement.slot]));
        chunk.file_unit = *unit;
      } else {
        chunk.unit = *unit;
        chunk.slot = placement.slot;
        chunk.slot_generation = placement.slot_generation;
        // A chunk that progress has named keeps its slot, also when that has been returned since.
        const bool is_known = begun != nullptr && i < begun->chunks.size() && begun->chunks[i].unit == chunk.unit &&
                              begun->chunks[i].slot == chunk.slot && begun->chunks[i].slot_generation == chunk.slot_generation &&
                              begun->chunks[i].offset == chunk.offset;
        const auto index = static_cast<uint32_t>(unit - session.tiers.begin());
        TierUnit* same = nullptr;
        const SlotRange range{index, chunk.slot, chunk.slot_generation, chunk.offset, chunk.bytes};
        Status in_bounds = CheckRange(session, range, &same);
        if (!is_known) KEDGE_RETURN_IF_ERROR(in_bounds.WithContext(fmt::format("chunk {} is not where it was captured", i)));
        if (chunk.offset > chunk.unit->info().slot_bytes || chunk.bytes > chunk.unit->info().slot_bytes - chunk.offset) {
          return Refused("a chunk that reaches out of its slot");
        }
      }
    } else if (chunk.in_own_object) {
      return Refused("a chunk of the image's own object that is not on the node");
    }
    announced->chunks.push_back(std::move(chunk));
  }
  if (begun != nullptr && begun->chunks.size() > announced->chunks.size()) return Refused("chunks vanished at the image's end");
  return Status::Ok();
}

Status Images::OnEnd(Session& session, const ImageEnd& end) {
  const Status filled = EndFill(session);
  if (session.gone_serials.contains(end.image_serial)) return Status::Ok();  // its client has been told
  auto begun = session.images.find(end.image_serial);
  Image* image = begun == session.images.end() ? nullptr : Find(begun->second);
  auto announced = ReadAnnouncement(session, end);
  if (image == nullptr && announced.ok()) {
    const ImageIdentity& identity = announced->record.identity;
    const Version* version = FindVersion(identity.generation);
    if (version != nullptr && version->images.contains(identity.rank)) {
      // A predecessor had it on file already when it died: its entry is read a second time, and its slots are not the session's
      // any more.
      session.NoteSerial(end.image_serial);
      return Status::Ok();
    }
  }
  Status found = announced.ok() ? FindChunks(session, image, &*announced) : announced.status();
  if (found.ok()) found = filled;
  if (!found.ok()) {
    OnAbort(session, end.image_serial);
    return found;
  }
  const ImageIdentity& identity = announced->record.identity;
  if (image == nullptr) {
    image = &NewImage(session, identity, end.image_serial, end.due_levels);
  } else if (image->version->generation != identity.generation) {
    OnAbort(session, end.image_serial);
    return Refused("an image ended as another one than it began");
  }
  // From here on nothing can be refused any more.
  for (size_t i = 0; i < announced->chunks.size(); ++i) {
    ImageChunk& chunk = announced->chunks[i];
    if (i < image->chunks.size() && image->chunks[i].unit == chunk.unit && image->chunks[i].slot == chunk.slot &&
        image->chunks[i].slot_generation == chunk.slot_generation && image->chunks[i].offset == chunk.offset &&
        image->chunks[i].object_offset == chunk.object_offset) {
      chunk.queued_bytes = image->chunks[i].queued_bytes;
      chunk.written_bytes = image->chunks[i].written_bytes;
      chunk.written = std::move(image->chunks[i].written);
      chunk.is_flushing = image->chunks[i].is_flushing;
    } else {
      if (i < image->chunks.size() && image->chunks[i].unit != nullptr) {
        // What progress said was another place: whatever was flushed from there is worth nothing.
        image->chunks[i].CountAsFlushing(false);
        image->chunks[i].unit->space->RemoveChunk(image->chunks[i].slot, true);
      }
      if (chunk.unit != nullptr) chunk.unit->space->AddChunk(chunk.slot);
    }
    chunk.captured_bytes = chunk.bytes;
    chunk.captured = std::move(announced->captured[i]);
    if (chunk.unit != nullptr) chunk.unit->bytes_captured += chunk.bytes;
  }
  image->chunks = std::move(announced->chunks);
  image->record.unit = session.tiers[end.range.tier];
  image->record.slot = end.range.slot;
  image->record.slot_generation = end.range.slot_generation;
  image->record.offset = end.range.offset;
  image->record.bytes = end.range.bytes;
  image->record.unit->space->AddChunk(image->record.slot);
  image->record_bytes = end.record_bytes;
  image->record_crc32c = announced->record_crc32c;
  image->Describe(announced->record);
  session.image_bytes = image->image_bytes;
  flush_.SetEnded(*image);
  image->ended_ns = core_.clock().NowNs();
  image->record_path = NewRecordPath(*image);

  os::KillPoint("image-end-before-record");
  SaveFile(*image);
  os::KillPoint("image-end-after-record");
  ReturnFullSlots(session, *image);
  session.images.erase(end.image_serial);
  throughput_.OnImageEnd(session, *image);
  ++core_.counters().images_captured;
  core_.counters().bytes_captured += image->image_bytes;
  Version& version = *image->version;
  if (image->flush != FlushState::kNone) {
    flush_.QueueEnded(*image);
  } else if (!version.undecided && !version.IsOwedToNodes()) {
    OnSettled(*image);
  }
  if (end.gap_table_bytes > 0) BecomeBase(session, *image);
  if (session.must_restart) RescueLost(version);  // its client does not know yet that a tier is lost
  OnHeld(version);
  core_.events().image_captured(identity);
  os::KillPoint("image-end-done");
  return Status::Ok();
}

void Images::ReturnFullSlots(Session& session, const Image& image) {
  for (const ImageChunk& chunk : image.chunks) {
    if (chunk.unit == nullptr || !throughput_.OnReturned(session, SlotId{chunk.unit->id, chunk.slot})) continue;
    chunk.unit->space->Return(chunk.slot, chunk.slot_generation, session.id);
  }
}

// Another of its images is held by this node.
void Images::OnHeld(Version& version) {
  const Generation generation = version.generation;
  Job& job = *version.job;
  core_.events().protection_due(version);
  if (version.IsWhole() && version.node_ranks == version.ranks) core_.events().level_reached(version, Level::kLocal);
  if (version.IsWhole() && job.hello.keys.skip_queued) SkipQueued(version);
  Reconsider(job, generation.name);
  core_.events().version_changed(generation);
}

void Images::RescueLost(Version& version) {
  // What is on its way to level NODE fails there, and its ranks are told (Protect::OnTierLost).
  if (version.scheduled() >= Level::kStore || version.to_node || version.in_store() || version.at_node) return;
  if (!version.HasLost()) return;
  const uint32_t images = flush_.SendToStore(version);
  if (images == 0) return;
  LogWarning("agent", "{}: {} of its images here {} to the store, because a tier is lost", version.generation.ToString(), images,
             images == 1 ? "goes" : "go");
}

void Images::OnAbort(Session& session, uint64_t serial) {
  session.NoteSerial(serial);
  auto begun = session.images.find(serial);
  if (begun == session.images.end()) return;
  Image* image = Find(begun->second);
  session.images.erase(begun);
  session.pending_serials.erase(serial);
  if (image == nullptr) return;
  ReturnFullSlots(session, *image);
  Doom(*image);
}

void Images::DropUnended(Session& session) {
  (void)EndFill(session);
  while (!session.images.empty()) OnAbort(session, session.images.begin()->first);
}

void Images::SaveUnsaved() {
  for (const uint64_t id : std::exchange(unsaved_, {})) {
    Image* image = Find(id);
    if (image == nullptr || image->doomed) continue;
    SaveFile(*image);
    if (image->is_saved) OnHeld(*image->version);
  }
}

void Images::SaveFile(Image& image) {
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

Status DamagedHere(const Image& image) {
  return Status(Code::kCorrupt, fmt::format("{} rank {}: its bytes here are not those that were captured",
                                            image.version->generation.ToString(), image.rank));
}

void Images::OnDamaged(Version& version, uint32_t rank, const Status& why) {
  const auto image = version.images.find(rank);
  if (image == version.images.end() || image->second->damaged) return;
  image->second->damaged = true;
  (void)MayGo(*image->second);  // nothing more is built on it
  if (image->second->HasNoOtherCopy() && version.failure.ok()) version.failure = why;
  ++core_.counters().images_damaged;
  if (!image->second->doomed) SaveFile(*image->second);
  Reconsider(*version.job, version.generation.name);
}

}  // namespace kedge
