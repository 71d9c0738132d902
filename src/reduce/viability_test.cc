#include "reduce/viability.h"

#include <gtest/gtest.h>

namespace kedge::reduce {
namespace {

constexpr uint64_t kMegabyte = 1'000'000;

// So many bytes a second, all the time on a processor.
Viability::Sample At(double megabytes_per_second, double processor = 1) {
  const Duration wall = FromSeconds(1 / megabytes_per_second);
  return {kMegabyte, wall, FromSeconds(processor * ToSeconds(wall))};
}

bool Pays(double saved_fraction, double compressor, double level) {
  Viability viability;
  return viability.Pays(saved_fraction, At(compressor), level * 1e6);
}

TEST(Viability, IsTheRuleOfThePaper) {
  EXPECT_TRUE(Pays(0.5, 1000, 400));
  EXPECT_FALSE(Pays(0.5, 1000, 600));
  EXPECT_FALSE(Pays(0.1, 1000, 400));
  EXPECT_TRUE(Pays(0.1, 1000, 90));
  EXPECT_FALSE(Pays(0, 1e6, 1)) << "nothing is saved";
  EXPECT_FALSE(Pays(0.9, 1000, 0)) << "the bandwidth is not known";
  Viability untimed;
  EXPECT_FALSE(untimed.Pays(0.9, {}, 1e6));
}

TEST(Viability, WhatCompressingTookCountsMoreThanTheTrial) {
  Viability viability;
  EXPECT_TRUE(viability.Pays(0.5, At(1000), 300e6));
  for (int i = 0; i < 10; ++i) viability.Note(At(400));
  EXPECT_FALSE(viability.Pays(0.5, At(1000), 300e6));
  EXPECT_TRUE(viability.Pays(0.8, At(1000), 300e6)) << "of another piece more is saved";
  // One slow piece among fast ones changes little.
  for (int i = 0; i < 20; ++i) viability.Note(At(1000));
  viability.Note(At(700));
  EXPECT_TRUE(viability.Pays(0.5, At(1000), 300e6));
}

TEST(Viability, LeavesBusyProcessorsAlone) {
  Viability viability;
  for (int i = 0; i < 3; ++i) viability.Note(At(1000));
  viability.Note(At(1000, 0.3));
  EXPECT_TRUE(viability.Pays(0.5, At(1000), 1e6)) << "one compressor that has waited says little";
  for (int i = 0; i < 3; ++i) viability.Note(At(1000, 0.3));
  EXPECT_FALSE(viability.Pays(0.5, At(1000), 1e6)) << "however slow the level is";
  EXPECT_TRUE(viability.Pays(0.5, At(1000), 1e6)) << "what was remembered is forgotten";
  EXPECT_FALSE(Viability().Pays(0.5, At(1000, 0.3), 1e6)) << "the trial itself has waited";
}

// So many pieces of 200 are tried where none of them pays.
int TriedInVain(Viability* viability) {
  int tried = 0;
  for (int piece = 0; piece < 200; ++piece) {
    if (!viability->Tries()) continue;
    ++tried;
    EXPECT_FALSE(viability->Pays(0.5, At(1000), 600e6));
  }
  return tried;
}

TEST(Viability, TriesLessAndLessOfWhatDoesNotPay) {
  Viability viability;
  const int tried = TriedInVain(&viability);
  EXPECT_GE(tried, 200 / (Viability::kPauseMax + 1));
  EXPECT_LE(tried, 11) << "after 0, 1, 2, 4, 8, 16 others, and after 32 from then on";
  while (!viability.Tries()) {
  }
  EXPECT_TRUE(viability.Pays(0.5, At(1000), 400e6)) << "the level has become slower";
  for (int piece = 0; piece < 100; ++piece) {
    EXPECT_TRUE(viability.Tries());
    EXPECT_TRUE(viability.Pays(0.5, At(1000), 400e6));
  }
  EXPECT_EQ(TriedInVain(&viability), tried) << "the pauses are short again";
}

}  // namespace
}  // namespace kedge::reduce
