// The measurement of a tier: which levels, what comes out on a device of known speed, and what happens when it fails.
#include "capture/tier_trial.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <mutex>
#include <thread>

#include "os/testing/temporary_folder.h"

namespace kedge {
namespace {

TEST(CalibrationLevels, BeginAtOneAreEquallySpacedAndFewerThanATenth) {
  EXPECT_EQ(CalibrationLevels(1), (std::vector<uint32_t>{1}));
  EXPECT_EQ(CalibrationLevels(3), (std::vector<uint32_t>{1, 2, 3}));
  EXPECT_EQ(CalibrationLevels(4), (std::vector<uint32_t>{1, 2, 3, 4}));
  for (uint32_t most = 2; most <= 600; ++most) {
    const auto levels = CalibrationLevels(most);
    ASSERT_EQ(levels.front(), 1u);
    ASSERT_GE(levels.back(), most);
    ASSERT_LE(levels.size(), most);
    for (size_t i = 1; i < levels.size(); ++i) ASSERT_EQ(levels[i] - levels[i - 1], levels[1] - levels[0]) << most;
    if (most > 50) {
      ASSERT_LT(10 * levels.size(), most) << most;
    }
    if (most > 20) {
      ASSERT_GE(levels.size(), 3u) << most;
    }
  }
}

// A device that one writer at a time gets hold of: `seconds` for each chunk, so that the total does not depend on how many write.
class SlowTier final : public Tier {
 public:
  SlowTier(std::unique_ptr<Tier> tier, Duration per_piece) : Tier(tier->info()), tier_(std::move(tier)), per_piece_(per_piece) {}
  std::byte* SlotMemory(uint32_t slot) override { return tier_->SlotMemory(slot); }
  Status Write(uint32_t slot, uint64_t offset, const void* data, uint64_t bytes) override {
    std::lock_guard lock(mutex_);
    if (writes_++ == fail_at_) return Status(Code::kIo, "the device broke");
    std::this_thread::sleep_for(per_piece_);
    return tier_->Write(slot, offset, data, bytes);
  }
  Status Read(uint32_t slot, uint64_t offset, void* data, uint64_t bytes) override {
    return tier_->Read(slot, offset, data, bytes);
  }
  Status Reserve(uint32_t slot, uint64_t offset, uint64_t bytes) override { return tier_->Reserve(slot, offset, bytes); }
  Status Release(uint32_t slot) override { return tier_->Release(slot); }
  Result<uint64_t> SpaceBytes() override { return tier_->SpaceBytes(); }
  Status Populate(uint32_t, uint64_t, uint64_t) override { return Status::Ok(); }
  Status CheckPresent() override { return tier_->CheckPresent(); }
  Status Remove() override { return tier_->Remove(); }
  void FailAt(uint64_t write) { fail_at_ = write; }

 private:
  const std::unique_ptr<Tier> tier_;
  const Duration per_piece_;
  std::mutex mutex_;
  uint64_t writes_ = 0;
  uint64_t fail_at_ = UINT64_MAX;
};

class Trial : public ::testing::Test {
 protected:
  static constexpr uint64_t kChunkBytes = 256 << 10;
  Trial() {
    TierInfo info{"slow", "slow", TierKind::kDirectory, folder_ / "tier", kChunkBytes, 4};
    auto created = CreateDirectoryTier(os::SystemFileSystem(), info);
    EXPECT_TRUE(created.ok());
    tier_ = std::make_unique<SlowTier>(std::move(created->tier), std::chrono::milliseconds(5));
    options_.piece_bytes = 128 << 10;
    options_.rounds_min = 3;
    options_.rounds_max = 4;
  }
  os::testing::TemporaryFolder folder_;
  std::unique_ptr<SlowTier> tier_;
  TrialOptions options_;
};

TEST_F(Trial, FindsTheSpeedOfTheDeviceForAnyNumberOfWriters) {
  TierTrial trial(*tier_, options_);
  uint32_t rounds = 0;
  const double ceiling = kChunkBytes / 0.010;
  for (const uint32_t writers : {1u, 4u, 2u}) {
    const auto sample =
        trial.Measure(writers, [&](const CalibrationSample& so_far) { return ++rounds > 0 && so_far.rounds > 0; });
    ASSERT_TRUE(sample.ok()) << sample.status().ToString();
    EXPECT_EQ(sample->writers, writers);
    EXPECT_LE(static_cast<double>(sample->bytes_per_second), ceiling) << "two pieces a chunk, 5 ms each, one at a time";
    EXPECT_GE(sample->rounds, 3u);
    EXPECT_LE(sample->rounds, 4u);
  }
  EXPECT_GE(rounds, 9u);
}

TEST_F(Trial, WritesWhatIsCapturedIntoTheTier) {
  TierTrial trial(*tier_, options_);
  ASSERT_TRUE(trial.Measure(2, nullptr).ok());
  std::vector<uint64_t> words(kChunkBytes / sizeof(uint64_t));
  ASSERT_TRUE(tier_->Read(1, 0, words.data(), kChunkBytes).ok());
  size_t zeros = 0;
  for (const uint64_t word : words) zeros += word == 0;
  EXPECT_EQ(zeros, 0u) << "all of the slot was written, with bytes that do not compress";
}

TEST_F(Trial, AFailingDeviceAndAWishToStopEndIt) {
  TierTrial trial(*tier_, options_);
  EXPECT_EQ(trial.Measure(1, [](const CalibrationSample&) { return false; }).status().code(), Code::kTimeout);
  tier_->FailAt(11);
  const auto broken = trial.Measure(4, nullptr);
  EXPECT_EQ(broken.status().code(), Code::kIo);
}

TEST_F(Trial, TheTimeLimitStillGivesOneRound) {
  options_.level_timeout = std::chrono::nanoseconds(1);
  TierTrial trial(*tier_, options_);
  const auto sample = trial.Measure(2, nullptr);
  ASSERT_TRUE(sample.ok());
  EXPECT_EQ(sample->rounds, 1u);
  EXPECT_EQ(sample->spread_permille, 1000u) << "of one round nothing is known";
}

}  // namespace
}  // namespace kedge
