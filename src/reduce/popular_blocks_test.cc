// The reduction of collective deduplication: whoever is named has the block, the counts are right, and loads are even.
#include "reduce/popular_blocks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"

namespace kedge::reduce {
namespace {

constexpr size_t kAll = 1'000'000;

Fingerprint Block(uint64_t number) {
  Fingerprint fingerprint{};
  const uint64_t mixed = MixSeed(number, 1);
  std::memcpy(fingerprint.data(), &mixed, sizeof mixed);
  return fingerprint;
}

using Members = std::vector<std::vector<Fingerprint>>;

// Up a tree, as agents would.
PopularBlocks Reduce(const Members& members, size_t most) {
  std::vector<PopularBlocks> level;
  for (uint32_t member = 0; member < members.size(); ++member) level.push_back(PopularBlocks::Of(member, members[member], most));
  while (level.size() > 1) {
    std::vector<PopularBlocks> above;
    for (size_t i = 0; i < level.size(); i += 2)
      above.push_back(i + 1 < level.size() ? PopularBlocks::Merge(level[i], level[i + 1], most) : level[i]);
    level = std::move(above);
  }
  return level.front();
}

// How many blocks each member stores in the end.
std::vector<uint32_t> StoredBy(const Members& members, const PopularBlocks& popular) {
  std::vector<uint32_t> stored;
  for (uint32_t member = 0; member < members.size(); ++member) {
    const std::set<Fingerprint> own(members[member].begin(), members[member].end());
    stored.push_back(static_cast<uint32_t>(std::count_if(own.begin(), own.end(), [&](const Fingerprint& block) {
      const PopularBlock* const found = popular.Find(block);
      return found == nullptr || found->owner == member;
    })));
  }
  return stored;
}

// Some blocks that all may have, some of a member's own, some twice.
Members RandomMembers(uint64_t seed) {
  Random random(seed);
  Members members(1 + random.Below(20));
  const uint64_t common = 1 + random.Below(200);
  for (size_t member = 0; member < members.size(); ++member) {
    for (uint64_t i = random.Below(150); i > 0; --i) members[member].push_back(Block(random.Below(common)));
    for (uint64_t i = random.Below(50); i > 0; --i) members[member].push_back(Block(1000 * (member + 1) + random.Below(100)));
  }
  return members;
}

TEST(PopularBlocksTest, OwnersHaveTheirBlocksAndCountsAreRight) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    const Members members = RandomMembers(seed);
    std::map<Fingerprint, uint32_t> counts;
    std::map<Fingerprint, std::set<uint32_t>> holders;
    for (uint32_t member = 0; member < members.size(); ++member) {
      for (const Fingerprint& block : members[member]) ++counts[block], holders[block].insert(member);
    }
    const PopularBlocks popular = Reduce(members, kAll);
    ASSERT_EQ(popular.blocks().size(), counts.size());
    for (const PopularBlock& block : popular.blocks()) {
      const std::set<uint32_t>& of = holders.at(block.fingerprint);
      EXPECT_EQ(block.count, counts.at(block.fingerprint));
      EXPECT_TRUE(of.contains(block.owner));
      EXPECT_NE(block.second_owner, block.owner);
      EXPECT_EQ(block.second_owner != PopularBlock::kNobody, of.size() > 1);
      EXPECT_TRUE(of.size() == 1 || of.contains(block.second_owner));
    }
    // Each block is stored once, and loads say by how many.
    const std::vector<uint32_t> stored = StoredBy(members, popular);
    EXPECT_EQ(std::accumulate(stored.begin(), stored.end(), size_t{0}), counts.size());
    for (const PopularBlocks::Load& load : popular.loads()) EXPECT_EQ(load.blocks, stored[load.member]);
  }
}

TEST(PopularBlocksTest, AFullSummaryHasTheMostFrequentAndNothingIsLost) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    const Members members = RandomMembers(seed);
    const PopularBlocks all = Reduce(members, kAll);
    const size_t most = 1 + seed % 40;
    const PopularBlocks popular = Reduce(members, most);
    EXPECT_EQ(popular.blocks().size(), std::min(most, all.blocks().size()));
    std::set<Fingerprint> stored;
    for (uint32_t member = 0; member < members.size(); ++member) {
      for (const Fingerprint& block : members[member]) {
        const PopularBlock* const found = popular.Find(block);
        if (found == nullptr || found->owner == member) stored.insert(block);
      }
    }
    EXPECT_EQ(stored.size(), all.blocks().size()) << "somebody stores each block";
    for (const PopularBlock& block : popular.blocks()) {
      EXPECT_LE(block.count, all.Find(block.fingerprint)->count);
      EXPECT_NE(block.owner, block.second_owner);
    }
    const std::vector<uint32_t> now = StoredBy(members, popular);
    for (uint32_t member = 0; member < members.size(); ++member)
      EXPECT_LE(now[member], PopularBlocks::Of(member, members[member], kAll).loads().front().blocks) << "never more than alone";
  }
}

TEST(PopularBlocksTest, WhichOfTwoComesFirstDoesNotMatter) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    Members members = RandomMembers(seed);
    members.resize(2);
    const PopularBlocks one = PopularBlocks::Of(0, members[0], 60), other = PopularBlocks::Of(1, members[1], 60);
    EXPECT_EQ(PopularBlocks::Merge(one, other, 60), PopularBlocks::Merge(other, one, 60)) << seed;
  }
}

TEST(PopularBlocksTest, AreMadeOfWhatAnotherMemberHasTold) {
  const PopularBlocks all = Reduce(RandomMembers(4), 60);
  EXPECT_EQ(PopularBlocks::Make(all.blocks(), all.loads()).value(), all);
  const auto refused = [&](const auto& change) {
    std::vector<PopularBlock> blocks = all.blocks();
    std::vector<PopularBlocks::Load> loads = all.loads();
    change(blocks, loads);
    return PopularBlocks::Make(blocks, loads).status().code() == Code::kCorrupt;
  };
  EXPECT_TRUE(refused([](auto& blocks, auto&) { std::swap(blocks.front(), blocks.back()); }));
  EXPECT_TRUE(refused([](auto& blocks, auto&) { blocks.push_back(blocks.back()); }));
  EXPECT_TRUE(refused([](auto&, auto& loads) { std::swap(loads.front(), loads.back()); }));
  EXPECT_TRUE(refused([](auto& blocks, auto&) { blocks.front().owner = 99; }));
  EXPECT_TRUE(refused([](auto& blocks, auto&) { blocks.back().second_owner = 99; }));
  EXPECT_TRUE(refused([](auto&, auto& loads) { loads.clear(); }));
}

// The talk's example has two processes, and K = 3.
TEST(PopularBlocksTest, TwoMembersShareThree) {
  const Members members = {{Block(1), Block(2), Block(3), Block(4)}, {Block(1), Block(2), Block(3), Block(5), Block(6)}};
  const PopularBlocks popular =
      PopularBlocks::Merge(PopularBlocks::Of(0, members[0], kAll), PopularBlocks::Of(1, members[1], kAll), 3);
  ASSERT_EQ(popular.blocks().size(), 3u);
  for (const PopularBlock& block : popular.blocks()) EXPECT_EQ(block.count, 2u);
  EXPECT_THAT(StoredBy(members, popular), ::testing::ElementsAre(3, 3)) << "of 4 and 5";
}

// The target: owners' load max/mean at most 1.1; the most loaded stores at most half of what it would alone.
TEST(PopularBlocksTest, LoadsAreEvenWhoeverHadMore) {
  constexpr uint64_t kCommon = 6000;
  for (const uint32_t count : {2u, 7u, 16u, 33u, 64u}) {
    SCOPED_TRACE(count);
    Random random(count);
    Members members(count);
    for (uint32_t member = 0; member < count; ++member) {
      for (uint64_t i = 0; i < kCommon; ++i) members[member].push_back(Block(i));
      for (uint64_t i = random.Below(kCommon / count); i > 0; --i) members[member].push_back(Block(kCommon * (member + 1) + i));
    }
    const std::vector<uint32_t> stored = StoredBy(members, Reduce(members, kAll));
    const double mean = static_cast<double>(std::accumulate(stored.begin(), stored.end(), uint64_t{0})) / count;
    const double greatest = *std::max_element(stored.begin(), stored.end());
    EXPECT_LE(greatest, 1.1 * mean);
    EXPECT_LE(greatest, 0.8 * kCommon) << "two have half each, and their own";
    if (count > 2) {
      EXPECT_LE(greatest, 0.5 * kCommon);
    }
  }
}

}  // namespace
}  // namespace kedge::reduce
