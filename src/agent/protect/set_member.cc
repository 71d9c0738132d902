#include "agent/protect/set_member.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "reduce/fingerprint.h"
#include "redundancy/geometry.h"

namespace kedge {
namespace {

// So that what members tell each other stays small beside their images.
constexpr uint64_t kNaturalBlocksMax = 16 << 10;
// Natural blocks begin at multiples of the table's blocks. A table has no more of these for each of them.
constexpr uint32_t kTableBlocksEach = 16;

bool MayHaveNatural(const Chunk& chunk, uint32_t natural_block_bytes) {
  const uint64_t least_step = std::max(kBlockBytesMin, natural_block_bytes / kTableBlocksEach);
  return chunk.object == 0 && chunk.bytes >= natural_block_bytes && chunk.object_offset % least_step == 0;
}

// Blocks of the chunks, each chunk cut from its beginning on: so what ranks have in common is found wherever it lies in them.
Result<NaturalBlocks> LookAt(const HeldStream& stream, const ImageRecord& record, uint32_t block_bytes) {
  NaturalBlocks found;
  found.block_bytes = block_bytes;
  Buffer block(block_bytes);
  for (const Chunk& chunk : record.chunks) {
    if (!MayHaveNatural(chunk, block_bytes)) continue;
    for (uint64_t at = 0; at + block_bytes <= chunk.bytes; at += block_bytes) {
      const uint64_t offset = chunk.object_offset + at;
      KEDGE_RETURN_IF_ERROR(stream.Read(offset, block_bytes, block.data()));
      found.blocks.push_back({offset, reduce::FingerprintOf(block)});
    }
  }
  std::ranges::sort(found.blocks, {}, &NaturalBlocks::Block::offset);
  if (found.blocks.empty()) found.block_bytes = 0;
  return found;
}

// The largest table blocks that natural blocks can begin at multiples of.
uint32_t TableBlockBytes(const ImageRecord& record, uint32_t natural_block_bytes) {
  uint64_t step = natural_block_bytes;
  for (const Chunk& chunk : record.chunks) {
    if (chunk.object_offset > 0 && MayHaveNatural(chunk, natural_block_bytes))
      step = std::min(step, chunk.object_offset & -chunk.object_offset);
  }
  return static_cast<uint32_t>(step);
}

}  // namespace

uint32_t NaturalBlockBytes(const JobKeys& keys) {
  return keys.protect_scheme != ProtectScheme::kNone && keys.DeduplicatesJob() ? keys.reduce_block_bytes : 0;
}

Result<SetMember> MakeMember(const HeldStream& stream, uint64_t record_offset, uint64_t record_bytes,
                             uint32_t natural_block_bytes, SetMember member) {
  member.image_record.resize(record_bytes);
  KEDGE_RETURN_IF_ERROR(stream.Read(record_offset, record_bytes, member.image_record.data()));
  KEDGE_ASSIGN_OR_RETURN(const ImageRecord record, DecodeImageRecord(member.image_record));
  uint32_t table_block_bytes = redundancy::BlockBytesFor(stream.bytes());
  if (natural_block_bytes > 0) {
    const uint64_t least = std::min<uint64_t>(std::bit_ceil(stream.bytes() / kNaturalBlocksMax), kBlockBytesMax);
    const auto block_bytes = std::max(natural_block_bytes, static_cast<uint32_t>(least));
    KEDGE_ASSIGN_OR_RETURN(member.natural, LookAt(stream, record, block_bytes));
    if (!member.natural.blocks.empty()) table_block_bytes = std::min(table_block_bytes, TableBlockBytes(record, block_bytes));
  }
  KEDGE_ASSIGN_OR_RETURN(member.blocks, MakeTable(stream, record, record_bytes, table_block_bytes));
  return member;
}

}  // namespace kedge
