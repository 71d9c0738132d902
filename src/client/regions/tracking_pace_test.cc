// When tracking goes off because the application's steps are longer with it.
#include "client/regions/tracking_pace.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace kedge::client {
namespace {

// Steps of a second, and so much of it more while tracked; each up to `jitter` longer. How many of `images` were tracked.
int TrackedSteps(TrackingPace* pace, int images, double slower, double jitter = 0) {
  Random random(7);
  int tracked = 0;
  for (int image = 0; image < images; ++image) {
    const bool tracks = pace->Tracks();
    tracked += tracks ? 1 : 0;
    const double noise = jitter * static_cast<double>(random.Below(1000)) / 1000;
    pace->Observe((tracks ? 1 + slower : 1) * (1 + noise));
  }
  return tracked;
}

TEST(TrackingPace, TracksWhereStepsAreNoLonger) {
  TrackingPace pace;
  constexpr int kRounds = 8 + 8 + 64;
  EXPECT_EQ(TrackedSteps(&pace, kRounds, 0.02), kRounds - 8) << "the first eight show what is usual";
  EXPECT_EQ(TrackedSteps(&pace, 8 + 8 + 128, 0.02), 8 + 128) << "it is trusted for longer the next time";
}

TEST(TrackingPace, GoesOffWhereStepsAreLongerAndTriesAgainLaterAndLater) {
  TrackingPace pace;
  EXPECT_EQ(TrackedSteps(&pace, 8 + 8, 0.05), 8);
  EXPECT_FALSE(pace.Tracks());
  EXPECT_EQ(TrackedSteps(&pace, 32 + 8, 0.05), 8);
  EXPECT_EQ(TrackedSteps(&pace, 64 + 8, 0.05), 8);
  EXPECT_LE(TrackedSteps(&pace, 10000, 0.05), 12 * 8) << "1 of 128 in the end";
}

TEST(TrackingPace, ComesBackWhenTheApplicationHasChanged) {
  TrackingPace pace;
  TrackedSteps(&pace, 8 + 8, 0.5);
  EXPECT_GE(TrackedSteps(&pace, 200, 0), 200 - 32 - 16);
  EXPECT_LE(TrackedSteps(&pace, 200, 0.5), 128 + 16) << "trusted, until it is looked at again";
  EXPECT_FALSE(pace.Tracks());
}

// What differs among steps anyway is no sign of tracking; what stands out of it is.
TEST(TrackingPace, KnowsNoiseFromSlowness) {
  TrackingPace steady;
  EXPECT_GE(TrackedSteps(&steady, 1000, 0, 0.1), 850);
  TrackingPace slow;
  EXPECT_LE(TrackedSteps(&slow, 1000, 0.3, 0.1), 100);
}

}  // namespace
}  // namespace kedge::client
