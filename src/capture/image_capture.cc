// See image_capture.h.
#include "capture/image_capture.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <utility>

#include "base/crc32c.h"
#include "format/image_record.h"

namespace kedge {

void ImageCapture::AlignedDelete::operator()(std::byte* memory) const {
  operator delete[](memory, std::align_val_t{kChunkAlignment});
}

Status ImageCapture::Begin(ImageSink* sink, const ImageIdentity& identity, std::string_view group, uint64_t announced_bytes) {
  sink_ = sink;
  limits_ = sink->limits();
  record_.identity = identity;
  record_.group = group;
  record_.objects.clear();
  record_.chunks.clear();
  record_.extents.clear();
  regions_ = annotations_ = 0;
  planned_.clear();
  next_planned_ = 0;
  chunk_open_ = region_open_ = extent_open_ = false;
  bytes_captured_ = object_offset_ = 0;
  cut_bytes_ = ExtentCutBytes(announced_bytes);
  return sink_->Begin(identity, announced_bytes);
}

Status ImageCapture::BeginPart(std::span<const uint64_t> region_bytes) {
  uint64_t total = 0;
  for (uint64_t bytes : region_bytes) total += bytes;
  planned_.clear();
  next_planned_ = 0;
  if (total == 0) return Status::Ok();
  // Many small parts share a chunk where they can, instead of leaving a padded chunk each.
  if (chunk_open_ && chunk_used_ + total <= limits_.piece_bytes && sink_->GrowChunk(total)) {
    chunk_bytes_ += total;
    return Status::Ok();
  }
  if (chunk_open_) KEDGE_RETURN_IF_ERROR(CloseChunk());
  PlanChunks(limits_, region_bytes, &planned_);
  return Status::Ok();
}

Status ImageCapture::AddRegion(const Region& region, const void* data) {
  KEDGE_RETURN_IF_ERROR(OpenRegion(region));
  KEDGE_RETURN_IF_ERROR(Append(data, region.bytes));
  return CloseRegion();
}

Region* ImageCapture::NextRegion() {
  if (regions_ == record_.regions.size()) record_.regions.emplace_back();
  return &record_.regions[regions_++];
}

Status ImageCapture::OpenRegion(const Region& region) {
  *NextRegion() = region;
  region_open_ = true;
  extent_open_ = false;
  region_left_ = region.bytes;
  return Status::Ok();
}

uint64_t ImageCapture::BytesToCut() const {
  return cut_bytes_ == 0 ? UINT64_MAX : cut_bytes_ - (object_offset_ + chunk_used_) % cut_bytes_;
}

Status ImageCapture::Append(const void* data, uint64_t bytes) {
  if (!region_open_ || bytes > region_left_) {
    return Status(Code::kInvalidArgument,
                  fmt::format("region {}: {} bytes more than the {} that were announced", record_.regions[regions_ - 1].id,
                              bytes - region_left_, record_.regions[regions_ - 1].bytes));
  }
  const auto* source = static_cast<const std::byte*>(data);
  const uint64_t of_bytes = bytes;
  while (bytes > 0) {
    if (!chunk_open_ || chunk_used_ == chunk_bytes_) KEDGE_RETURN_IF_ERROR(NextChunk());
    const uint64_t to_cut = BytesToCut();
    const uint64_t portion = ExtentBytes(limits_, chunk_used_, std::min({bytes, chunk_bytes_ - chunk_used_, to_cut}));
    if (!extent_open_) {
      Extent extent;
      extent.region = static_cast<uint32_t>(regions_ - 1);
      extent.region_offset = record_.regions[regions_ - 1].bytes - region_left_;
      extent.chunk = static_cast<uint32_t>(record_.chunks.size());
      extent.chunk_offset = chunk_used_;
      record_.extents.push_back(extent);
      extent_open_ = true;
    }
    Extent& extent = record_.extents.back();
    extent.crc32c = CopyIntoChunk(source, portion, extent.crc32c, of_bytes);
    extent.bytes += portion;
    source += portion;
    bytes -= portion;
    region_left_ -= portion;
    bytes_captured_ += portion;
    const bool piece_ends = chunk_used_ % limits_.piece_bytes == 0;
    if (piece_ends) KEDGE_RETURN_IF_ERROR(FinishPiece());
    if (piece_ends || portion == to_cut) extent_open_ = false;
  }
  return Status::Ok();
}

uint32_t ImageCapture::CopyIntoChunk(const std::byte* data, uint64_t bytes, uint32_t crc, uint64_t of_bytes) {
  std::byte* to = target_.memory != nullptr ? target_.memory + chunk_used_ : bounce_.get() + (chunk_used_ - piece_start_);
  chunk_used_ += bytes;
  return crc32c::CopyAndChecksum(to, data, bytes, crc, of_bytes);
}

// Once for each chunk.
void ImageCapture::Expect() {
  if (std::exchange(expects_, false) && next_planned_ < planned_.size()) sink_->ExpectChunk(planned_[next_planned_]);
}

Status ImageCapture::FinishPiece() {
  if (chunk_used_ == piece_start_) return Status::Ok();
  if (target_.memory == nullptr) {
    if (chunk_used_ == chunk_bytes_) Expect();
    KEDGE_RETURN_IF_ERROR(sink_->Write(piece_start_, bounce_.get(), chunk_used_ - piece_start_));
  }
  piece_start_ = chunk_used_;
  sink_->Progress(chunk_used_);
  return Status::Ok();
}

Status ImageCapture::NextChunk() {
  if (chunk_open_) KEDGE_RETURN_IF_ERROR(CloseChunk());
  if (next_planned_ == planned_.size()) return Status(Code::kInternal, "capture: more bytes than the part announced");
  chunk_bytes_ = planned_[next_planned_++];
  KEDGE_ASSIGN_OR_RETURN(target_, sink_->OpenChunk(static_cast<uint32_t>(record_.chunks.size()), chunk_bytes_));
  chunk_open_ = true;
  chunk_used_ = piece_start_ = 0;
  extent_open_ = false;
  expects_ = next_planned_ < planned_.size();
  // Mapped memory takes a chunk in milliseconds; a device may take seconds, and a place that is held unused meanwhile is somebody
  // else's: there the next one is asked for when the last piece begins (FinishPiece).
  if (target_.memory != nullptr) Expect();
  if (target_.memory == nullptr && bounce_bytes_ < limits_.piece_bytes) {
    bounce_.reset(new (std::align_val_t{kChunkAlignment}, std::nothrow) std::byte[limits_.piece_bytes]);
    bounce_bytes_ = bounce_ ? limits_.piece_bytes : 0;
    if (!bounce_) return Status(Code::kNoSpace, fmt::format("no memory for a buffer of {} bytes", limits_.piece_bytes));
  }
  return Status::Ok();
}

Status ImageCapture::CloseChunk() {
  KEDGE_RETURN_IF_ERROR(FinishPiece());
  chunk_open_ = extent_open_ = false;
  KEDGE_RETURN_IF_ERROR(sink_->CloseChunk(chunk_used_, &record_));
  const Chunk& chunk = record_.chunks.back();
  if (chunk.object == 0) object_offset_ = AlignChunkOffset(chunk.object_offset + chunk.bytes);
  return Status::Ok();
}

Status ImageCapture::CloseRegion() {
  region_open_ = extent_open_ = false;
  if (region_left_ == 0) return Status::Ok();
  const Region& region = record_.regions[regions_ - 1];
  return Status(Code::kInvalidArgument, fmt::format("region {}: {} bytes were announced, {} were written", region.id,
                                                    region.bytes, region.bytes - region_left_));
}

void ImageCapture::Annotate(std::string_view key, std::string_view value) {
  for (size_t i = 0; i < annotations_; ++i) {
    if (record_.annotations[i].key == key) {
      record_.annotations[i].value = value;
      return;
    }
  }
  if (annotations_ == record_.annotations.size()) record_.annotations.emplace_back();
  record_.annotations[annotations_].key = key;
  record_.annotations[annotations_++].value = value;
}

Status ImageCapture::End(int64_t wall_time_ns) {
  if (chunk_open_) KEDGE_RETURN_IF_ERROR(CloseChunk());
  record_.regions.resize(regions_);
  record_.annotations.resize(annotations_);
  record_.wall_time_ns = wall_time_ns;
  KEDGE_RETURN_IF_ERROR(sink_->End(record_));
  sink_ = nullptr;
  return Status::Ok();
}

void ImageCapture::Abort() {
  if (sink_ != nullptr) sink_->Abort();
  sink_ = nullptr;
}

}  // namespace kedge
