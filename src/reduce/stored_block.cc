#include "reduce/stored_block.h"

#include <blosc.h>
#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "base/crc32c.h"
#include "format/block_map.h"

namespace kedge::reduce {

namespace {

// Stands before the buffer of c-blosc.
struct Header {
  uint32_t stored_crc32c = 0;  // of all that follows it
  uint32_t block_crc32c = 0;
  uint32_t block_bytes = 0;
  uint32_t stored_bytes = 0;  // with the header
};
static_assert(std::endian::native == std::endian::little && sizeof(Header) == 16);
static_assert(sizeof(Header) + BLOSC_MAX_OVERHEAD == kStoredBlockOverheadBytes);

constexpr size_t kBloscFlagsAt = 2;
constexpr size_t kBloscElementBytesAt = 3;
constexpr int kBloscFormatShift = 5;
// From 1 to 9: of lz4 c-blosc's own choice; of zstd the fastest, which is slow enough (docs/performance.md).
constexpr int kLz4Effort = 5;
constexpr int kZstdEffort = 1;

uint32_t StoredChecksum(ByteSpan stored) {
  const ByteSpan covered = stored.subspan(sizeof(Header::stored_crc32c));
  return crc32c::Compute(covered.data(), covered.size());
}

int BloscFilter(Filter filter) {
  switch (filter) {
    case Filter::kNone: return BLOSC_NOSHUFFLE;
    case Filter::kShuffle: return BLOSC_SHUFFLE;
    case Filter::kBitShuffle: return BLOSC_BITSHUFFLE;
  }
  return BLOSC_NOSHUFFLE;
}

// What c-blosc does not look at itself before it goes by it.
bool IsOurBuffer(ByteSpan buffer, size_t block_bytes) {
  size_t holds = 0;
  if (buffer.size() < BLOSC_MIN_HEADER_LENGTH || blosc_cbuffer_validate(buffer.data(), buffer.size(), &holds) != 0) return false;
  const int format = std::to_integer<uint8_t>(buffer[kBloscFlagsAt]) >> kBloscFormatShift;
  return holds == block_bytes && (format == BLOSC_LZ4_FORMAT || format == BLOSC_ZSTD_FORMAT) &&
         buffer[kBloscElementBytesAt] != std::byte{0};
}

Status Corrupt(const std::string& what) {
  return Status(Code::kCorrupt, "a compressed block " + what);
}

}  // namespace

Result<size_t> StoreBlock(ByteSpan block, const CodecSettings& settings, std::span<std::byte> out) {
  KEDGE_CHECK(!block.empty() && block.size() <= kMapBlockBytesMax && out.size() >= block.size() + kStoredBlockOverheadBytes);
  const bool is_lz4 = settings.compressor == Compressor::kLz4;
  const int compressed = blosc_compress_ctx(is_lz4 ? kLz4Effort : kZstdEffort, BloscFilter(settings.filter),
                                            settings.element_bytes, block.size(), block.data(), out.data() + sizeof(Header),
                                            block.size() + BLOSC_MAX_OVERHEAD, is_lz4 ? BLOSC_LZ4_COMPNAME : BLOSC_ZSTD_COMPNAME,
                                            /*blocksize=*/0, /*numinternalthreads=*/1);
  if (compressed <= 0) return Status(Code::kNoSpace, fmt::format("no memory to compress {} bytes", block.size()));
  const size_t stored_bytes = sizeof(Header) + static_cast<size_t>(compressed);
  Header header;
  header.block_crc32c = crc32c::Compute(block.data(), block.size());
  header.block_bytes = static_cast<uint32_t>(block.size());
  header.stored_bytes = static_cast<uint32_t>(stored_bytes);
  std::memcpy(out.data(), &header, sizeof(header));
  header.stored_crc32c = StoredChecksum(out.first(stored_bytes));
  std::memcpy(out.data(), &header, sizeof(header));
  return stored_bytes;
}

Status LoadBlock(ByteSpan stored, std::span<std::byte> block) {
  Header header;
  if (stored.size() < sizeof(header)) return Corrupt(fmt::format("of {} bytes", stored.size()));
  std::memcpy(&header, stored.data(), sizeof(header));
  const uint32_t found = StoredChecksum(stored);
  if (found != header.stored_crc32c) {
    return Corrupt(
        fmt::format("of {} bytes: checksum {:08x} expected, {:08x} found", stored.size(), header.stored_crc32c, found));
  }
  if (header.stored_bytes != stored.size() || header.block_bytes != block.size()) {
    return Corrupt(fmt::format("of {} bytes for {} is where one of {} for {} should be", header.stored_bytes, header.block_bytes,
                               stored.size(), block.size()));
  }
  const ByteSpan buffer = stored.subspan(sizeof(header));
  if (!IsOurBuffer(buffer, block.size()) || blosc_decompress_ctx(buffer.data(), block.data(), block.size(),
                                                                 /*numinternalthreads=*/1) != static_cast<int>(block.size())) {
    return Corrupt("cannot be decompressed");
  }
  if (crc32c::Compute(block.data(), block.size()) != header.block_crc32c) return Corrupt("is another one when decompressed");
  return Status::Ok();
}

}  // namespace kedge::reduce
