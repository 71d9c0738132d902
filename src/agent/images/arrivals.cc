#include "agent/images/arrivals.h"

#include <algorithm>
#include <memory>

#include "agent/images/gap_filler.h"
#include "agent/images/image_flusher.h"
#include "agent/images/image_table.h"
#include "agent/images/local_retention.h"
#include "agent/images/passing_chunks.h"
#include "agent/space/throughput.h"
#include "agent/tables/agent_core.h"
#include "os/process/kill_point.h"

namespace kedge {

namespace {

constexpr size_t kChunksMax = 1 << 20;
// That progress may leave out between what it has named and the next.
constexpr size_t kChunksSkippedMax = 1 << 12;

}  // namespace

Image& Arrivals::NewImage(Session& session, const ImageIdentity& identity, uint64_t serial, uint32_t due_levels) {
  const auto [version, is_new] = session.job->AddVersion(identity);
  if (is_new) {
    version->node_ranks = session.hello.ranks_on_node;
    core_.events().version_begun(*version, DecodeDueLevels(due_levels));
  }
  Image& image = images_.Put(*version, identity.rank, std::make_unique<Image>());
  image.session_id = session.id;
  image.serial = serial;
  image.progress_ns = core_.clock().NowNs();
  image.flush = version->scheduled() >= Level::kStore ? FlushState::kFlushing : FlushState::kNone;
  session.images[serial] = image.id;
  session.pending_serials.insert(serial);
  session.NoteSerial(serial);
  return image;
}

Status Arrivals::OnBegin(Session& session, const ImageBegin& begin) {
  if (session.images.contains(begin.image_serial)) return RefusedEntry("an image of that number is begun already");
  KEDGE_ASSIGN_OR_RETURN(const ImageIdentity identity, ReadBegin(session, begin));
  const Version* version = core_.FindVersion(identity.generation);
  if (version != nullptr && version->images.contains(identity.rank)) {
    return RefusedEntry("an image of that rank is there already");
  }
  NewImage(session, identity, begin.image_serial, begin.due_levels);
  return Status::Ok();
}

Status Arrivals::OnProgress(Session& session, const ChunkProgress& progress) {
  auto begun = session.images.find(progress.image_serial);
  Image* image = begun == session.images.end() ? nullptr : images_.Find(begun->second);
  if (image == nullptr || image->doomed) return RefusedEntry("progress of an image that was not begun");
  TierUnit* unit = nullptr;
  KEDGE_RETURN_IF_ERROR(CheckRange(session, progress.range, &unit));
  // Not every chunk is told of: not one captured before the image began (small ones), nor one written through, nor what finds the
  // ring full. The table at the image's end names them all, and is checked against what was said here.
  if (progress.chunk >= kChunksMax) return RefusedEntry("more chunks than an image may have");
  if (progress.chunk > image->chunks.size() + kChunksSkippedMax || progress.captured_bytes > progress.range.bytes) {
    return RefusedEntry("progress of an impossible chunk");
  }
  if (progress.object_offset % kChunkAlignment != 0 || progress.object_offset > (uint64_t{1} << 50)) {
    return RefusedEntry("progress at an impossible place of the object");
  }
  if (progress.chunk >= image->chunks.size()) image->chunks.resize(progress.chunk + 1);
  ImageChunk& chunk = image->chunks[progress.chunk];
  if (chunk.released) return RefusedEntry("progress of a chunk that was whole");
  ImageChunk told;
  told.PutIn({unit, progress.range.slot, progress.range.slot_generation, progress.range.offset});
  told.bytes = progress.range.bytes;
  told.object_offset = progress.object_offset;
  if (chunk.unit == nullptr) {  // the first that is said of it
    chunk = std::move(told);
    unit->space->AddChunk(chunk.slot);
  } else if (!chunk.IsSame(told)) {
    return RefusedEntry("progress of a chunk that lies elsewhere");
  }
  chunk.captured_bytes = std::max(chunk.captured_bytes, progress.captured_bytes);
  image->progress_ns = core_.clock().NowNs();
  if (image->flush == FlushState::kFlushing) {
    if (passing_.MayRelease(*image, chunk) && image->version->absence.ok()) chunk.CountAsFlushing(true);
    flush_.QueueCaptured(*image, progress.chunk);
  }
  return Status::Ok();
}

bool Arrivals::IsFilled(Session& session, const ImageEnd& end, bool may_wait) {
  return gaps_.IsFilled(session, end, may_wait);
}

Status Arrivals::OnEnd(Session& session, const ImageEnd& end) {
  const Status filled = gaps_.End(session);
  if (session.gone_serials.contains(end.image_serial)) return Status::Ok();  // its client has been told
  auto begun = session.images.find(end.image_serial);
  Image* image = begun == session.images.end() ? nullptr : images_.Find(begun->second);
  auto announced = ReadEnd(session, end, core_.settings().piece_bytes);
  if (image == nullptr && announced.ok()) {
    const ImageIdentity& identity = announced->record.identity;
    const Version* version = core_.FindVersion(identity.generation);
    if (version != nullptr && version->images.contains(identity.rank)) {
      // A predecessor had it on file already when it died: its entry is read a second time, and its slots are not the session's
      // any more.
      session.NoteSerial(end.image_serial);
      return Status::Ok();
    }
  }
  Status found = announced.ok() ? LocateChunks(session, image, &*announced) : announced.status();
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
    return RefusedEntry("an image ended as another one than it began");
  }
  // From here on nothing can be refused any more.
  TakeChunks(*announced, image);
  image->record.PutIn({session.tiers[end.range.tier], end.range.slot, end.range.slot_generation, end.range.offset});
  image->record.bytes = end.range.bytes;
  image->record.unit->space->AddChunk(image->record.slot);
  image->record_bytes = end.record_bytes;
  image->record_crc32c = announced->record_crc32c;
  image->Describe(announced->record);
  session.image_bytes = image->image_bytes;
  flush_.SetEnded(*image);
  image->ended_ns = core_.clock().NowNs();
  image->record_path = images_.NewRecordPath(*image);

  os::KillPoint("image-end-before-record");
  images_.Save(*image);
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
    images_.OnSettled(*image);
  }
  if (end.gap_table_bytes > 0) gaps_.BecomeBase(session, *image);
  if (session.must_restart) retention_.RescueLost(version);  // its client does not know yet that a tier is lost
  retention_.OnHeld(version);
  core_.events().image_captured(identity);
  os::KillPoint("image-end-done");
  return Status::Ok();
}

void Arrivals::TakeChunks(AnnouncedImage& announced, Image* image) {
  for (size_t i = 0; i < announced.chunks.size(); ++i) {
    ImageChunk& chunk = announced.chunks[i];
    ImageChunk* const begun = i < image->chunks.size() ? &image->chunks[i] : nullptr;
    if (begun != nullptr && begun->IsSame(chunk)) {
      chunk.queued_bytes = begun->queued_bytes;
      chunk.written_bytes = begun->written_bytes;
      chunk.written = std::move(begun->written);
      chunk.is_flushing = begun->is_flushing;
    } else {
      if (begun != nullptr && begun->unit != nullptr) {
        // What progress said was another place: whatever was flushed from there is worth nothing.
        begun->CountAsFlushing(false);
        begun->unit->space->RemoveChunk(begun->slot, true);
      }
      if (chunk.unit != nullptr) chunk.unit->space->AddChunk(chunk.slot);
    }
    chunk.captured_bytes = chunk.bytes;
    chunk.captured = std::move(announced.captured[i]);
    if (chunk.unit != nullptr) chunk.unit->bytes_captured += chunk.bytes;
  }
  image->chunks = std::move(announced.chunks);
}

void Arrivals::OnAbort(Session& session, uint64_t serial) {
  session.NoteSerial(serial);
  auto begun = session.images.find(serial);
  if (begun == session.images.end()) return;
  Image* image = images_.Find(begun->second);
  session.images.erase(begun);
  session.pending_serials.erase(serial);
  if (image == nullptr) return;
  ReturnFullSlots(session, *image);
  images_.Doom(*image);
}

void Arrivals::DropUnended(Session& session) {
  (void)gaps_.End(session);
  while (!session.images.empty()) OnAbort(session, session.images.begin()->first);
}

void Arrivals::ReturnFullSlots(Session& session, const Image& image) {
  for (const ImageChunk& chunk : image.chunks) {
    if (chunk.unit == nullptr || !throughput_.OnReturned(session, SlotId{chunk.unit->id, chunk.slot})) continue;
    chunk.unit->space->Return(chunk.slot, chunk.slot_generation, session.id);
  }
}

}  // namespace kedge
