#include "format/image_record.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/crc32c.h"
#include "format/envelope.h"

namespace kedge {

namespace {

// Bits of a region's flags byte.
constexpr uint8_t kColumnMajor = 1;
constexpr uint8_t kGlobal = 2;
constexpr uint8_t kHalo = 4;

// The least bytes that one of each can take, for bounding allocations.
constexpr size_t kRegionBytesMin = 9;
constexpr size_t kChunkBytesMin = 3;
constexpr size_t kExtentBytesMin = 7;
constexpr size_t kAnnotationBytesMin = 2;

// What is wrong with the region; null when nothing is.
const char* RegionFault(const Region& region) {
  if (static_cast<uint8_t>(region.kind) > 2) return "unknown kind of region";
  if (static_cast<uint8_t>(region.memory) > 1) return "unknown kind of memory";
  if (static_cast<uint8_t>(region.type) > kElementTypeMax) return "unknown element type";
  if (region.name.size() > kRegionNameBytesMax) return "name too long";
  if (region.element_bytes == 0 || region.bytes % region.element_bytes != 0) {
    return "size is not a multiple of the element size";
  }
  if (region.shape.size() > kDimensionsMax) return "too many dimensions";
  const bool global = !region.global_shape.empty() || !region.global_offset.empty();
  if (global && (region.shape.empty() || region.global_shape.size() != region.shape.size() ||
                 region.global_offset.size() != region.shape.size())) {
    return "global shape or offset has another number of dimensions than the shape";
  }
  if (!region.halo.empty() && region.halo.size() != region.global_shape.size()) {
    return "a halo needs a global shape of as many dimensions";
  }
  for (const auto* numbers : {&region.shape, &region.global_shape, &region.global_offset, &region.halo}) {
    for (const int64_t number : *numbers) {
      if (number < 0) return "a dimension is negative";
    }
  }
  for (size_t i = 0; i < region.global_shape.size(); ++i) {
    const int64_t halo = region.halo.empty() ? 0 : region.halo[i], shape = region.shape[i];
    if (halo > shape / 2) return "the halo is wider than the region";
    const int64_t offset = region.global_offset[i], whole = region.global_shape[i];
    if (offset > whole || shape - 2 * halo > whole - offset) return "a part lies outside its global array";
  }
  if (!region.shape.empty()) {
    // A zero anywhere makes the product zero, however large the others are.
    const bool empty = std::find(region.shape.begin(), region.shape.end(), 0) != region.shape.end();
    uint64_t elements = empty ? 0 : 1;
    for (const int64_t number : region.shape) {
      if (!empty && __builtin_mul_overflow(elements, static_cast<uint64_t>(number), &elements)) {
        return "the shape has more than 2^64 elements";
      }
    }
    if (elements != region.bytes / region.element_bytes) return "the product of the shape is not the number of elements";
  }
  return nullptr;
}

bool ChunkIsValid(const Chunk& chunk, size_t objects) {
  uint64_t end;
  return chunk.object <= objects && !__builtin_add_overflow(chunk.object_offset, chunk.bytes, &end);
}

bool ExtentIsInside(const Extent& extent, const Chunk& chunk) {
  return extent.bytes > 0 && extent.chunk_offset <= chunk.bytes && extent.bytes <= chunk.bytes - extent.chunk_offset;
}

// What is wrong with the image as a whole, regions apart; null when nothing is.
const char* ImageFault(const ImageRecord& image) {
  if (image.group.size() > kNameBytesMax) return "group name too long";
  for (const std::string& object : image.objects) {
    if (object.empty() || object.size() > kObjectKeyBytesMax) return "object key empty or too long";
  }
  for (const Chunk& chunk : image.chunks) {
    if (!ChunkIsValid(chunk, image.objects.size())) return "chunk outside its object";
  }
  for (const Annotation& annotation : image.annotations) {
    if (annotation.key.empty() || annotation.key.size() > kAnnotationKeyBytesMax) {
      return "annotation key empty or too long";
    }
  }
  // Extents cover the regions in order, without gap or overlap.
  size_t at = 0;
  for (size_t region = 0; region < image.regions.size(); ++region) {
    uint64_t covered = 0;
    while (covered < image.regions[region].bytes) {
      if (at == image.extents.size()) return "extents do not cover the regions";
      const Extent& extent = image.extents[at++];
      if (extent.region != region || extent.region_offset != covered) return "extents out of order";
      if (extent.chunk >= image.chunks.size() || !ExtentIsInside(extent, image.chunks[extent.chunk])) {
        return "extent outside its chunk";
      }
      if (extent.bytes > image.regions[region].bytes - covered) return "extent beyond its region";
      covered += extent.bytes;
    }
  }
  return at == image.extents.size() ? nullptr : "extents beyond the last region";
}

void EncodeRegion(Encoder& encoder, const Region& region) {
  const bool global = !region.global_shape.empty();
  encoder.SignedVarint(region.id);
  encoder.U8(static_cast<uint8_t>(region.kind));
  encoder.U8(static_cast<uint8_t>(region.memory));
  encoder.U8(static_cast<uint8_t>(region.type));
  encoder.U8(static_cast<uint8_t>((region.column_major ? kColumnMajor : 0) | (global ? kGlobal : 0) |
                                  (region.halo.empty() ? 0 : kHalo)));
  encoder.U8(static_cast<uint8_t>(region.shape.size()));
  encoder.String(region.name);
  encoder.Varint(region.element_bytes);
  encoder.Varint(region.bytes / region.element_bytes);
  for (const auto* numbers : {&region.shape, &region.global_shape, &region.global_offset, &region.halo}) {
    for (const int64_t number : *numbers) encoder.Varint(static_cast<uint64_t>(number));
  }
  if (region.kind == RegionKind::kFile) encoder.Varint(region.file_mode);
}

std::vector<int64_t> DecodeDimensions(Decoder& decoder, size_t count) {
  std::vector<int64_t> numbers(count);
  for (int64_t& number : numbers) number = static_cast<int64_t>(decoder.VarintAtMost(INT64_MAX));
  return numbers;
}

void DecodeRegion(Decoder& decoder, Region* region) {
  const int64_t id = decoder.SignedVarint();
  decoder.Require(id >= INT32_MIN && id <= INT32_MAX, "a region id is out of range");
  region->id = static_cast<int32_t>(id);
  region->kind = static_cast<RegionKind>(decoder.U8());
  region->memory = static_cast<MemoryKind>(decoder.U8());
  region->type = static_cast<ElementType>(decoder.U8());
  const uint8_t flags = decoder.U8();
  decoder.Require((flags & ~(kColumnMajor | kGlobal | kHalo)) == 0, "a region has unknown flags");
  region->column_major = (flags & kColumnMajor) != 0;
  const uint8_t dimensions = decoder.U8();
  decoder.Require(dimensions <= kDimensionsMax, "a region has too many dimensions");
  region->name = decoder.String(kRegionNameBytesMax);
  region->element_bytes = decoder.Varint();
  const uint64_t elements = decoder.Varint();
  decoder.Require(!__builtin_mul_overflow(elements, region->element_bytes, &region->bytes), "a region is too large");
  if (!decoder.ok()) return;
  if (dimensions > 0) region->shape = DecodeDimensions(decoder, dimensions);
  if ((flags & kGlobal) != 0) {
    region->global_shape = DecodeDimensions(decoder, dimensions);
    region->global_offset = DecodeDimensions(decoder, dimensions);
    decoder.Require(dimensions > 0, "a global shape without a shape");
  }
  if ((flags & kHalo) != 0) {
    region->halo = DecodeDimensions(decoder, dimensions);
    decoder.Require(dimensions > 0, "a halo without a shape");
  }
  if (region->kind == RegionKind::kFile) region->file_mode = decoder.Varint32();
  if (!decoder.ok()) return;
  if (const char* fault = RegionFault(*region)) decoder.Fail(fault);
}

// Where the next extent lies if it follows the previous one, as nearly all do: then both numbers below encode as zero.
struct Cursor {
  uint32_t chunk = 0;
  uint64_t chunk_offset = 0;
};

void EncodeExtent(Encoder& encoder, const Extent& extent, Cursor* cursor) {
  encoder.Varint(extent.bytes);
  encoder.SignedVarint(static_cast<int64_t>(extent.chunk) - cursor->chunk);
  // A chunk that was not the previous extent's is expected to be entered at its begin.
  const uint64_t expected = extent.chunk == cursor->chunk ? cursor->chunk_offset : 0;
  encoder.SignedVarint(static_cast<int64_t>(extent.chunk_offset - expected));
  encoder.U32(extent.crc32c);
  *cursor = {extent.chunk, extent.chunk_offset + extent.bytes};
}

void DecodeExtent(Decoder& decoder, const std::vector<Chunk>& chunks, Cursor* cursor, Extent* extent) {
  extent->bytes = decoder.Varint();
  const int64_t chunk_step = decoder.SignedVarint();
  const auto chunk = static_cast<uint64_t>(cursor->chunk) + static_cast<uint64_t>(chunk_step);
  if (chunk >= chunks.size()) return decoder.Fail("an extent lies in no chunk");
  extent->chunk = static_cast<uint32_t>(chunk);
  const uint64_t expected = extent->chunk == cursor->chunk ? cursor->chunk_offset : 0;
  extent->chunk_offset = expected + static_cast<uint64_t>(decoder.SignedVarint());
  extent->crc32c = decoder.U32();
  decoder.Require(ExtentIsInside(*extent, chunks[chunk]), "an extent lies outside its chunk");
  *cursor = {extent->chunk, extent->chunk_offset + extent->bytes};
}

void DecodeExtents(Decoder& decoder, ImageRecord* image) {
  const size_t count = decoder.Count(kExtentBytesMin);
  image->extents.reserve(count);
  Cursor cursor;
  for (uint32_t region = 0; region < image->regions.size(); ++region) {
    const uint64_t bytes = image->regions[region].bytes;
    for (uint64_t covered = 0; covered < bytes && decoder.ok();) {
      if (image->extents.size() == count) return decoder.Fail("extents do not cover the regions");
      Extent& extent = image->extents.emplace_back();
      extent.region = region;
      extent.region_offset = covered;
      DecodeExtent(decoder, image->chunks, &cursor, &extent);
      if (extent.bytes > bytes - covered) return decoder.Fail("an extent goes beyond its region");
      covered += extent.bytes;
    }
  }
  decoder.Require(image->extents.size() == count, "extents beyond the last region");
}

void DecodeChunks(Decoder& decoder, ImageRecord* image) {
  const size_t objects = decoder.Count(1);
  image->objects.reserve(objects);
  for (size_t i = 0; i < objects && decoder.ok(); ++i) {
    image->objects.emplace_back(decoder.String(kObjectKeyBytesMax));
    decoder.Require(!image->objects.back().empty(), "an object key is empty");
  }
  const size_t chunks = decoder.Count(kChunkBytesMin);
  image->chunks.reserve(chunks);
  for (size_t i = 0; i < chunks && decoder.ok(); ++i) {
    const uint32_t object = decoder.Varint32();
    const uint64_t offset = decoder.Varint();
    image->chunks.push_back({object, offset, decoder.Varint()});
    decoder.Require(ChunkIsValid(image->chunks.back(), objects), "a chunk lies outside its object");
  }
}

void DecodeAnnotations(Decoder& decoder, ImageRecord* image) {
  const size_t count = decoder.Count(kAnnotationBytesMin);
  image->annotations.reserve(count);
  for (size_t i = 0; i < count && decoder.ok(); ++i) {
    Annotation& annotation = image->annotations.emplace_back();
    annotation.key = decoder.String(kAnnotationKeyBytesMax);
    annotation.value = decoder.String(kRecordBytesMax);
    decoder.Require(!annotation.key.empty(), "an annotation key is empty");
  }
}

}  // namespace

uint64_t ImageRecord::RegionBytes() const {
  uint64_t bytes = 0;
  for (const Region& region : regions) bytes += region.bytes;
  return bytes;
}

std::vector<uint32_t> ImageRecord::RegionChecksums() const {
  std::vector<uint32_t> checksums(regions.size());
  for (const Extent& extent : extents) {
    uint32_t& checksum = checksums[extent.region];
    checksum = crc32c::Combine(checksum, extent.crc32c, extent.bytes);
  }
  return checksums;
}

const char* ElementTypeName(ElementType type) {
  static constexpr const char* kNames[] = {"bytes",   "int8",      "int16",      "int32",   "int64",    "uint8",
                                           "uint16",  "uint32",    "uint64",     "float16", "bfloat16", "float32",
                                           "float64", "complex64", "complex128", "bool"};
  return kNames[static_cast<size_t>(type)];
}

Status ValidateRegion(const Region& region) {
  const char* fault = RegionFault(region);
  if (fault == nullptr) return Status::Ok();
  const std::string name =
      region.name.empty() || region.name.size() > kRegionNameBytesMax ? "" : fmt::format(" ({})", region.name);
  const std::string place = region.global_shape.empty() || region.global_shape.size() > kDimensionsMax
                                ? ""
                                : fmt::format(": {} elements at {} of {}", fmt::join(region.shape, " x "),
                                              fmt::join(region.global_offset, ", "), fmt::join(region.global_shape, " x "));
  return Status(Code::kInvalidArgument, fmt::format("region {}{}: {}{}", region.id, name, fault, place));
}

Status EncodeImageRecord(const ImageRecord& image, Buffer* out) {
  if (Status status = Validate(image.identity); !status.ok()) {
    return Status(Code::kInternal, "image record: " + status.message());
  }
  const char* fault = ImageFault(image);
  for (auto region = image.regions.begin(); fault == nullptr && region != image.regions.end(); ++region) {
    fault = RegionFault(*region);
  }
  if (fault != nullptr) {
    return Status(Code::kInternal, "image record of " + image.identity.ToString() + ": " + fault);
  }
  RecordEncoder record(RecordKind::kImage, image.identity.generation.store_id, out);
  Encoder& encoder = record.encoder();
  EncodeFields(encoder, image.identity);
  encoder.String(image.group);
  encoder.I64(image.wall_time_ns);
  encoder.U8(0);  // flags
  encoder.Varint(image.regions.size());
  for (const Region& region : image.regions) EncodeRegion(encoder, region);
  encoder.Varint(image.objects.size());
  for (const std::string& object : image.objects) encoder.String(object);
  encoder.Varint(image.chunks.size());
  for (const Chunk& chunk : image.chunks) {
    encoder.Varint(chunk.object);
    encoder.Varint(chunk.object_offset);
    encoder.Varint(chunk.bytes);
  }
  encoder.Varint(image.extents.size());
  Cursor cursor;
  for (const Extent& extent : image.extents) EncodeExtent(encoder, extent, &cursor);
  encoder.Varint(image.annotations.size());
  for (const Annotation& annotation : image.annotations) {
    encoder.String(annotation.key);
    encoder.String(annotation.value);
  }
  record.Finish();
  return Status::Ok();
}

Result<ImageRecord> DecodeImageRecord(ByteSpan bytes) {
  KEDGE_ASSIGN_OR_RETURN(const Record record, OpenRecord(bytes, RecordKind::kImage));
  Decoder decoder(record.payload);
  ImageRecord image;
  DecodeFields(decoder, record.store_id, &image.identity);
  image.group = decoder.String(kNameBytesMax);
  image.wall_time_ns = decoder.I64();
  decoder.Require(decoder.U8() == 0, "unknown flags");
  const size_t regions = decoder.Count(kRegionBytesMin);
  image.regions.resize(regions);
  for (size_t i = 0; i < regions && decoder.ok(); ++i) DecodeRegion(decoder, &image.regions[i]);
  DecodeChunks(decoder, &image);
  if (decoder.ok()) DecodeExtents(decoder, &image);
  DecodeAnnotations(decoder, &image);
  KEDGE_RETURN_IF_ERROR(decoder.Finish(RecordKindName(record.kind)));
  return image;
}

}  // namespace kedge
