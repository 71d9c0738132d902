// A stored block as anything may have left it, also with the checksum that belongs to its bytes and the sizes that its reader
// expects: it is read as a block of that size, or refused. And every block that is stored is read as it was; changed in places
// that the input names and sealed anew, it shows what c-blosc makes of damage that no checksum tells.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/crc32c.h"
#include "format/block_map.h"
#include "reduce/stored_block.h"

namespace kedge::reduce {
namespace {

constexpr size_t kHeaderBytes = 16;
constexpr size_t kChangesMax = 3;

void Load(const Buffer& stored, size_t block_bytes) {
  // On the heap and as large as said, so that a byte too far is seen.
  Buffer block(block_bytes);
  const Status loaded = LoadBlock(stored, block);
  KEDGE_CHECK(loaded.ok() || loaded.code() == Code::kCorrupt);
}

void LoadSealed(Buffer stored, size_t block_bytes) {
  if (stored.size() < kHeaderBytes) return;
  const uint32_t sizes[2] = {static_cast<uint32_t>(block_bytes), static_cast<uint32_t>(stored.size())};
  std::memcpy(&stored[8], sizes, sizeof(sizes));
  const uint32_t checksum = crc32c::Compute(&stored[4], stored.size() - 4);
  std::memcpy(stored.data(), &checksum, sizeof(checksum));
  Load(stored, block_bytes);
}

}  // namespace
}  // namespace kedge::reduce

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  using namespace kedge;
  using namespace kedge::reduce;
  if (bytes < 4) return 0;
  uint16_t block_bytes = 0;
  std::memcpy(&block_bytes, data, sizeof(block_bytes));
  const CodecSettings settings{static_cast<Compressor>(data[2] % 2), static_cast<Filter>(data[2] / 2 % 3),
                               std::max<uint8_t>(data[3], 1)};
  const ByteSpan input = std::as_bytes(std::span(data + 4, bytes - 4));
  const Buffer stored(input.begin(), input.end());
  Load(stored, block_bytes);
  LoadSealed(stored, block_bytes);
  if (input.empty() || input.size() > kMapBlockBytesMax) return 0;
  Buffer out(input.size() + kStoredBlockOverheadBytes), block(input.size());
  const auto written = StoreBlock(input, settings, out);
  KEDGE_CHECK(written.ok() && LoadBlock(ByteSpan(out).first(*written), block).ok());
  KEDGE_CHECK(std::equal(block.begin(), block.end(), input.begin()));
  Buffer changed(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(*written));
  for (size_t at = 4; at + 3 <= bytes && at < 4 + 3 * kChangesMax; at += 3) {
    const size_t place = data[at] + 256u * data[at + 1];
    changed[kHeaderBytes + place % (changed.size() - kHeaderBytes)] ^= static_cast<std::byte>(data[at + 2]);
  }
  LoadSealed(std::move(changed), input.size());
  return 0;
}
