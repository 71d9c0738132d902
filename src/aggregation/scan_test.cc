// The line, the tree and the summary: what agents agree on, and what it costs them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "aggregation/scan_tree.h"
#include "aggregation/testing/random_nodes.h"
#include "aggregation/testing/whole_plan.h"

namespace kedge::aggregation {
namespace {

using ::testing::ElementsAre;
using testing::MakeRandomNodes;
using testing::RandomNodes;

TEST(Line, OrdersNodesByPlaceAndName) {
  const Line line = *MakeLine({{"d", "s1"}, {"a", "s2"}, {"c", "s1"}, {"b", ""}});
  std::string names;
  for (const Member& node : line.nodes) names += node.name;
  EXPECT_EQ(names, "bcda");
  EXPECT_THAT(line.districts, ElementsAre(0, 1, 3, 4));
  EXPECT_EQ(line.DistrictOf(0), 0u);
  EXPECT_EQ(line.DistrictOf(2), 1u);
  EXPECT_EQ(line.DistrictOf(3), 2u);
}

TEST(Line, RefusesWhatIsNoSetOfNodes) {
  EXPECT_EQ(MakeLine({}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(MakeLine({{"", "s"}}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(MakeLine({{"a", "s"}, {"a", "t"}}).status().code(), Code::kInvalidArgument);
}

TEST(Line, JoinsMorePlacesThanAScanCarries) {
  for (const uint32_t places : {1u, 63u, 64u, 65u, 200u, 10000u}) {
    const Line line = *MakeLine(testing::Members(10000, places));
    EXPECT_LE(line.district_count(), kDistrictsMax);
    EXPECT_GE(line.district_count(), std::min(places, kDistrictsMax));
    for (uint32_t i = 0; i < line.district_count(); ++i) {
      const uint32_t begin = line.districts[i];
      ASSERT_LT(begin, line.districts[i + 1]);
      if (begin > 0) {
        EXPECT_NE(line.nodes[begin].place, line.nodes[begin - 1].place) << "no place is cut";
      }
      EXPECT_LE(line.districts[i + 1] - begin, 10000 / std::min(places, kDistrictsMax) + 10000 / places + 1);
    }
  }
}

TEST(ScanTree, HasEachNodeOnceAndIsShallow) {
  for (uint32_t nodes = 1; nodes <= 300; ++nodes) {
    uint32_t roots = 0, deepest = 0;
    for (uint32_t node = 0; node < nodes; ++node) {
      const TreePlace place = PlaceInTree(node, nodes);
      EXPECT_TRUE(place.begin <= node && node < place.end);
      roots += place.parent ? 0 : 1;
      deepest = std::max(deepest, place.depth);
      if (place.parent) {
        const TreePlace parent = PlaceInTree(*place.parent, nodes);
        EXPECT_EQ(node < *place.parent ? parent.left : parent.right, node);
        EXPECT_EQ(parent.depth + 1, place.depth);
      }
      for (const auto& child : {place.left, place.right}) {
        if (child) {
          EXPECT_EQ(PlaceInTree(*child, nodes).parent, node);
        }
      }
    }
    EXPECT_EQ(roots, 1u);
    EXPECT_EQ(deepest, TreeDepth(nodes));
  }
}

TEST(Scan, IsAtMostTwiceLogarithmicAndItsMessagesAreBounded) {
  for (const uint32_t nodes : {1u, 2u, 3u, 10u, 1000u, 10000u}) {
    const Line line = *MakeLine(testing::Members(nodes, std::min(nodes, 100u)));
    Random random(nodes);
    std::vector<NodeSize> sizes(nodes);
    for (NodeSize& size : sizes) size = {random.Below(1u << 30), static_cast<uint8_t>(random.Below(256))};
    const uint32_t leaders = std::min(nodes, 50u);
    const testing::ScanResult scan = testing::Scan(line, leaders, sizes);
    EXPECT_LE(scan.steps, 2 * std::log2(nodes));
    EXPECT_EQ(scan.steps, 2 * TreeDepth(nodes));
    EXPECT_EQ(scan.messages, 2 * (nodes - 1));
    EXPECT_LE(scan.message_bytes_max, MessageBytesMax(line, leaders) + 8);
    EXPECT_LE(scan.message_bytes_max, 24 + 8 * kDistrictsMax + 13 * (5 * 50 + 2 * kDistrictsMax) + 8);
    uint64_t before = 0;
    for (uint32_t i = 0; i < nodes; ++i) {
      ASSERT_EQ(scan.before[i], before);
      before += sizes[i].bytes;
    }
    EXPECT_EQ(scan.root.bytes, before);
  }
}

// Any order and grouping of merges gives the same root.
TEST(Summary, MergesInAnyOrderToTheSame) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    const RandomNodes made = MakeRandomNodes(seed, 200, uint64_t{1} << 40);
    Random random(seed + 1000);
    const auto leaders = static_cast<uint32_t>(1 + random.Below(20));
    const Summary along_tree = testing::Scan(made.line, leaders, made.sizes).root;
    std::vector<Summary> parts;
    for (uint32_t i = 0; i < made.line.size(); ++i) parts.push_back(SummaryOf(made.line, i, made.sizes[i]));
    while (parts.size() > 1) {
      std::swap(parts[random.Below(parts.size())], parts.back());
      const Summary last = std::move(parts.back());
      parts.pop_back();
      Summary& other = parts[random.Below(parts.size())];
      other = random.Chance(0.5) ? Merge(made.line, leaders, other, last) : Merge(made.line, leaders, last, other);
      EXPECT_LE(MessageBytes(other), MessageBytesMax(made.line, leaders));
    }
    EXPECT_EQ(parts[0], along_tree) << "seed " << seed;
  }
}

TEST(Summary, KeepsTheBestOfEachRanking) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    const RandomNodes made = MakeRandomNodes(seed, 300, uint64_t{1} << 30);
    const uint32_t leaders = 1 + static_cast<uint32_t>(seed % 9);
    std::vector<Candidate> all;
    for (uint32_t i = 0; i < made.line.size(); ++i) all.push_back({i, made.sizes[i].bytes, made.sizes[i].load});
    const auto kept = testing::Scan(made.line, leaders, made.sizes).root.candidates;
    const auto expect_kept = [&](size_t count) {
      for (size_t i = 0; i < std::min(count, all.size()); ++i) {
        EXPECT_THAT(kept, ::testing::Contains(all[i])) << "seed " << seed << ", place " << i;
      }
    };
    std::stable_sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) { return a.load < b.load; });
    std::stable_sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) { return a.bytes > b.bytes; });
    expect_kept(leaders);
    const auto product = [](const Candidate& a) { return a.bytes * (256u - a.load); };
    std::sort(all.begin(), all.end(), [&](const Candidate& a, const Candidate& b) {
      return std::tuple(product(b), a.load, a.node) < std::tuple(product(a), b.load, b.node);
    });
    expect_kept(size_t{2} * leaders);
  }
}

TEST(Load, IsTheWorstPressure) {
  EXPECT_EQ(LoadOf(0, 0, 0), 0);
  EXPECT_EQ(LoadOf(0.1, 0.6, 0.2), 153);
  EXPECT_EQ(LoadOf(-1, 0, 7), 255);
}

}  // namespace
}  // namespace kedge::aggregation
