// What other nodes say about a set, believed only so far: a decoded set record gives geometry and code for every block,
// an assembler over blocks of any content never gives a stream's block that does not have its checksum, and a plan from
// any inventory ends. Image records of any shape give a stream without holes, or none.
#include <fuzzer/FuzzedDataProvider.h>

#include <algorithm>

#include "format/testing/sample_records.h"
#include "redundancy/assemble.h"
#include "redundancy/block_table.h"
#include "redundancy/natural.h"
#include "redundancy/plan.h"
#include "redundancy/stream.h"

namespace kedge::redundancy {
namespace {

constexpr size_t kBlocksTried = 16;

// Some members are there, and their blocks hold one byte over and over.
class FuzzedSource : public BlockSource {
 public:
  explicit FuzzedSource(FuzzedDataProvider& input)
      : there_(input.ConsumeIntegral<uint64_t>()), fill_(input.ConsumeIntegral<uint8_t>()) {}
  bool Has(uint32_t member, bool parity) override { return (there_ >> ((member * 2 + parity) % 64) & 1) != 0; }
  void ReadBlocks(std::span<Read> reads) override {
    for (Read& read : reads) std::fill(read.to.begin(), read.to.end(), static_cast<std::byte>(fill_));
  }

 private:
  uint64_t there_;
  uint8_t fill_;
};

void TryArithmetic(const SetRecord& set, FuzzedDataProvider& input) {
  const auto arithmetic = SetArithmetic::Make(set);
  if (!arithmetic.ok()) return;
  const Geometry& geometry = arithmetic->geometry();
  FuzzedSource source(input);
  const ParityTables no_tables(set.members.size());
  Assembler assembler(set, *arithmetic, no_tables, source);
  for (size_t i = 0; i < kBlocksTried && geometry.segment_bytes() > 0; ++i) {
    const auto member = input.ConsumeIntegralInRange<uint32_t>(0, geometry.members() - 1);
    const bool parity = input.ConsumeBool();
    const uint64_t blocks = (parity ? geometry.parity() : geometry.data()) * (geometry.segment_bytes() / geometry.block_bytes());
    const BlockRef block{member, parity, input.ConsumeIntegralInRange<uint64_t>(0, blocks - 1) * geometry.block_bytes()};
    KEDGE_CHECK(geometry.At(geometry.PlaceOf(block)) == block);
    Buffer made(arithmetic->BytesOf(block));
    if (made.empty() || !assembler.Assemble(block, made).ok() || parity) continue;
    const BlockTable table = Coarsen(ThinTable(set.members[member]), geometry.block_bytes());
    KEDGE_CHECK(BlockIsRight(table, block.offset, made));
  }
}

// Every byte of a stream is in its thin stream or in a natural block, and is where the one says that the other has it.
void TryThinStream(const SetRecord& set, uint32_t member) {
  const ThinStream thin(set.members[member]);
  KEDGE_CHECK(ThinTable(set.members[member]).BlockCount() == ThinTable(set.members[member]).crc32c.size());
  uint64_t of_stream = 0, of_thin = 0;
  for (const ThinStream::Piece& piece : thin.OfStream(0, thin.stream_bytes())) {
    KEDGE_CHECK(piece.stream_offset == of_stream && piece.bytes > 0);
    KEDGE_CHECK(!piece.thin_offset || *piece.thin_offset == of_thin);
    of_stream += piece.bytes;
    of_thin += piece.thin_offset ? piece.bytes : 0;
  }
  KEDGE_CHECK(of_stream == thin.stream_bytes() && of_thin == thin.bytes());
  // Who says what is there need not be right: it is looked for, and never taken for it.
  Buffer to(std::min<uint64_t>(thin.stream_bytes(), kBlockBytesMax));
  const auto pieces = thin.OfStream(0, to.size());
  (void)NaturalReplicas(set, member).Fill(pieces, 0, to, [](uint32_t, uint64_t, std::span<std::byte> block) {
    std::ranges::fill(block, std::byte{7});
    return Status::Ok();
  });
}

void TryPlan(const SetRecord& set, FuzzedDataProvider& input) {
  std::vector<NodeInventory> inventories;
  const auto summary = std::make_shared<const SetSummary>(Summarize(set, 1));
  for (const SetMember& member : set.members) {
    if (input.ConsumeBool()) continue;
    NodeInventory& inventory = inventories.emplace_back();
    inventory.node = member.node;
    inventory.sets.push_back(summary);
    if (member.rank && input.ConsumeBool()) inventory.images.push_back(*member.rank);
    const auto parity_of = input.ConsumeIntegral<uint32_t>();
    if (input.ConsumeBool()) inventory.parity.push_back({set.identity, parity_of, 1});
  }
  for (const SetMember& member : set.members) {
    if (!member.rank) continue;
    const RankPlan plan = PlanRank(set.identity.generation, set.identity.ranks, *member.rank, inventories, false);
    KEDGE_CHECK(plan.sources.empty() == !plan.why_lost.empty());
  }
}

void TryStream(ByteSpan payload) {
  const auto image = DecodeImageRecord(kedge::testing::Enclose(RecordKind::kImage, payload));
  if (!image.ok()) return;
  const auto stream = ImageStream::Make(*image, 100);
  if (!stream.ok()) return;
  uint64_t end = 0;
  for (const StreamPiece& piece : stream->pieces()) {
    KEDGE_CHECK(piece.stream_offset == end && piece.bytes > 0);
    end += piece.bytes;
  }
  KEDGE_CHECK(end == stream->bytes());
  const std::vector<StreamPiece> all = stream->Range(0, stream->bytes());
  KEDGE_CHECK(all == stream->pieces());
}

}  // namespace
}  // namespace kedge::redundancy

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  using namespace kedge;
  FuzzedDataProvider input(data, bytes);
  if (input.ConsumeBool()) {
    const std::string payload = input.ConsumeRemainingBytesAsString();
    redundancy::TryStream(AsBytes(payload));
    return 0;
  }
  const std::string payload = input.ConsumeRandomLengthString();
  const auto set = DecodeSetRecord(testing::Enclose(RecordKind::kSet, AsBytes(payload)));
  if (!set.ok()) return 0;
  redundancy::TryArithmetic(*set, input);
  for (uint32_t member = 0; member < set->members.size(); ++member) redundancy::TryThinStream(*set, member);
  redundancy::TryPlan(*set, input);
  return 0;
}
