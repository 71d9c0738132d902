// Arrays that were divided in one way come back divided in another: blocks, blocks in turns, replicas, edges that overlap.
#include "restore/array_parts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <thread>

#include "base/crc32c.h"
#include "restore/image_reader.h"

namespace kedge {
namespace {

using Element = uint32_t;

// One chunk in memory, which is read as such or as from a device.
class BytesSource : public ChunkSource {
 public:
  BytesSource(std::vector<std::byte> bytes, bool is_mapped) : bytes_(std::move(bytes)), is_mapped_(is_mapped) {}
  bool Has(uint32_t) const override { return true; }
  SourceKind KindOf(uint32_t) const override { return is_mapped_ ? SourceKind::kMemory : SourceKind::kStore; }
  const std::byte* Memory(uint32_t) const override { return is_mapped_ ? bytes_.data() : nullptr; }
  Status Read(uint32_t, uint64_t offset, void* to, uint64_t bytes) override {
    std::memcpy(to, bytes_.data() + offset, bytes);
    return Status::Ok();
  }
  std::string Describe(uint32_t) const override { return "memory"; }

 private:
  const std::vector<std::byte> bytes_;
  const bool is_mapped_;
};

Region RegionOf(int id, const std::string& name, std::vector<int64_t> global, std::vector<int64_t> offset,
                std::vector<int64_t> shape, bool column_major = false) {
  Region region;
  region.id = id;
  region.name = name;
  region.type = ElementType::kUint32;
  region.element_bytes = sizeof(Element);
  region.global_shape = std::move(global);
  region.global_offset = std::move(offset);
  region.shape = std::move(shape);
  region.column_major = column_major;
  region.bytes = sizeof(Element);
  for (const int64_t extent : region.shape) region.bytes *= static_cast<uint64_t>(extent);
  return region;
}

constexpr Element kUntouched = ~Element{0}, kStale = kUntouched - 1;

// What the region has: each element is its place in the array, counted in the array's row-major order; but for its halo.
std::vector<Element> ContentOf(const Region& region, Element in_halo = kStale) {
  std::vector<Element> content;
  const size_t dimensions = region.shape.size();
  std::vector<int64_t> at(dimensions, 0);
  for (uint64_t i = 0; i < region.bytes / sizeof(Element); ++i) {
    int64_t place = 0;
    bool is_halo = false;
    for (size_t d = 0; d < dimensions; ++d) {
      const int64_t halo = region.halo.empty() ? 0 : region.halo[d];
      is_halo = is_halo || at[d] < halo || at[d] >= region.shape[d] - halo;
      place = place * region.global_shape[d] + region.global_offset[d] + at[d] - halo;
    }
    content.push_back(is_halo ? in_halo : static_cast<Element>(place));
    for (size_t step = 0; step < dimensions; ++step) {
      const size_t d = region.column_major ? step : dimensions - 1 - step;
      if (++at[d] < region.shape[d]) break;
      at[d] = 0;
    }
  }
  return content;
}

// An image of these regions, in extents of `extent_bytes`: in memory with a bit flipped at `flipped`, if there is one, and whole
// on a device.
std::unique_ptr<ImageReader> MakeImage(const std::vector<Region>& regions, uint64_t extent_bytes, bool is_mapped,
                                       std::optional<uint64_t> flipped = {}) {
  ImageRecord record;
  std::vector<std::byte> bytes;
  record.chunks.resize(1);
  for (uint32_t index = 0; index < regions.size(); ++index) {
    record.regions.push_back(regions[index]);
    const std::vector<Element> content = ContentOf(regions[index]);
    const auto* const data = reinterpret_cast<const std::byte*>(content.data());
    for (uint64_t offset = 0; offset < regions[index].bytes; offset += extent_bytes) {
      const uint64_t length = std::min(extent_bytes, regions[index].bytes - offset);
      record.extents.push_back({index, offset, length, 0, bytes.size(), crc32c::Compute(data + offset, length)});
      bytes.insert(bytes.end(), data + offset, data + offset + length);
    }
  }
  record.chunks[0].bytes = bytes.size();
  std::vector<std::unique_ptr<ChunkSource>> sources;
  if (is_mapped) {
    std::vector<std::byte> copy = bytes;
    if (flipped) copy[*flipped] ^= std::byte{1};
    sources.push_back(std::make_unique<BytesSource>(std::move(copy), true));
  }
  sources.push_back(std::make_unique<BytesSource>(std::move(bytes), false));
  return std::make_unique<ImageReader>(std::move(record), std::move(sources), 2);
}

Status ReadBoxes(ImageReader& reader, uint32_t region, const std::vector<ArrayBox>& boxes, const Region& wanted,
                 std::vector<Element>* memory) {
  KEDGE_ASSIGN_OR_RETURN(const RegionTarget target, TargetOf(reader.record().regions[region], region, boxes, wanted,
                                                             reinterpret_cast<std::byte*>(memory->data())));
  PartBuffers buffers;
  return reader.ReadRegions({target}, &buffers);
}

using Images = std::vector<std::vector<Region>>;  // by rank

SavedArrays SavedOf(const Images& images) {
  std::vector<SavedPart> parts;
  for (uint32_t rank = 0; rank < images.size(); ++rank) {
    for (const Region& region : images[rank]) parts.push_back({rank, region});
  }
  const auto told = DecodeParts(EncodeParts(parts));
  EXPECT_EQ(told.value(), parts);
  return SavedArrays(*told);
}

// What `wanted` comes back as.
Result<std::vector<Element>> Redistributed(const Images& images, const Region& wanted, uint32_t first_rank,
                                           uint64_t extent_bytes) {
  KEDGE_ASSIGN_OR_RETURN(const auto plan, SavedOf(images).Plan(wanted, first_rank));
  std::vector<Element> memory(wanted.bytes / sizeof(Element), kUntouched);
  for (const TakenBoxes& taken : plan) {
    std::vector<Element> after;
    for (const bool is_mapped : {false, true}) {
      const auto reader = MakeImage(images[taken.rank], extent_bytes, is_mapped);
      const int region = reader->FindRegion(taken.id);
      std::vector<Element> here = memory;
      KEDGE_RETURN_IF_ERROR(ReadBoxes(*reader, static_cast<uint32_t>(region), taken.boxes, wanted, &here));
      EXPECT_TRUE(!is_mapped || after == here) << "from memory as from a device";
      after = std::move(here);
      uint64_t elements = 0;
      for (const ArrayBox& box : taken.boxes) elements += box.Elements();
      EXPECT_EQ(is_mapped ? reader->restored().memory : reader->restored().store, elements * sizeof(Element));
    }
    memory = std::move(after);
  }
  return memory;
}

struct Slice {
  int64_t begin = 0, end = 0;
};
// Part `number` of `parts` of `extent` elements, as even as they can be, with so much of its neighbours' edges.
Slice SliceOf(int64_t extent, int64_t parts, int64_t number, int64_t edge = 0) {
  return {std::max<int64_t>(number * extent / parts - edge, 0), std::min((number + 1) * extent / parts + edge, extent)};
}

struct Case {
  bool column_major;
  int64_t edge;
};
class ArrayParts : public testing::TestWithParam<Case> {};

TEST_P(ArrayParts, BlocksOfOneGridBecomeThoseOfAnother) {
  const auto [column_major, edge] = GetParam();
  const std::vector<int64_t> global = {13, 11, 7};
  const auto block = [&, column_major = column_major](int64_t rows, int64_t columns, int64_t row, int64_t column,
                                                      int64_t overlap) {
    const Slice i = SliceOf(global[0], rows, row, overlap), j = SliceOf(global[1], columns, column, overlap);
    return RegionOf(0, "field", global, {i.begin, j.begin, 0}, {i.end - i.begin, j.end - j.begin, global[2]}, column_major);
  };
  Images images;
  for (int64_t row = 0; row < 4; ++row) {
    for (int64_t column = 0; column < 2; ++column) images.push_back({block(4, 2, row, column, edge)});
  }
  for (const uint64_t extent_bytes : {4u, 20u, 256u, 1u << 20}) {
    for (int64_t row = 0; row < 3; ++row) {
      const Region wanted = block(3, 1, row, 0, 1);
      const auto got = Redistributed(images, wanted, static_cast<uint32_t>(row), extent_bytes);
      ASSERT_TRUE(got.ok()) << got.status().ToString();
      EXPECT_EQ(*got, ContentOf(wanted)) << "extents of " << extent_bytes;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Orders, ArrayParts, testing::Values(Case{false, 0}, Case{false, 1}, Case{true, 0}, Case{true, 2}));

TEST(ArrayParts, BlocksInTurnsBecomeBlocks) {
  // Blocks of 3 elements, in turns on 4 ranks; each has a region for each of its blocks.
  const auto cyclic = [](int64_t ranks, int64_t rank) {
    std::vector<Region> regions;
    for (int64_t block = rank; block * 3 < 40; block += ranks) {
      const int64_t begin = block * 3, end = std::min<int64_t>(begin + 3, 40);
      const int id = static_cast<int>(regions.size());
      regions.push_back(RegionOf(id, fmt::format("field[{}]", id), {40}, {begin}, {end - begin}));
    }
    return regions;
  };
  Images images;
  for (int64_t rank = 0; rank < 4; ++rank) images.push_back(cyclic(4, rank));
  for (int64_t rank = 0; rank < 3; ++rank) {
    const Slice slice = SliceOf(40, 3, rank);
    const Region block = RegionOf(0, "field", {40}, {slice.begin}, {slice.end - slice.begin});
    EXPECT_EQ(Redistributed(images, block, 0, 8).value(), ContentOf(block));
    for (const Region& wanted : cyclic(3, rank)) EXPECT_EQ(Redistributed(images, wanted, 0, 8).value(), ContentOf(wanted));
  }
}

TEST(ArrayParts, AHaloIsNoPart) {
  const auto with_halo = [](int64_t parts, int64_t number) {
    const Slice slice = SliceOf(10, parts, number);
    Region region = RegionOf(0, "field", {10, 3}, {slice.begin, 0}, {slice.end - slice.begin + 2, 3 + 4});
    region.halo = {1, 2};
    return region;
  };
  const Images images = {{with_halo(2, 0)}, {with_halo(2, 1)}};
  for (int64_t rank = 0; rank < 3; ++rank) {
    const Region wanted = with_halo(3, rank);
    EXPECT_EQ(Redistributed(images, wanted, 0, 12).value(), ContentOf(wanted, kUntouched)) << "neither taken from nor filled";
  }
}

TEST(ArrayParts, AReplicaComesFromOneImage) {
  const Region all = RegionOf(5, "", {6}, {0}, {6});
  const Images images(4, {all});
  const auto plan = SavedOf(images).Plan(all, 2).value();
  ASSERT_EQ(plan.size(), 1u);
  EXPECT_EQ(plan.front().rank, 2u) << "each from another one";
  EXPECT_EQ(SavedOf(images).Plan(all, 9)->front().rank, 0u);
  EXPECT_EQ(Redistributed(images, all, 3, 4).value(), ContentOf(all));
}

TEST(ArrayParts, AnEmptyPartTakesNothing) {
  const Images images = {{RegionOf(0, "a", {4}, {0}, {4})}};
  EXPECT_TRUE(SavedOf(images).Plan(RegionOf(0, "a", {4}, {4}, {0}), 0)->empty());
}

TEST(ArrayParts, WhatIsNotThereIsNamed) {
  const Images images = {{RegionOf(0, "field", {4, 6}, {0, 0}, {2, 6})}, {RegionOf(0, "field", {4, 6}, {3, 0}, {1, 6})}};
  const auto refusal = [&](const Region& wanted) {
    const auto plan = SavedOf(images).Plan(wanted, 0);
    EXPECT_EQ(plan.status().code(), Code::kMismatch);
    return plan.status().message();
  };
  EXPECT_EQ(refusal(RegionOf(0, "field", {4, 6}, {1, 0}, {3, 6})),
            "region 0 (array 'field'): no image has its 1 x 6 elements at 2, 0");
  EXPECT_EQ(refusal(RegionOf(3, "", {4}, {0}, {4})), "region 3 (array '#3'): it is not in the checkpoint");
  EXPECT_NE(refusal(RegionOf(0, "field", {8, 6}, {0, 0}, {2, 6})).find("global shape 4 x 6, and 8 x 6 is protected"),
            std::string::npos);
  EXPECT_NE(refusal(RegionOf(0, "field", {4, 6}, {0, 0}, {2, 6}, true)).find("order"), std::string::npos);
  Region wanted = RegionOf(0, "field", {4, 6}, {0, 0}, {2, 6});
  wanted.type = ElementType::kFloat32;
  EXPECT_NE(refusal(wanted).find("type uint32, and float32"), std::string::npos);
  wanted.type = ElementType::kBytes;
  wanted.element_bytes = 8;
  EXPECT_NE(refusal(wanted).find("bytes of an element: 4, and 8"), std::string::npos);
  wanted.global_shape.clear();
  EXPECT_NE(refusal(wanted).find("it has no global shape"), std::string::npos);
  const auto without = SavedArrays({{1, RegionOf(0, "", {}, {}, {})}}).Plan(RegionOf(0, "", {4}, {0}, {4}), 0);
  EXPECT_NE(without.status().message().find("saved without a global shape (rank 1)"), std::string::npos);
}

TEST(ArrayParts, WhatNobodyHasAnElementOfComesBackOnAnyNumberOfRanks) {
  const Images images = {{RegionOf(0, "list", {}, {}, {0})}, {RegionOf(0, "list", {}, {}, {0})}};
  EXPECT_TRUE(SavedOf(images).Plan(RegionOf(0, "list", {}, {}, {0}), 0).value().empty());
  const Images one_has = {{RegionOf(0, "list", {}, {}, {0})}, {RegionOf(0, "list", {}, {}, {3})}};
  EXPECT_EQ(SavedOf(one_has).Plan(RegionOf(0, "list", {}, {}, {0}), 0).status().code(), Code::kMismatch);
}

// Longer than what is read at a time: parts that are wanted as they are, of which rows are, and of which nothing is.
TEST(ArrayParts, RowsAreTakenOutOfLongExtents) {
  const auto block = [](int64_t row, int64_t rows, int64_t column, int64_t columns, int64_t halo) {
    Region region = RegionOf(0, "field", {2000, 700}, {row, column}, {rows + 2 * halo, columns + 2 * halo});
    if (halo > 0) region.halo = {halo, halo};
    return region;
  };
  for (const int64_t halo : {0, 1}) {
    const Images images = {{block(0, 1000, 0, 700, halo)}, {block(1000, 1000, 0, 700, halo)}};
    for (const Region& wanted :
         {block(500, 900, 0, 700, 0), block(500, 900, 0, 700, 1), block(0, 2000, 300, 77, 0), block(1999, 1, 699, 1, 0)}) {
      EXPECT_EQ(Redistributed(images, wanted, 0, 1'900'000).value(), ContentOf(wanted, kUntouched)) << "saved with halo " << halo;
    }
  }
}

// Rows about as long as what is copied at a time, with and without others' bytes between them.
TEST(ArrayParts, RowsOfAnyLengthAreTaken) {
  for (const int64_t columns : {1, 3, 250, 1000, 1020, 1024, 1030, 3000, 4095, 4096, 4097, 9000}) {
    const std::vector<int64_t> global = {23, columns + 5};
    const Images images = {{RegionOf(0, "field", global, {0, 0}, {11, columns + 5})},
                           {RegionOf(0, "field", global, {11, 0}, {12, columns + 5})}};
    for (const int64_t begin : {0, 2, 5}) {
      const Region wanted = RegionOf(0, "field", global, {4, begin}, {17, columns});
      for (const uint64_t extent_bytes : {uint64_t{4000}, uint64_t{100'000}}) {
        EXPECT_EQ(Redistributed(images, wanted, 0, extent_bytes).value(), ContentOf(wanted)) << columns << " from " << begin;
      }
    }
  }
}

TEST(ArrayParts, ABadCopyIsPassedOver) {
  const std::vector<Region> saved = {RegionOf(0, "a", {400, 1000}, {0, 0}, {400, 1000})};
  const Region wanted = RegionOf(0, "a", {400, 1000}, {100, 300}, {200, 400});
  // In what is wanted, beside it, and where no extent has anything of it.
  for (const auto& [element, bad] : {std::pair<uint64_t, uint64_t>{200'500, 1}, {200'999, 1}, {390'000, 0}}) {
    const auto reader = MakeImage(saved, 250'000, true, element * sizeof(Element));
    std::vector<Element> memory(200 * 400);
    EXPECT_TRUE(ReadBoxes(*reader, 0, {*PartOf(wanted)}, wanted, &memory).ok());
    EXPECT_EQ(memory, ContentOf(wanted)) << element;
    EXPECT_EQ(reader->restored().corrupt_copies, bad) << element;
    EXPECT_EQ(reader->restored().memory + reader->restored().store, wanted.bytes) << "what was in a bad copy does not count";
  }
}

// Wherever it is: in rows, between them, and before and behind all of them.
TEST(ArrayParts, AFlippedByteOfAnExtentIsFound) {
  for (const int64_t columns : {40, 1100, 5000}) {
    const std::vector<Region> saved = {RegionOf(0, "a", {9, columns}, {0, 0}, {9, columns})};
    const Region wanted = RegionOf(0, "a", {9, columns}, {2, columns / 4}, {5, columns / 2});
    const uint64_t bytes = saved.front().bytes;
    for (uint64_t at = 0; at < bytes; at += std::max<uint64_t>(bytes / 120, 1)) {
      const auto reader = MakeImage(saved, bytes, true, at);
      std::vector<Element> memory(wanted.bytes / sizeof(Element));
      EXPECT_TRUE(ReadBoxes(*reader, 0, {*PartOf(wanted)}, wanted, &memory).ok());
      EXPECT_EQ(memory, ContentOf(wanted)) << at;
      EXPECT_EQ(reader->restored().corrupt_copies, 1u) << at;
      EXPECT_EQ(reader->restored().store, wanted.bytes);
    }
  }
}

// Somebody else writes there meanwhile: what has been taken is what was checked, or comes from the next copy.
TEST(ArrayParts, WhatIsTakenIsWhatWasChecked) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "this is a race on purpose, which ThreadSanitizer would report";
#endif
  const std::vector<Region> saved = {RegionOf(0, "a", {64, 900}, {0, 0}, {64, 900})};
  const Region wanted = RegionOf(0, "a", {64, 900}, {0, 100}, {64, 500});
  std::vector<std::byte> good(saved.front().bytes);
  std::memcpy(good.data(), ContentOf(saved.front()).data(), good.size());
  auto mapped = std::make_unique<BytesSource>(good, true);
  auto* const bytes = const_cast<std::byte*>(mapped->Memory(0));
  std::vector<std::unique_ptr<ChunkSource>> sources;
  sources.push_back(std::move(mapped));
  sources.push_back(std::make_unique<BytesSource>(good, false));
  ImageReader reader(MakeImage(saved, 16'000, false)->record(), std::move(sources));
  const std::vector<Element> content = ContentOf(wanted);
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (std::byte flip{1}; !stop; flip ^= std::byte{1}) {
      for (size_t i = 0; i < good.size(); i += 1024) {
        reinterpret_cast<std::atomic<std::byte>&>(bytes[i]).store(good[i] ^ flip, std::memory_order_relaxed);
      }
    }
  });
  int wrong = 0;
  for (int round = 0; round < 300; ++round) {
    std::vector<Element> memory(wanted.bytes / sizeof(Element));
    EXPECT_TRUE(ReadBoxes(reader, 0, {*PartOf(wanted)}, wanted, &memory).ok());
    if (memory != content) ++wrong;
  }
  stop = true;
  writer.join();
  EXPECT_EQ(wrong, 0);
}

TEST(ArrayParts, ABadCopyIsNoSuccess) {
  const std::vector<Region> saved = {RegionOf(0, "a", {8}, {0}, {8})};
  ImageRecord record = MakeImage(saved, 16, false)->record();
  record.extents[1].crc32c ^= 1;
  std::vector<std::unique_ptr<ChunkSource>> sources;
  sources.push_back(std::make_unique<BytesSource>(std::vector<std::byte>(32), false));
  ImageReader reader(record, std::move(sources));
  const Region wanted = RegionOf(0, "a", {8}, {4}, {4});
  std::vector<Element> memory(4);
  EXPECT_EQ(ReadBoxes(reader, 0, {*PartOf(wanted)}, wanted, &memory).code(), Code::kCorrupt);
}

TEST(ArrayParts, TheWholeArrayComesFromAllItsParts) {
  const Images images = {{RegionOf(0, "a[0]", {9, 5}, {0, 0}, {4, 5})}, {}, {RegionOf(3, "a[1]", {9, 5}, {4, 0}, {5, 5})}};
  const Region whole = WholeArrayOf(images[2][0]);
  EXPECT_EQ(whole.shape, (std::vector<int64_t>{9, 5}));
  EXPECT_EQ(whole.bytes, 45 * sizeof(Element));
  EXPECT_EQ(Redistributed(images, whole, 0, 20).value(), ContentOf(whole));
  EXPECT_TRUE(SavedOf(images).Doubts().empty());
}

TEST(ArrayParts, ArraysThatTheirPartsDoNotMakeUpAreDoubted) {
  const auto row = [](const std::string& name, int64_t begin, int64_t rows) {
    return RegionOf(0, name, {9, 5}, {begin, 0}, {rows, 5});
  };
  const auto doubts = [](const Images& images) { return fmt::format("{}", fmt::join(SavedOf(images).Doubts(), "\n")); };
  Region loose = row("a", 4, 5);
  loose.global_shape.clear();
  loose.global_offset.clear();
  EXPECT_EQ(doubts({{loose}, {loose}}), "") << "no global array";
  EXPECT_EQ(doubts({{row("a", 0, 9)}, {row("a", 0, 9)}}), "") << "replicated";
  EXPECT_EQ(doubts({{row("a", 0, 4)}, {row("a", 4, 0)}, {row("a", 4, 5)}}), "");
  EXPECT_EQ(doubts({{row("a", 0, 4)}, {row("a", 4, 5)}, {row("a", 0, 4)}, {row("a", 4, 5)}}), "") << "each part twice";
  EXPECT_NE(doubts({{row("a", 0, 5)}, {row("a", 4, 5)}, {row("a", 4, 5)}}).find("overlap"), std::string::npos);
  EXPECT_NE(doubts({{row("a", 0, 4)}, {row("a", 6, 3)}}).find("(array 'a'): no image has its 2 x 5 elements at 4, 0"),
            std::string::npos);
  EXPECT_NE(doubts({{row("a", 0, 5)}, {row("a", 4, 5)}}).find("array 'a': its parts overlap"), std::string::npos);
  EXPECT_NE(doubts({{row("a", 0, 9)}, {row("a", 4, 5)}}).find("overlap: of what two of them have, either comes back"),
            std::string::npos);
  EXPECT_EQ(doubts({{row("a", 0, 5), row("b", 0, 5)}, {row("a", 4, 5), row("b", 4, 5)}}),
            "arrays 'a', 'b': their parts overlap: of what two of them have, either comes back");
  EXPECT_NE(doubts({{row("a", 0, 4)}, {loose}}).find("saved without a global shape (rank 1)"), std::string::npos);
  EXPECT_NE(doubts({{row("a", 0, 9)}, {loose}}).find("saved without a global shape (rank 1)"), std::string::npos);
}

TEST(ArrayParts, WhatIsNoListOfPartsIsRefused) {
  const std::string whole = EncodeParts({{3, RegionOf(0, "a", {8}, {0}, {8})}});
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) EXPECT_FALSE(DecodeParts(whole.substr(0, bytes)).ok());
}

}  // namespace
}  // namespace kedge
