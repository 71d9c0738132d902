#include "redundancy/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/random.h"

namespace kedge::redundancy {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Nodes n0, n1, ... with `ranks_each` ranks, in domains of the given sizes.
std::vector<Node> Nodes(const std::vector<uint32_t>& domain_sizes, uint32_t ranks_each = 1) {
  std::vector<Node> nodes;
  uint32_t rank = 0;
  for (size_t domain = 0; domain < domain_sizes.size(); ++domain) {
    for (uint32_t i = 0; i < domain_sizes[domain]; ++i) {
      Node& node = nodes.emplace_back();
      node.name = "n" + std::to_string(nodes.size() - 1);
      node.domain = "d" + std::to_string(domain);
      for (uint32_t r = 0; r < ranks_each; ++r) node.ranks.push_back(rank++);
    }
  }
  return nodes;
}

std::vector<size_t> Sizes(const Layout& layout) {
  std::vector<size_t> sizes;
  for (const auto& group : layout.groups) sizes.push_back(group.size());
  return sizes;
}

TEST(Layout, LeftoversAreSpread) {
  const std::vector<uint32_t> seven(7, 1);
  EXPECT_THAT(Sizes(*MakeLayout(Nodes(seven), {.scheme = Scheme::kXor, .group_size = 4})), ElementsAre(4, 3));
  const std::vector<uint32_t> five(5, 1);
  EXPECT_THAT(Sizes(*MakeLayout(Nodes(five), {.scheme = Scheme::kXor, .group_size = 4})), ElementsAre(5));
  const std::vector<uint32_t> three(3, 1);
  EXPECT_THAT(Sizes(*MakeLayout(Nodes(three), {.scheme = Scheme::kPartner})), ElementsAre(3));
  EXPECT_THAT(Sizes(*MakeLayout(Nodes(three), {.scheme = Scheme::kReedSolomon})), ElementsAre(3));
}

TEST(Layout, DoesNotDependOnTheOrderOfItsMembers) {
  Random random(1);
  std::vector<Node> nodes = Nodes({2, 3, 1, 4, 1}, 2);
  const Layout layout = *MakeLayout(nodes, {.scheme = Scheme::kXor, .group_size = 3});
  for (int i = 0; i < 20; ++i) {
    std::shuffle(nodes.begin(), nodes.end(), random);
    EXPECT_EQ(Describe(*MakeLayout(nodes, {.scheme = Scheme::kXor, .group_size = 3})), Describe(layout));
    EXPECT_EQ(MakeLayout(nodes, {.scheme = Scheme::kXor, .group_size = 3})->id, layout.id);
  }
  EXPECT_NE(MakeLayout(nodes, {.scheme = Scheme::kPartner, .group_size = 3})->id, layout.id);
  nodes[0].domain += "x";
  EXPECT_NE(MakeLayout(nodes, {.scheme = Scheme::kXor, .group_size = 3})->id, layout.id);
}

// What every layout promises, for any nodes: or it is refused, and then nothing could have done it.
TEST(Layout, NeverTwoOfOneDomainInAGroup) {
  for (uint64_t seed = 1; seed <= 2000; ++seed) {
    Random random(seed);
    std::vector<uint32_t> domains(1 + random.Below(8));
    for (uint32_t& size : domains) size = static_cast<uint32_t>(1 + random.Below(6));
    const auto nodes = Nodes(domains, static_cast<uint32_t>(random.Below(3)));
    LayoutOptions options;
    options.scheme = static_cast<Scheme>(1 + random.Below(3));
    options.losses = static_cast<uint32_t>(1 + random.Below(3));
    const uint32_t parity = options.scheme == Scheme::kReedSolomon ? options.losses : 1;
    if (random.Chance(0.7)) options.group_size = static_cast<uint32_t>(parity + 1 + random.Below(6));
    const auto layout = MakeLayout(nodes, options);
    const uint32_t largest = *std::max_element(domains.begin(), domains.end());
    if (!layout.ok()) {
      EXPECT_EQ(layout.status().code(), Code::kFailedPrecondition) << layout.status().ToString();
      EXPECT_LT(nodes.size(), largest * (parity + 1)) << "seed " << seed << ": " << layout.status().ToString();
      continue;
    }
    size_t seen = 0;
    size_t smallest = nodes.size();
    size_t greatest = 0;
    for (const auto& group : layout->groups) {
      std::set<std::string> in_group;
      for (const Node& node : group)
        EXPECT_TRUE(in_group.insert(node.domain).second) << "seed " << seed << "\n" << Describe(*layout);
      EXPECT_GT(group.size(), parity) << "seed " << seed;
      smallest = std::min(smallest, group.size());
      greatest = std::max(greatest, group.size());
      seen += group.size();
    }
    EXPECT_EQ(seen, nodes.size());
    EXPECT_LE(greatest, smallest + 1);
  }
}

TEST(Layout, SetsAreImagesOfOneNodeLocalIndex) {
  std::vector<Node> nodes = {{"a", "a", {0, 1, 2}}, {"b", "b", {3}}, {"c", "c", {}}};
  const Layout layout = *MakeLayout(nodes, {.scheme = Scheme::kXor});
  ASSERT_EQ(layout.groups.size(), 1u);
  EXPECT_EQ(layout.SetCount(0), 3u);
  EXPECT_EQ(layout.RankAt(0, 0, 2), 2u);
  EXPECT_EQ(layout.RankAt(0, 1, 0), 3u);
  EXPECT_EQ(layout.RankAt(0, 1, 1), std::nullopt);
  EXPECT_EQ(layout.RankAt(0, 2, 0), std::nullopt);
  EXPECT_EQ(layout.FindRank(3), (RankPosition{0, 1, 0}));
  EXPECT_EQ(layout.FindRank(2), (RankPosition{0, 0, 2}));
  EXPECT_EQ(layout.FindRank(4), std::nullopt);
  EXPECT_EQ(layout.Find("c"), (Position{0, 2}));
  EXPECT_EQ(layout.Find("d"), std::nullopt);
  EXPECT_THAT(Describe(layout), HasSubstr("group 0 (xor, survives 1): a ranks 0-2, b ranks 3, c no ranks"));
}

TEST(Layout, PartnersFollowInTheGroup) {
  const Layout layout = *MakeLayout(Nodes({1, 1, 1, 1}), {.scheme = Scheme::kPartner, .group_size = 4, .copies = 2});
  EXPECT_THAT(layout.Holders(0, 3), ElementsAre(0, 1));
  EXPECT_THAT(layout.HeldBy(0, 0), ElementsAre(3, 2));
}

TEST(Layout, WhatCannotProtectSaysWhy) {
  const auto refused = [](const std::vector<Node>& nodes, const LayoutOptions& options) {
    const auto layout = MakeLayout(nodes, options);
    return layout.ok() ? "accepted:\n" + Describe(*layout) : layout.status().ToString();
  };
  EXPECT_THAT(refused(Nodes({1}), {}), HasSubstr("1 node cannot be protected by scheme xor against 1 loss"));
  EXPECT_THAT(refused(Nodes({1}), {}), HasSubstr("Launch on more nodes, or set protect.scheme"));
  EXPECT_THAT(refused({}, {}), HasSubstr("0 nodes"));
  EXPECT_THAT(refused(Nodes({4}), {}), HasSubstr("4 of 4 nodes are in failure domain \"d0\""));
  EXPECT_THAT(refused(Nodes({1, 1}), {.scheme = Scheme::kReedSolomon}), HasSubstr("at least 3 nodes"));
  EXPECT_THAT(refused(Nodes({1, 1}), {.scheme = Scheme::kXor, .group_size = 1}), HasSubstr("1 are asked for"));
  EXPECT_THAT(refused(Nodes({1, 1}), {.scheme = Scheme::kNone}), HasSubstr("no scheme"));
  EXPECT_THAT(refused({{"a", "a", {0}}, {"a", "b", {1}}}, {}), HasSubstr("two nodes have the name \"a\""));
  EXPECT_THAT(refused({{"a", "a", {0}}, {"b", "b", {0}}}, {}), HasSubstr("rank 0 is on two nodes"));
  EXPECT_THAT(refused({{"a", "a", {1, 0}}, {"b", "b", {}}}, {}), HasSubstr("not in order"));
}

}  // namespace
}  // namespace kedge::redundancy
