#include "format/block_map.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "format/envelope.h"

namespace kedge {

namespace {

constexpr size_t kSharedObjectBytesMin = 2;
constexpr size_t kRunBytesMin = 3;
// Beside the block size: runs say whether they are compressed.
constexpr uint8_t kHasCompressed = 0x80;
// And none of its blocks has a fingerprint.
constexpr uint8_t kHasNoFingerprints = 0x40;
// More than any image has, and far from what overflows in units of bytes.
constexpr uint64_t kBlocksMax = uint64_t{1} << 40;

SharedObject DecodeSharedObject(Decoder& decoder) {
  SharedObject object;
  object.key = decoder.String(kObjectKeyBytesMax);
  decoder.Require(!object.key.empty(), "an object without a key");
  object.bytes = decoder.Varint();
  return object;
}

BlockRun DecodeRun(Decoder& decoder, size_t objects, bool may_be_compressed) {
  BlockRun run;
  run.object = decoder.Varint32();
  run.blocks = decoder.VarintAtMost(kBlocksMax);
  run.offset = decoder.VarintAtMost(uint64_t{1} << 62);
  if (may_be_compressed) {
    const uint8_t is_compressed = decoder.U8();
    decoder.Require(is_compressed <= 1 && (is_compressed == 0 || run.object != kZeroBlocks), "compressed in an unknown way");
    run.is_compressed = is_compressed == 1;
  }
  decoder.Require(run.object < kSharedBlocks || run.object - kSharedBlocks < objects, "blocks in an unknown object");
  decoder.Require(run.blocks > 0, "a run without blocks");
  decoder.Require((run.is_compressed || run.offset % kChunkAlignment == 0) && (run.object != kZeroBlocks || run.offset == 0),
                  "blocks at an impossible offset");
  return run;
}

std::vector<uint32_t> DecodeStoredBytes(Decoder& decoder, uint64_t blocks, uint32_t block_bytes) {
  std::vector<uint32_t> stored_bytes;
  for (uint64_t i = 0; i < blocks && decoder.ok(); ++i) {
    stored_bytes.push_back(decoder.Varint32());
    decoder.Require(stored_bytes.back() > 0 && stored_bytes.back() <= block_bytes + kStoredBlockOverheadBytes,
                    "an impossible size of a compressed block");
  }
  return stored_bytes;
}

}  // namespace

std::vector<BlockPlace> PlacesOf(const BlockMap& map) {
  std::vector<BlockPlace> places;
  auto stored_bytes = map.stored_bytes.begin();
  for (const BlockRun& run : map.runs) {
    uint64_t offset = run.offset;
    for (uint64_t i = 0; i < run.blocks; ++i) {
      const BlockPlace& place = places.emplace_back(BlockPlace{run.object, offset, run.is_compressed ? *stored_bytes++ : 0});
      if (run.object != kZeroBlocks) offset += run.is_compressed ? place.stored_bytes : map.block_bytes;
    }
  }
  return places;
}

void Encode(const BlockMap& map, Buffer* out) {
  RecordEncoder record(RecordKind::kBlockMap, map.identity.generation.store_id, out);
  Encoder& encoder = record.encoder();
  EncodeFields(encoder, map.identity);
  const bool has_compressed = !map.stored_bytes.empty();
  encoder.U8(static_cast<uint8_t>(std::countr_zero(map.block_bytes) | (has_compressed ? kHasCompressed : 0) |
                                  (map.has_fingerprints ? 0 : kHasNoFingerprints)));
  encoder.Varint(map.objects.size());
  for (const SharedObject& object : map.objects) {
    encoder.String(object.key);
    encoder.Varint(object.bytes);
  }
  encoder.Varint(map.runs.size());
  for (const BlockRun& run : map.runs) {
    encoder.Varint(run.object);
    encoder.Varint(run.blocks);
    encoder.Varint(run.offset);
    if (has_compressed) encoder.U8(run.is_compressed ? 1 : 0);
  }
  for (const uint32_t bytes : map.stored_bytes) encoder.Varint(bytes);
  for (const Fingerprint& fingerprint : map.fingerprints) encoder.Raw(fingerprint);
  record.Finish();
}

Result<BlockMap> DecodeBlockMap(ByteSpan bytes) {
  KEDGE_ASSIGN_OR_RETURN(const Record record, OpenRecord(bytes, RecordKind::kBlockMap));
  Decoder decoder(record.payload);
  BlockMap map;
  DecodeFields(decoder, record.store_id, &map.identity);
  const uint8_t size_byte = decoder.U8();
  const bool has_compressed = (size_byte & kHasCompressed) != 0;
  map.has_fingerprints = (size_byte & kHasNoFingerprints) == 0;
  const uint8_t log2_bytes = size_byte & ~(kHasCompressed | kHasNoFingerprints);
  decoder.Require(log2_bytes >= std::countr_zero(kMapBlockBytesMin) && log2_bytes <= std::countr_zero(kMapBlockBytesMax),
                  "an impossible block size");
  if (decoder.ok()) map.block_bytes = 1U << log2_bytes;
  const size_t objects = decoder.Count(kSharedObjectBytesMin);
  for (size_t i = 0; i < objects && decoder.ok(); ++i) map.objects.push_back(DecodeSharedObject(decoder));
  const size_t runs = decoder.Count(kRunBytesMin);
  uint64_t blocks = 0, fingerprints = 0, compressed = 0;
  for (size_t i = 0; i < runs && decoder.ok(); ++i) {
    const BlockRun& run = map.runs.emplace_back(DecodeRun(decoder, objects, has_compressed));
    blocks += run.blocks;
    if (run.is_compressed) compressed += run.blocks;
    if (run.object != kZeroBlocks) fingerprints += run.blocks;
    decoder.Require(blocks <= kBlocksMax, "too many blocks");
  }
  decoder.Require(has_compressed == (compressed > 0), "nothing compressed where something should be");
  map.stored_bytes = DecodeStoredBytes(decoder, compressed, map.block_bytes);
  if (decoder.ok() && map.has_fingerprints) {
    const ByteSpan raw = decoder.Raw(fingerprints * sizeof(Fingerprint));
    if (decoder.ok()) {
      map.fingerprints.resize(fingerprints);
      if (!raw.empty()) std::memcpy(map.fingerprints.data(), raw.data(), raw.size());
    }
  }
  KEDGE_RETURN_IF_ERROR(decoder.Finish(RecordKindName(record.kind)));
  return map;
}

BlockLayout::BlockLayout(const ImageRecord& record, uint32_t block_bytes) : block_bytes_(block_bytes) {
  for (const Chunk& chunk : record.chunks) {
    if (chunk.object == 0 && chunk.bytes > 0) parts_.push_back({0, chunk.object_offset, chunk.bytes});
  }
  std::sort(parts_.begin(), parts_.end(), [](const Part& a, const Part& b) { return a.offset < b.offset; });
  for (Part& part : parts_) {
    part.first_block = blocks_;
    blocks_ += (part.bytes + block_bytes - 1) / block_bytes;
  }
}

BlockLayout::Block BlockLayout::At(uint64_t block) const {
  const auto after =
      std::upper_bound(parts_.begin(), parts_.end(), block, [](uint64_t at, const Part& part) { return at < part.first_block; });
  const Part& part = *std::prev(after);
  const uint64_t begin = (block - part.first_block) * block_bytes_;
  return {part.offset + begin, static_cast<uint32_t>(std::min<uint64_t>(block_bytes_, part.bytes - begin))};
}

BlockLayout::Place BlockLayout::Find(uint64_t stream_offset) const {
  const auto after = std::upper_bound(parts_.begin(), parts_.end(), stream_offset,
                                      [](uint64_t at, const Part& part) { return at < part.offset; });
  if (after != parts_.begin()) {
    const Part& part = *std::prev(after);
    const uint64_t at = stream_offset - part.offset;
    if (at < part.bytes) {
      return {part.first_block + at / block_bytes_, static_cast<uint32_t>(at % block_bytes_), part.bytes - at};
    }
  }
  return {std::nullopt, 0, after == parts_.end() ? UINT64_MAX : after->offset - stream_offset};
}

}  // namespace kedge
