// The atlas: clusters, images and damage at random, from seeds that replay. First exactly as much is lost as the level
// promises to survive, nodes, whole failure domains, and flipped bytes counted as the loss of what they are in: then every
// image must come back, bit for bit. Then one node more: what is lost must be said, and be all that is lost.
// KEDGE_TEST_SEED=N runs one seed, KEDGE_TEST_LONG many.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "base/random.h"
#include "redundancy/testing/memory_cluster.h"

namespace kedge::redundancy {
namespace {

using testing::MemoryCluster;
using testing::MemoryNode;

constexpr uint64_t kSeeds = 400;
constexpr uint64_t kSeedsLong = 20'000;

uint64_t Length(Random& random) {
  switch (random.Below(4)) {
    case 0: return 8 + random.Below(100);
    case 1: return kBlockBytesMin * (1 + random.Below(8));
    case 2: return kBlockBytesMin * (1 + random.Below(8)) + random.Below(3) - 1;
    default: return 8 + random.Below(60'000);
  }
}

std::vector<Node> SomeNodes(Random& random, uint32_t* ranks) {
  std::vector<Node> nodes;
  const uint64_t domains = 2 + random.Below(8);
  const bool one_rank_each = random.Chance(0.3);
  for (uint64_t domain = 0; domain < domains; ++domain) {
    const uint64_t in_domain = 1 + random.Below(3);
    for (uint64_t i = 0; i < in_domain; ++i) {
      Node& node = nodes.emplace_back();
      node.name = "n" + std::to_string(nodes.size() - 1);
      node.domain = "d" + std::to_string(domain);
      const uint64_t count = one_rank_each ? 1 : random.Below(4);
      for (uint64_t r = 0; r < count; ++r) node.ranks.push_back((*ranks)++);
    }
  }
  return nodes;
}

// A cluster that can be protected, and is.
class Atlas {
 public:
  explicit Atlas(uint64_t seed) : random_(seed), cluster_(Make()) {
    if (random_.Chance(0.4)) {
      shares_ = true;
      cluster_.ShareBlocks(static_cast<uint32_t>(kBlockBytesMin * (1 + random_.Below(2))), 0.8);
    }
    const Status status = cluster_.Protect();
    EXPECT_TRUE(status.ok()) << status.ToString();
    lost_.resize(cluster_.layout().groups.size());
  }

  void Run() {
    SCOPED_TRACE(Describe(cluster_.layout()));
    LosePromised();
    FlipPromised();
    for (uint32_t rank = 0; rank < cluster_.ranks(); ++rank) {
      const auto restored = cluster_.Restore(rank, Here());
      ASSERT_TRUE(restored.status.ok()) << "rank " << rank << ": " << restored.status.ToString();
      ASSERT_TRUE(restored.bytes == cluster_.original(rank)) << "rank " << rank;
    }
    LoseOneMore();
  }

 private:
  MemoryCluster Make() {
    for (;;) {
      uint32_t ranks = 0;
      auto nodes = SomeNodes(random_, &ranks);
      LayoutOptions options;
      options.scheme = static_cast<Scheme>(1 + random_.Below(3));
      options.losses = static_cast<uint32_t>(1 + random_.Below(3));
      options.copies = static_cast<uint32_t>(1 + random_.Below(2));
      if (random_.Chance(0.5)) options.group_size = static_cast<uint32_t>(4 + random_.Below(4));
      auto layout = MakeLayout(std::move(nodes), options);
      if (!layout.ok() || ranks == 0) continue;
      std::vector<uint64_t> lengths(ranks, 8 + random_.Below(20'000));
      equal_ = random_.Chance(0.4);
      for (uint64_t& length : lengths) length = equal_ ? length : Length(random_);
      return MemoryCluster(std::move(*layout), lengths, random_.Next());
    }
  }

  uint32_t parity() const { return cluster_.layout().parity; }
  const std::vector<Node>& group(size_t g) const { return cluster_.layout().groups[g]; }
  std::string Here() { return random_.Chance(0.5) || cluster_.nodes().empty() ? "" : cluster_.nodes().begin()->first; }
  bool IsLost(const Node& node) { return cluster_.nodes().count(node.name) == 0; }
  void Lose(size_t g, const Node& node) {
    cluster_.Lose(node.name);
    ++lost_[g];
  }

  // All nodes of a failure domain, or some of each group.
  void LosePromised() {
    if (random_.Chance(0.3)) {
      const auto& any = group(random_.Below(lost_.size()));
      const std::string domain = any[random_.Below(any.size())].domain;
      for (size_t g = 0; g < lost_.size(); ++g) {
        for (const Node& node : group(g)) {
          if (node.domain == domain) Lose(g, node);
        }
        ASSERT_LE(lost_[g], 1u);
      }
      return;
    }
    for (size_t g = 0; g < lost_.size(); ++g) {
      for (uint64_t i = random_.Below(parity() + 1); i > 0; --i) {
        const Node& node = group(g)[random_.Below(group(g).size())];
        if (!IsLost(node)) Lose(g, node);
      }
    }
  }

  // One byte of each set for each loss that it could still bear, in members that are not lost. Of copies, all on one node:
  // that is what one loss is.
  void FlipPromised() {
    for (size_t g = 0; g < lost_.size(); ++g) {
      for (uint32_t left = parity() - lost_[g]; left > 0; --left) {
        const Node& node = group(g)[random_.Below(group(g).size())];
        if (!IsLost(node)) FlipSomething(cluster_.nodes()[node.name]);
      }
    }
  }

  void FlipSomething(MemoryNode& node) {
    std::vector<Buffer*> buffers;
    for (auto& [rank, image] : node.images) buffers.push_back(&image);
    for (MemoryNode::Parity& parity : node.parity) buffers.push_back(&parity.bytes);
    if (buffers.empty()) return;
    Buffer& bytes = *buffers[random_.Below(buffers.size())];
    if (!bytes.empty()) bytes[random_.Below(bytes.size())] ^= static_cast<std::byte>(1 + random_.Below(255));
    flipped_ = true;
  }

  // Until some group has lost one more than it can bear.
  void LoseOneMore() {
    const size_t g = random_.Below(lost_.size());
    while (lost_[g] <= parity()) {
      const Node& node = group(g)[random_.Below(group(g).size())];
      if (!IsLost(node)) Lose(g, node);
    }
    const RestorePlan plan = PlanRestore(cluster_.generation(), cluster_.ranks(), cluster_.Inventories(), false);
    for (uint32_t rank = 0; rank < cluster_.ranks(); ++rank) {
      const auto restored = cluster_.Restore(rank);
      const bool lost = plan.ranks[rank].sources.empty();
      if (!flipped_) {
        EXPECT_EQ(restored.status.ok(), !lost) << "rank " << rank << ": " << restored.status.ToString();
      }
      if (restored.status.ok()) {
        EXPECT_TRUE(restored.bytes == cluster_.original(rank)) << "rank " << rank;
      }
      EXPECT_EQ(plan.ranks[rank].why_lost.empty(), !lost);
      ExpectRightlyLost(g, rank, lost);
    }
  }

  void ExpectRightlyLost(size_t g, uint32_t rank, bool lost) {
    const RankPosition at = *cluster_.layout().FindRank(rank);
    const Node& node = group(at.group)[at.member];
    if (!IsLost(node) || at.group != g) {
      EXPECT_FALSE(lost) << "rank " << rank << " of " << node.name;
    } else if (cluster_.layout().scheme == Scheme::kPartner) {
      const auto holders = cluster_.layout().Holders(at.group, at.member);
      const bool copies_lost =
          std::all_of(holders.begin(), holders.end(), [&](uint32_t holder) { return IsLost(group(g)[holder]); });
      // What others of the set had, too, may be lost with these.
      EXPECT_TRUE(shares_ ? lost || !copies_lost : lost == copies_lost) << "rank " << rank << " of " << node.name;
    } else if (EveryBlockIsNeeded(g, at.index)) {
      EXPECT_TRUE(lost) << "rank " << rank << " of " << node.name;
    }
  }

  // Images so equal and so long that no segment of any of them is only zeros: then one loss too many loses each of the lost.
  bool EveryBlockIsNeeded(size_t g, uint32_t index) const {
    if (!equal_ || shares_) return false;
    const uint64_t bytes = cluster_.original(0).size();
    const Geometry geometry(static_cast<uint32_t>(group(g).size()), parity(), bytes);
    return bytes > (geometry.data() - 1) * geometry.segment_bytes() &&
           std::all_of(group(g).begin(), group(g).end(), [&](const Node& node) { return node.ranks.size() > index; });
  }

  Random random_;
  bool equal_ = false;   // all images are of one length
  bool shares_ = false;  // some have blocks in common
  MemoryCluster cluster_;
  std::vector<uint32_t> lost_;  // by group
  bool flipped_ = false;
};

TEST(Atlas, WhatIsPromisedComesBackAndWhatIsNotIsSaid) {
  if (const char* seed = std::getenv("KEDGE_TEST_SEED")) return Atlas(std::strtoull(seed, nullptr, 10)).Run();
  const uint64_t seeds = std::getenv("KEDGE_TEST_LONG") != nullptr ? kSeedsLong : kSeeds;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE("KEDGE_TEST_SEED=" + std::to_string(seed));
    Atlas(seed).Run();
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace kedge::redundancy
