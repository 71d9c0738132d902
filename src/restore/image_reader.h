// Reads the regions of one image, each extent from the nearest good copy, straight into the caller's memory: all of a region, or
// what is wanted of it.
//
// Sources are tried in the order given. A copy whose checksum is wrong, or that cannot be read, is counted, logged and passed
// over; the next source is tried for the same extent. From mapped memory the copy and the check are one pass; from devices
// they are read in order, one after the other, and parts of an extent at once where they are decompressed. An extent of which
// only some bytes are wanted is checked whole, and they are taken out of each part while it is in the cache. A wrong byte is
// never reported as success.
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
#include "restore/region_target.h"

namespace kedge {

struct RestoredBytes {
  // What has got into the caller's memory.
  uint64_t memory = 0;
  uint64_t directory = 0;
  uint64_t store = 0;
  uint64_t corrupt_copies = 0;  // copies of extents that were passed over
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

  // Reads what these want. kCorrupt or the device's error when an extent has no good copy: it names the region, the offset and
  // every copy that was tried. The targets' memory is then undefined. REQUIRES: `buffers`, where one has boxes.
  Status ReadRegions(const std::vector<RegionTarget>& targets, PartBuffers* buffers = nullptr);
  // One extent, into extent.bytes of memory.
  Status ReadExtent(uint32_t extent, std::byte* to);
  // The region's extents: [first, last).
  std::pair<uint32_t, uint32_t> ExtentsOf(uint32_t region) const { return {first_extent_[region], first_extent_[region + 1]}; }

  RestoredBytes restored() const;

 private:
  struct Work {
    uint32_t extent = 0;
    const RegionTarget* target = nullptr;
    PartBuffers* buffers = nullptr;
  };
  // Adds up what has got to its target.
  Status ReadExtent(const Work& work);
  Status ReadFrom(ChunkSource& source, const Work& work, std::atomic<uint64_t>* taken);
  // The checksum of what was read.
  uint32_t ReadMemory(const std::byte* from, const Work& work, std::atomic<uint64_t>* taken);
  Result<uint32_t> ReadDevice(ChunkSource& source, const Work& work, std::atomic<uint64_t>* taken);
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
