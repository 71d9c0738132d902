// The image record: what one rank's image holds and where its bytes lie.
//
// An image is regions, cut into extents, which lie in chunks, which lie in objects. The record is a chunk of its own,
// after the others, so that an image carries its description to every level. Extents are kept in order: those of region
// 0 first, from its first byte to its last without a gap, then those of region 1, ... So the encoding needs no region
// index and no region offset, and a record that decodes covers every byte of every region exactly once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "format/identity.h"
#include "format/wire.h"

namespace kedge {

inline constexpr size_t kDimensionsMax = 15;         // what Fortran allows
inline constexpr size_t kRegionNameBytesMax = 4096;  // room for a file's path
inline constexpr size_t kObjectKeyBytesMax = 1024;
inline constexpr size_t kAnnotationKeyBytesMax = 1023;

// The numbers of kedge_type in kedge.h, and part of the format.
enum class ElementType : uint8_t {
  kBytes = 0,
  kInt8 = 1,
  kInt16 = 2,
  kInt32 = 3,
  kInt64 = 4,
  kUint8 = 5,
  kUint16 = 6,
  kUint32 = 7,
  kUint64 = 8,
  kFloat16 = 9,
  kBfloat16 = 10,
  kFloat32 = 11,
  kFloat64 = 12,
  kComplex64 = 13,
  kComplex128 = 14,
  kBool = 15,
};
inline constexpr uint8_t kElementTypeMax = 15;
const char* ElementTypeName(ElementType type);  // "float64"

enum class MemoryKind : uint8_t { kHost = 0, kDevice = 1 };

// What the bytes of a region are.
enum class RegionKind : uint8_t {
  kMemory = 0,  // declared memory
  kObject = 1,  // what a serializer wrote
  kFile = 2,    // the content of a routed file: `name` is its original path, `file_mode` its permission bits
};

struct Region {
  int32_t id = 0;  // the application's; unique among regions of one kind. Of files: their order, from 0
  RegionKind kind = RegionKind::kMemory;
  MemoryKind memory = MemoryKind::kHost;
  ElementType type = ElementType::kBytes;
  bool column_major = false;
  std::string name;            // empty: none
  uint64_t element_bytes = 1;  // >= 1
  uint64_t bytes = 0;
  // Empty: unknown. Otherwise at most kDimensionsMax entries >= 0 whose product is bytes / element_bytes.
  std::vector<int64_t> shape;
  // Empty: not part of a global array. Otherwise as many entries as `shape`, all >= 0; the part lies within the array.
  std::vector<int64_t> global_shape;
  std::vector<int64_t> global_offset;
  // Empty: none. Otherwise as many entries as `shape`: so many elements on both sides of it are no part of the array.
  std::vector<int64_t> halo;
  uint32_t file_mode = 0;

  friend bool operator==(const Region&, const Region&) = default;
};

// Regions of memory with ids up to kBlockIdMax are blocks of the heap (kedge_alloc), in an image of the default group whose
// annotation kHeapKey is the address at which the heap begins.
inline constexpr int kBlockIdMax = -(1 << 30);
inline constexpr char kHeapKey[] = "kedge.heap";

inline bool IsHeapBlock(const Region& region) {
  return region.kind == RegionKind::kMemory && region.id <= kBlockIdMax;
}

// Object offsets of chunks (and their offsets within a slot), and of the image record, are multiples of this.
inline constexpr uint64_t kChunkAlignment = 4096;

inline constexpr uint64_t AlignChunkOffset(uint64_t offset) {
  return (offset + kChunkAlignment - 1) / kChunkAlignment * kChunkAlignment;
}

// At most `chunk.bytes`, in one slot on the node, at one place of one object in the store.
struct Chunk {
  uint32_t object = 0;  // 0: the image's own object; else 1 + index into ImageRecord::objects
  uint64_t object_offset = 0;
  uint64_t bytes = 0;

  friend bool operator==(const Chunk&, const Chunk&) = default;
};

// A piece of a region inside a chunk; what is verified as one.
struct Extent {
  uint32_t region = 0;  // index into ImageRecord::regions
  uint64_t region_offset = 0;
  uint64_t bytes = 0;  // > 0
  uint32_t chunk = 0;  // index into ImageRecord::chunks
  uint64_t chunk_offset = 0;
  uint32_t crc32c = 0;

  friend bool operator==(const Extent&, const Extent&) = default;
};

struct Annotation {
  std::string key;    // 1 to kAnnotationKeyBytesMax bytes
  std::string value;  // any bytes
  friend bool operator==(const Annotation&, const Annotation&) = default;
};

struct ImageRecord {
  ImageIdentity identity;
  std::string group;  // the named group of regions; empty: the default group
  int64_t wall_time_ns = 0;
  std::vector<Region> regions;
  // Keys, relative to the job's folder in the store, of objects other than the image's own that hold whole chunks: those that
  // were written through. Of blocks that lie in another version's object the block map tells (block_map.h).
  std::vector<std::string> objects;
  std::vector<Chunk> chunks;
  std::vector<Extent> extents;
  std::vector<Annotation> annotations;

  // The sum of the regions.
  uint64_t RegionBytes() const;
  // Of each region the CRC32C of all its bytes.
  std::vector<uint32_t> RegionChecksums() const;
  friend bool operator==(const ImageRecord&, const ImageRecord&) = default;
};

// Whether a region's fields are within the bounds given above. For the client to ask when a region is declared, since
// EncodeImageRecord asks for all of it again, but can then only fail the checkpoint.
Status ValidateRegion(const Region& region);

// Appends the record to `out`. Allocates nothing when `out` has the capacity; about 0.2 microseconds for a few regions.
// On the blocked path: keep one ImageRecord and one Buffer, and change what changes. kInternal, with `out` as it was:
// the record breaks an invariant given above (extents out of order or outside their chunk, ...), a mistake of the
// caller.
Status EncodeImageRecord(const ImageRecord& image, Buffer* out);

// `record` is the whole record and nothing else. Every invariant given above holds for what is returned.
Result<ImageRecord> DecodeImageRecord(ByteSpan record);

}  // namespace kedge
