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
  bytes_captured_ = bytes_left_out_ = object_offset_ = 0;
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

size_t BaseRegion(const ImageBase& base, const Region& region) {
  const auto& regions = base.record.regions;
  const auto found = std::find_if(regions.begin(), regions.end(), [&](const Region& candidate) {
    return candidate.id == region.id && candidate.kind == RegionKind::kMemory && candidate.bytes == region.bytes;
  });
  return static_cast<size_t>(found - regions.begin());
}

Status ImageCapture::AddChangedRegion(const Region& region, const void* data, std::span<const ChangedRange> changed) {
  KEDGE_RETURN_IF_ERROR(OpenRegion(region));
  if (const ImageBase* base = sink_->base()) {
    const size_t before = BaseRegion(*base, region);
    const auto& extents = base->record.extents;
    const auto first =
        std::partition_point(extents.begin(), extents.end(), [&](const Extent& extent) { return extent.region < before; });
    compares_ = before < base->record.regions.size();
    base_extent_ = static_cast<size_t>(first - extents.begin());
    changed_ = changed;
  }
  KEDGE_RETURN_IF_ERROR(Append(data, region.bytes));
  return CloseRegion();
}

Status ImageCapture::AddRegionLater(const Region& region, const void* data, std::vector<CopiedLater>* later) {
  KEDGE_RETURN_IF_ERROR(OpenRegion(region));
  later_ = later;
  Status status = Append(data, region.bytes);
  later_ = nullptr;
  return status.ok() ? CloseRegion() : status;
}

void ImageCapture::SetChecksums(std::span<const CopiedLater> copied) {
  for (const CopiedLater& part : copied) record_.extents[part.extent].crc32c = part.crc32c;
}

Region* ImageCapture::NextRegion() {
  if (regions_ == record_.regions.size()) record_.regions.emplace_back();
  return &record_.regions[regions_++];
}

Status ImageCapture::OpenRegion(const Region& region) {
  *NextRegion() = region;
  region_open_ = true;
  extent_open_ = compares_ = false;
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
    const Extent* const before = compares_ && extent.bytes == 0 ? BaseExtent(portion) : nullptr;
    if (later_ != nullptr) {
      KEDGE_RETURN_IF_ERROR(LeaveForLater(source, portion));
    } else {
      extent.crc32c =
          before != nullptr ? CopyChanged(source, portion, *before) : CopyIntoChunk(source, portion, extent.crc32c, of_bytes);
    }
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

Status ImageCapture::LeaveForLater(const std::byte* data, uint64_t bytes) {
  if (target_.memory == nullptr) return Status(Code::kUnsupported, "no memory takes what is to be copied later");
  sink_->FillLater();
  later_->push_back({.extent = static_cast<uint32_t>(record_.extents.size() - 1),
                     .region = record_.regions[regions_ - 1].id,
                     .from = data,
                     .to = target_.memory + chunk_used_,
                     .bytes = bytes});
  chunk_used_ += bytes;
  return Status::Ok();
}

const Extent* ImageCapture::BaseExtent(uint64_t bytes) {
  const ImageBase& base = *sink_->base();
  const Extent& wanted = record_.extents.back();
  const auto& extents = base.record.extents;
  while (base_extent_ < extents.size() && extents[base_extent_].region_offset < wanted.region_offset) ++base_extent_;
  if (target_.memory == nullptr || base_extent_ == extents.size()) return nullptr;
  const Extent& before = extents[base_extent_];
  const bool is_there = base.record.regions[before.region].id == record_.regions[wanted.region].id &&
                        before.region_offset == wanted.region_offset && before.bytes == bytes && before.chunk == wanted.chunk &&
                        before.chunk_offset == wanted.chunk_offset && base.chunks[before.chunk] != nullptr;
  return is_there ? &before : nullptr;
}

void ImageCapture::LeaveOut(uint64_t chunk_offset, uint64_t bytes) {
  if (bytes == 0) return;
  sink_->LeaveOut(chunk_offset, bytes);
  bytes_left_out_ += bytes;
}

// Of two texts of equal length the checksums differ by what is linear in the difference of the texts; where that is but a run of
// bytes, it is the difference of the checksums of the run, moved over the bytes behind it.
uint32_t ImageCapture::CopyChanged(const std::byte* data, uint64_t bytes, const Extent& before) {
  const std::byte* const was = sink_->base()->chunks[before.chunk] + before.chunk_offset;
  std::byte* const to = target_.memory + chunk_used_;
  const uint64_t begin = before.region_offset, end = begin + bytes;
  uint32_t crc = before.crc32c;
  uint64_t position = begin;
  while (!changed_.empty() && changed_.front().offset + changed_.front().bytes <= begin) changed_ = changed_.subspan(1);
  for (const ChangedRange& range : changed_) {
    if (range.offset >= end) break;
    const uint64_t from = std::max(range.offset, begin), until = std::min(range.offset + range.bytes, end);
    LeaveOut(chunk_used_ + (position - begin), from - position);
    const uint32_t old_crc = crc32c::Compute(was + (from - begin), until - from);
    const uint32_t new_crc = crc32c::CopyAndChecksum(to + (from - begin), data + (from - begin), until - from);
    crc ^= crc32c::Combine(old_crc ^ new_crc, 0, end - until);
    position = until;
  }
  LeaveOut(chunk_used_ + (position - begin), end - position);
  chunk_used_ += bytes;
  return crc;
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
