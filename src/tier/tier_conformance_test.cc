// What every tier must do, run over each kind: bytes come back, bounds hold, a predecessor's slots are taken over, a
// deleted tier is noticed, nothing stays behind.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>
#include <tuple>
#include <vector>

#include "base/random.h"
#include "os/files/files.h"
#include "os/files/private_files.h"
#include "os/testing/temporary_folder.h"
#include "tier/tier.h"

namespace kedge {
namespace {

constexpr uint64_t kSlotBytes = 256 << 10;

struct TierCase {
  const char* name;
  TierKind kind;
  DirectEngine engine;
};

class TierConformance : public ::testing::TestWithParam<TierCase> {
 protected:
  void SetUp() override {
    const char* base = GetParam().kind == TierKind::kMemory ? "/dev/shm" : "/tmp";
    folder_ = os::JoinPath(base, "kedge-tier-test-" + Id128::Generate().ToHex());
    ASSERT_TRUE(os::MakeFolders(fs(), folder_).ok());
    std::string path = os::JoinPath(folder_, GetParam().kind == TierKind::kMemory ? "t/pool" : "t");
    info_ = TierInfo{"t", path, GetParam().kind, path, kSlotBytes, 4};
  }
  void TearDown() override { EXPECT_TRUE(os::RemoveTree(fs(), folder_).ok()); }

  static os::FileSystem& fs() { return os::PrivateFileSystem(); }
  Result<CreatedTier> Create() {
    return GetParam().kind == TierKind::kMemory ? CreateMemoryTier(fs(), info_)
                                                : CreateDirectoryTier(fs(), info_, GetParam().engine);
  }
  Result<std::unique_ptr<Tier>> Attach(const Tier& tier) {
    if (GetParam().kind == TierKind::kDirectory) return AttachDirectoryTier(fs(), info_, GetParam().engine);
    return AttachMemoryTier(os::UniqueFd(dup(tier.descriptor())), info_);
  }

  std::string folder_;
  TierInfo info_;
};

std::vector<std::byte> RandomBytes(size_t bytes, uint64_t seed) {
  std::vector<std::byte> data(bytes);
  Random(seed).Fill(data.data(), bytes);
  return data;
}

TEST_P(TierConformance, BytesComeBackThroughEveryHandle) {
  auto created = Create();
  ASSERT_TRUE(created.ok()) << created.status().ToString();
  EXPECT_TRUE(created->fresh);
  Tier& tier = *created->tier;
  for (uint32_t slot = 0; slot < info_.slots; ++slot) ASSERT_TRUE(tier.ReserveAll(slot).ok());
  auto client = Attach(tier);
  ASSERT_TRUE(client.ok()) << client.status().ToString();
  // Aligned, unaligned, whole and empty ranges.
  struct Case {
    uint32_t slot;
    uint64_t offset, bytes;
  };
  for (Case c : {Case{0, 0, kSlotBytes}, Case{1, 4096, 8192}, Case{2, 1, 4097}, Case{3, kSlotBytes - 1, 1}, Case{3, 17, 0}}) {
    auto data = RandomBytes(c.bytes + 1, c.slot + 1);
    std::vector<std::byte> back(c.bytes + 1);
    ASSERT_TRUE((*client)->Write(c.slot, c.offset, data.data(), c.bytes).ok());
    ASSERT_TRUE(tier.Read(c.slot, c.offset, back.data(), c.bytes).ok());
    data.resize(c.bytes), back.resize(c.bytes);
    EXPECT_EQ(data, back) << c.slot;
    if ((*client)->SlotMemory(c.slot) != nullptr) {
      EXPECT_EQ(memcmp((*client)->SlotMemory(c.slot) + c.offset, data.data(), c.bytes), 0);
    }
  }
}

TEST_P(TierConformance, AlignedBuffersTakeTheDirectPathAndAgreeWithThePlainOne) {
  auto created = Create();
  ASSERT_TRUE(created.ok());
  Tier& tier = *created->tier;
  auto data = RandomBytes(kSlotBytes, 3);
  auto* aligned = static_cast<std::byte*>(std::aligned_alloc(4096, kSlotBytes));
  memcpy(aligned, data.data(), kSlotBytes);
  EXPECT_TRUE(tier.ReserveAll(0).ok());
  EXPECT_TRUE(tier.Write(0, 0, aligned, kSlotBytes - 100).ok());
  memset(aligned, 0, kSlotBytes);
  EXPECT_TRUE(tier.Read(0, 0, aligned, kSlotBytes - 100).ok());
  EXPECT_EQ(memcmp(aligned, data.data(), kSlotBytes - 100), 0);
  std::free(aligned);
}

TEST_P(TierConformance, LargeRangesAtAnyPlaceComeBackAlsoFromSeveralThreads) {
  info_.slot_bytes = 4 << 20;
  auto created = Create();
  ASSERT_TRUE(created.ok());
  Tier& tier = *created->tier;
  std::vector<std::thread> threads;
  for (uint32_t slot = 0; slot < info_.slots; ++slot) {
    threads.emplace_back([&, slot] {
      const auto data = RandomBytes(3 << 20, slot + 1);
      EXPECT_TRUE(tier.ReserveAll(slot).ok());
      for (const uint64_t offset : {uint64_t{0}, uint64_t{4096}, uint64_t{12345}, uint64_t{1 << 20}}) {
        for (const size_t shift : {size_t{0}, size_t{1}, size_t{4095}}) {
          const size_t bytes = data.size() - shift - offset % 1000;
          std::vector<std::byte> back(bytes);
          EXPECT_TRUE(tier.Write(slot, offset, data.data() + shift, bytes).ok());
          EXPECT_TRUE(tier.Read(slot, offset, back.data(), bytes).ok());
          EXPECT_EQ(std::memcmp(back.data(), data.data() + shift, bytes), 0) << slot << " " << offset << " " << shift;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_P(TierConformance, RangesOutsideAreRefused) {
  auto created = Create();
  ASSERT_TRUE(created.ok());
  std::byte buffer[16];
  for (auto [slot, offset, bytes] : {std::tuple<uint32_t, uint64_t, uint64_t>{4, 0, 1},
                                     {UINT32_MAX, 0, 0},
                                     {0, kSlotBytes, 1},
                                     {0, kSlotBytes - 8, 16},
                                     {0, UINT64_MAX, 16},
                                     {0, 8, UINT64_MAX}}) {
    EXPECT_EQ(created->tier->Write(slot, offset, buffer, bytes).code(), Code::kInvalidArgument);
    EXPECT_EQ(created->tier->Read(slot, offset, buffer, bytes).code(), Code::kInvalidArgument);
  }
}

TEST_P(TierConformance, ASuccessorFindsTheSlotsAsTheyWere) {
  auto data = RandomBytes(kSlotBytes, 9);
  {
    auto created = Create();
    ASSERT_TRUE(created.ok());
    ASSERT_TRUE(created->tier->ReserveAll(1).ok());
    ASSERT_TRUE(created->tier->Write(1, 0, data.data(), data.size()).ok());
  }
  auto again = Create();
  ASSERT_TRUE(again.ok());
  EXPECT_FALSE(again->fresh);
  std::vector<std::byte> back(kSlotBytes);
  ASSERT_TRUE(again->tier->Read(1, 0, back.data(), back.size()).ok());
  EXPECT_EQ(data, back);
}

TEST_P(TierConformance, AnotherCutBeginsAnew) {
  ASSERT_TRUE(Create().ok());
  info_.slots = 8;
  auto again = Create();
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  EXPECT_TRUE(again->fresh);
  EXPECT_TRUE(again->tier->ReserveAll(7).ok());
}

TEST_P(TierConformance, BadSizesAreRefused) {
  info_.slot_bytes = 1000;
  EXPECT_EQ(Create().status().code(), Code::kInvalidArgument);
  info_.slot_bytes = kSlotBytes;
  info_.slots = 0;
  EXPECT_EQ(Create().status().code(), Code::kInvalidArgument);
}

TEST_P(TierConformance, ALostTierIsNoticedAndWhatWasWrittenStaysReadable) {
  auto created = Create();
  ASSERT_TRUE(created.ok());
  Tier& tier = *created->tier;
  ASSERT_TRUE(tier.ReserveAll(0).ok());
  ASSERT_TRUE(tier.CheckPresent().ok());
  ASSERT_TRUE(os::RemoveTree(fs(), os::JoinPath(folder_, "t")).ok());
  EXPECT_EQ(tier.CheckPresent().code(), Code::kUnavailable);
  // Made anew while the old handle is still held: the old one keeps saying so.
  auto again = Create();
  ASSERT_TRUE(again.ok());
  EXPECT_TRUE(again->fresh);
  EXPECT_EQ(tier.CheckPresent().code(), Code::kUnavailable);
  EXPECT_TRUE(again->tier->CheckPresent().ok());
  EXPECT_TRUE(tier.Remove().ok());
  EXPECT_TRUE(again->tier->CheckPresent().ok()) << "the old handle removed the new tier";
}

TEST_P(TierConformance, RemoveLeavesNoFile) {
  auto created = Create();
  ASSERT_TRUE(created.ok());
  ASSERT_TRUE(created->tier->ReserveAll(2).ok());
  ASSERT_TRUE(created->tier->Remove().ok());
  EXPECT_FALSE(std::filesystem::exists(info_.path));
}

TEST(DirectoryTier, ALinkInPlaceOfASlotIsNotFollowed) {
  for (const DirectEngine engine : {DirectEngine::kAuto, DirectEngine::kPlain}) {
    const os::testing::TemporaryFolder folder;
    auto created =
        CreateDirectoryTier(os::SystemFileSystem(), {"t", "t", TierKind::kDirectory, folder / "t", kSlotBytes, 4}, engine);
    ASSERT_TRUE(created.ok());
    std::filesystem::create_symlink(folder / "target", folder / "t/slot-000000");
    const auto data = RandomBytes(kSlotBytes, 1);
    EXPECT_FALSE(created->tier->Write(0, 0, data.data(), data.size()).ok());
    EXPECT_FALSE(created->tier->Write(0, 0, data.data(), 10).ok());
    EXPECT_FALSE(std::filesystem::exists(folder / "target"));
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, TierConformance,
                         ::testing::Values(TierCase{"memory", TierKind::kMemory, DirectEngine::kAuto},
                                           TierCase{"directory", TierKind::kDirectory, DirectEngine::kAuto},
                                           TierCase{"directory_plain", TierKind::kDirectory, DirectEngine::kPlain}),
                         [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace kedge
