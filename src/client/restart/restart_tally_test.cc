// What a restart says of itself.
#include "client/restart/restart_tally.h"

#include <gtest/gtest.h>

namespace kedge::client {
namespace {

Generation Restored() {
  Generation generation;
  generation.name = "heat";
  generation.version = 120;
  generation.attempt = 2;
  return generation;
}

TEST(RestartTally, SumsUpWhatOneRankHasRead) {
  RestartTally tally;
  tally.Begin();
  tally.Add({.memory = 100, .directory = 20, .store = 0, .corrupt_copies = 0}, false);
  tally.Add({.memory = 0, .directory = 0, .store = 3, .corrupt_copies = 1}, true);
  const RestartSummary sum = tally.Gather(Collective());
  EXPECT_EQ(sum.ranks, 1u);
  EXPECT_EQ(sum.ranks_brought, 1u) << "images are counted once, however often they are opened";
  EXPECT_EQ(sum.memory, 100u);
  EXPECT_EQ(sum.directory, 20u);
  EXPECT_EQ(sum.store, 3u);
  EXPECT_EQ(sum.needed, Level::kStore);
  tally.Begin();
  tally.Add({.memory = 7}, true);
  EXPECT_EQ(tally.Gather(Collective()).needed, Level::kNode);
  EXPECT_EQ(tally.Gather(Collective()).memory, 7u) << "the former restart is forgotten";
}

TEST(RestartTally, SaysFromWhereAndHowFast) {
  RestartSummary summary;
  summary.ranks = 4;
  summary.memory = uint64_t{3} << 30;
  EXPECT_EQ(Describe(Restored(), summary, 2),
            "restored 'heat' version 120 of attempt 2 on 4 ranks: 3.00 GiB in 2.00 s, 1.50 GiB/s; from memory 3.00 GiB");
  summary.ranks_brought = 2;
  summary.store = uint64_t{1} << 30;
  EXPECT_EQ(Describe(Restored(), summary, 2),
            "restored 'heat' version 120 of attempt 2 on 4 ranks: 4.00 GiB in 2.00 s, 2.00 GiB/s; from memory 3.00 GiB, "
            "from the store 1.00 GiB; 2 of the images came from other nodes");
}

}  // namespace
}  // namespace kedge::client
