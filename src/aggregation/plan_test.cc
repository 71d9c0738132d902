// Shares and ranges: each node alone, with what the scan tells it, and all of them together fill the objects.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "aggregation/ranges.h"
#include "aggregation/testing/random_nodes.h"
#include "aggregation/testing/whole_plan.h"

namespace kedge::aggregation {
namespace {

using ::testing::ElementsAre;
using testing::MakeRandomNodes;
using testing::RandomNodes;

struct Case {
  RandomNodes made;
  ElectionOptions options;
  std::vector<std::vector<uint64_t>> images;  // by node
};

Case RandomCase(uint64_t seed) {
  Case made{MakeRandomNodes(seed, 60, 1 << 16), {}, {}};
  Random random(seed + 7);
  made.options.counts = testing::RandomCounts(random, made.made.line.size());
  made.options.stripe_bytes = 1 + random.Below(1 << 13);
  for (const NodeSize& size : made.made.sizes) {
    std::vector<uint64_t>& images = made.images.emplace_back();
    uint64_t left = size.bytes;
    for (uint64_t i = random.Below(5); i > 0; --i) left -= images.emplace_back(random.Below(left + 1));
    images.push_back(left);
  }
  return made;
}

struct Written {
  uint64_t end = 0;
  uint32_t writer = 0;
};
using Objects = std::map<uint32_t, std::map<uint64_t, Written>>;

// Every byte of every image once; the objects without gap or overlap.
Objects Check(const Case& made, const std::vector<std::vector<ImageRange>>& by_node, uint64_t seed) {
  Objects objects;
  for (size_t node = 0; node < by_node.size(); ++node) {
    std::vector<std::vector<std::pair<uint64_t, uint64_t>>> of_image(made.images[node].size());
    for (const ImageRange& range : by_node[node]) {
      EXPECT_GT(range.to.bytes, 0u);
      of_image[range.image].emplace_back(range.offset, range.to.bytes);
      const bool is_new =
          objects[range.to.object].insert({range.to.offset, {range.to.offset + range.to.bytes, range.writer}}).second;
      EXPECT_TRUE(is_new) << "seed " << seed;
    }
    for (size_t image = 0; image < of_image.size(); ++image) {
      std::sort(of_image[image].begin(), of_image[image].end());
      uint64_t at = 0;
      for (const auto& [offset, bytes] : of_image[image]) {
        EXPECT_EQ(offset, at) << "seed " << seed << ", node " << node << ", image " << image;
        at += bytes;
      }
      EXPECT_EQ(at, made.images[node][image]) << "seed " << seed << ", node " << node << ", image " << image;
    }
  }
  for (const auto& [object, runs] : objects) {
    uint64_t at = 0;
    for (const auto& [offset, run] : runs) {
      EXPECT_EQ(offset, at) << "seed " << seed << ", object " << object;
      at = run.end;
    }
  }
  return objects;
}

TEST(Plan, WritesEachByteOnceAndGivesNoStripeTwoWriters) {
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    const Case made = RandomCase(seed);
    const Line& line = made.made.line;
    const auto scan = testing::Scan(line, made.options.counts.leaders, made.made.sizes);
    const Roles roles = Elect(line, scan.root, made.options);
    std::vector<std::vector<ImageRange>> by_node;
    uint64_t moved = 0, far = 0;
    for (uint32_t node = 0; node < line.size(); ++node) {
      by_node.push_back(RangesOf(line, roles, node, scan.before[node], made.images[node]));
      for (const ImageRange& range : by_node.back()) {
        moved += range.writer != node ? range.to.bytes : 0;
        far += line.DistrictOf(range.writer) != line.DistrictOf(node) ? range.to.bytes : 0;
      }
    }
    const Objects objects = Check(made, by_node, seed);
    EXPECT_EQ(moved, roles.moved_bytes()) << "seed " << seed;
    EXPECT_EQ(far, roles.far_bytes) << "seed " << seed;
    EXPECT_EQ(objects.size(), roles.objects);
    uint64_t least = UINT64_MAX, most = 0;
    for (const auto& [object, runs] : objects) {
      std::map<uint64_t, uint32_t> writers;  // by stripe
      for (const auto& [offset, run] : runs) {
        for (uint64_t stripe = offset / roles.stripe_bytes; stripe <= (run.end - 1) / roles.stripe_bytes; ++stripe) {
          EXPECT_EQ(writers.insert({stripe, run.writer}).first->second, run.writer) << "seed " << seed << ", stripe " << stripe;
        }
      }
      least = std::min<uint64_t>(least, writers.size());
      most = std::max<uint64_t>(most, writers.size());
    }
    if (!objects.empty()) {
      EXPECT_LE(most, least + 1) << "objects differ by a stripe";
    }
  }
}

// A node's sends are few: to the leaders whose room its surplus falls into, and they follow each other.
TEST(Plan, ANodeSendsToFewLeaders) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    const Case made = RandomCase(seed);
    const Line& line = made.made.line;
    const auto scan = testing::Scan(line, made.options.counts.leaders, made.made.sizes);
    const Roles roles = Elect(line, scan.root, made.options);
    size_t transfers = 0;
    for (uint32_t node = 0; node < line.size(); ++node) {
      transfers += ShareOf(line, roles, node, scan.before[node], made.made.sizes[node].bytes).size();
    }
    // Each cut of the north-west corner is the end of a node, of a leader's room or of a district's part in either.
    EXPECT_LE(transfers, line.size() + 2 * roles.leaders.size() + 4 * line.district_count()) << "seed " << seed;
  }
}

// The order in which nodes are known, and who computes, changes nothing.
TEST(Plan, IsTheSameForAll) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    const Case made = RandomCase(seed);
    std::vector<Member> shuffled = made.made.line.nodes;
    Random random(seed);
    std::shuffle(shuffled.begin(), shuffled.end(), random);
    const Line line = *MakeLine(std::move(shuffled));
    const auto scan = testing::Scan(line, made.options.counts.leaders, made.made.sizes);
    const auto again = testing::Scan(made.made.line, made.options.counts.leaders, made.made.sizes);
    EXPECT_EQ(line.districts, made.made.line.districts);
    EXPECT_EQ(scan.root, again.root);
    const Roles roles = Elect(line, scan.root, made.options);
    const Roles others = Elect(made.made.line, again.root, made.options);
    for (uint32_t node = 0; node < line.size(); ++node) {
      EXPECT_EQ(RangesOf(line, roles, node, scan.before[node], made.images[node]),
                RangesOf(made.made.line, others, node, again.before[node], made.images[node]));
    }
  }
}

TEST(Plan, ByPrefixIsOneObjectWithoutGap) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    const Case made = RandomCase(seed);
    const auto scan = testing::Scan(made.made.line, 1, made.made.sizes);
    std::vector<std::vector<ImageRange>> by_node;
    for (uint32_t node = 0; node < made.made.line.size(); ++node) {
      by_node.push_back(RangesByPrefix(node, scan.before[node], made.images[node]));
      for (const ImageRange& range : by_node.back()) EXPECT_EQ(range.writer, node);
    }
    EXPECT_LE(Check(made, by_node, seed).size(), 1u);
  }
}

// Four nodes of 10, 4, 4 and 6 bytes, stripes of 4, two leaders: nodes 0 and 3 lead, 12 bytes each.
TEST(Plan, SmallExample) {
  const Line line = *MakeLine({{"a", "s"}, {"b", "s"}, {"c", "s"}, {"d", "s"}});
  const auto scan = testing::Scan(line, 2, {{10, 0}, {4, 0}, {4, 0}, {6, 0}});
  const Roles two_objects = Elect(line, scan.root, {{2, 2}, 4});
  EXPECT_THAT(RangesOf(line, two_objects, 0, 0, {3, 7}),
              ElementsAre(ImageRange{0, 0, 0, {0, 0, 3}}, ImageRange{1, 0, 0, {0, 3, 7}}));
  EXPECT_THAT(RangesOf(line, two_objects, 1, 10, {4}),
              ElementsAre(ImageRange{0, 0, 0, {0, 10, 2}}, ImageRange{0, 2, 3, {1, 6, 2}}));
  EXPECT_THAT(RangesOf(line, two_objects, 2, 14, {4}), ElementsAre(ImageRange{0, 0, 3, {1, 8, 4}}));
  EXPECT_THAT(RangesOf(line, two_objects, 3, 18, {6}), ElementsAre(ImageRange{0, 0, 3, {1, 0, 6}}));
  const Roles one_object = Elect(line, scan.root, {{2, 1}, 4});  // stripes 0, 2, 4 are node 0's
  EXPECT_THAT(RunsOf(one_object, 0, 2, 8), ElementsAre(ObjectRun{0, 2, 2}, ObjectRun{0, 8, 4}, ObjectRun{0, 16, 2}));
  const Roles four_objects = Elect(line, scan.root, {{2, 4}, 4});
  EXPECT_THAT(RunsOf(four_objects, 1, 0, 12), ElementsAre(ObjectRun{1, 0, 4}, ObjectRun{3, 0, 4}, ObjectRun{1, 4, 4}));
}

}  // namespace
}  // namespace kedge::aggregation
