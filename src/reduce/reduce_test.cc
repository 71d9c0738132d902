// Whatever a program changes between two versions, what is read through the block map is what was captured.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "base/random.h"
#include "reduce/base_image.h"
#include "reduce/borrower.h"
#include "reduce/fingerprint.h"
#include "reduce/image_reduction.h"
#include "reduce/stored_block.h"
#include "reduce/testing/written_images.h"

namespace kedge::reduce {
namespace {

void Mutate(Random& random, std::vector<Buffer>* contents) {
  for (Buffer& content : *contents) {
    const uint64_t blocks = content.size() / kBlock + 1;
    for (uint64_t changes = random.Below(blocks / 2 + 1); changes > 0; --changes) {
      const size_t at = random.Below(content.size());
      const size_t bytes = std::min<size_t>(1 + random.Below(2 * kBlock), content.size() - at);
      switch (random.Below(4)) {
        case 0: std::fill_n(content.begin() + static_cast<std::ptrdiff_t>(at), bytes, std::byte{0}); break;
        case 1: std::memmove(&content[at], &content[random.Below(content.size() - bytes + 1)], bytes); break;
        default: random.Fill(&content[at], bytes);
      }
    }
  }
  // One region grows or shrinks: what follows lies elsewhere.
  if (random.Below(3) == 0) {
    Buffer& content = (*contents)[random.Below(contents->size())];
    const size_t bytes = 1 + random.Below(6 * kBlock);
    if (bytes > content.size()) random.Fill((content.resize(bytes), content.data()), bytes);
    content.resize(bytes);
  }
}

TEST(Reduction, VersionsAreReadAsTheyWereCaptured) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    std::vector<Buffer> contents;
    for (uint64_t chunks = 1 + random.Below(4); chunks > 0; --chunks) {
      contents.push_back(RandomBytes(random, 1 + random.Below(40 * kBlock)));
    }
    const size_t piece_bytes = kBlock << random.Below(4);
    const bool compress = seed % 2 == 1, deduplicate = seed % 3 == 1;
    Objects objects;
    std::vector<Stored> versions;
    for (int64_t version = 0; version < 25; ++version) {
      SCOPED_TRACE(fmt::format("version {}", version));
      const Stored* const base = version == 0 ? nullptr : &versions.back();
      versions.push_back(Write(Capture(version, contents), base, piece_bytes, random, &objects, compress, deduplicate));
      ExpectReadable(versions.back(), objects);
      if (::testing::Test::HasFatalFailure()) return;
      const BlockMap& map = versions.back().map;
      EXPECT_LE(map.objects.size(), SharingLimits().objects_max);
      // What is kept for this version's sake is not much more than it has.
      uint64_t room = 0, kept = 0;
      for (const Buffer& content : contents) room += AlignChunkOffset(content.size());
      for (const SharedObject& object : map.objects) {
        // Between pieces that are compressed there are gaps.
        EXPECT_LE(object.bytes, objects.at(object.key).size());
        if (!compress) {
          EXPECT_EQ(object.bytes, objects.at(object.key).size());
        }
        kept += object.bytes;
      }
      if (version > 0) {
        uint64_t before = 0;
        for (const Buffer& content : versions[versions.size() - 2].captured.contents) before += AlignChunkOffset(content.size());
        EXPECT_LE(kept, 2 * before);
      }
      if (compress) room += room / kBlock * kStoredBlockOverheadBytes + (room / piece_bytes + contents.size()) * kChunkAlignment;
      EXPECT_LE(objects.at(versions.back().key).size(), room);
      Mutate(random, &contents);
    }
  }
}

TEST(Reduction, AnEqualImageAndZerosCostNothing) {
  Random random(1);
  Objects objects;
  std::vector<Buffer> contents = {RandomBytes(random, 10 * kBlock + 7), Buffer(5 * kBlock)};
  const Stored first = Write(Capture(1, contents), nullptr, 4 * kBlock, random, &objects);
  EXPECT_EQ(objects.at("v1").size(), 11 * kBlock) << "the zeros lie nowhere";
  const Stored second = Write(Capture(2, contents), &first, 4 * kBlock, random, &objects);
  EXPECT_TRUE(objects.at("v2").empty());
  // And of the third the second knows where the first's lie: no chain is followed.
  const Stored third = Write(Capture(3, contents), &second, 4 * kBlock, random, &objects);
  ASSERT_EQ(third.map.objects.size(), 1u);
  EXPECT_EQ(third.map.objects.front(), (SharedObject{"v1", 11 * kBlock}));
  ExpectReadable(third, objects);
}

TEST(Reduction, BlocksThatHaveMovedAreFound) {
  Random random(2);
  Objects objects;
  const Buffer moved = RandomBytes(random, 8 * kBlock);
  const Stored first = Write(Capture(1, {RandomBytes(random, kBlock), moved}), nullptr, 8 * kBlock, random, &objects);
  const Stored second = Write(Capture(2, {RandomBytes(random, 3 * kBlock), moved}), &first, 8 * kBlock, random, &objects);
  EXPECT_EQ(objects.at("v2").size(), 3 * kBlock);
  ExpectReadable(second, objects);
}

// A version with one block changed each time: in the end all objects of the chain hold something.
TEST(Reduction, RefersToFewObjectsHoweverLongTheChain) {
  Random random(3);
  Objects objects;
  std::vector<Buffer> contents = {RandomBytes(random, 100 * kBlock)};
  Stored before = Write(Capture(0, contents), nullptr, 16 * kBlock, random, &objects);
  std::set<size_t> numbers;
  uint64_t written = 0;
  for (int64_t version = 1; version <= 60; ++version) {
    random.Fill(&contents[0][static_cast<size_t>(version) * kBlock], kBlock);
    before = Write(Capture(version, contents), &before, 16 * kBlock, random, &objects);
    ExpectReadable(before, objects);
    numbers.insert(before.map.objects.size());
    written += objects.at(before.key).size();
  }
  EXPECT_EQ(*numbers.rbegin(), SharingLimits().objects_max);
  EXPECT_LT(written, 60 * 12 * uint64_t{kBlock}) << "an eighth of what full images would have taken";
}

// Half of an object's blocks are gone: the rest is written anew, so that it need not be kept.
TEST(Reduction, AnObjectThatIsMostlyUnusedIsLeft) {
  Random random(4);
  Objects objects;
  std::vector<Buffer> contents = {RandomBytes(random, 10 * kBlock)};
  const Stored first = Write(Capture(1, contents), nullptr, 16 * kBlock, random, &objects);
  random.Fill(contents[0].data(), 6 * kBlock);
  const Stored second = Write(Capture(2, contents), &first, 16 * kBlock, random, &objects);
  EXPECT_EQ(objects.at("v2").size(), 6 * kBlock) << "the first is shared with once more";
  const Stored third = Write(Capture(3, contents), &second, 16 * kBlock, random, &objects);
  ASSERT_EQ(third.map.objects.size(), 1u);
  EXPECT_EQ(third.map.objects.front().key, "v2");
  EXPECT_EQ(objects.at("v3").size(), 4 * kBlock);
  ExpectReadable(third, objects);
}

TEST(Reduction, EqualBlocksOfAnImageLieInOnePlace) {
  Random random(7);
  const Buffer a = RandomBytes(random, kBlock), b = RandomBytes(random, kBlock), end = RandomBytes(random, 10);
  std::vector<Buffer> contents(2);
  for (const Buffer* block : {&a, &b, &a, &a, &b, &end}) contents[0].insert(contents[0].end(), block->begin(), block->end());
  for (const Buffer* block : {&b, &a, &end}) contents[1].insert(contents[1].end(), block->begin(), block->end());
  Objects objects;
  const Stored first =
      Write(Capture(1, contents), nullptr, 2 * kBlock, random, &objects, /*compress=*/false, /*deduplicate=*/true);
  EXPECT_EQ(objects.at("v1").size(), 3 * kBlock);
  ExpectReadable(first, objects);
  // Of the next version they are in the object before, which has each of them once.
  contents[0].resize(3 * kBlock);
  const Stored second =
      Write(Capture(2, contents), &first, 2 * kBlock, random, &objects, /*compress=*/false, /*deduplicate=*/true);
  EXPECT_TRUE(objects.at("v2").empty());
  ASSERT_EQ(second.map.objects.size(), 1u);
  EXPECT_EQ(second.map.objects.front(), (SharedObject{"v1", 3 * kBlock}));
  ExpectReadable(second, objects);
}

// A piece whose write has failed is written again, perhaps with another content: what was a copy of it is none any more.
TEST(Reduction, ACopyOfWhatHasChangedIsRefused) {
  Random random(8);
  Buffer content = RandomBytes(random, kBlock);
  content.insert(content.end(), content.begin(), content.end());
  const Captured captured = Capture(1, {content});
  ImageReduction reduction(0, kBlock, ImageReduction::Pieces::kReduced, nullptr);
  FirstBlocks firsts;
  const auto add = [&](uint64_t at) {
    reduction.Add(at, ReducePiece(ByteSpan(content).subspan(at, kBlock), {0, at}, kBlock, {.image = &firsts}));
  };
  add(kBlock);
  add(0);
  EXPECT_TRUE(reduction.Finish(captured.record, {}).ok());
  add(kBlock);
  EXPECT_TRUE(reduction.Finish(captured.record, {}).ok()) << "the first one again, as it was";
  content[kBlock] ^= std::byte{1};
  add(kBlock);
  EXPECT_EQ(reduction.Finish(captured.record, {}).status().code(), Code::kInternal);
}

Buffer Concatenated(const std::vector<const Buffer*>& blocks) {
  Buffer content;
  for (const Buffer* block : blocks) content.insert(content.end(), block->begin(), block->end());
  return content;
}

// The images that ranks of a node write at a time, of one version after the other.
class Node {
 public:
  Node(uint64_t seed, uint32_t ranks) : random_(seed), stored_(ranks) {}

  Random& random() { return random_; }
  const Objects& objects() const { return objects_; }
  const Stored& stored(uint32_t rank) const { return *stored_[rank]; }
  uint64_t written_bytes() const { return written_bytes_; }

  void Begin(int64_t version) {
    version_ = version;
    one_object_ = is_one_object_ ? std::make_shared<Buffer>() : nullptr;
    node_ = std::make_shared<FirstBlocks>();
    writing_.clear();
  }
  // Again: anew, under another name, as a try that has failed.
  void Write(uint32_t rank, const std::vector<Buffer>& contents, const Writing::Options& options,
             const LiveBytes* live = nullptr) {
    const auto base = stored_[rank] && shares_ ? BaseOf(*stored_[rank], live) : nullptr;
    const std::string key = is_one_object_ ? fmt::format("v{}/n", version_) : fmt::format("v{}/r{}.{}", version_, rank, ++tries_);
    writing_.erase(rank);
    const auto object = is_one_object_ ? one_object_ : std::make_shared<Buffer>();
    const auto written = writing_.try_emplace(rank, Capture(version_, contents, rank), key, base, node_, object).first;
    written->second.WritePieces(options, random_);
  }
  void GiveUp(uint32_t rank) { writing_.erase(rank); }
  Lenders AllLenders() const {
    Lenders lenders;
    uint64_t all_bytes = 0;
    for (const auto& [rank, writing] : writing_) all_bytes += writing.own_bytes();
    for (const auto& [rank, writing] : writing_) {
      lenders[rank] = writing.AsLender(is_one_object_ ? all_bytes : writing.own_bytes());
    }
    return lenders;
  }
  Code FinishOf(uint32_t rank) const { return writing_.at(rank).Finish(AllLenders()).status().code(); }
  // All that is written, and read back.
  void PublishAll() {
    std::set<const Buffer*> written;
    for (const auto& [rank, writing] : writing_) {
      stored_[rank] = Publish(writing, AllLenders(), &objects_);
      written.insert(&writing.object());
    }
    written_bytes_ = 0;
    for (const Buffer* object : written) written_bytes_ += object->size();
    for (const auto& [rank, writing] : writing_) ExpectReadable(*stored_[rank], objects_);
  }
  LiveBytes Live() const {
    std::vector<LiveBytes::StoredMap> maps;
    for (const auto& stored : stored_) {
      if (stored) maps.push_back({&stored->captured.record, &stored->map, stored->key});
    }
    return LiveBytes(maps);
  }
  void set_shares(bool shares) { shares_ = shares; }
  // All images of a version lie in one.
  void set_one_object(bool is_one) { is_one_object_ = is_one; }

 private:
  Random random_;
  Objects objects_;
  std::vector<std::optional<Stored>> stored_;  // of the last version
  int64_t version_ = 0;
  bool shares_ = false;
  bool is_one_object_ = false;
  std::shared_ptr<Buffer> one_object_;
  int tries_ = 0;
  std::shared_ptr<FirstBlocks> node_;
  std::map<uint32_t, Writing> writing_;
  uint64_t written_bytes_ = 0;
};

TEST(NodeReduction, BlocksOfSeveralRanksAreWrittenOnce) {
  Node node(11, 3);
  Random& random = node.random();
  const Buffer a = RandomBytes(random, kBlock), b = RandomBytes(random, kBlock), c = RandomBytes(random, kBlock),
               end = RandomBytes(random, 10), other_end = RandomBytes(random, 11);
  node.Begin(1);
  node.Write(0, {Concatenated({&a, &b, &a, &end})}, {});
  node.Write(1, {Concatenated({&c, &b, &b, &end})}, {});
  node.Write(2, {Concatenated({&b, &c, &other_end}), Concatenated({&a})}, {});
  node.PublishAll();
  EXPECT_EQ(node.written_bytes(), 5 * kBlock) << "a, b, c and two short ones";
  const BlockMap& last = node.stored(2).map;
  ASSERT_EQ(last.objects.size(), 2u);
  for (const SharedObject& object : last.objects) EXPECT_EQ(object.bytes, node.objects().at(object.key).size()) << object.key;
}

TEST(NodeReduction, BlocksOfSeveralRanksInOneObjectAreWrittenOnce) {
  Node node(11, 3);
  node.set_one_object(true);
  node.set_shares(true);
  Random& random = node.random();
  const Buffer a = RandomBytes(random, kBlock), b = RandomBytes(random, kBlock), c = RandomBytes(random, kBlock);
  const std::vector<std::vector<Buffer>> contents = {
      {Concatenated({&a, &b})}, {Concatenated({&c, &b, &b})}, {Concatenated({&b, &c}), Concatenated({&a})}};
  for (int64_t version = 1; version <= 3; ++version) {
    const LiveBytes live = node.Live();
    node.Begin(version);
    for (uint32_t rank = 0; rank < 3; ++rank) node.Write(rank, contents[rank], {}, version > 1 ? &live : nullptr);
    node.PublishAll();
    EXPECT_EQ(node.written_bytes(), version == 1 ? 3 * kBlock : 0);
    for (uint32_t rank = version == 1 ? 1 : 0; rank < 3; ++rank) {
      const std::vector<SharedObject>& objects = node.stored(rank).map.objects;
      ASSERT_EQ(objects.size(), 1u) << "one object has one name";
      EXPECT_EQ(objects.front(), (SharedObject{"v1/n", 3 * kBlock})) << "with all that lies there";
    }
  }
}

// An object of several images goes when they use little of it together, and not before.
TEST(NodeReduction, WhatAllRanksUseOfTheirOneObjectCounts) {
  Node node(16, 4);
  node.set_one_object(true);
  node.set_shares(true);
  std::vector<std::vector<Buffer>> contents;
  for (uint32_t rank = 0; rank < 4; ++rank) contents.push_back({RandomBytes(node.random(), 10 * kBlock)});
  const auto write = [&](int64_t version) {
    const LiveBytes live = node.Live();
    node.Begin(version);
    for (uint32_t rank = 0; rank < 4; ++rank) node.Write(rank, contents[rank], {}, version > 1 ? &live : nullptr);
    node.PublishAll();
  };
  write(1);
  // One rank has changed all but one of its blocks, which is a fifth of the object.
  node.random().Fill(&contents[0][0][kBlock], 9 * kBlock);
  write(2);
  EXPECT_EQ(node.written_bytes(), 9 * kBlock);
  write(3);
  EXPECT_EQ(node.written_bytes(), 0u) << "the others use the most of it";
  for (uint32_t rank = 1; rank < 3; ++rank) node.random().Fill(&contents[rank][0][kBlock], 9 * kBlock);
  write(4);
  write(5);
  EXPECT_EQ(node.written_bytes(), 13 * kBlock) << "of the first object nobody uses the most any more";
  for (uint32_t rank = 0; rank < 4; ++rank) {
    for (const SharedObject& object : node.stored(rank).map.objects) EXPECT_NE(object.key, "v1/n");
  }
}

TEST(NodeReduction, ALenderThatIsWrittenAnewIsFoundWhereItLiesThen) {
  Node node(12, 2);
  const Buffer a = RandomBytes(node.random(), kBlock), b = RandomBytes(node.random(), kBlock);
  const std::vector<Buffer> lent = {Concatenated({&a, &b, &a, &b})};
  node.Begin(1);
  node.Write(0, lent, {.piece_bytes = kBlock});
  node.Write(1, {Concatenated({&b, &a})}, {});
  // In another order each time; also as one that borrows nothing any more.
  for (int i = 0; i < 10; ++i) {
    node.Write(0, lent, {.piece_bytes = kBlock, .compress = i % 3 == 0, .may_borrow = i % 2 == 0});
    node.PublishAll();
    EXPECT_EQ(node.stored(1).map.objects.front().key, node.stored(0).key);
    EXPECT_TRUE(node.objects().at(node.stored(1).key).empty());
  }
}

TEST(NodeReduction, WithoutItsLenderAnImageCannotBeFinished) {
  Node node(13, 3);
  Random& random = node.random();
  const Buffer a = RandomBytes(random, kBlock), b = RandomBytes(random, kBlock);
  node.Begin(1);
  node.Write(0, {a}, {});
  node.Write(1, {Concatenated({&a, &b, &a})}, {});
  node.Write(2, {b}, {});
  EXPECT_EQ(node.FinishOf(1), Code::kOk);
  node.Write(0, {b}, {});
  EXPECT_EQ(node.FinishOf(1), Code::kIncomplete) << "the lender has other content by now";
  EXPECT_EQ(node.FinishOf(2), Code::kOk);
  node.GiveUp(0);
  EXPECT_EQ(node.FinishOf(1), Code::kIncomplete);
  node.Write(1, {Concatenated({&a, &b, &a})}, {.may_borrow = false});
  node.PublishAll();
  EXPECT_EQ(node.stored(2).map.objects.front().key, node.stored(1).key) << "which it lends all the same";
  EXPECT_EQ(node.written_bytes(), 2 * kBlock);
}

TEST(NodeReduction, AnImageBorrowsFromFewOthers) {
  constexpr uint32_t kMany = 3 + Borrower::kLendersMax;
  Node node(14, kMany);
  std::vector<Buffer> blocks;
  std::vector<const Buffer*> all;
  for (uint32_t rank = 0; rank + 1 < kMany; ++rank) blocks.push_back(RandomBytes(node.random(), kBlock));
  for (const Buffer& block : blocks) all.push_back(&block);
  node.Begin(1);
  for (uint32_t rank = 0; rank + 1 < kMany; ++rank) node.Write(rank, {blocks[rank]}, {});
  node.Write(kMany - 1, {Concatenated(all)}, {});
  node.PublishAll();
  EXPECT_EQ(node.stored(kMany - 1).map.objects.size(), Borrower::kLendersMax);
  EXPECT_EQ(node.objects().at(node.stored(kMany - 1).key).size(), 2 * kBlock);
}

// What one rank alone uses little of is used by others: it stays, and nobody writes it again.
TEST(NodeReduction, WhatAllRanksUseOfAnObjectCounts) {
  Node node(15, 5);
  node.set_shares(true);
  const Buffer common = RandomBytes(node.random(), 10 * kBlock);
  const auto contents_of = [&](uint32_t rank) {
    Buffer content = common;
    if (rank > 0) content.erase(content.begin() + 2 * kBlock, content.end());
    const Buffer own = RandomBytes(node.random(), kBlock);
    content.insert(content.end(), own.begin(), own.end());
    return std::vector<Buffer>{content};
  };
  node.Begin(1);
  for (uint32_t rank = 0; rank < 5; ++rank) node.Write(rank, contents_of(rank), {});
  node.PublishAll();
  const std::string first = node.stored(0).key;
  for (int64_t version = 2; version <= 4; ++version) {
    const LiveBytes live = node.Live();
    node.Begin(version);
    for (uint32_t rank = 0; rank < 5; ++rank) node.Write(rank, contents_of(rank), {}, &live);
    node.PublishAll();
    EXPECT_EQ(node.written_bytes(), 5 * kBlock) << "one of each rank";
    EXPECT_EQ(node.stored(3).map.objects.front().key, first) << version;
  }
  // The one that has most of it changes that: what is left is written anew, so that it can go.
  const LiveBytes before = node.Live();
  node.Begin(5);
  node.Write(0, {RandomBytes(node.random(), 10 * kBlock)}, {}, &before);
  for (uint32_t rank = 1; rank < 5; ++rank) node.Write(rank, contents_of(rank), {}, &before);
  node.PublishAll();
  const LiveBytes after = node.Live();
  node.Begin(6);
  for (uint32_t rank = 1; rank < 5; ++rank) node.Write(rank, contents_of(rank), {}, &after);
  node.PublishAll();
  for (const SharedObject& object : node.stored(3).map.objects) EXPECT_NE(object.key, first);
}

// Whatever is written again, or given up, in whatever order.
TEST(NodeReduction, VersionsAreReadAsTheyWereCaptured) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const auto ranks = static_cast<uint32_t>(2 + seed % 4);
    Node node(seed, ranks);
    node.set_shares(seed % 2 == 0);
    node.set_one_object(seed % 3 == 0);
    Random& random = node.random();
    std::vector<Buffer> common;
    for (uint64_t chunks = 1 + random.Below(3); chunks > 0; --chunks) {
      common.push_back(RandomBytes(random, 1 + random.Below(20 * kBlock)));
    }
    std::vector<std::vector<Buffer>> contents(ranks, common);
    for (int64_t version = 1; version <= 5; ++version) {
      for (std::vector<Buffer>& of_rank : contents) Mutate(random, &of_rank);
      const LiveBytes live = node.Live();
      node.Begin(version);
      const auto options = [&](bool may_borrow) {
        return Writing::Options{.piece_bytes = static_cast<size_t>(kBlock) << random.Below(4),
                                .compress = random.Below(2) == 0,
                                .may_borrow = may_borrow};
      };
      for (uint32_t rank = 0; rank < ranks; ++rank) node.Write(rank, contents[rank], options(random.Below(4) > 0), &live);
      for (uint64_t again = random.Below(4); again > 0; --again) {
        const auto rank = static_cast<uint32_t>(random.Below(ranks));
        if (random.Below(3) == 0) {
          node.GiveUp(rank);
        } else {
          node.Write(rank, contents[rank], options(true), &live);
        }
      }
      // Whoever cannot be finished is written alone; one after the other, as some lend what others look for.
      for (uint32_t rank = 0; rank < ranks; ++rank) {
        const bool is_there = node.AllLenders().contains(rank);
        if (!is_there || node.FinishOf(rank) == Code::kIncomplete) node.Write(rank, contents[rank], options(false), &live);
      }
      for (uint32_t rank = 0; rank < ranks; ++rank) {
        if (node.FinishOf(rank) == Code::kIncomplete) node.Write(rank, contents[rank], options(false), &live);
      }
      node.PublishAll();
      if (::testing::Test::HasFailure()) return;
    }
  }
}

// Bytes that are not what the fingerprint says: of a slot that was given away, or as though two had one fingerprint.
class OtherBytes : public PieceBytes {
 public:
  explicit OtherBytes(ByteSpan bytes) : bytes_(bytes) {}
  bool Has(uint64_t offset, ByteSpan bytes) const override { return std::equal(bytes.begin(), bytes.end(), &bytes_[offset]); }

 private:
  const ByteSpan bytes_;
};

TEST(NodeReduction, WhereBytesAreComparedTheyDecide) {
  Node node(16, 2);
  const Buffer a = RandomBytes(node.random(), kBlock), other = RandomBytes(node.random(), kBlock);
  const Buffer content = Concatenated({&a, &a}), differs = Concatenated({&other, &other});
  for (const bool is_equal : {true, false}) {
    const auto bytes = std::make_shared<const OtherBytes>(is_equal ? content : differs);
    node.Begin(is_equal ? 1 : 2);
    for (const uint32_t rank : {0u, 1u}) node.Write(rank, {content}, {.bytes = bytes});
    node.PublishAll();
    EXPECT_EQ(node.written_bytes(), is_equal ? kBlock : 4 * kBlock);
  }
}

TEST(Reduction, OfOtherBlocksThanTheImagesIsRefused) {
  Random random(5);
  const Captured captured = Capture(1, {RandomBytes(random, 3 * kBlock)});
  ImageReduction reduction(0, kBlock, ImageReduction::Pieces::kReduced, nullptr);
  const ByteSpan content = captured.contents[0];
  const auto add = [&](uint64_t at, uint64_t bytes) {
    ReducedPiece piece = ReducePiece(content.subspan(at, bytes), {0, at}, kBlock, {});
    reduction.Add(at, std::move(piece));
  };
  add(0, kBlock);
  EXPECT_EQ(reduction.Finish(captured.record, {}).status().code(), Code::kInternal) << "two are missing";
  add(kBlock, 2 * kBlock);
  EXPECT_TRUE(reduction.Finish(captured.record, {}).ok());
  add(2 * kBlock, kBlock);
  EXPECT_EQ(reduction.Finish(captured.record, {}).status().code(), Code::kInternal) << "one twice";
}

// Nobody looks into it: where it goes is all that is known of it, and nothing can be shared with it.
TEST(Reduction, OfWholePiecesSaysWhereTheyLie) {
  Random random(17);
  const Captured captured = Capture(1, {RandomBytes(random, 3 * kBlock + 100), RandomBytes(random, 2 * kBlock)});
  ImageReduction reduction(0, kBlock, ImageReduction::Pieces::kWhole, nullptr);
  const auto add = [&](uint64_t at, size_t bytes, uint64_t room) {
    ReducedPiece piece = WholePiece(bytes, kBlock);
    EXPECT_EQ(piece.new_bytes, AlignChunkOffset(bytes));
    for (ReducedBlock& block : piece.blocks) block.place.offset += room;
    reduction.Add(at, std::move(piece));
  };
  add(4 * kBlock, 2 * kBlock, 0);
  add(2 * kBlock, kBlock + 100, 10 * kBlock);
  add(0, 2 * kBlock, 20 * kBlock);
  const BlockMap map = reduction.Finish(captured.record, {}).value();
  EXPECT_EQ(map.runs, (std::vector<BlockRun>{{kOwnBlocks, 2, 20 * kBlock}, {kOwnBlocks, 2, 10 * kBlock}, {kOwnBlocks, 2, 0}}));
  EXPECT_FALSE(map.has_fingerprints);
  EXPECT_TRUE(map.fingerprints.empty());
  EXPECT_EQ(reduction.OwnBytes(), 6 * kBlock);
  EXPECT_EQ(BaseImage::Make(captured.record, map, "v1", {}).status().code(), Code::kCorrupt);
}

TEST(BaseImage, TakesNoMapOfAnotherImage) {
  Random random(6);
  Objects objects;
  const Stored stored = Write(Capture(1, {RandomBytes(random, 3 * kBlock)}), nullptr, 4 * kBlock, random, &objects);
  ImageRecord larger = stored.captured.record;
  larger.chunks[0].bytes += kBlock;
  EXPECT_EQ(BaseImage::Make(larger, stored.map, "v1", {}).status().code(), Code::kCorrupt);
  ImageRecord other = stored.captured.record;
  other.identity.generation.version = 2;
  EXPECT_EQ(BaseImage::Make(other, stored.map, "v1", {}).status().code(), Code::kCorrupt);
}

TEST(Fingerprint, TellsBlocksApart) {
  Random random(7);
  Buffer block = RandomBytes(random, 3 * kBlock);
  const Fingerprint whole = FingerprintOf(block);
  for (size_t at = 0; at < block.size(); at += 1 + random.Below(97)) {
    block[at] ^= std::byte{1};
    ASSERT_NE(FingerprintOf(block), whole) << at;
    block[at] ^= std::byte{1};
  }
  EXPECT_EQ(FingerprintOf(block), whole);
  EXPECT_NE(FingerprintOf(ByteSpan(block).first(block.size() - 1)), whole);
}

// What lies in stores was written by processors of any kind.
TEST(Fingerprint, IsTheSameOnEveryProcessor) {
  Random random(8);
  for (size_t bytes = 0; bytes < 3 * kBlock; bytes += 1 + random.Below(200)) {
    const Buffer block = RandomBytes(random, bytes);
    const XXH128_hash_t hash = XXH3_128bits(block.data(), block.size());
    ASSERT_EQ(std::memcmp(FingerprintOf(block).data(), &hash, sizeof(hash)), 0) << bytes;
  }
}

TEST(Fingerprint, ZerosAreToldFromAllElse) {
  Buffer block(kBlock + 3);
  EXPECT_TRUE(IsZeros({}));
  EXPECT_TRUE(IsZeros(ByteSpan(block).first(1)));
  EXPECT_TRUE(IsZeros(block));
  for (const size_t at : {size_t{0}, size_t{1}, block.size() / 2, block.size() - 1}) {
    block[at] = std::byte{1};
    EXPECT_FALSE(IsZeros(block)) << at;
    block[at] = std::byte{0};
  }
  std::fill(block.begin(), block.end(), std::byte{1});
  EXPECT_FALSE(IsZeros(block)) << "all equal, and not zero";
}

}  // namespace
}  // namespace kedge::reduce
