// What nodes write for each other: whatever they have in common, each image is read as it was captured, and each common block is
// written by one of them.
#include "reduce/common_blocks.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "reduce/fingerprint.h"
#include "reduce/popular_blocks.h"
#include "reduce/testing/written_images.h"

namespace kedge::reduce {
namespace {

// Each node has one image here.

// Of each whole block of an image, one place.
std::map<Fingerprint, ByteSpan> BlocksOf(const Captured& captured) {
  std::map<Fingerprint, ByteSpan> blocks;
  for (const Buffer& content : captured.contents) {
    for (size_t at = 0; at + kBlock <= content.size(); at += kBlock) {
      const ByteSpan block = ByteSpan(content).subspan(at, kBlock);
      if (!IsZeros(block)) blocks.emplace(FingerprintOf(block), block);
    }
  }
  return blocks;
}

// All summaries, one after the other.
PopularBlocks AllOf(const std::vector<Captured>& nodes, size_t most) {
  PopularBlocks all;
  for (uint32_t node = 0; node < nodes.size(); ++node) {
    std::vector<Fingerprint> blocks;
    for (const auto& [fingerprint, bytes] : BlocksOf(nodes[node])) blocks.push_back(fingerprint);
    const PopularBlocks one = PopularBlocks::Of(node, blocks, most);
    all = node == 0 ? one : PopularBlocks::Merge(all, one, most);
  }
  return all;
}

std::shared_ptr<const CommonBlocks> Agree(const PopularBlocks& popular, int64_t version = 1) {
  return std::make_shared<const CommonBlocks>(popular, kBlock, [&](uint32_t member, const Fingerprint& agreed) {
    return fmt::format("v{}/s{}.{}", version, member, static_cast<unsigned>(agreed[0]));
  });
}

// Each node writes its part of them.
void WriteShares(const CommonBlocks& common, const std::vector<Captured>& nodes, Objects* objects) {
  for (uint32_t node = 0; node < nodes.size(); ++node) {
    const auto share = common.ShareOf(node);
    if (!share) continue;
    const std::map<Fingerprint, ByteSpan> own = BlocksOf(nodes[node]);
    Buffer& object = (*objects)[share->object.key];
    for (const Fingerprint& block : share->blocks) {
      const ByteSpan bytes = own.at(block);
      object.insert(object.end(), bytes.begin(), bytes.end());
    }
    EXPECT_EQ(object.size(), share->object.bytes);
  }
}

std::vector<Buffer> SomeInCommon(Random& random, uint64_t pool) {
  std::vector<Buffer> contents;
  for (uint64_t chunks = 1 + random.Below(3); chunks > 0; --chunks) {
    Buffer& content = contents.emplace_back(1 + random.Below(30 * kBlock));
    for (size_t at = 0; at < content.size(); at += kBlock) {
      const uint64_t kind = random.Below(4);
      Random bytes(kind == 0 ? random.Below(UINT64_MAX) : 1000 + random.Below(pool));
      if (kind < 3) bytes.Fill(&content[at], std::min<size_t>(kBlock, content.size() - at));
    }
  }
  return contents;
}

TEST(CommonReduction, VersionsAreReadAsTheyWereCaptured) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    const size_t most = seed % 3 == 0 ? 5 : 1000, count = 1 + random.Below(6);
    Objects objects;
    std::vector<Stored> before;
    for (int64_t version = 1; version <= 4; ++version) {
      std::vector<Captured> nodes;
      for (uint32_t node = 0; node < count; ++node) nodes.push_back(Capture(version, SomeInCommon(random, 20), node));
      const auto common = Agree(AllOf(nodes, most), version);
      WriteShares(*common, nodes, &objects);
      std::set<Fingerprint> agreed;
      std::vector<Stored> stored;
      for (uint32_t node = 0; node < count; ++node) {
        const auto base = before.empty() || seed % 2 == 0 ? nullptr : BaseOf(before[node]);
        Writing writing(nodes[node], fmt::format("v{}/r{}", version, node), base, nullptr, std::make_shared<Buffer>(), common);
        writing.WritePieces({.compress = seed % 5 == 0, .deduplicate = seed % 7 == 0}, random);
        stored.push_back(Publish(writing, {}, &objects));
        ExpectReadable(stored.back(), objects);
        if (::testing::Test::HasFatalFailure()) return;
        for (const auto& [fingerprint, bytes] : BlocksOf(nodes[node])) {
          if (common->Find(fingerprint)) agreed.insert(fingerprint);
        }
        // Nobody writes those for itself, unless the version before has them.
        const Buffer& own = objects.at(stored.back().key);
        for (size_t at = 0; seed % 5 != 0 && at + kBlock <= own.size(); at += kBlock) {
          EXPECT_FALSE(common->Find(FingerprintOf(ByteSpan(own).subspan(at, kBlock))));
        }
      }
      uint64_t bytes = 0;
      for (const SharedObject& object : common->objects()) bytes += object.bytes;
      EXPECT_EQ(bytes, agreed.size() * kBlock);
      before = std::move(stored);
    }
  }
}

TEST(CommonReduction, WhatOneNodeHasAloneIsNotAgreedOn) {
  Random random(1);
  const std::vector<Captured> nodes = {Capture(1, {RandomBytes(random, 8 * kBlock)}, 0),
                                       Capture(1, {RandomBytes(random, 8 * kBlock)}, 1)};
  const PopularBlocks all = AllOf(nodes, 100);
  EXPECT_EQ(all.blocks().size(), 16u);
  EXPECT_TRUE(all.OfSeveral().blocks().empty());
  EXPECT_TRUE(Agree(all)->objects().empty());
  EXPECT_FALSE(Agree(all)->ShareOf(0));
}

TEST(CommonReduction, OtherAgreementsHaveOtherObjects) {
  Random random(1);
  const std::vector<Buffer> same = {RandomBytes(random, 8 * kBlock)};
  const std::vector<Captured> nodes = {Capture(1, same, 0), Capture(1, same, 1)};
  const auto all = Agree(AllOf(nodes, 100)), some = Agree(AllOf(nodes, 7));
  EXPECT_NE(all->objects()[0].key, some->objects()[0].key);
  EXPECT_EQ(all->objects(), Agree(AllOf(nodes, 100).OfSeveral())->objects()) << "as the nodes hear of them";
}

// A restart opens so many objects more, at most.
TEST(CommonReduction, AnImageRefersToSomeObjectsAtMost) {
  Random random(1);
  constexpr uint32_t kNodes = CommonBorrower::kObjectsMax + 10;
  std::vector<Buffer> same = {RandomBytes(random, 40 * kNodes * kBlock)};
  std::vector<Captured> nodes;
  for (uint32_t node = 0; node < kNodes; ++node) nodes.push_back(Capture(1, same, 0));
  const auto common = Agree(AllOf(nodes, 100'000));
  ASSERT_EQ(common->objects().size(), kNodes);
  Objects objects;
  WriteShares(*common, nodes, &objects);
  Writing writing(nodes[0], "v1/r0", nullptr, nullptr, std::make_shared<Buffer>(), common);
  writing.WritePieces({}, random);
  EXPECT_EQ(writing.CommonObjects().size(), CommonBorrower::kObjectsMax);
  ExpectReadable(Publish(writing, {}, &objects), objects);
}

TEST(CommonReduction, AnImageThatStandsAloneRefersToNone) {
  Random random(1);
  const std::vector<Buffer> same = {RandomBytes(random, 8 * kBlock)};
  const std::vector<Captured> nodes = {Capture(1, same, 0), Capture(1, same, 1)};
  Objects objects;
  Writing writing(nodes[0], "v1/r0", nullptr, nullptr, std::make_shared<Buffer>(), Agree(AllOf(nodes, 100)));
  writing.WritePieces({.may_borrow = false}, random);
  EXPECT_TRUE(writing.CommonObjects().empty());
  ExpectReadable(Publish(writing, {}, &objects), objects);
}

// Another node's use of such an object is not known: it is left when little of it is used here.
TEST(BaseImage, RefersToCommonObjectsThatAreUsedALittle) {
  Random random(1);
  Buffer large = RandomBytes(random, 64 * kBlock), small(large.begin(), large.begin() + 16 * kBlock);
  const std::vector<Captured> nodes = {Capture(1, {large}, 0), Capture(1, {large}, 1)};
  const auto common = Agree(AllOf(nodes, 100));
  Objects objects;
  WriteShares(*common, nodes, &objects);
  Writing writing(Capture(1, {small}, 2), "v1/r2", nullptr, nullptr, std::make_shared<Buffer>(), common);
  writing.WritePieces({}, random);
  const Stored stored = Publish(writing, {}, &objects);
  SharingLimits limits;
  const auto found = [&] {
    return BaseImage::Make(stored.captured.record, stored.map, stored.key, limits).value().objects().size();
  };
  EXPECT_EQ(found(), 0u) << "of another rank's object more than half is unused";
  limits.is_common = [](std::string_view object) { return object.find("/s") != std::string_view::npos; };
  EXPECT_GE(found(), 1u);
  limits.common_live_min = 0.9;
  EXPECT_EQ(found(), 0u);
}

}  // namespace
}  // namespace kedge::reduce
