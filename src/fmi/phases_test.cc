#include "fmi/phases.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "fmi/testing/seed.h"

namespace kedge::fmi {
namespace {

using ::testing::ElementsAre;

constexpr Place kIsHere{1, Phase::kBootstrapping};
constexpr Place kConnected{1, Phase::kConnecting};
constexpr Place kRuns{1, Phase::kRunning};
constexpr Place kLeaves{1, Phase::kLeaving};

TEST(Phases, FitIntoAWord) {
  for (const Place place : {Place{}, kRuns, Place{UINT32_MAX, Phase::kLeaving}}) EXPECT_EQ(Unpack(Pack(place)), place);
}

TEST(Phases, WaitForThoseWhoHaveDoneLess) {
  EXPECT_EQ(NextStep(kIsHere, 1, {kIsHere, Place{}}), Step::kWait);
  EXPECT_EQ(NextStep(kIsHere, 1, {kIsHere, kIsHere}), Step::kAdvance);
  EXPECT_EQ(NextStep(kIsHere, 1, {kIsHere, kConnected}), Step::kAdvance);
  EXPECT_EQ(NextStep(kConnected, 1, {kConnected, kIsHere}), Step::kWait);
  EXPECT_EQ(NextStep(kConnected, 1, {kConnected, kRuns}), Step::kAdvance);
  EXPECT_EQ(NextStep(kRuns, 1, {kRuns, kLeaves}), Step::kWait);
  EXPECT_EQ(NextStep(kLeaves, 1, {kLeaves, kRuns}), Step::kWait);
  EXPECT_EQ(NextStep(kLeaves, 1, {kLeaves, kLeaves}), Step::kAdvance);
}

TEST(Phases, CountNothingOfFormerEpochs) {
  EXPECT_EQ(NextStep(kIsHere, 2, {kIsHere, kIsHere}), Step::kBroken);
  EXPECT_EQ(NextStep(Place{2, Phase::kBootstrapping}, 2, {Place{2, Phase::kBootstrapping}, kRuns}), Step::kWait);
  EXPECT_THAT(Missing(Place{2, Phase::kBootstrapping}, {kRuns, Place{2, Phase::kBootstrapping}, kLeaves}), ElementsAre(0, 2));
}

// A job of ranks that die, are started again and take their steps in any order, as the runtime has them take them.
class Job {
 public:
  Job(uint32_t ranks, std::mt19937* random) : random_(random), places_(ranks) {}

  void Die() {
    places_[Any()] = Place{};
    ++epoch_;
  }

  // One rank does what it can, as FMI_Init, FMI_Loop and FMI_Finalize do.
  void Move(bool leaves) {
    Place& own = places_[Any()];
    if (own.phase == Phase::kLaunched) {
      own = {epoch_, Phase::kBootstrapping};
      return;
    }
    switch (NextStep(own, epoch_, places_)) {
      case Step::kBroken: own = {epoch_, Phase::kBootstrapping}; break;
      case Step::kAdvance:
        if (own.phase == Phase::kConnecting) Begin(own);
        if (own.phase != Phase::kLeaving) own.phase = static_cast<Phase>(static_cast<uint32_t>(own.phase) + 1);
        break;
      case Step::kWait:
        if (own.phase == Phase::kRunning && leaves) own.phase = Phase::kLeaving;
        break;
    }
  }

  bool HasFinished() const {
    return NextStep(places_[0], epoch_, places_) == Step::kAdvance && places_[0].phase == Phase::kLeaving;
  }

 private:
  uint32_t Any() { return static_cast<uint32_t>((*random_)() % places_.size()); }
  // Nobody computes before all are connected in this epoch.
  void Begin(Place own) const {
    for (const Place& other : places_) {
      EXPECT_EQ(other.epoch, own.epoch);
      EXPECT_GE(other.phase, Phase::kConnecting);
    }
  }

  std::mt19937* random_;
  std::vector<Place> places_;
  uint32_t epoch_ = 1;
};

TEST(Phases, BringAllRanksThroughRandomFailures) {
  const uint32_t seed = testing::Seed();
  SCOPED_TRACE(::testing::Message() << "KEDGE_TEST_SEED=" << seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 200; ++round) {
    Job job(1 + random() % 12, &random);
    for (int step = 0; step < 400; ++step) {
      if (random() % 20 == 0) job.Die();
      job.Move(/*leaves=*/false);
    }
    int steps = 0;
    while (!job.HasFinished()) {
      job.Move(/*leaves=*/true);
      ASSERT_LT(++steps, 10000);
    }
  }
}

}  // namespace
}  // namespace kedge::fmi
