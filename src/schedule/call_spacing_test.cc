// How far apart the broadcasts of an answer are, for programs that call fast, seldom, and now this way and now that.
#include "schedule/call_spacing.h"

#include <gtest/gtest.h>

#include <chrono>

namespace kedge {
namespace {

using namespace std::chrono_literals;

// A program whose calls take `call` each, from one broadcast to the next.
class Program {
 public:
  explicit Program(Duration broadcast_cost = Duration::zero()) : spacing_(broadcast_cost) {}

  // The calls between the last two of so many broadcasts.
  uint64_t After(int broadcasts, Duration call) {
    for (int i = 0; i < broadcasts; ++i) {
      now_ns_ += static_cast<int64_t>(ahead_) * call.count();
      ahead_ = spacing_.Next(now_ns_);
    }
    return ahead_;
  }

 private:
  CallSpacing spacing_;
  int64_t now_ns_ = 1;
  uint64_t ahead_ = 1;
};

TEST(CallSpacing, AnAnswerIsNoOlderThanAPeriodOrACall) {
  EXPECT_EQ(Program().After(50, 1s), 1u);
  EXPECT_EQ(Program().After(50, 11ms), 1u);
  EXPECT_EQ(Program().After(50, 5ms), 2u);
  EXPECT_EQ(Program().After(50, 1ms), 10u);
}

TEST(CallSpacing, NoFarSteppingProgramWaitsForManyCalls) {
  EXPECT_EQ(Program().After(50, 1us), CallSpacing::kAheadMax);
  EXPECT_EQ(Program().After(50, Duration(0)), CallSpacing::kAheadMax);
}

TEST(CallSpacing, GrowsStepByStepAndShrinksAtOnce) {
  Program program;
  EXPECT_EQ(program.After(1, 1ms), 1u);
  EXPECT_EQ(program.After(1, 1ms), 2u);
  EXPECT_EQ(program.After(1, 1ms), 4u);
  EXPECT_EQ(program.After(5, 1ms), 10u);
  EXPECT_EQ(program.After(1, 20ms), 1u);
}

TEST(CallSpacing, ACostlyBroadcastTakesItsShareOfTheTimeAndNoMore) {
  EXPECT_EQ(Program(2ms).After(50, 1ms), 100u);
  EXPECT_EQ(Program(2ms).After(50, 1s), 1u);
  EXPECT_EQ(Program(1us).After(50, 1ms), 10u) << "the period holds";
  EXPECT_EQ(Program(9s).After(50, 1ms), 1000u) << "what no broadcast takes was no measurement";
}

}  // namespace
}  // namespace kedge
