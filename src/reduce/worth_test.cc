#include "reduce/worth.h"

#include <gtest/gtest.h>

namespace kedge::reduce {
namespace {

constexpr uint64_t kBytes = 1000;

// How many images in a row are not looked at.
int Skipped(Worth& worth) {
  int skipped = 0;
  while (!worth.Asks() && skipped < 1000) ++skipped;
  return skipped;
}

TEST(Worth, LooksAtFirstAndWhileMuchIsSaved) {
  Worth worth;
  EXPECT_TRUE(worth.Asks());
  worth.Note(kBytes, 0, /*had_base=*/false);
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(worth.Asks());
    worth.Note(kBytes, i % 3 == 2 ? 500 : 0, true);
  }
}

TEST(Worth, LeavesOffWhereNothingIsSavedAndTriesAgain) {
  Worth worth;
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(worth.Asks());
    worth.Note(kBytes, 0, true);
  }
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(Skipped(worth), 16) << "a bound on what is missed, too";
    worth.Note(kBytes, 0, /*had_base=*/false);
    EXPECT_TRUE(worth.Asks()) << "the first of the two had nothing to share with";
    worth.Note(kBytes, 0, true);
  }
}

TEST(Worth, BeginsAgainForMoreThanItGoesOnFor) {
  const auto after_leaving_off = [](uint64_t saved) {
    Worth worth;
    for (int i = 0; i < 3; ++i) worth.Note(kBytes, 0, true);
    Skipped(worth);
    worth.Note(kBytes, saved, true);
    return worth.Asks();
  };
  EXPECT_TRUE(after_leaving_off(70));
  EXPECT_FALSE(after_leaving_off(50));
  Worth going_on;
  for (int i = 0; i < 100; ++i) going_on.Note(kBytes, 50, true);
  EXPECT_TRUE(going_on.Asks()) << "what does not begin it does not end it either";
}

}  // namespace
}  // namespace kedge::reduce
