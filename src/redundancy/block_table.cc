#include "redundancy/block_table.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/crc32c.h"

namespace kedge::redundancy {

BlockTableBuilder::BlockTableBuilder(uint64_t bytes, uint32_t block_bytes) {
  KEDGE_CHECK(std::has_single_bit(block_bytes) && block_bytes >= kBlockBytesMin && block_bytes <= kBlockBytesMax);
  table_.bytes = bytes;
  table_.block_bytes = block_bytes;
  table_.crc32c.assign(table_.BlockCount(), 0);
}

uint64_t BlockTableBuilder::LeftInBlock() const {
  const uint64_t end = std::min(table_.bytes, (added_ / table_.block_bytes + 1) * table_.block_bytes);
  return end - added_;
}

void BlockTableBuilder::Add(ByteSpan bytes) {
  while (!bytes.empty()) {
    const uint64_t part = std::min<uint64_t>(bytes.size(), LeftInBlock());
    KEDGE_CHECK(part > 0);
    uint32_t& crc = table_.crc32c[added_ / table_.block_bytes];
    crc = crc32c::Extend(crc, bytes.data(), part);
    added_ += part;
    bytes = bytes.subspan(part);
  }
}

void BlockTableBuilder::AddZeros(uint64_t bytes) {
  static constexpr std::byte kZeros[4096] = {};
  while (bytes > 0) {
    const uint64_t part = std::min<uint64_t>(bytes, sizeof(kZeros));
    Add(ByteSpan(kZeros, part));
    bytes -= part;
  }
}

void BlockTableBuilder::AddChecksummed(uint32_t crc32c, uint64_t bytes) {
  if (bytes == 0) return;
  KEDGE_CHECK(bytes <= LeftInBlock());
  uint32_t& crc = table_.crc32c[added_ / table_.block_bytes];
  crc = added_ % table_.block_bytes == 0 ? crc32c : crc32c::Combine(crc, crc32c, bytes);
  added_ += bytes;
}

std::optional<uint64_t> BlockTableBuilder::FirstDifference(const BlockTable& expected, uint64_t offset) const {
  KEDGE_CHECK(expected.bytes == table_.bytes && expected.block_bytes == table_.block_bytes);
  const uint64_t whole = added_ == table_.bytes ? table_.BlockCount() : added_ / table_.block_bytes;
  for (uint64_t block = offset / table_.block_bytes; block < whole; ++block) {
    if (table_.crc32c[block] != expected.crc32c[block]) return block * table_.block_bytes;
  }
  return std::nullopt;
}

BlockTable BlockTableBuilder::Finish() {
  KEDGE_CHECK(added_ == table_.bytes);
  return std::move(table_);
}

uint32_t BlockLength(const BlockTable& table, uint64_t offset) {
  KEDGE_CHECK(offset < table.bytes && offset % table.block_bytes == 0);
  return static_cast<uint32_t>(std::min<uint64_t>(table.block_bytes, table.bytes - offset));
}

bool BlockIsRight(const BlockTable& table, uint64_t offset, ByteSpan block) {
  return block.size() == BlockLength(table, offset) &&
         crc32c::Compute(block.data(), block.size()) == table.crc32c[offset / table.block_bytes];
}

std::optional<uint64_t> FirstWrongBlock(const BlockTable& table, uint64_t offset, ByteSpan bytes) {
  for (uint64_t at = 0; at < bytes.size(); at += table.block_bytes) {
    if (!BlockIsRight(table, offset + at, bytes.subspan(at, std::min<uint64_t>(table.block_bytes, bytes.size() - at))))
      return offset + at;
  }
  return std::nullopt;
}

BlockTable Coarsen(const BlockTable& table, uint32_t block_bytes) {
  KEDGE_CHECK(block_bytes >= table.block_bytes);
  BlockTableBuilder builder(table.bytes, block_bytes);
  for (uint64_t offset = 0; offset < table.bytes; offset += table.block_bytes) {
    builder.AddChecksummed(table.crc32c[offset / table.block_bytes], BlockLength(table, offset));
  }
  return builder.Finish();
}

}  // namespace kedge::redundancy
