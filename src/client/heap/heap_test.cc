// The heap: where blocks lie, what is refused, and what a restart makes of it. The bytes themselves come in tests of the API.
#include "client/heap/heap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "os/memory/mapping.h"
#include "os/memory/reserved_range.h"

namespace kedge::client {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAreArray;

constexpr uint64_t kAddress = 0x551000000000, kElsewhere = 0x552000000000;  // in what sanitizers leave to the application
constexpr uint64_t kBytes = uint64_t{64} << 20;

// A heap, and the group that its blocks are regions of.
struct Process {
  explicit Process(HeapKeys keys = {kBytes, kAddress}) { heap.Configure(keys); }

  std::byte* Make(const char* name, size_t bytes) {
    const auto block = heap.Allocate(name, bytes, 1, nullptr);
    EXPECT_TRUE(block.ok()) << block.status().ToString();
    return static_cast<std::byte*>(block.ok() ? *block : nullptr);
  }
  std::byte* Take(size_t bytes, bool zeroed = false) {
    const auto block = heap.Take(bytes, zeroed);
    EXPECT_TRUE(block.ok()) << block.status().ToString();
    return static_cast<std::byte*>(block.ok() ? *block : nullptr);
  }
  // As a version of now would be saved.
  ImageRecord Image() {
    ImageRecord image;
    for (const DeclaredRegion& region : group.regions()) image.regions.push_back(region.description);
    if (const auto note = heap.Note()) image.annotations = {{kHeapKey, *note}};
    return image;
  }
  Status Restore(const ImageRecord& image) {
    KEDGE_RETURN_IF_ERROR(heap.Check(image));
    KEDGE_RETURN_IF_ERROR(heap.Make(image));
    return heap.Adopt();
  }

  RegionGroup group;
  Heap heap{&group};
};

TEST(HeapTest, NothingIsReservedBeforeTheFirstBlock) {
  Process process;
  EXPECT_FALSE(process.heap.Note());
  EXPECT_TRUE(os::ReservedRange::At(kAddress, kBytes).ok());
  ASSERT_TRUE(process.heap.Free(nullptr).ok());
  EXPECT_EQ(process.heap.Find("x").status().code(), Code::kNotFound);
  EXPECT_FALSE(process.heap.Note());
  process.Make("x", 1);
  EXPECT_EQ(process.heap.Note(), "0x551000000000");
  EXPECT_FALSE(os::ReservedRange::At(kAddress, kBytes).ok());
}

TEST(HeapTest, LargeAndNamedBlocksAreRegionsAndSmallOnesAreOne) {
  Process process;
  std::byte* const root = process.Make("root", 24);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(root) % kUnitBytes, 0u);
  std::byte* const large = process.Make(nullptr, size_t{5} << 20);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(large) % (uint64_t{2} << 20), 0u) << "where large pages fit";
  for (int i = 0; i < 1000; ++i) ASSERT_NE(process.Make(nullptr, 100), nullptr);
  std::memset(large, 1, size_t{5} << 20);
  EXPECT_EQ(process.group.size(), 3u);
  const DeclaredRegion* const found = process.heap.Find("root").value();
  EXPECT_EQ(found->address, root);
  EXPECT_EQ(found->description.bytes, 24u);
  EXPECT_EQ(process.heap.Allocate("root", 1, 1, nullptr).status().code(), Code::kAlreadyExists);
  for (const DeclaredRegion& region : process.group.regions()) {
    EXPECT_LE(region.description.id, kBlockIdMax);
    EXPECT_TRUE(region.is_block);
  }
}

TEST(HeapTest, AFreedBlockIsNoRegionAndItsMemoryIsNewWhenItComesAgain) {
  Process process;
  std::byte* const block = process.Make(nullptr, size_t{4} << 20);
  std::memset(block, 1, size_t{4} << 20);
  ASSERT_TRUE(process.heap.Free(block).ok());
  EXPECT_EQ(process.group.size(), 0u);
  EXPECT_EQ(process.heap.Free(block).code(), Code::kInvalidArgument);
  EXPECT_EQ(process.Make(nullptr, size_t{4} << 20), block);
  EXPECT_EQ(block[12345], std::byte{0});
  EXPECT_EQ(process.heap.Free(block + kUnitBytes).code(), Code::kInvalidArgument);
}

TEST(HeapTest, ABlockGrowsInPlaceOrMoves) {
  Process process;
  std::byte* const first = process.Make("a", 100000);
  std::memset(first, 7, 100000);
  EXPECT_EQ(process.heap.Reallocate(first, 130000).value(), first) << "in its units";
  EXPECT_EQ(process.heap.Reallocate(first, 10000).value(), first);
  EXPECT_EQ(process.heap.Reallocate(first, 120000).value(), first) << "behind it nothing lies";
  EXPECT_EQ(process.heap.Find("a").value()->description.bytes, 120000u);
  EXPECT_EQ(first[9999], std::byte{7});
  EXPECT_EQ(first[kUnitBytes], std::byte{0}) << "what was given back comes again as zeros";

  auto* const moved = static_cast<std::byte*>(process.heap.Reallocate(first, kBytes / 4).value());
  EXPECT_NE(moved, first) << "the end of the range lies behind it";
  EXPECT_EQ(moved[9999], std::byte{7});
  EXPECT_EQ(process.heap.Find("a").value()->address, moved);
  EXPECT_EQ(process.group.size(), 1u);
  EXPECT_EQ(process.heap.Reallocate(moved, kBytes).status().code(), Code::kNoSpace);
  EXPECT_EQ(moved[9999], std::byte{7}) << "as it was";
  EXPECT_EQ(process.heap.Find("a").value()->description.bytes, kBytes / 4);
  EXPECT_EQ(process.heap.Reallocate(first, 5).status().code(), Code::kInvalidArgument) << "nothing is there any more";
}

TEST(HeapTest, ASmallBlockGrowsOutOfItsSlot) {
  Process process;
  auto* const block = static_cast<std::byte*>(process.heap.Reallocate(nullptr, 40).value());
  std::memset(block, 3, 40);
  EXPECT_EQ(process.heap.Reallocate(block, 48).value(), block);
  auto* const other = static_cast<std::byte*>(process.heap.Reallocate(block, 5000).value());
  EXPECT_NE(other, block);
  EXPECT_EQ(other[39], std::byte{3});
  auto* const large = static_cast<std::byte*>(process.heap.Reallocate(other, 50000).value());
  EXPECT_EQ(large[39], std::byte{3});
  EXPECT_EQ(process.group.size(), 2u) << "the small blocks' area, and this one";
  EXPECT_EQ(process.heap.Free(block).code(), Code::kInvalidArgument);
}

// Of what is behind the address: its flags in /proc/self/smaps, and how much memory it has.
struct Backing {
  bool prefers_large = false;
  uint64_t kibibytes = 0;
};
Backing BackingOf(const std::byte* address) {
  std::ifstream maps("/proc/self/smaps");
  Backing backing;
  bool is_there = false;
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0, end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2) {
      const auto wanted = reinterpret_cast<uintptr_t>(address);
      is_there = begin <= wanted && wanted < end;
    }
    if (is_there && line.starts_with("Rss:")) backing.kibibytes = std::stoull(line.substr(4));
    if (is_there && line.starts_with("VmFlags:")) backing.prefers_large = line.find(" hg") != std::string::npos;
  }
  return backing;
}

TEST(HeapTest, LargeBlocksPreferLargePagesHoweverTheyCame) {
  constexpr size_t kLarge = size_t{4} << 20;
  Process process;
  std::byte* const made = process.Make(nullptr, kLarge);
  if (!std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled")) GTEST_SKIP() << "this kernel has no large pages";
  EXPECT_TRUE(BackingOf(made).prefers_large);
  std::byte* const grown = process.Make(nullptr, 100000);
  EXPECT_FALSE(BackingOf(grown).prefers_large);
  std::byte* at = grown;
  // As a vector grows, in steps of less than a large page.
  for (size_t bytes = 200000; bytes <= kLarge; bytes += size_t{1} << 20)
    at = static_cast<std::byte*>(process.heap.Reallocate(at, bytes).value());
  EXPECT_TRUE(BackingOf(at).prefers_large);

  const ImageRecord image = process.Image();
  ASSERT_TRUE(process.heap.Free(made).ok());
  ASSERT_TRUE(process.heap.Free(at).ok());
  ASSERT_TRUE(process.Restore(image).ok());
  EXPECT_TRUE(BackingOf(made).prefers_large);
  EXPECT_TRUE(BackingOf(at).prefers_large);
}

TEST(HeapTest, SmallBlocksHaveNoMoreMemoryThanTheyUse) {
  Process process;
  std::byte* const small = process.Make(nullptr, 100);
  std::byte* const named = process.Make("named", size_t{1} << 20);
  small[0] = named[0] = std::byte{1};
  EXPECT_FALSE(BackingOf(small).prefers_large);
  EXPECT_FALSE(BackingOf(named).prefers_large);
  EXPECT_LE(BackingOf(small).kibibytes + BackingOf(named).kibibytes, 3 * os::PageBytes() / 1024)
      << "a descriptor, a block, and a page of the named one";
}

// ---- For allocators ----

TEST(HeapTest, WhatAnAllocatorFreesIsKeptForTheNextBlock) {
  constexpr size_t kSize = size_t{1} << 20;
  Process process;
  std::byte* const block = process.Take(kSize);
  std::memset(block, 1, kSize);
  ASSERT_TRUE(process.heap.Free(block).ok());
  EXPECT_EQ(process.group.size(), 0u) << "no version has it";
  EXPECT_EQ(process.heap.Free(block).code(), Code::kInvalidArgument);
  EXPECT_EQ(BackingOf(block).kibibytes, kSize / 1024);
  EXPECT_NE(process.Make(nullptr, kSize), block) << "a block of another kind reads as zeros";
  EXPECT_EQ(process.Take(kSize), block);
  EXPECT_EQ(block[12345], std::byte{1});
  ASSERT_TRUE(process.heap.Free(block).ok());
  EXPECT_EQ(process.Take(kSize, /*zeroed=*/true), block);
  EXPECT_EQ(block[12345], std::byte{0});
  EXPECT_EQ(process.heap.Hold(block).value(), kSize);
}

TEST(HeapTest, OfWhatAnAllocatorFreesSomeIsKept) {
  constexpr size_t kSize = size_t{3} << 20;
  Process process;
  std::vector<std::byte*> blocks;
  for (int i = 0; i < 15; ++i) std::memset(blocks.emplace_back(process.Take(kSize)), 1, kSize);
  for (std::byte* const block : blocks) ASSERT_TRUE(process.heap.Free(block).ok());
  uint64_t kibibytes = 0;
  for (const std::byte* const block : blocks) kibibytes += BackingOf(block).kibibytes > 0 ? kSize / 1024 : 0;
  EXPECT_GT(kibibytes, 0u);
  EXPECT_LE(kibibytes, 16u << 10);
  std::byte* const large = process.Take(size_t{32} << 20);
  large[0] = std::byte{1};
  ASSERT_TRUE(process.heap.Free(large).ok());
  EXPECT_EQ(BackingOf(large).kibibytes, 0u) << "one that large is as fast with new memory";
}

TEST(HeapTest, WhatIsKeptIsGivenUpForOthers) {
  Process process;
  std::vector<std::byte*> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(process.Take(size_t{4} << 20));
  for (std::byte* const block : blocks) ASSERT_TRUE(process.heap.Free(block).ok());
  std::byte* const most = process.Make("most", kBytes - (uint64_t{4} << 20));
  ASSERT_NE(most, nullptr);
  ASSERT_TRUE(process.heap.Free(most).ok());
  for (std::byte*& block : blocks) block = process.Take(size_t{4} << 20);
  std::byte* const first = process.Take(100'000);
  ASSERT_TRUE(process.heap.Free(blocks.back()).ok());
  EXPECT_TRUE(process.heap.Reallocate(first, size_t{4} << 20).ok());
  for (int i = 0; process.heap.Allocate(nullptr, kSmallBytesMax, 1, nullptr).ok(); ++i) ASSERT_LT(i, 10'000);
}

TEST(HeapTest, AVersionComesBackWhereMemoryIsKept) {
  Process process;
  std::byte* const block = process.Take(200'000);
  const ImageRecord image = process.Image();
  ASSERT_TRUE(process.heap.Free(block).ok());
  ASSERT_TRUE(process.Restore(image).ok());
  EXPECT_EQ(process.heap.Hold(block).value(), 200'000u);
  EXPECT_EQ(block[100], std::byte{0}) << "new memory";
  std::byte* const other = process.Take(200'000);
  ASSERT_TRUE(process.heap.Free(other).ok());
  ASSERT_TRUE(process.Restore(image).ok());
  EXPECT_EQ(BackingOf(other).kibibytes, 0u);
}

TEST(HeapTest, AShapeFollowsASizeWhereItCan) {
  Process process;
  kedge_region_info info{};
  info.struct_size = sizeof info;
  info.type = KEDGE_TYPE_FLOAT64;
  info.dimensions = 1;
  info.shape[0] = 10;
  void* const block = process.heap.Allocate("v", 10, 8, &info).value();
  ASSERT_TRUE(process.heap.Reallocate(block, 160).ok());
  EXPECT_EQ(Meaning(process.heap.Find("v").value()->description), "float64 of shape 20");
  ASSERT_TRUE(process.heap.Reallocate(block, 161).ok());
  EXPECT_EQ(Meaning(process.heap.Find("v").value()->description), "bytes");
  info.shape[0] = 11;
  EXPECT_EQ(process.heap.Allocate("w", 10, 8, &info).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(process.heap.Find("w").status().code(), Code::kNotFound);
}

TEST(HeapTest, AFullHeapSaysSo) {
  Process process;
  EXPECT_EQ(process.heap.Allocate(nullptr, kBytes, 1, nullptr).status().code(), Code::kNoSpace);
  std::byte* const large = process.Make(nullptr, kBytes - (uint64_t{8} << 20));
  const auto more = process.heap.Allocate(nullptr, uint64_t{8} << 20, 1, nullptr);
  EXPECT_EQ(more.status().code(), Code::kNoSpace);
  EXPECT_THAT(more.status().message(), HasSubstr("heap.size"));
  int small = 0;
  while (process.heap.Allocate(nullptr, kSmallBytesMax, 1, nullptr).ok()) ++small;
  EXPECT_GT(small, 300) << "six MiB of small ones";
  ASSERT_TRUE(process.heap.Free(large).ok());
  EXPECT_TRUE(process.heap.Allocate(nullptr, kSmallBytesMax, 1, nullptr).ok());
}

TEST(HeapTest, ARangeThatIsTakenIsLeftAloneAndAnotherFound) {
  Process first({kBytes, 0}), second({kBytes, 0});
  std::byte* const one = first.Make("x", 10);
  std::byte* const two = second.Make("x", 10);
  EXPECT_LT(two, one);
  Process third({kBytes, first.heap.Link().ok() ? reinterpret_cast<uintptr_t>(first.heap.Link().value()) : 0});
  const auto block = third.heap.Allocate("x", 10, 1, nullptr);
  EXPECT_EQ(block.status().code(), Code::kFailedPrecondition);
  EXPECT_THAT(block.status().message(), HasSubstr("are taken"));
}

TEST(HeapTest, AVersionComesBackAtItsAddresses) {
  ImageRecord image;
  std::byte *root = nullptr, *large = nullptr, *small = nullptr;
  std::string area;
  {
    Process process;
    root = process.Make("root", 24);
    large = process.Make(nullptr, size_t{3} << 20);
    small = process.Make(nullptr, 100);
    image = process.Image();
    area.assign(reinterpret_cast<const char*>(kAddress + (uint64_t{2} << 20)), 64 << 10);
  }
  Process process({kBytes, kElsewhere});
  ASSERT_TRUE(process.heap.Check(image).ok());
  ASSERT_TRUE(process.heap.Make(image).ok());
  EXPECT_EQ(process.heap.Allocate(nullptr, 1, 1, nullptr).status().code(), Code::kFailedPrecondition)
      << "its bytes are not there yet";
  std::memcpy(reinterpret_cast<void*>(kAddress + (uint64_t{2} << 20)), area.data(), area.size());
  ASSERT_TRUE(process.heap.Adopt().ok());
  EXPECT_EQ(process.heap.Note(), "0x551000000000");
  EXPECT_EQ(process.heap.Find("root").value()->address, root);
  EXPECT_THAT(process.Image().regions, UnorderedElementsAreArray(image.regions));
  EXPECT_NE(process.Make(nullptr, 100), small) << "it is in use";
  EXPECT_TRUE(process.heap.Free(small).ok());
  EXPECT_TRUE(process.heap.Free(large).ok());
}

TEST(HeapTest, WhatTheVersionHasNotIsGoneUnlessItWasAskedForByName) {
  Process process;
  const ImageRecord empty = process.Image();
  process.Make(nullptr, size_t{1} << 20);
  process.Make(nullptr, 10);
  const ImageRecord two = process.Image();
  std::byte* const block = process.Make("x", 10);
  const ImageRecord three = process.Image();
  EXPECT_EQ(process.heap.Check(empty).code(), Code::kMismatch);
  EXPECT_EQ(process.heap.Check(two).code(), Code::kMismatch);
  EXPECT_THAT(process.heap.Check(two).message(), HasSubstr("block 'x' of 10 bytes"));
  EXPECT_EQ(process.group.size(), 3u) << "nothing has changed";
  ASSERT_TRUE(process.heap.Free(block).ok());
  ASSERT_TRUE(process.Restore(two).ok());
  EXPECT_THAT(process.Image().regions, UnorderedElementsAreArray(two.regions));
  // It came back with a version, and nobody has asked for it.
  ASSERT_TRUE(process.heap.Check(three).ok() && process.heap.Make(three).ok());
  ASSERT_TRUE(process.Restore(empty).ok());
  EXPECT_EQ(process.group.size(), 0u);
  EXPECT_NE(process.Make("x", 10), nullptr);
}

TEST(HeapTest, ANamedBlockThatIsAnotherIsRefused) {
  Process process;
  std::byte* const a = process.Make("a", 100);
  const ImageRecord image = process.Image();
  EXPECT_TRUE(process.Restore(image).ok()) << "it is the same";
  ASSERT_TRUE(process.heap.Reallocate(a, 101).ok());
  EXPECT_THAT(process.heap.Check(image).message(), HasSubstr("has one of 100 bytes at"));
  ASSERT_TRUE(process.heap.Free(a).ok());
  process.Make("b", 100);
  process.Make("a", 100);
  EXPECT_EQ(process.heap.Check(image).code(), Code::kMismatch) << "at another place";
}

TEST(HeapTest, NamesThatChangedTheirBlocksComeBack) {
  ImageRecord image;
  {
    Process saved;
    saved.Make("a", 100);
    saved.Make("b", 100);
    image = saved.Image();
  }
  ImageRecord other = image;
  std::swap(other.regions[0].name, other.regions[1].name);
  Process process;
  ASSERT_TRUE(process.Restore(image).ok());
  ASSERT_TRUE(process.Restore(other).ok());
  EXPECT_EQ(process.Image().regions.size(), 2u);
  EXPECT_EQ(process.heap.Find("b").value()->description.id, image.regions[0].id);
}

TEST(HeapTest, WhatLiesAtTheVersionsPlaceIsNamed) {
  ImageRecord image;
  {
    Process process;
    process.Make("x", 100);
    image = process.Image();
  }
  const auto taken = os::ReservedRange::At(kAddress + (uint64_t{8} << 20), uint64_t{1} << 30);
  ASSERT_TRUE(taken.ok());
  Process process;
  const Status status = process.heap.Check(image);
  EXPECT_EQ(status.code(), Code::kMismatch);
  EXPECT_THAT(status.message(), HasSubstr("memory without a name at 0x551000800000"));
  EXPECT_FALSE(process.heap.Note());
}

TEST(HeapTest, AVersionThatNeedsLessThanTheRangeFitsWhereLessIsFree) {
  ImageRecord image;
  {
    Process process;
    process.Make(nullptr, 100);
    image = process.Image();
  }
  image.regions.front().bytes = 0;
  const auto taken = os::ReservedRange::At(kAddress + kBytes / 2, uint64_t{1} << 30);
  ASSERT_TRUE(taken.ok());
  Process process;
  EXPECT_TRUE(process.Restore(image).ok());
}

TEST(HeapTest, RegionsOfTheApplicationAreNotTakenForBlocks) {
  Process process;
  int value = 0;
  const int id = std::numeric_limits<int>::min() + 1023;  // of the last unit
  ASSERT_TRUE(process.group.Protect(id, &value, 1, sizeof value, nullptr).ok());
  EXPECT_EQ(process.heap.Allocate("x", 1, 1, nullptr).status().code(), Code::kInvalidArgument);
  ASSERT_TRUE(process.group.Unprotect(id).ok());
  process.Make("x", 1);
  EXPECT_EQ(process.group.Protect(id, &value, 1, sizeof value, nullptr).code(), Code::kInvalidArgument);
  EXPECT_EQ(process.group.Unprotect(id).code(), Code::kInvalidArgument);
  const ImageRecord image = process.Image();
  process.group.Clear();
  EXPECT_EQ(process.group.size(), 1u) << "blocks stay";
  Process other({kBytes, kElsewhere});
  ASSERT_TRUE(other.group.Protect(id, &value, 1, sizeof value, nullptr).ok());
  EXPECT_EQ(other.heap.Check(image).code(), Code::kMismatch);
}

TEST(HeapTest, NonsenseInARecordIsCorrupt) {
  Process process;
  process.Make(nullptr, size_t{1} << 20);
  const ImageRecord good = process.Image();
  const auto check = [&](auto change) {
    ImageRecord image = good;
    change(&image);
    return process.heap.Check(image).code();
  };
  EXPECT_EQ(check([](ImageRecord*) {}), Code::kOk);
  for (const char* note : {"", "0x", "551000000000", "0x551000000001", "0x0", "0xffffffffffe00000", "0x551000000000 "}) {
    EXPECT_EQ(check([&](ImageRecord* image) { image->annotations.front().value = note; }), Code::kCorrupt) << note;
  }
  EXPECT_EQ(check([](ImageRecord* image) { image->regions.front().id = std::numeric_limits<int>::min(); }), Code::kCorrupt);
  EXPECT_EQ(check([](ImageRecord* image) { image->regions.front().bytes = uint64_t{1} << 60; }), Code::kCorrupt);
  EXPECT_EQ(check([](ImageRecord* image) {
              image->regions.push_back(image->regions.front());
              ++image->regions.back().id;
            }),
            Code::kCorrupt)
      << "one in the other";
}

TEST(HeapTest, AnEndedHeapLeavesNothing) {
  auto process = std::make_unique<Process>();
  process->Make("x", size_t{1} << 20);
  process->Make(nullptr, 100);
  process.reset();
  EXPECT_TRUE(os::ReservedRange::At(kAddress, kBytes).ok());
}

TEST(HeapTest, BlocksOutliveAHeapWhoseLinkIsKeptAndItSaysThatTheHeapHasEnded) {
  auto process = std::make_unique<Process>();
  auto* const owner = reinterpret_cast<kedge_context*>(process.get());
  process->heap.SetOwner(owner);
  kedge_context* const* const link = process->heap.Link().value();
  EXPECT_EQ(*link, owner);
  std::byte* const block = process->Make(nullptr, size_t{1} << 20);
  std::byte* const freed = process->Make(nullptr, size_t{1} << 20);
  std::memset(block, 4, size_t{1} << 20);
  ASSERT_TRUE(process->heap.Free(freed).ok());
  process.reset();
  EXPECT_EQ(*link, nullptr);
  EXPECT_EQ(block[12345], std::byte{4});
  EXPECT_TRUE(os::ReservedRange::At(reinterpret_cast<uintptr_t>(freed), size_t{1} << 20).ok());
  munmap(block, size_t{1} << 20);
  munmap(const_cast<kedge_context**>(link), kUnitBytes);
  EXPECT_TRUE(os::ReservedRange::At(kAddress, kBytes).ok());
}

TEST(HeapTest, ALinkThatWasKeptIsRightAfterARestartElsewhere) {
  auto saved = std::make_unique<Process>();
  saved->Make("x", 10);
  const ImageRecord image = saved->Image();
  saved.reset();
  auto process = std::make_unique<Process>(HeapKeys{kBytes, kElsewhere});
  auto* const owner = reinterpret_cast<kedge_context*>(process.get());
  process->heap.SetOwner(owner);
  kedge_context* const* const link = process->heap.Link().value();
  ASSERT_TRUE(process->Restore(image).ok());
  EXPECT_EQ(*link, owner);
  EXPECT_NE(process->heap.Link().value(), link);
  process->heap.SetOwner(nullptr);
  EXPECT_EQ(*link, nullptr);
  process->heap.SetOwner(owner);
  process.reset();
  EXPECT_EQ(*link, nullptr);
  munmap(const_cast<kedge_context**>(link), kUnitBytes);
}

TEST(HeapTest, ADetachedBlockIsTheCallers) {
  auto process = std::make_unique<Process>();
  std::byte* const block = process->Make("x", 100000);
  std::byte* const other = process->Make("y", 100000);
  std::byte* const small = process->Make(nullptr, 100);
  const ImageRecord with = process->Image();
  std::memset(block, 4, 100000);
  EXPECT_EQ(process->heap.Detach(small).code(), Code::kInvalidArgument);
  ASSERT_TRUE(process->heap.Detach(block).ok());
  EXPECT_EQ(process->heap.Find("x").status().code(), Code::kNotFound);
  EXPECT_EQ(process->heap.Free(block).code(), Code::kInvalidArgument);
  EXPECT_NE(process->Make("x", 100000), block);
  EXPECT_NE(process->heap.Reallocate(other, 200000).value(), other) << "it lies behind";
  ASSERT_TRUE(process->heap.Free(process->heap.Find("x").value()->address).ok());
  ASSERT_TRUE(process->heap.Free(process->heap.Find("y").value()->address).ok());
  EXPECT_THAT(process->heap.Check(with).message(), HasSubstr("detached"));
  process.reset();
  EXPECT_EQ(block[99999], std::byte{4});
  Process next;
  EXPECT_EQ(next.heap.Check(with).code(), Code::kMismatch);
  EXPECT_EQ(munmap(block, 2 * kUnitBytes), 0);
  EXPECT_TRUE(next.Restore(ImageRecord{}).ok());
  EXPECT_EQ(next.heap.Check(with).code(), Code::kOk);
}

}  // namespace
}  // namespace kedge::client
