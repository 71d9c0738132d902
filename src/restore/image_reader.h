// Reads the regions of one image, each extent from the nearest good copy, straight into the caller's memory.
//
// Sources are tried in the order given. A copy whose checksum is wrong, or that cannot be read, is counted, logged and passed
// over; the next source is tried for the same extent. From mapped memory the copy and the check are one pass; from devices
// they are read in order, one after the other, and parts of an extent at once where they are decompressed. A wrong byte is never
// reported as success.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/status.h"
#include "format/image_record.h"
#include "restore/chunk_source.h"

namespace kedge {

struct RestoredBytes {
  uint64_t memory = 0;
  uint64_t directory = 0;
  uint64_t store = 0;
  uint64_t corrupt_copies = 0;  // copies of extents that were passed over
};

// Where a region goes: all of it.
struct RegionTarget {
  uint32_t region = 0;  // index into the record's regions
  std::byte* memory = nullptr;
};

class ImageReader {
 public:
  // Sources nearest first; at least one has each chunk, or reading it fails. Up to `threads` copy from mapped memory, or
  // decompress.
  ImageReader(ImageRecord record, std::vector<std::unique_ptr<ChunkSource>> sources, size_t threads = 1);

  const ImageRecord& record() const { return record_; }
  // The index of a region (or object) by its id, or of a routed file by its path; -1: not in the image.
  int FindRegion(int32_t id) const;
  int FindFile(const std::string& path) const;

  // Reads these regions whole. kCorrupt or the device's error when an extent has no good copy: it names the region, the
  // offset and every copy that was tried. The targets' memory is then undefined.
  Status ReadRegions(const std::vector<RegionTarget>& targets);
  // One extent, into extent.bytes of memory.
  Status ReadExtent(uint32_t extent, std::byte* to);
  // The region's extents: [first, last).
  std::pair<uint32_t, uint32_t> ExtentsOf(uint32_t region) const { return {first_extent_[region], first_extent_[region + 1]}; }

  RestoredBytes restored() const;

 private:
  struct Work {
    uint32_t extent;
    std::byte* to;
  };
  Status ReadFrom(ChunkSource& source, const Extent& extent, std::byte* to);
  // The checksum of what was read.
  Result<uint32_t> ReadDevice(ChunkSource& source, const Extent& extent, std::byte* to);
  bool InMemory(const Extent& extent) const;
  Status RunWork(const std::vector<Work>& work, size_t threads);
  void Count(SourceKind kind, uint64_t bytes);

  const ImageRecord record_;
  const std::vector<std::unique_ptr<ChunkSource>> sources_;
  const size_t threads_;
  std::vector<uint32_t> first_extent_;           // by region, and one more
  std::unordered_map<int32_t, uint32_t> by_id_;  // regions and objects
  std::atomic<uint64_t> memory_bytes_{0};
  std::atomic<uint64_t> directory_bytes_{0};
  std::atomic<uint64_t> store_bytes_{0};
  std::atomic<uint64_t> corrupt_copies_{0};
};

}  // namespace kedge
