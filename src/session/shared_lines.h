// Memory in which an agent shows its ranks what several of them need of an object in a far store (messages.h,
// ShareObjectsRequest).
//
// Made by the agent, without a path; it goes with its last user. A line holds one aligned piece of one object. The agent may give
// a line to another piece at any time: it puts 0 into the line's sequence before it overwrites it, and a number that was never
// there afterwards. A reader copies out and then looks whether the number is still the one that it was told: if not, it asks
// again.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/status.h"

namespace kedge {

inline constexpr uint32_t kSharedLines = 64;
inline constexpr uint64_t kSharedLineBytes = 512 << 10;

struct SharedLinesHead {
  std::atomic<uint64_t> sequences[kSharedLines];  // from the agent; 0: it is being written, or holds nothing
};
inline constexpr uint64_t kSharedLinesHeadBytes = 4096;
static_assert(sizeof(SharedLinesHead) <= kSharedLinesHeadBytes);
inline constexpr uint64_t kSharedLinesBytes = kSharedLinesHeadBytes + kSharedLines * kSharedLineBytes;

// Views of such memory, of kSharedLinesBytes. REQUIRES: place < kSharedLines.
inline std::atomic<uint64_t>& SharedLineSequence(std::byte* memory, uint32_t place) {
  return reinterpret_cast<SharedLinesHead*>(memory)->sequences[place];
}
inline std::byte* SharedLine(std::byte* memory, uint32_t place) {
  return memory + kSharedLinesHeadBytes + place * kSharedLineBytes;
}

// What was read before it is not read after it. GCC's ThreadSanitizer knows no fences, nor what other processes do.
inline void FenceReads() {
#ifdef __SANITIZE_THREAD__
  std::atomic_signal_fence(std::memory_order_acquire);
#else
  std::atomic_thread_fence(std::memory_order_acquire);
#endif
}

// Copies from `within` the line on; false: it holds something else by now, and `out` anything. REQUIRES: all of that is in the
// line.
inline bool CopySharedLine(std::byte* memory, uint32_t place, uint64_t sequence, uint64_t within, std::span<std::byte> out) {
  if (SharedLineSequence(memory, place).load(std::memory_order_acquire) != sequence) return false;
  std::memcpy(out.data(), SharedLine(memory, place) + within, out.size());
  FenceReads();
  return SharedLineSequence(memory, place).load(std::memory_order_relaxed) == sequence;
}

}  // namespace kedge
