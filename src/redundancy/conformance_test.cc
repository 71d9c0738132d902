// What every scheme promises, held against each: whatever losses it is for, every image comes back bit for bit; one loss
// more, and it says what is lost; a flipped byte is found, another way is taken, and it never spreads.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <numeric>

#include "redundancy/block_table.h"
#include "redundancy/testing/memory_cluster.h"

namespace kedge::redundancy {
namespace {

using ::testing::HasSubstr;
using testing::MemoryCluster;
using ::testing::Not;

struct SchemeCase {
  const char* name;
  LayoutOptions options;
  uint32_t nodes;
};

std::vector<Node> MakeNodes(const std::vector<uint32_t>& ranks_on_node) {
  std::vector<Node> nodes;
  uint32_t rank = 0;
  for (const uint32_t count : ranks_on_node) {
    Node& node = nodes.emplace_back();
    node.name = node.domain = std::string("n") + static_cast<char>('a' + nodes.size() - 1);
    for (uint32_t i = 0; i < count; ++i) node.ranks.push_back(rank++);
  }
  return nodes;
}

class Conformance : public ::testing::TestWithParam<SchemeCase> {
 protected:
  // One rank a node, `bytes` each.
  MemoryCluster Equal(uint64_t bytes, uint64_t seed = 1) const {
    const std::vector<uint32_t> one(GetParam().nodes, 1);
    return MemoryCluster(*MakeLayout(MakeNodes(one), GetParam().options), std::vector<uint64_t>(GetParam().nodes, bytes), seed);
  }
  // 2, 0, 1, 2, 0, 1, ... ranks a node, of all lengths around blocks.
  MemoryCluster Unequal() const {
    std::vector<uint32_t> ranks_on_node;
    for (uint32_t i = 0; i < GetParam().nodes; ++i) ranks_on_node.push_back((i + 2) % 3 == 0 ? 0 : (i % 3 == 0 ? 2 : 1));
    const std::vector<uint64_t> lengths = {8, 100'001, 4096, 4097, 65'536, 9, 12'288, 300'000};
    std::vector<uint64_t> image_bytes;
    for (uint32_t rank = 0; rank < std::accumulate(ranks_on_node.begin(), ranks_on_node.end(), 0u); ++rank) {
      image_bytes.push_back(lengths[rank % lengths.size()]);
    }
    return MemoryCluster(*MakeLayout(MakeNodes(ranks_on_node), GetParam().options), image_bytes, 2);
  }
};

void ExpectAllComeBack(MemoryCluster& cluster, const std::string& what) {
  const RestorePlan plan = PlanRestore(cluster.generation(), cluster.ranks(), cluster.Inventories(), false);
  EXPECT_TRUE(plan.complete()) << what << ": " << plan.WhatIsLost();
  for (uint32_t rank = 0; rank < cluster.ranks(); ++rank) {
    const auto restored = cluster.Restore(rank);
    ASSERT_TRUE(restored.status.ok()) << what << ", rank " << rank << ": " << restored.status.ToString();
    ASSERT_TRUE(restored.bytes == cluster.original(rank)) << what << ", rank " << rank;
    EXPECT_TRUE(restored.bad.empty()) << what;
  }
}

// Loses, in copies of the cluster, every choice of at most `count` members of each group alone, and of all groups at once.
void ForEachPromisedLoss(const MemoryCluster& cluster, const std::function<void(MemoryCluster&, const std::string&)>& check) {
  const Layout& layout = cluster.layout();
  size_t largest = 0;
  for (const auto& group : layout.groups) largest = std::max(largest, group.size());
  for (uint32_t choice = 0; choice < (1u << largest); ++choice) {
    if (std::popcount(choice) > static_cast<int>(layout.parity)) continue;
    MemoryCluster damaged = cluster;
    std::string what = "lost:";
    for (const auto& group : layout.groups) {
      for (uint32_t member = 0; member < group.size(); ++member) {
        if ((choice >> member & 1) == 0) continue;
        damaged.Lose(group[member].name);
        what += " " + group[member].name;
      }
    }
    check(damaged, what);
  }
}

TEST_P(Conformance, EveryPromisedLossComesBack) {
  MemoryCluster cluster = Equal(40'000);
  ASSERT_TRUE(cluster.Protect().ok());
  ForEachPromisedLoss(cluster, ExpectAllComeBack);
}

TEST_P(Conformance, ImagesOfAnyLengthAndNoneAtAllComeBack) {
  MemoryCluster cluster = Unequal();
  ASSERT_TRUE(cluster.Protect().ok());
  ForEachPromisedLoss(cluster, ExpectAllComeBack);
}

// What a set's redundancy takes on all nodes.
uint64_t RedundancyBytes(MemoryCluster& cluster) {
  uint64_t bytes = 0;
  for (const auto& [name, node] : cluster.nodes()) {
    for (const testing::MemoryNode::Parity& parity : node.parity) bytes += parity.bytes.size();
    for (const auto& [rank, image] : node.images) bytes += image.size();
  }
  for (uint32_t rank = 0; rank < cluster.ranks(); ++rank) bytes -= cluster.original(rank).size();
  return bytes;
}

TEST_P(Conformance, NaturalBlocksComeBackFromTheMembersThatHaveThem) {
  MemoryCluster plain = Equal(40'000);
  ASSERT_TRUE(plain.Protect().ok());
  MemoryCluster cluster = Equal(40'000);
  cluster.ShareBlocks(kBlockBytesMin, 0.9);
  ASSERT_TRUE(cluster.Protect().ok());
  EXPECT_LT(RedundancyBytes(cluster), RedundancyBytes(plain));
  ForEachPromisedLoss(cluster, ExpectAllComeBack);
}

// One more than may be lost has them: a byte of each may flip that many times.
TEST_P(Conformance, ANaturalBlockThatIsDamagedIsTakenFromAnotherMember) {
  MemoryCluster cluster = Equal(40'000);
  cluster.ShareBlocks(kBlockBytesMin, 0.9);
  ASSERT_TRUE(cluster.Protect().ok());
  const Node& lost = cluster.layout().groups[0][0];
  const auto set = cluster.FindSet(lost.ranks[0]);
  cluster.Lose(lost.name);
  for (uint32_t damaged = 1; damaged < set->parity; ++damaged) {
    Buffer& image = cluster.nodes()[set->members[damaged].node].images.at(*set->members[damaged].rank);
    for (const NaturalBlocks::Block& block : set->members[damaged].natural.blocks) image[block.offset + 11] ^= std::byte{1};
  }
  const auto restored = cluster.Restore(lost.ranks[0]);
  ASSERT_TRUE(restored.status.ok()) << restored.status.ToString();
  EXPECT_TRUE(restored.bytes == cluster.original(lost.ranks[0]));
}

TEST_P(Conformance, OneLossMoreIsLostAndSaid) {
  MemoryCluster cluster = Equal(40'000);
  ASSERT_TRUE(cluster.Protect().ok());
  const auto& group = cluster.layout().groups[0];
  // Neighbours, so that a partner's copies are among them; for codes any choice does.
  for (uint32_t i = 0; i <= cluster.layout().parity; ++i) cluster.Lose(group[i].name);
  const RestorePlan plan = PlanRestore(cluster.generation(), cluster.ranks(), cluster.Inventories(), false);
  EXPECT_FALSE(plan.complete());
  for (uint32_t i = 0; i < group.size(); ++i) {
    const uint32_t rank = group[i].ranks[0];
    const auto holders = cluster.layout().Holders(0, i);
    const auto is_gone = [&](uint32_t member) { return member <= cluster.layout().parity; };
    const bool copies_left = cluster.layout().scheme == Scheme::kPartner && !std::all_of(holders.begin(), holders.end(), is_gone);
    const bool lost = is_gone(i) && !copies_left;
    EXPECT_EQ(plan.ranks[rank].sources.empty(), lost) << i;
    // Named by the records that the group's survivors keep; of a group that is gone as a whole, nobody knows.
    if (lost && group.size() > cluster.layout().parity + 1) {
      EXPECT_THAT(plan.WhatIsLost(), HasSubstr(group[i].name));
    }
    if (lost && cluster.layout().scheme != Scheme::kPartner && group.size() > cluster.layout().parity + 1) {
      EXPECT_THAT(plan.WhatIsLost(), HasSubstr(fmt::format("ranks {}", group[0].ranks[0]))) << "a sentence for all of a set";
      EXPECT_THAT(plan.WhatIsLost(), Not(HasSubstr(cluster.generation().ToString())));
    }
    const auto restored = cluster.Restore(rank);
    EXPECT_EQ(restored.status.ok(), !lost);
    if (!lost) {
      EXPECT_TRUE(restored.bytes == cluster.original(rank));
    }
  }
  // The store has it, if anybody asks.
  EXPECT_TRUE(PlanRestore(cluster.generation(), cluster.ranks(), cluster.Inventories(), true).complete());
}

// A byte that flips in a copy of a living node: the others of the set give the block.
TEST_P(Conformance, AFlippedByteOfAnImageIsMadeGoodFromTheOthers) {
  MemoryCluster cluster = Equal(8200);
  ASSERT_TRUE(cluster.Protect().ok());
  const Node& node = cluster.layout().groups[0][0];
  const uint32_t rank = node.ranks[0];
  Buffer& image = cluster.nodes()[node.name].images.at(rank);
  for (size_t at = 0; at < image.size(); at += at < 64 || at + 65 > image.size() ? 1 : 61) {
    image[at] ^= std::byte{0x10};
    const auto restored = cluster.Restore(rank, node.name);
    ASSERT_TRUE(restored.status.ok()) << restored.status.ToString();
    EXPECT_TRUE(restored.bytes == cluster.original(rank)) << "byte " << at;
    EXPECT_NE(restored.from, SourceKind::kLocal);
    ASSERT_EQ(restored.bad.size(), 1u);
    EXPECT_EQ(restored.bad[0].status.code(), Code::kCorrupt);
    image[at] ^= std::byte{0x10};
  }
}

// Between the making of the tables and their use a byte flips: it is not encoded, nor copied.
TEST_P(Conformance, AFlippedByteIsNotProtectedAsIfItWereRight) {
  MemoryCluster cluster = Equal(8200);
  const Node& node = cluster.layout().groups[0][1];
  Buffer& image = cluster.nodes()[node.name].images.at(node.ranks[0]);
  bool flipped = false;
  cluster.before_encoding = [&] {
    if (!flipped) image[5000] ^= std::byte{1};
    flipped = true;
  };
  const Status status = cluster.Protect();
  EXPECT_TRUE(status.code() == Code::kCorrupt || status.code() == Code::kIncomplete) << status.ToString();
  EXPECT_THAT(status.message(), HasSubstr(node.name));
  EXPECT_THAT(status.message(), HasSubstr("checksum"));
}

INSTANTIATE_TEST_SUITE_P(
    All, Conformance,
    ::testing::Values(SchemeCase{"Partner", {.scheme = Scheme::kPartner}, 6},
                      SchemeCase{"PartnerRingOfLeftovers", {.scheme = Scheme::kPartner, .group_size = 4}, 7},
                      SchemeCase{"PartnerTwoCopies", {.scheme = Scheme::kPartner, .copies = 2}, 6},
                      SchemeCase{"XorOfTwo", {.scheme = Scheme::kXor, .group_size = 2}, 4},
                      SchemeCase{"Xor", {.scheme = Scheme::kXor}, 8},
                      SchemeCase{"XorWithLeftovers", {.scheme = Scheme::kXor, .group_size = 4}, 7},
                      SchemeCase{"ReedSolomonOne", {.scheme = Scheme::kReedSolomon, .losses = 1}, 4},
                      SchemeCase{"ReedSolomonTwo", {.scheme = Scheme::kReedSolomon, .group_size = 4}, 4},
                      SchemeCase{"ReedSolomonTwoOfLeftovers", {.scheme = Scheme::kReedSolomon, .group_size = 5}, 11},
                      SchemeCase{"ReedSolomonTwoOfThree", {.scheme = Scheme::kReedSolomon}, 3},
                      SchemeCase{"ReedSolomonThree", {.scheme = Scheme::kReedSolomon, .losses = 3}, 7}),
    [](const auto& scheme) { return std::string(scheme.param.name); });

// Every byte that a rebuild reads, data and parity alike, flips in turn, while one node is lost. With a second parity row
// the block is made another way; without one it is refused. Wrong bytes never come out.
class EveryByteFlips : public ::testing::TestWithParam<uint32_t> {};

TEST_P(EveryByteFlips, AndIsFound) {
  const uint32_t parity = GetParam();
  const LayoutOptions options{.scheme = Scheme::kReedSolomon, .losses = parity};
  MemoryCluster cluster(*MakeLayout(MakeNodes({1, 1, 1, 1}), options), {4100, 4100, 4100, 4100}, 3);
  ASSERT_TRUE(cluster.Protect().ok());
  const auto set = cluster.FindSet(0);
  cluster.Lose(set->members[0].node);
  const SetArithmetic arithmetic = *SetArithmetic::Make(*set);
  const ParityTables tables = cluster.TablesOf(*set);
  const auto source = cluster.MakeSource(*set);
  Assembler assembler(*set, arithmetic, tables, *source);
  const Buffer& original = cluster.original(*set->members[0].rank);
  Buffer made(original.size());
  size_t used = 0;  // bytes that a rebuild reads when nothing is wrong
  for (uint64_t offset = 0; offset < original.size(); offset += kBlockBytesMin) {
    const auto terms = arithmetic.TermsOf({0, false, offset}, [&](const BlockRef& block) { return block.member != 0; });
    for (const Term& term : *terms) used += term.bytes;
  }
  size_t found = 0;
  const auto flip_each = [&](Buffer& bytes) {
    for (std::byte& byte : bytes) {
      byte ^= std::byte{0x80};
      bool refused = false;
      std::fill(made.begin(), made.end(), std::byte{0});
      for (uint64_t offset = 0; offset < made.size(); offset += kBlockBytesMin) {
        const uint32_t length = arithmetic.BytesOf({0, false, offset});
        refused |= !assembler.Assemble({0, false, offset}, {made.data() + offset, length}).ok();
      }
      const auto bad = assembler.TakeBadBlocks();
      found += bad.size();
      EXPECT_EQ(refused, parity == 1 && !bad.empty());
      if (!refused) {
        EXPECT_TRUE(made == original);
      }
      byte ^= std::byte{0x80};
    }
  };
  for (uint32_t m = 1; m < 4; ++m) {
    testing::MemoryNode& node = cluster.nodes()[set->members[m].node];
    flip_each(node.images.at(*set->members[m].rank));
    flip_each(node.parity[0].bytes);
  }
  EXPECT_EQ(found, used);
}

INSTANTIATE_TEST_SUITE_P(Parity, EveryByteFlips, ::testing::Values(1, 2));

// Parity that was wrong before its own checksum was taken: a rebuild from it does not pass for the image.
TEST(WrongParity, WithTheRightChecksumIsFoundByItsResult) {
  for (const uint32_t parity : {1u, 2u}) {
    const LayoutOptions options{.scheme = Scheme::kReedSolomon, .losses = parity};
    MemoryCluster cluster(*MakeLayout(MakeNodes({1, 1, 1, 1}), options), {4100, 4100, 4100, 4100}, 3);
    ASSERT_TRUE(cluster.Protect().ok());
    const auto set = cluster.FindSet(0);
    const SetArithmetic arithmetic = *SetArithmetic::Make(*set);
    const CodePlace place = arithmetic.geometry().PlaceOf({0, false, 0});
    const BlockRef row_0 = arithmetic.geometry().At({place.stripe, 0, 0});
    auto& wrong = cluster.nodes()[set->members[row_0.member].node].parity[0];
    wrong.bytes[row_0.offset + 17] ^= std::byte{4};
    BlockTableBuilder table(wrong.bytes.size(), wrong.table.block_bytes);
    table.Add(wrong.bytes);
    wrong.table = table.Finish();
    cluster.Lose(set->members[0].node);
    const auto restored = cluster.Restore(0);
    EXPECT_EQ(restored.status.ok(), parity == 2) << restored.status.ToString();
    ASSERT_EQ(restored.bad.size(), 1u);
    EXPECT_EQ(restored.bad[0].block, row_0);
    if (parity == 2) {
      EXPECT_TRUE(restored.bytes == cluster.original(0));
    }
  }
}

// Blocks of different members that are bad in one run of blocks are not of one code word: each block is made by itself then.
TEST(Runs, WithMoreBadBlocksThanACodeWordBears) {
  MemoryCluster cluster(*MakeLayout(MakeNodes({1, 1, 1, 1}), {.scheme = Scheme::kReedSolomon, .losses = 2}),
                        {40'000, 40'000, 40'000, 40'000}, 3);
  ASSERT_TRUE(cluster.Protect().ok());
  const auto set = cluster.FindSet(0);
  const SetArithmetic arithmetic = *SetArithmetic::Make(*set);
  const ParityTables tables = cluster.TablesOf(*set);
  cluster.Lose(set->members[0].node);
  const BlockRef first{0, false, 0};
  const uint32_t run_bytes = arithmetic.RunBytesAt(first);
  ASSERT_GE(run_bytes, 3 * kBlockBytesMin);
  // Of three others that are left two are enough, and are read first: one is bad in the first code word of the run, one in the
  // last.
  const auto terms = arithmetic.TermsOf(first, [](const BlockRef& block) { return block.member != 0; });
  ASSERT_TRUE(terms.ok() && terms->size() == 2);
  std::vector<BlockRef> damaged = {(*terms)[0].block, (*terms)[1].block};
  damaged[1].offset += run_bytes - kBlockBytesMin;
  for (const BlockRef& block : damaged) {
    testing::MemoryNode& node = cluster.nodes()[set->members[block.member].node];
    (block.parity ? node.parity[0].bytes : node.images.at(*set->members[block.member].rank))[block.offset + 9] ^= std::byte{1};
  }
  const auto source = cluster.MakeSource(*set);
  Assembler assembler(*set, arithmetic, tables, *source);
  Buffer run(run_bytes);
  const Status made = assembler.Assemble(first, run);
  ASSERT_TRUE(made.ok()) << made.ToString();
  EXPECT_TRUE(std::equal(run.begin(), run.end(), cluster.original(0).begin()));
  std::vector<BlockRef> bad;
  for (const BadBlock& block : assembler.TakeBadBlocks()) bad.push_back(block.block);
  EXPECT_THAT(bad, ::testing::UnorderedElementsAreArray(damaged));
}

// Nodes that are no neighbours have all copies of their images elsewhere. Only what these leave out may be lost with them.
TEST(ThinCopies, NeedTheMembersThatHaveTheirNaturalBlocks) {
  for (const bool shares : {false, true}) {
    const LayoutOptions options{.scheme = Scheme::kPartner, .group_size = 4};
    MemoryCluster cluster(*MakeLayout(MakeNodes({1, 1, 1, 1}), options), {40'000, 40'000, 40'000, 40'000}, 3);
    if (shares) cluster.ShareBlocks(kBlockBytesMin, 0.9);
    ASSERT_TRUE(cluster.Protect().ok());
    const std::vector<Node>& group = cluster.layout().groups[0];
    for (const uint32_t member : {0u, 2u}) cluster.Lose(group[member].name);
    const RestorePlan plan = PlanRestore(cluster.generation(), cluster.ranks(), cluster.Inventories(), false);
    EXPECT_EQ(plan.complete(), !shares);
    for (const uint32_t member : {0u, 2u}) {
      EXPECT_EQ(cluster.Restore(group[member].ranks[0]).status.ok(), !shares) << member;
      if (shares) {
        EXPECT_THAT(plan.WhatIsLost(), HasSubstr("missing are the images of " + group[0].name + " and " + group[2].name));
      }
    }
  }
}

// Image and parity of a node need not be lost together: what the plan says is what can be done.
TEST(PartialLoss, AnImageAndTheParityOfAnotherNode) {
  MemoryCluster cluster(*MakeLayout(MakeNodes({1, 1, 1, 1}), {.scheme = Scheme::kXor}), {9000, 9000, 9000, 9000}, 3);
  ASSERT_TRUE(cluster.Protect().ok());
  for (uint32_t lost_parity = 0; lost_parity < 4; ++lost_parity) {
    MemoryCluster damaged = cluster;
    damaged.nodes()["na"].images.clear();
    damaged.nodes()[std::string("n") + static_cast<char>('a' + lost_parity)].parity.clear();
    const auto restored = damaged.Restore(0);
    // A node's own parity has nothing to do with its image; any other's is needed for one of its segments.
    EXPECT_EQ(restored.status.ok(), lost_parity == 0) << restored.status.ToString();
    if (restored.status.ok()) {
      EXPECT_TRUE(restored.bytes == cluster.original(0));
    }
  }
}

}  // namespace
}  // namespace kedge::redundancy
