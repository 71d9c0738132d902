// CopyAndChecksum: three ways to read the source once.
//
// Small copies go block by block through the cache: memcpy, then ISA-L over what was just written.
//
// Large ones are bound by memory, and a checkpoint's slot is not in the cache. There the copy is stored past the cache, which
// spares reading the line that is overwritten, in one of two ways:
//   - by lanes: each cache line is loaded into registers once, stored from them and fed to the CRC32 instruction. Four pages are
//     copied side by side: the instruction has a latency of three and a throughput of one, and four streams keep more memory
//     busy than one. On an Intel Xeon as fast as glibc's memcpy alone, or faster; on an AMD EPYC 0.7 of it.
//   - staged: 4 KiB are copied to the first-level cache, stored from there, and summed by ISA-L there. The processor reads the
//     next ones while it still stores these. On that EPYC 1.3 times memcpy.
// Either way the checksum is of exactly the bytes that were stored. Which one is faster here the first large copies tell.
//
// CopyPastCache brings rows of what is in the cache to memory.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>

#include "base/crc32c.h"
#include "base/crc32c_polynomial.h"
#include "base/staged_copy.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define KEDGE_STREAMING_COPY 1
#endif

namespace kedge::crc32c {
namespace {

constexpr size_t kBlockBytes = 16 * 1024;

uint32_t CopyThroughCache(unsigned char* to, const unsigned char* from, size_t bytes, uint32_t crc) {
  while (bytes > 0) {
    const size_t part = std::min(bytes, kBlockBytes);
    std::memcpy(to, from, part);
    crc = Extend(crc, to, part);
    to += part;
    from += part;
    bytes -= part;
  }
  return crc;
}

#ifdef KEDGE_STREAMING_COPY

// Below this a destination that is still in the cache (a small checkpoint's slot, written again and again) loses more
// by being pushed out than one that is not gains.
constexpr size_t kStreamingBytesMin = 256 * 1024;
// Below this the lines at both ends of a row, which others have a part of, cost more than the rest gains.
constexpr size_t kStreamedRowBytesMin = 512;
constexpr size_t kLineBytes = 64;
constexpr size_t kLaneBytes = 4096;
constexpr size_t kLanes = 4;
constexpr size_t kPrefetchBytes = 512;
constexpr size_t kStageBytes = 4096;

#define KEDGE_STREAMING_TARGET __attribute__((target("avx2,sse4.2")))

// Copies one cache line and returns `crc` (not inverted) extended by it.
KEDGE_STREAMING_TARGET __attribute__((always_inline)) inline uint64_t StreamLine(unsigned char* to, const unsigned char* from,
                                                                                 uint64_t crc) {
  _mm_prefetch(reinterpret_cast<const char*>(from + kPrefetchBytes), _MM_HINT_T0);  // past the end too: it never faults
  for (size_t half = 0; half < kLineBytes; half += 32) {
    const __m256i data = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + half));
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + half), data);
    const __m128i low = _mm256_castsi256_si128(data);
    const __m128i high = _mm256_extracti128_si256(data, 1);
    crc = _mm_crc32_u64(crc, static_cast<uint64_t>(_mm_cvtsi128_si64(low)));
    crc = _mm_crc32_u64(crc, static_cast<uint64_t>(_mm_extract_epi64(low, 1)));
    crc = _mm_crc32_u64(crc, static_cast<uint64_t>(_mm_cvtsi128_si64(high)));
    crc = _mm_crc32_u64(crc, static_cast<uint64_t>(_mm_extract_epi64(high, 1)));
  }
  return crc;
}

// `to` is aligned to 32 bytes, `bytes` a multiple of kLanes * kLaneBytes.
KEDGE_STREAMING_TARGET uint32_t StreamLanes(unsigned char* to, const unsigned char* from, size_t bytes, uint32_t crc) {
  static constexpr ShiftTable kAppendLane(kLaneBytes);
  uint32_t state = ~crc;
  for (size_t offset = 0; offset < bytes; offset += kLanes * kLaneBytes) {
    uint64_t lane0 = state;
    uint64_t lane1 = 0;
    uint64_t lane2 = 0;
    uint64_t lane3 = 0;
    for (size_t i = offset; i < offset + kLaneBytes; i += kLineBytes) {
      lane0 = StreamLine(to + i, from + i, lane0);
      lane1 = StreamLine(to + i + kLaneBytes, from + i + kLaneBytes, lane1);
      lane2 = StreamLine(to + i + 2 * kLaneBytes, from + i + 2 * kLaneBytes, lane2);
      lane3 = StreamLine(to + i + 3 * kLaneBytes, from + i + 3 * kLaneBytes, lane3);
    }
    state = kAppendLane.Shift(static_cast<uint32_t>(lane0)) ^ static_cast<uint32_t>(lane1);
    state = kAppendLane.Shift(state) ^ static_cast<uint32_t>(lane2);
    state = kAppendLane.Shift(state) ^ static_cast<uint32_t>(lane3);
  }
  // Streaming stores are not ordered with the stores that later publish the copy; this orders them.
  _mm_sfence();
  return ~state;
}

// `to` is aligned to 32 bytes, `bytes` a multiple of a line.
KEDGE_STREAMING_TARGET inline void StreamLines(unsigned char* to, const unsigned char* from, size_t bytes) {
  for (size_t at = 0; at < bytes; at += 32) {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + at), _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + at)));
  }
}

// The same, through a buffer; `bytes` a multiple of kStageBytes.
KEDGE_STREAMING_TARGET uint32_t StreamStaged(unsigned char* to, const unsigned char* from, size_t bytes, uint32_t crc) {
  alignas(kLineBytes) unsigned char stage[kStageBytes];
  for (size_t offset = 0; offset < bytes; offset += kStageBytes) {
    std::memcpy(stage, from + offset, kStageBytes);
    StreamLines(to + offset, stage, kStageBytes);
    crc = Extend(crc, stage, kStageBytes);
  }
  _mm_sfence();
  return crc;
}

// Which way large copies go. The first pieces go both ways in turn, and the shortest time of each tells: neither a new page nor
// somebody else on the processor makes one shorter.
class StreamingWay {
 public:
  uint32_t Copy(unsigned char* to, const unsigned char* from, size_t bytes, uint32_t crc) {
    while (bytes >= kPieceBytes && !chosen_.load(std::memory_order_relaxed)) {
      const uint32_t number = tried_.fetch_add(1, std::memory_order_relaxed);
      const auto begin = std::chrono::steady_clock::now();
      crc = number % 2 == 0 ? StreamLanes(to, from, kPieceBytes, crc) : StreamStaged(to, from, kPieceBytes, crc);
      Note(number, (std::chrono::steady_clock::now() - begin).count());
      to += kPieceBytes;
      from += kPieceBytes;
      bytes -= kPieceBytes;
    }
    const bool is_staged = chosen_.load(std::memory_order_acquire) && is_staged_.load(std::memory_order_relaxed);
    return is_staged ? StreamStaged(to, from, bytes, crc) : StreamLanes(to, from, bytes, crc);
  }

 private:
  static constexpr size_t kPieceBytes = 256 * 1024;
  static constexpr uint32_t kPieces = 64;

  void Note(uint32_t number, int64_t took) {
    std::atomic<int64_t>& best = best_[number % 2];
    for (int64_t known = best.load(); took < known && !best.compare_exchange_weak(known, took);) {
    }
    if (number + 1 < kPieces) return;
    is_staged_.store(best_[1].load() < best_[0].load(), std::memory_order_relaxed);
    chosen_.store(true, std::memory_order_release);
  }

  std::atomic<bool> chosen_{false}, is_staged_{false};
  std::atomic<uint32_t> tried_{0};
  std::atomic<int64_t> best_[2] = {INT64_MAX, INT64_MAX};
};
StreamingWay streaming_way;

KEDGE_STREAMING_TARGET void StreamRow(unsigned char* to, const unsigned char* from, size_t bytes) {
  const size_t head_bytes = std::min(bytes, (0 - reinterpret_cast<uintptr_t>(to)) % kLineBytes);
  // Of its last line only a part is written: that it is there by then spares all stores behind it a wait.
  _mm_prefetch(reinterpret_cast<const char*>(to + bytes - 1), _MM_HINT_T0);
  std::memcpy(to, from, head_bytes);
  const size_t lines_bytes = (bytes - head_bytes) / kLineBytes * kLineBytes;
  StreamLines(to + head_bytes, from + head_bytes, lines_bytes);
  const size_t at = head_bytes + lines_bytes;
  std::memcpy(to + at, from + at, bytes - at);
}

bool CanStream() {
  static const bool can = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("sse4.2");
  return can;
}

#endif

}  // namespace

uint32_t CopyAndChecksum(void* dst, const void* src, size_t bytes, uint32_t crc, [[maybe_unused]] size_t of_bytes) {
  auto* to = static_cast<unsigned char*>(dst);
  const auto* from = static_cast<const unsigned char*>(src);
#ifdef KEDGE_STREAMING_COPY
  if (std::max(bytes, of_bytes) >= kStreamingBytesMin && CanStream()) {
    const size_t head_bytes = std::min(bytes, (0 - reinterpret_cast<uintptr_t>(to)) % kLineBytes);
    crc = CopyThroughCache(to, from, head_bytes, crc);
    const size_t streamed_bytes = (bytes - head_bytes) / (kLanes * kLaneBytes) * (kLanes * kLaneBytes);
    crc = streaming_way.Copy(to + head_bytes, from + head_bytes, streamed_bytes, crc);
    to += head_bytes + streamed_bytes;
    from += head_bytes + streamed_bytes;
    bytes -= head_bytes + streamed_bytes;
  }
#endif
  return CopyThroughCache(to, from, bytes, crc);
}

uint32_t CopyInOneWay([[maybe_unused]] bool is_staged, void* dst, const void* src, size_t bytes, uint32_t crc) {
  auto* to = static_cast<unsigned char*>(dst);
  const auto* from = static_cast<const unsigned char*>(src);
#ifdef KEDGE_STREAMING_COPY
  if (CanStream()) return is_staged ? StreamStaged(to, from, bytes, crc) : StreamLanes(to, from, bytes, crc);
#endif
  return CopyThroughCache(to, from, bytes, crc);
}

void CopyPastCache(void* dst, const void* src, size_t bytes) {
#ifdef KEDGE_STREAMING_COPY
  if (bytes >= kStreamedRowBytesMin && CanStream()) {
    return StreamRow(static_cast<unsigned char*>(dst), static_cast<const unsigned char*>(src), bytes);
  }
#endif
  std::memcpy(dst, src, bytes);
}

void OrderCopiesPastCache() {
#ifdef KEDGE_STREAMING_COPY
  _mm_sfence();
#endif
}

}  // namespace kedge::crc32c
