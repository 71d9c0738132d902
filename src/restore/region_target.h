// Where what is read of a region goes: all of it as it is, or the boxes of an array that are wanted of it.
//
// A region is read part by part. Of each part the target says where it goes as it is, or takes what it wants out of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "format/wire.h"
#include "restore/array_boxes.h"

namespace kedge {

// Thread safe as long as what it is asked for does not overlap.
struct RegionTarget {
  uint32_t region = 0;  // index into the record's regions
  std::byte* memory = nullptr;
  uint64_t first = 0;  // the region's byte that goes to the begin of the memory, where there are no boxes
  // From the region to the memory. None: all of it, as it is. REQUIRES: they do not overlap.
  std::vector<CommonRuns> boxes = {};

  // Of the region's bytes from `begin` to `end`: whether any is wanted; as many of the first ones as go as they are, and where.
  bool Wants(uint64_t begin, uint64_t end) const;
  std::span<std::byte> Whole(uint64_t begin, uint64_t end) const;
  // Copies what is wanted of `part`, which begins there, past the cache (base/staged_copy.h); how much that is.
  uint64_t Take(uint64_t begin, ByteSpan part) const;
};

// What a target wants of a part of its region, in the order in which it lies there. The target outlives it.
class WantedRuns {
 public:
  // Of the region's bytes from `begin` to `end`.
  WantedRuns(const RegionTarget& target, uint64_t begin, uint64_t end);
  // `from` counts from the region's begin. Nothing: there are no more.
  std::optional<ByteRun> Next();

 private:
  struct Box {
    CommonRuns runs;
    std::optional<ByteRun> next;
  };
  const uint64_t begin_;
  const uint64_t end_;
  std::vector<Box> boxes_;
  std::optional<ByteRun> whole_;  // where there are no boxes
};

// Memory for parts that go nowhere as they are. It is faulted in once, and kept from part to part and from image to image: new
// pages cost several times what the copy does. Thread safe.
class PartBuffers {
 public:
  static constexpr uint64_t kBytes = 512 << 10;

  // Gives the memory back when it goes.
  class Buffer {
   public:
    explicit Buffer(PartBuffers* owner) : owner_(owner) {}
    ~Buffer();
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    // kBytes, taken at the first call.
    std::byte* data();

   private:
    PartBuffers* const owner_;
    std::unique_ptr<std::byte[]> memory_;
  };

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<std::byte[]>> free_;
};

}  // namespace kedge
