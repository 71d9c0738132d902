// See gap_table.h.
#include "session/gap_table.h"

namespace kedge {

void EncodeGapTable(const GapTable& table, Buffer* out) {
  Encoder encoder(*out);
  encoder.U64(table.base_serial);
  encoder.Varint(table.gaps.size());
  uint32_t chunk = 0;
  uint64_t position = 0;  // where the last gap ends
  for (const Gap& gap : table.gaps) {
    if (gap.chunk != chunk) position = 0;
    encoder.Varint(gap.chunk - chunk);
    encoder.Varint(gap.offset - position);
    encoder.Varint(gap.bytes);
    chunk = gap.chunk;
    position = gap.offset + gap.bytes;
  }
}

Result<GapTable> DecodeGapTable(ByteSpan bytes) {
  constexpr size_t kGapBytesMin = 3;
  constexpr uint64_t kChunkBytesMax = uint64_t{1} << 50;
  Decoder decoder(bytes);
  GapTable table;
  table.base_serial = decoder.U64();
  table.gaps.resize(decoder.Count(kGapBytesMin));
  uint64_t chunk = 0;
  uint64_t position = 0;
  for (Gap& gap : table.gaps) {
    const uint64_t skipped = decoder.VarintAtMost(UINT32_MAX);
    if (skipped > 0) position = 0;
    chunk += skipped;
    decoder.Require(chunk <= UINT32_MAX, "a gap in an impossible chunk");
    gap.chunk = static_cast<uint32_t>(chunk);
    gap.offset = position + decoder.VarintAtMost(kChunkBytesMax);
    gap.bytes = decoder.VarintAtMost(kChunkBytesMax);
    position = gap.offset + gap.bytes;
    decoder.Require(position <= kChunkBytesMax, "a gap behind the end of any chunk");
  }
  KEDGE_RETURN_IF_ERROR(decoder.Finish("gap table"));
  return table;
}

}  // namespace kedge
