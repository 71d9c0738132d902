// What the ranks agree on when an attempt begins, with the store and without.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "client/init/start.h"
#include "client/testing/fake_nodes.h"
#include "client/testing/make_core.h"
#include "client/testing/ranks.h"
#include "os/files/files.h"
#include "os/testing/simulated_file_system.h"
#include "store/posix/posix_store.h"

namespace kedge::client {
namespace {

using os::testing::SimulatedFileSystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::kOtherStore;
using testing::kStore;
using testing::NodesTest;
using testing::OnRanks;
using testing::RestartBefore;

class StartTest : public NodesTest {
 protected:
  struct Outcome {
    Status status;
    uint32_t attempt = 0;
    std::string secret;
    bool unrecorded = false;
    bool protects = false;
    std::vector<RestoredRecord> restored;
  };
  // Init's agreement on each rank; `prepare` changes its core before, and says where its agent is ("": none).
  std::vector<Outcome> Start(uint32_t ranks, const std::function<std::string(Core*)>& prepare) {
    return OnRanks(ranks, [&](Collective collective) {
      const auto core = testing::MakeCore(fs_, std::move(collective));
      auto agent = Connect(core.get(), prepare(core.get()));
      Outcome outcome;
      outcome.status = AgreeOnAttempt(core.get(), &agent);
      outcome.attempt = core->attempt;
      outcome.secret = core->secret;
      outcome.unrecorded = core->attempt_unrecorded.load();
      outcome.protects = core->protects;
      outcome.restored = core->restored;
      return outcome;
    });
  }
  // The same error on all ranks.
  static void ExpectError(const std::vector<Outcome>& outcomes, Code code, const std::string& text) {
    for (const Outcome& outcome : outcomes) {
      EXPECT_EQ(outcome.status.code(), code) << outcome.status.ToString();
      EXPECT_EQ(outcome.status.message(), outcomes[0].status.message());
      EXPECT_THAT(outcome.status.message(), HasSubstr(text));
    }
  }
  StoreId MakeStore() { return Catalog::OpenOrCreate(*MakePosixStore(fs_, {.path = "/store"}), {"node1", 1, "r0"})->id(); }
  void LoseTheStore() { fs_.faults().Add({.count = os::testing::kForEver, .errno_value = EIO}); }

  SimulatedFileSystem fs_;
};

TEST_F(StartTest, RankZerosWordHoldsForAll) {
  // The others are configured otherwise.
  const auto outcomes = Start(3, [](Core* core) {
    if (core->rank() == 0) core->job.keys.protect_scheme = ProtectScheme::kXor;
    return std::string();
  });
  for (const Outcome& outcome : outcomes) {
    ASSERT_TRUE(outcome.status.ok()) << outcome.status.ToString();
    EXPECT_EQ(outcome.attempt, 1u);
    EXPECT_TRUE(outcome.protects);
    EXPECT_FALSE(outcome.unrecorded);
    EXPECT_EQ(outcome.secret, outcomes[0].secret);
  }
  EXPECT_GE(outcomes[0].secret.size(), 32u);
}

TEST_F(StartTest, OneRankOfAnotherJobOrStoreEndsTheAttemptForAll) {
  const auto is_of_another_job = [](Core* core) {
    if (core->rank() == 1) core->job.job = "another";
    return std::string();
  };
  ExpectError(Start(3, is_of_another_job), Code::kMismatch, "rank 1: the job is 'another' here and 'job' on rank 0");
  SimulatedFileSystem elsewhere;
  const auto sees_elsewhere = [&](Core* core) {
    if (core->rank() == 2) core->store = MakePosixStore(elsewhere, {.path = "/store"});
    return std::string();
  };
  ExpectError(Start(3, sees_elsewhere), Code::kNotFound, "rank 2: the store that rank 0 uses cannot be opened here");
  EXPECT_FALSE(os::Exists(elsewhere, "/store").value());
  ASSERT_TRUE(Catalog::OpenOrCreate(*MakePosixStore(elsewhere, {.path = "/store"}), {"node1", 1, "r2"}).ok());
  ExpectError(Start(3, sees_elsewhere), Code::kMismatch, "rank 2: /store is another store here");
  // What rank 0 had acquired is free at once, and its numbers are not given again.
  const auto outcomes = Start(2, [](Core*) { return std::string(); });
  EXPECT_TRUE(outcomes[1].status.ok()) << outcomes[1].status.ToString();
  EXPECT_EQ(outcomes[1].attempt, 4u);
  ExpectError(Start(2, [](Core*) { return std::string(); }), Code::kBusy, "held by attempt 4");
}

TEST_F(StartTest, WithoutTheStoreItGoesOnByWhatTheNodesKnow) {
  LoseTheStore();
  const std::string node = AddNode({{kStore, 6, 0, true, "", {RestartBefore(2, 1, 7)}}});
  const auto outcomes = Start(2, [&](Core* core) { return core->rank() == 1 ? node : ""; });
  for (const Outcome& outcome : outcomes) {
    ASSERT_TRUE(outcome.status.ok()) << outcome.status.ToString();
    EXPECT_TRUE(outcome.unrecorded);
    EXPECT_GT(outcome.attempt, 7u) << "who has the store may take the next one";
    EXPECT_EQ(outcome.attempt, outcomes[0].attempt);
    EXPECT_THAT(outcome.restored, ElementsAre(RestartBefore(2, 1, 7)));
  }
  ExpectError(Start(2, [](Core*) { return std::string(); }), Code::kIo, "/store");
}

TEST_F(StartTest, NodesThatDoNotTellWhichStoreItIsAreNoHelp) {
  LoseTheStore();
  const std::string node = AddNode({{kStore, 6, 0, true, "", {}}, {kOtherStore, 2, 0, true, "", {}}});
  ExpectError(Start(2, [&](Core*) { return node; }), Code::kIo, "from 2 stores");
}

TEST_F(StartTest, WhereTheNodesKnowAStoreNoOtherIsMade) {
  const std::string node = AddNode({{kStore, 6, 0, true, "", {}}});
  EXPECT_TRUE(Start(1, [&](Core*) { return node; })[0].unrecorded);
  EXPECT_FALSE(os::Exists(fs_, "/store").value());
  const auto anew = Start(1, [&](Core* core) {
    core->job.makes_store_anew = true;
    return node;
  });
  EXPECT_TRUE(anew[0].status.ok());
  EXPECT_FALSE(anew[0].unrecorded);
  EXPECT_TRUE(os::Exists(fs_, "/store").value());
}

// Whether the store can be reached or not.
TEST_F(StartTest, AnAttemptThatLivesOnTheNodesIsNotTakenOver) {
  const StoreId id = MakeStore();
  const std::string node = AddNode({{id, 6, 3, true, "", {}}});
  const auto soon = [&](Core* core) {
    core->job.lease = std::chrono::microseconds(1);  // as long is its end waited for
    return node;
  };
  ExpectError(Start(2, soon), Code::kBusy, "attempt 6, which has 3 live ranks");
  LoseTheStore();
  ExpectError(Start(2, soon), Code::kBusy, "attempt 6, which has 3 live ranks");
}

TEST_F(StartTest, NoAttemptGetsANumberThatTheNodesKnow) {
  const std::string node = AddNode({{MakeStore(), 6, 0, false, "", {}}});
  const auto outcomes = Start(2, [&](Core* core) { return core->rank() == 1 ? node : ""; });
  EXPECT_EQ(outcomes[1].attempt, 7u);
  EXPECT_FALSE(outcomes[1].unrecorded);
}

TEST_F(StartTest, RanksAreGatheredByNodeWithTheAddressThatOneOfThemKnows) {
  Welcome of_b;
  of_b.node = "b";
  of_b.failure_domain = "rack 2";
  of_b.address = "tcp://b";
  const std::vector<JobNode> expected = {{"b", "rack 2", "tcp://b", {0, 2, 3}}, {"a", "rack 1", "", {1}}};
  OnRanks(4, [&](Collective collective) {
    const auto core = testing::MakeCore(fs_, std::move(collective));
    core->attempt = 5;
    core->secret = "s3";
    core->node.node = core->rank() == 1 ? "a" : "b";
    core->node.failure_domain = "rack 1";
    const auto members = GatherMembers(*core, core->rank() == 2 ? &of_b : nullptr);
    EXPECT_EQ(members->nodes, expected);
    EXPECT_EQ(members->attempt, 5u);
    EXPECT_EQ(members->ranks, 4u);
    EXPECT_EQ(members->secret, "s3");
    return true;
  });
}

}  // namespace
}  // namespace kedge::client
