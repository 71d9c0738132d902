// What the nodes together know of a job, and agents that do not answer as they should.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "client/init/known_jobs.h"
#include "client/testing/fake_nodes.h"
#include "client/testing/make_core.h"
#include "client/testing/ranks.h"
#include "os/testing/simulated_file_system.h"

namespace kedge::client {
namespace {

using os::testing::SimulatedFileSystem;
using ::testing::Each;
using ::testing::ElementsAre;
using testing::kOtherStore;
using testing::kStore;
using testing::NodesTest;
using testing::OnRanks;
using testing::RestartBefore;

class KnownJobsTest : public NodesTest {
 protected:
  // What each rank hears, its agent being the one in that folder.
  std::vector<std::vector<std::string>> Gather(const std::vector<std::string>& of_ranks) {
    return OnRanks(static_cast<uint32_t>(of_ranks.size()), [&](Collective ranks) {
      SimulatedFileSystem fs;
      const auto core = testing::MakeCore(fs, std::move(ranks));
      auto agent = Connect(core.get(), of_ranks[core->rank()]);
      const auto known = GatherKnownJobs(*core, &agent);
      std::vector<std::string> texts;
      for (const KnownJob& job : known.value()) texts.push_back(Described(job));
      if (!agent.ok()) texts.push_back(CodeName(agent.status().code()));
      return texts;
    });
  }
  static std::string Described(const KnownJob& job) {
    std::string text = fmt::format("store {}, attempt {}, {} live, {}, '{}', restarts", job.store_id.low, job.attempt,
                                   job.live_ranks, job.knows_versions ? "versions" : "none", job.unrecorded);
    std::set<std::string> restarts;
    for (const RestoredRecord& record : job.restored) restarts.insert(fmt::format(" {}.{}", record.attempt, record.take));
    for (const std::string& restart : restarts) text += restart;
    return text + fmt::format(" ({})", job.restored.size());
  }
};

TEST_F(KnownJobsTest, NodesAddUpAndARanksNeighboursDoNot) {
  // Each node has heard of the first restart from ranks of its own, at its own time.
  const std::string older = AddNode({{kStore, 3, 2, false, "old record", {RestartBefore(2, 1, 50)}}});
  const std::string newer = AddNode(
      {{kStore, 4, 1, true, "record", {RestartBefore(2, 1, 60), RestartBefore(4, 1, 70)}}, {kOtherStore, 9, 0, false, "", {}}});
  const std::vector<std::string> expected = {"store 2, attempt 4, 3 live, versions, 'record', restarts 2.1 4.1 (2)",
                                             "store 3, attempt 9, 0 live, none, '', restarts (0)"};
  EXPECT_THAT(Gather({older, older, newer}), Each(expected));
  EXPECT_THAT(Gather({newer, older, older}), Each(expected)) << "in whatever order";
}

TEST_F(KnownJobsTest, AnAgentThatDoesNotAnswerAsItShouldKnowsNothing) {
  const std::string good = AddNode({{kStore, 3, 0, true, "", {}}});
  const std::string refuses =
      AddAgent([](uint64_t number) { return Frame(number, ErrorReply{Status(Code::kMismatch, "you speak another protocol")}); });
  const std::string confused = AddAgent([](uint64_t number) { return Frame(number, DoneReply{}); });
  const std::string closes = AddAgent([](uint64_t) { return std::string(); });
  const std::string known = "store 2, attempt 3, 0 live, versions, '', restarts (0)";
  EXPECT_THAT(Gather({refuses, good, confused, closes, ""}),
              ElementsAre(ElementsAre(known, "mismatch"), ElementsAre(known), ElementsAre(known, "corrupt"),
                          ElementsAre(known, "unavailable"), ElementsAre(known, "unavailable")));
}

TEST(KnownJobs, WhatGoesOnIsMoreThanANumber) {
  const KnownJob number{{.high = 0, .low = 1}, 5, 0, false, "", {RestartBefore(2, 1, 0)}};
  const KnownJob versions{{.high = 0, .low = 2}, 5, 0, true, "", {}}, ranks{{.high = 0, .low = 3}, 5, 1, false, "", {}},
      unrecorded{{.high = 0, .low = 4}, 5, 0, false, "record", {}};
  std::vector<uint64_t> going_on;
  for (const KnownJob& job : GoingOn({number, versions, ranks, unrecorded})) going_on.push_back(job.store_id.low);
  EXPECT_THAT(going_on, ElementsAre(2, 3, 4));
  EXPECT_EQ(KnownIn({number, ranks}, ranks.store_id).live_ranks, 1u);
  EXPECT_EQ(KnownIn({number, ranks}, versions.store_id).attempt, 0u);
}

}  // namespace
}  // namespace kedge::client
