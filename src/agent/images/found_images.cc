#include "agent/images/found_images.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "agent/images/announcement.h"
#include "agent/images/gap_filler.h"
#include "agent/images/image_flusher.h"
#include "agent/images/image_table.h"
#include "agent/space/tiers.h"
#include "agent/tables/agent_core.h"
#include "base/crc32c.h"
#include "os/files/files.h"

namespace kedge {

namespace {

// The one that is known, or a new one with nothing but its identity.
Version& VersionOf(Job& job, const ImageIdentity& identity) {
  const auto [version, is_new] = job.AddVersion(identity);
  if (is_new) version->Schedule(Level::kLocal);
  return *version;
}

}  // namespace

Result<std::unique_ptr<Image>> FoundImages::MakeFound(const ImageRecord& record, FoundPlaces places) const {
  KEDGE_CHECK(places.chunks.size() == record.chunks.size());
  KEDGE_ASSIGN_OR_RETURN(auto captured, CapturedRuns(record, core_.settings().piece_bytes));
  auto image = std::make_unique<Image>();
  image->ended = image->recovered = true;
  image->ended_ns = core_.clock().NowNs();
  image->chunks = std::move(places.chunks);
  for (size_t i = 0; i < record.chunks.size(); ++i) {
    ImageChunk& chunk = image->chunks[i];
    chunk.bytes = chunk.captured_bytes = record.chunks[i].bytes;
    chunk.in_own_object = record.chunks[i].object == 0;
    chunk.object_offset = record.chunks[i].object_offset;
    chunk.captured = std::move(captured[i]);
  }
  image->record = std::move(places.record);
  image->record_bytes = places.record_bytes;
  image->record_crc32c = places.record_crc32c;
  image->Describe(record);
  return image;
}

Status FoundImages::PutBrought(const BroughtImage& brought) {
  const ImageRecord& record = *brought.record;
  const ImageIdentity& identity = record.identity;
  Job* job = core_.FindJobOf(identity.generation);
  if (job == nullptr) return Status(Code::kNotFound, "its job is not known any more");
  FoundPlaces places;
  for (const OwnRange& range : brought.chunks) {
    ImageChunk& chunk = places.chunks.emplace_back();
    if (range.unit != nullptr) chunk.PutIn(range);
  }
  places.record.PutIn(brought.record_range);
  places.record.bytes = places.record_bytes = brought.record_bytes;
  places.record_crc32c = brought.record_crc32c;
  KEDGE_ASSIGN_OR_RETURN(std::unique_ptr<Image> made, MakeFound(record, std::move(places)));
  bool for_store = brought.for_store;
  const bool is_new = core_.FindVersion(identity.generation) == nullptr;
  Version& version = VersionOf(*job, identity);
  for (const JobNode& node : job->members.nodes) {
    if (!is_new || node.name != core_.settings().node) continue;
    const auto is_of_version = [&](uint32_t rank) { return rank < version.ranks; };
    version.node_ranks =
        std::max<uint32_t>(1, static_cast<uint32_t>(std::count_if(node.ranks.begin(), node.ranks.end(), is_of_version)));
  }
  if (auto here = version.images.find(identity.rank); here != version.images.end()) {
    const Image& bad = *here->second;
    if (!brought.replace && !bad.IsLost()) return Status(Code::kAlreadyExists, "an image of that rank is here already");
    const bool is_flushed = bad.IsOnItsWay() && !bad.damaged;
    if (!bad.ended || bad.readers > 0 || bad.pieces_in_flight > 0 || is_flushed || !gaps_.MayGo(bad)) {
      return Status(Code::kBusy, "the image that is to be replaced is in use");
    }
    // Its flush goes on from the other copy, and its client hears of it.
    for_store = for_store || bad.IsOnItsWay();
    made->session_id = bad.session_id;
    made->serial = bad.serial;
    images_.Discard(version, identity.rank);
  }
  // Where images from here are on their way there, it is heard when they are.
  const bool hears_itself = std::any_of(version.images.begin(), version.images.end(),
                                        [](const auto& entry) { return entry.second->flush != FlushState::kNone; });
  const bool in_store = brought.from_store || (brought.in_store && (version.in_store() || !hears_itself));
  Image& image = images_.Put(version, identity.rank, std::move(made));
  image.brought_for_attempt = brought.from_store ? 0 : job->members.attempt;
  image.record_path = images_.NewRecordPath(image);
  if (in_store) {
    version.SetStored();
    version.AlsoTo(Level::kStore);
    flush_.SetState(image, FlushState::kStored);
    image.files_published = !brought.from_store;  // by the node that has it
  } else if (for_store && !version.in_store()) {
    version.AlsoTo(Level::kStore);
    version.undecided.reset();
    flush_.Start(image);
  }
  images_.Save(image);
  // Whoever carried it to the store has put its files at their paths, or died before: then they come from here.
  if (brought.from_store && image.has_files && job->hello.keys.files_publish) core_.events().files_due(image);
  return Status::Ok();
}

Status FoundImages::Recover(const std::string& path, const ImageFile& file) {
  const PlacementTable& table = file.local.table;
  const ImageIdentity& identity = table.identity;
  Job* job = core_.FindJobOf(identity.generation);
  if (job == nullptr) return Status(Code::kNotFound, "its job is not known any more");
  if (file.passing) {
    gone_.push_back({identity, file.session_id, file.serial});
    return Status(Code::kNotFound, "some of its chunks were only in the object that its agent was writing");
  }
  auto unit_of = [&](uint32_t index) { return tiers_.FindKey(table.tiers[index]); };
  auto locate = [&](const Placement& placement, ImageChunk* chunk) -> Status {
    chunk->bytes = placement.bytes;
    chunk->offset = placement.offset;
    if (placement.kind == PlacementKind::kStore) return Status::Ok();
    TierUnit* unit = unit_of(placement.tier);
    if (unit == nullptr) return Status(Code::kNotFound, "its tier " + table.tiers[placement.tier] + " is gone");
    if (placement.kind == PlacementKind::kFile) {
      chunk->file_unit = unit;
      KEDGE_ASSIGN_OR_RETURN(chunk->file, RoutedFilePath(*unit, table.files[placement.slot]));
      return Status::Ok();
    }
    const uint64_t slot_bytes = unit->info().slot_bytes;
    if (!unit->space->IsCurrent(placement.slot, placement.slot_generation) || placement.offset > slot_bytes ||
        placement.bytes > slot_bytes - placement.offset) {
      return Status(Code::kNotFound,
                    fmt::format("slot {} of tier {} holds something else by now", placement.slot, unit->info().name));
    }
    chunk->PutIn({unit, placement.slot, placement.slot_generation, placement.offset});
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
  KEDGE_ASSIGN_OR_RETURN(std::unique_ptr<Image> made, MakeFound(record, std::move(places)));
  const bool is_new = core_.FindVersion(identity.generation) == nullptr;
  Version& version = VersionOf(*job, identity);
  if (version.images.contains(identity.rank)) return Status(Code::kAlreadyExists, "another record of that image is there");
  if (is_new) {
    version.node_ranks = file.node_ranks;
    version.Schedule(file.scheduled);
    if (file.undecided) core_.events().version_left_undecided(version, *file.undecided);
  }
  if (file.in_store) version.SetStored();
  version.skipped = version.skipped || file.skipped;
  version.to_node = version.to_node || file.to_node;
  version.at_node = version.at_node || file.at_node;
  version.at_local = version.at_local || file.at_local;
  if (file.weakened && version.node_failure.ok()) version.Weaken("a node has lost its part, as the agent before this one knew");
  Image& image = images_.Put(version, identity.rank, std::move(made));
  image.session_id = file.session_id;
  image.serial = file.serial;
  image.record_path = path;
  image.is_saved = true;
  image.files_published = file.files_published;
  image.damaged = file.damaged;
  const bool wanted = version.scheduled() >= Level::kStore && !version.skipped;
  // Waiting from here on, so that nobody lets go of it before its flush is begun again (recovery.cc).
  const bool stored = file.stored || file.in_store;
  flush_.SetState(image, stored ? FlushState::kStored : wanted ? FlushState::kWaiting : FlushState::kNone);
  image.ForEachSlot([](SlotSpace& space, uint32_t index) { space.AddChunk(index); });
  if (image.damaged && image.HasNoOtherCopy() && version.failure.ok()) version.failure = image.DamagedHere();
  ++core_.counters().images_recovered;
  return Status::Ok();
}

uint32_t FoundImages::LastSession() const {
  uint32_t last = 0;
  for (const auto& [id, image] : images_.all()) last = std::max(last, image->session_id);
  for (const Gone& gone : gone_) last = std::max(last, gone.session_id);
  return last;
}

void FoundImages::Resume(Session& session) {
  // Images of it that are not through yet count as pending, as they did before.
  for (const auto& [id, image] : images_.all()) {
    if (image->session_id != session.id) continue;
    session.NoteSerial(image->serial);
    if (image->flush == FlushState::kWaiting || image->version->undecided) session.pending_serials.insert(image->serial);
  }
  TellGone(session);
  gaps_.RecoverBase(session);
}

void FoundImages::TellGone(Session& session) {
  std::erase_if(gone_, [&](const Gone& gone) {
    if (gone.session_id != session.id) return false;
    const Status why(Code::kIo, fmt::format("{}: the agent died while it wrote the only copy of some of its chunks, whose slots "
                                            "had been wanted by others",
                                            gone.identity.ToString()));
    session.NoteSerial(gone.serial);
    session.gone_serials.insert(gone.serial);
    core_.sessions().SendFailure(session, gone.serial, why);
    Version* version = core_.FindVersion(gone.identity.generation);
    if (version != nullptr && version->failure.ok()) version->failure = why;
    ++core_.counters().flush_failures;
    return true;
  });
}

}  // namespace kedge
