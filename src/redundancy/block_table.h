// Checksums of a stream or a parity object, block by block: what tells a right block from a wrong one on any node.
//
// A table is made once, where the bytes are, in one pass; every block that is read over the network, or from a tier for
// encoding or rebuilding, is held against it before it is used, so that a flipped byte is found and never spreads.
#pragma once

#include <cstdint>
#include <optional>

#include "base/status.h"
#include "format/set_records.h"

namespace kedge::redundancy {

// Makes a table of bytes that come by in order. Not thread safe.
class BlockTableBuilder {
 public:
  // `block_bytes` as BlockTable's.
  BlockTableBuilder(uint64_t bytes, uint32_t block_bytes);

  // The next bytes; all together no more than announced.
  void Add(ByteSpan bytes);
  void AddZeros(uint64_t bytes);
  // The next bytes by their checksum (crc32c::Compute of them); they must not cross the end of a block.
  void AddChecksummed(uint32_t crc32c, uint64_t bytes);
  // How many of the next bytes belong to the present block.
  uint64_t LeftInBlock() const;
  uint64_t added() const { return added_; }
  // Of the blocks that are whole: the offset of the first, not before `offset`, that `expected` has another checksum of.
  std::optional<uint64_t> FirstDifference(const BlockTable& expected, uint64_t offset) const;

  // All bytes have been added.
  BlockTable Finish();

 private:
  BlockTable table_;
  uint64_t added_ = 0;
};

// The length of the block at `offset` (a multiple of the block size, less than table.bytes).
uint32_t BlockLength(const BlockTable& table, uint64_t offset);

// Whether `block`, all of the block at `offset`, has its checksum.
bool BlockIsRight(const BlockTable& table, uint64_t offset, ByteSpan block);

// The offset of the first block that does not have its checksum; none: all are right. `bytes` are whole blocks from `offset` on,
// to the end of one or of all.
std::optional<uint64_t> FirstWrongBlock(const BlockTable& table, uint64_t offset, ByteSpan bytes);

// The same bytes in larger blocks; `block_bytes` is at least table.block_bytes. From the checksums alone.
BlockTable Coarsen(const BlockTable& table, uint32_t block_bytes);

}  // namespace kedge::redundancy
