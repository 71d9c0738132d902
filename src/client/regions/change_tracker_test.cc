// What is known to have changed since which image: images that end, that are given up, and memory that is another's by now.
#include "client/regions/change_tracker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <optional>

namespace kedge::client {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Optional;

constexpr size_t kWatchedPage = 4096;
constexpr size_t kWatchedBytes = size_t{4} << 20;
constexpr ImageMark kNoImage;

class ChangeTrackerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!tracker_.Available()) GTEST_SKIP() << "this machine cannot tell which pages were written";
    for (DeclaredRegion* region : {&first_, &second_}) {
      region->description.id = region == &first_ ? 1 : 2;
      region->description.bytes = kWatchedBytes;
      region->address = mmap(nullptr, kWatchedBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      ASSERT_NE(region->address, MAP_FAILED);
    }
  }
  void TearDown() override {
    for (DeclaredRegion* region : {&first_, &second_}) {
      if (region->address != nullptr) munmap(region->address, kWatchedBytes);
    }
  }
  static void Write(DeclaredRegion& region, size_t page) { static_cast<char*>(region.address)[page * kWatchedPage] += 1; }
  std::optional<std::vector<ChangedRange>> Take(const DeclaredRegion& region, const ImageMark& base) {
    const auto* changed = tracker_.Take(region, base);
    return changed == nullptr ? std::nullopt : std::optional(*changed);
  }
  // An image of both that ends.
  void Capture(uint64_t serial) {
    tracker_.Begin();
    (void)Take(first_, kNoImage);
    (void)Take(second_, kNoImage);
    tracker_.Captured({1, serial});
  }
  static ChangedRange Pages(size_t first, size_t count = 1) { return {first * kWatchedPage, count * kWatchedPage}; }

  ChangeTracker tracker_{Feature::kOn};
  DeclaredRegion first_, second_;
};

TEST_F(ChangeTrackerTest, TellsWhatWasWrittenSinceTheBase) {
  tracker_.Begin();
  EXPECT_EQ(Take(first_, kNoImage), std::nullopt) << "it has been in no image";
  tracker_.Captured({1, 1});
  Write(first_, 3);
  tracker_.Begin();
  EXPECT_THAT(Take(first_, {1, 1}), Optional(ElementsAre(Pages(3))));
  tracker_.Captured({1, 2});
  tracker_.Begin();
  EXPECT_THAT(Take(first_, {1, 2}), Optional(IsEmpty()));
}

TEST_F(ChangeTrackerTest, AnImageThatIsGivenUpLosesNothing) {
  Capture(1);
  Write(first_, 3);
  Write(first_, 9);
  tracker_.Begin();
  EXPECT_THAT(Take(first_, {1, 1}), Optional(ElementsAre(Pages(3), Pages(9))));
  Write(first_, 4);
  Write(first_, 100);
  tracker_.Begin();
  EXPECT_THAT(Take(first_, {1, 1}), Optional(ElementsAre(Pages(3, 2), Pages(9), Pages(100))));
  // The same image once more, inline.
  EXPECT_EQ(Take(first_, kNoImage), std::nullopt);
  tracker_.Begin();
  EXPECT_THAT(Take(first_, {1, 1}), Optional(ElementsAre(Pages(3, 2), Pages(9), Pages(100))));
}

TEST_F(ChangeTrackerTest, CountsFromTheImageThatHadTheRegionAlone) {
  Capture(1);
  Write(second_, 5);
  tracker_.Begin();
  EXPECT_THAT(Take(first_, {1, 1}), Optional(IsEmpty()));
  tracker_.Captured({1, 2});
  tracker_.Begin();
  EXPECT_EQ(Take(second_, {1, 2}), std::nullopt) << "image 2 did not have it";
  tracker_.Captured({1, 3});
  Write(second_, 6);
  tracker_.Begin();
  EXPECT_THAT(Take(second_, {1, 3}), Optional(ElementsAre(Pages(6))));
  EXPECT_EQ(Take(first_, {1, 3}), std::nullopt);
  EXPECT_EQ(Take(second_, {2, 3}), std::nullopt) << "another session's image";
}

TEST_F(ChangeTrackerTest, RegionsThatSwapTheirMemoryAreTakenWhole) {
  Capture(1);
  std::swap(first_.address, second_.address);
  tracker_.Begin();
  EXPECT_EQ(Take(first_, {1, 1}), std::nullopt);
  EXPECT_EQ(Take(second_, {1, 1}), std::nullopt);
  tracker_.Captured({1, 2});
  Write(first_, 1);
  tracker_.Begin();
  EXPECT_THAT(Take(first_, {1, 2}), Optional(ElementsAre(Pages(1))));
}

TEST_F(ChangeTrackerTest, MemoryThatIsAnothersByNowIsTakenWholeAndTrackedAnew) {
  Capture(1);
  ASSERT_EQ(mmap(first_.address, kWatchedBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
            first_.address);
  tracker_.Begin();
  EXPECT_EQ(Take(first_, {1, 1}), std::nullopt);
  tracker_.Captured({1, 2});
  tracker_.Begin();
  EXPECT_EQ(Take(first_, {1, 2}), std::nullopt);
  tracker_.Captured({1, 3});
  Write(first_, 8);
  tracker_.Begin();
  EXPECT_THAT(Take(first_, {1, 3}), Optional(ElementsAre(Pages(8))));
}

TEST_F(ChangeTrackerTest, LeavesAloneWhatDevicesWriteWhatIsSmallAndWhatWasDistrusted) {
  first_.device_written = true;
  DeclaredRegion small;
  small.description.bytes = kWatchedPage;
  small.address = second_.address;
  for (uint64_t serial = 1; serial < 4; ++serial) {
    tracker_.Begin();
    EXPECT_EQ(Take(first_, {1, serial - 1}), std::nullopt);
    EXPECT_EQ(Take(small, {1, serial - 1}), std::nullopt);
    tracker_.Captured({1, serial});
  }
  Capture(4);
  tracker_.Begin();
  EXPECT_THAT(Take(second_, {1, 4}), Optional(IsEmpty()));
  tracker_.Distrust(second_);
  tracker_.Captured({1, 5});
  for (uint64_t serial = 6; serial < 9; ++serial) {
    tracker_.Begin();
    EXPECT_EQ(Take(second_, {1, serial - 1}), std::nullopt);
    tracker_.Captured({1, serial});
  }
}

TEST_F(ChangeTrackerTest, ARegionThatImagesDoWithoutIsTrackedNoLonger) {
  Capture(1);
  for (uint64_t serial = 2; serial < 12; ++serial) {
    tracker_.Begin();
    (void)Take(first_, {1, serial - 1});
    tracker_.Captured({1, serial});
  }
  // Another one may track it now.
  auto other = os::WriteTracking::Create();
  ASSERT_TRUE(other.ok());
  EXPECT_TRUE(other->Track(second_.address, kWatchedBytes).ok());
  EXPECT_EQ(other->Track(first_.address, kWatchedBytes).code(), Code::kBusy);
}

TEST(ChangeTracker, GoesOffByItselfWhereMostIsWritten) {
  ChangeTracker tracker(Feature::kAuto);
  if (!tracker.Available()) GTEST_SKIP() << "this machine cannot tell which pages were written";
  DeclaredRegion region;
  region.description.bytes = kWatchedBytes;
  region.address = mmap(nullptr, kWatchedBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  uint64_t whole = 0, serial = 0;
  for (int i = 0; i < 20; ++i) {
    std::memset(region.address, i, kWatchedBytes);
    tracker.Begin();
    whole += tracker.Take(region, {1, serial}) == nullptr ? 1 : 0;
    tracker.Captured({1, ++serial});
  }
  EXPECT_GE(whole, 8u) << "a pause, at least";
  EXPECT_LT(whole, 20u) << "it was tried";
  munmap(region.address, kWatchedBytes);
}

}  // namespace
}  // namespace kedge::client
