// See store_sink.h.
#include "capture/store_sink.h"

#include "base/crc32c.h"
#include "format/image_record.h"
#include "store/attempts.h"
#include "store/keys.h"

namespace kedge {

Status StoreSink::Begin(const ImageIdentity& identity, uint64_t announced_bytes) {
  identity_ = identity;
  object_offset_ = 0;
  writer_.reset();
  KEDGE_RETURN_IF_ERROR(PrepareGeneration(*catalog_, identity.generation));
  const std::string key = keys::ImageKey(identity.generation, identity.rank);
  KEDGE_ASSIGN_OR_RETURN(writer_, catalog_->store().CreateObject(key, catalog_->owner(), announced_bytes));
  return Status::Ok();
}

Result<ChunkTarget> StoreSink::OpenChunk(uint32_t, uint64_t bytes) {
  planned_bytes_ = bytes;
  return ChunkTarget{};
}

bool StoreSink::GrowChunk(uint64_t extra_bytes) {
  if (planned_bytes_ + extra_bytes > limits_.chunk_bytes) return false;
  planned_bytes_ += extra_bytes;
  return true;
}

Status StoreSink::Write(uint64_t offset, const std::byte* data, uint64_t bytes) {
  KEDGE_RETURN_IF_ERROR(writer_->WriteAt(object_offset_ + offset, {data, bytes}));
  if (bytes == limits_.piece_bytes) return writer_->FlushHint(object_offset_ + offset, bytes, /*wait=*/false);
  return Status::Ok();
}

Status StoreSink::CloseChunk(uint64_t bytes, ImageRecord* record) {
  record->chunks.push_back(Chunk{0, object_offset_, bytes});
  object_offset_ = AlignChunkOffset(object_offset_ + bytes);
  return Status::Ok();
}

Status StoreSink::End(const ImageRecord& record) {
  buffer_.clear();
  KEDGE_RETURN_IF_ERROR(EncodeImageRecord(record, &buffer_));
  KEDGE_RETURN_IF_ERROR(writer_->WriteAt(object_offset_, buffer_));

  PartRecord part;
  part.generation = identity_.generation;
  part.ranks = identity_.ranks;
  ImageEntry& entry = part.images.emplace_back();
  entry.rank = identity_.rank;
  entry.object = keys::ImageObject(identity_.rank);
  entry.record_offset = object_offset_;
  entry.record_bytes = buffer_.size();
  entry.record_crc32c = crc32c::Compute(buffer_.data(), buffer_.size());
  entry.image_bytes = record.RegionBytes();
  ObjectWriter* const writers[] = {writer_.get()};
  // Nothing holds back a rank that was taken over while it slept: its attempt is over, also when the newer one has not restarted.
  KEDGE_RETURN_IF_ERROR(CheckNotTakenOver(*catalog_, identity_.generation.job, identity_.generation.attempt));
  outcome_ = FinishOutcome{};
  const PublishOutcome published = PublishImages(*catalog_, writers, part);
  KEDGE_RETURN_IF_ERROR(published.images[0]);
  writer_.reset();
  outcome_ = published.finish;
  if (published.commit.ok()) return Status::Ok();
  // The image is durable already; only the small records are missing, and they may be asked for again.
  KEDGE_ASSIGN_OR_RETURN(outcome_, CommitPart(*catalog_, published.published));
  return Status::Ok();
}

void StoreSink::Abort() {
  // What cannot be removed now is garbage of this attempt, and gc's.
  if (writer_) (void)writer_->Abandon();
  writer_.reset();
}

}  // namespace kedge
