// What may befall images on their way through a staging agent, at any point and with any layout: whoever is killed, stopped, cut
// off or without room, nothing is lost, and the nodes write by themselves what does not get on.
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <thread>

#include "store/keys.h"
#include "store/posix/posix_store.h"
#include "store/verify.h"
#include "store/versions.h"
#include "tests/gather/staging_fixture.h"
#include "tests/support/point_names.h"
#include "tests/support/steered_agents.h"
#include "tests/support/two_hosts.h"

namespace kedge::testing {
namespace {

using SteadyClock = std::chrono::steady_clock;

class StagingFaults : public StagingTest {
 protected:
  std::string KeysWith(const std::string& layout) const { return Keys() + "store.layout=" + layout + "\n"; }
  // Every byte of the version is in the store, once for each rank, and as it was taken.
  void ExpectWhole(int64_t version) {
    const std::unique_ptr<Store> store = MakePosixStore(os::SystemFileSystem(), {nodes_.Store(), 0600, 0700, false});
    const Catalog catalog = Catalog::Open(*store, {"test", 0, "test"}).value();
    const Generation generation{catalog.id(), "nodes", "p", version, 1, static_cast<uint32_t>(version)};
    const auto report = VerifyVersion(catalog, generation, {});
    ASSERT_TRUE(report.ok()) << report.status().ToString();
    EXPECT_TRUE(report->problems.empty()) << ::testing::PrintToString(report->problems.size());
  }
  void ExpectWholeAndStored(int64_t version) {
    ExpectWhole(version);
    ExpectStored(version);
  }
  // While rank 0 does that: how long the version takes to the store.
  SteadyClock::duration TakeTwoChunks(int64_t version, const std::string& keys, const std::function<void()>& meanwhile) {
    std::atomic<SteadyClock::duration> longest{};
    nodes_.Run(places_, keys, [&](kedge_context* context, int rank) {
      std::vector<uint64_t> memory = TwoChunks(rank, version);
      EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
      EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", version, 0));
      const auto begin = SteadyClock::now();
      if (rank == 0) meanwhile();
      EXPECT_KEDGE_OK(kedge_wait(context, "p", version, KEDGE_LEVEL_STORE, 60));
      if (rank == 0) longest = SteadyClock::now() - begin;
    });
    return longest;
  }
};

// ---- Killed, at each point of each side ----

struct Death {
  const char* layout;
  int node;  // 2 is the staging agent's, 0 a source
  const char* point;
};
std::vector<Death> Deaths() {
  std::vector<Death> deaths;
  for (const char* layout : {"file", "node", "posix", "leaders"}) {
    for (const char* point : {"carry-asked", "carry-piece-written", "publish-records-written", "publish-done"}) {
      deaths.push_back({layout, 2, point});
    }
    for (const char* point : {"image-end-done", "ship-begun", "serve-lease", "ship-stored"}) deaths.push_back({layout, 0, point});
  }
  return deaths;
}

class StagingKilled : public StagingFaults, public ::testing::WithParamInterface<Death> {};
INSTANTIATE_TEST_SUITE_P(At, StagingKilled, ::testing::ValuesIn(Deaths()), [](const auto& death) {
  return AsTestName(std::string(death.param.layout) + "_" + std::to_string(death.param.node) + "_" + death.param.point);
});

TEST_P(StagingKilled, NothingIsLost) {
  const Death& death = GetParam();
  const std::map<std::string, std::string> dies = {{"KEDGE_TEST_KILL_POINT", death.point}};
  ChildProcess& stager = StartStager(2, death.node == 2 ? dies : std::map<std::string, std::string>());
  if (death.node == 0) nodes_.StartAgent(0, dies);
  const auto begin = SteadyClock::now();
  Take(places_, KeysWith(death.layout), 2, KEDGE_LEVEL_STORE);
  EXPECT_LT(SteadyClock::now() - begin, 45s);
  if (death.node == 2) {
    EXPECT_TRUE(stager.Wait(20s).has_value());
  } else {
    EXPECT_TRUE(nodes_.AgentWasKilled());
  }
  ExpectWhole(1);
  ExpectWholeAndStored(2);
}

// ---- Two that write one image ----

struct Stop {
  const char* layout;
  const char* point;
};
class StagingStopped : public StagingFaults, public ::testing::WithParamInterface<Stop> {};
INSTANTIATE_TEST_SUITE_P(At, StagingStopped,
                         ::testing::Values(Stop{"file", "carry-piece-written"}, Stop{"node", "carry-piece-written"},
                                           Stop{"posix", "carry-piece-written"}, Stop{"leaders", "carry-piece-written"},
                                           Stop{"file", "publish-records-written"}, Stop{"node", "publish-records-written"},
                                           Stop{"leaders", "publish-records-written"}, Stop{"file", "publish-done"}),
                         [](const auto& stop) { return AsTestName(std::string(stop.param.layout) + "_" + stop.param.point); });

// Stopped in the midst of an image, or of its publication, it goes on when the nodes have written and published the same images.
TEST_P(StagingStopped, WhatTwoWriteIsPublishedOnce) {
  ChildProcess& stager = StartStager(2, {{"KEDGE_TEST_STOP_POINT", GetParam().point}});
  const auto begin = SteadyClock::now();
  Take(places_, KeysWith(GetParam().layout), 1, KEDGE_LEVEL_STORE);
  EXPECT_LT(SteadyClock::now() - begin, 30s) << "the nodes write by themselves after a while";
  ExpectWhole(1);
  kill(stager.pid(), SIGCONT);
  EXPECT_GE(Counted(2, "images_carried"), 0) << "it answers again";
  ExpectWhole(1);
  ExpectWholeAndStored(1);
}

// ---- No room ----

class StagingOfLayout : public StagingFaults, public ::testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Layout, StagingOfLayout, ::testing::Values("file", "node", "posix", "leaders"),
                         NameOfPoint<const char*>);

TEST_P(StagingOfLayout, OneThatHasNoRoomInTheStoreGivesImagesBack) {
  const SteeredAgents agents(nodes_.RunFolder(0) + ".steering");
  const std::string steered = std::getenv("KEDGE_AGENT");
  std::vector<std::string> command = nodes_.AgentCommand(2);
  command.front() = steered;
  command.insert(command.end(), {"--set", "agent.staging=" + folder_});
  stagers_.push_back(std::make_unique<ChildProcess>(command, std::map<std::string, std::string>(), nodes_.NewOutput()));
  ASSERT_TRUE(stagers_.back()->WaitForOutput("this agent writes for other nodes", 20s)) << stagers_.back()->Output();
  agents.Fail(".n2-", os::testing::CallsOf(os::testing::Call::kPwrite), ENOSPC);
  Take(places_, KeysWith(GetParam()), 2, KEDGE_LEVEL_STORE);
  EXPECT_GE(Counted(0, "images_taken_back"), 2);
  EXPECT_EQ(Counted(2, "images_carried"), 0);
  ExpectWhole(1);
  ExpectWholeAndStored(2);
}

// The pool has room for two versions, and the staging agent writes slowly: a rank that waits for a place has its node write what
// the staging agent has not begun. The ranks go in step, and begin when both nodes have the staging agent: a node that wants room
// before that writes all by itself.
TEST_P(StagingOfLayout, ANodeThatNeedsRoomWritesWhatWaitsThere) {
  constexpr int64_t kLast = 4;
  std::vector<std::string> command = nodes_.AgentCommand(2);
  command.insert(command.end(), {"--set", "agent.staging=" + folder_, "--set", "flush.rate=1MiB", "--set", "agent.writers_most=1",
                                 "--set", "flush.workers=1"});
  stagers_.push_back(std::make_unique<ChildProcess>(command, std::map<std::string, std::string>(), nodes_.NewOutput()));
  ASSERT_TRUE(stagers_.back()->WaitForOutput("this agent writes for other nodes", 20s)) << stagers_.back()->Output();
  std::vector<const ChildProcess*> agents;
  for (const int node : {0, 1}) agents.push_back(&nodes_.StartAgent(node, {}, "32MiB"));
  const auto has_stager = [](const ChildProcess* agent) {
    return agent->Output().find("staging agent n2 writes the images of this node") != std::string::npos;
  };
  std::atomic<bool> have_stager{false};
  std::barrier in_step(static_cast<std::ptrdiff_t>(places_.size()));
  nodes_.Run(places_, KeysWith(GetParam()) + "pool.size=32MiB\n", [&](kedge_context* context, int rank) {
    std::vector<uint64_t> memory = TwoChunks(rank, 0);
    EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), 1, 8, nullptr));
    for (int64_t version = 1; !have_stager && version <= 20; ++version) {
      EXPECT_KEDGE_OK(kedge_checkpoint(context, "small", version, 0));
      EXPECT_KEDGE_OK(kedge_wait(context, "small", version, KEDGE_LEVEL_STORE, 60));
      if (rank == 0) have_stager = std::ranges::all_of(agents, has_stager);
      in_step.arrive_and_wait();
    }
    EXPECT_TRUE(have_stager);
    EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
    for (int64_t version = 1; version <= kLast; ++version) {
      std::ranges::copy(TwoChunks(rank, version), memory.begin());
      in_step.arrive_and_wait();
      EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", version, 0));
    }
    // What the staging agent has begun by then, or nobody waits for a place of, is left to it: 75 seconds if that is all.
    EXPECT_KEDGE_OK(kedge_wait(context, "p", kLast, KEDGE_LEVEL_STORE, 180));
  });
  EXPECT_GT(Counted(0, "flushed_bytes"), 0);
  EXPECT_GT(Counted(0, "images_taken_back"), 0);
  ExpectWhole(kLast);
}

TEST_P(StagingOfLayout, AnImageThatIsLargerThanThePoolGetsThere) {
  StartStager(2);
  TakeMoreThanThePool(KeysWith(GetParam()));
  ExpectWhole(1);
}

// What is stored by a staging agent may go like anything that is stored: ten versions through a pool of three.
TEST_P(StagingOfLayout, WhatIsStoredMakesRoom) {
  StartStager(2);
  for (const int node : {0, 1}) nodes_.StartAgent(node, {}, "48MiB");
  nodes_.Run(places_, KeysWith(GetParam()) + "pool.size=48MiB\n", [&](kedge_context* context, int rank) {
    std::vector<uint64_t> memory = TwoChunks(rank, 0);
    EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
    for (int64_t version = 1; version <= 10; ++version) {
      std::ranges::copy(TwoChunks(rank, version), memory.begin());
      EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", version, 0));
    }
    EXPECT_KEDGE_OK(kedge_wait(context, "p", 10, KEDGE_LEVEL_STORE, 60));
  });
  EXPECT_GE(Counted(2, "images_carried"), 1);
  ExpectWhole(10);
}

// Without any staging agent: one rank has all of the pool, for an image that is written and waits for the other's, which waits
// for a place.
TEST_P(StagingOfLayout, ARankThatHasNoPlaceYetDoesNotHoldUpTheOther) {
  std::vector<std::string> command = nodes_.AgentCommand(0, "8MiB");
  command.insert(command.end(), {"--set", "flush.rate=4MiB"});
  ChildProcess agent(command, {}, nodes_.NewOutput());
  ASSERT_TRUE(nodes_.WaitForAgent(0));
  std::atomic<bool> is_taken{false};
  const std::string keys = std::string("store.layout=") + GetParam() + "\npool.size=8MiB\n";
  nodes_.Run({0, 0}, keys, [&](kedge_context* context, int rank) {
    std::vector<uint64_t> memory = TwoChunks(rank, 1);
    EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
    while (rank == 1 && !is_taken) std::this_thread::sleep_for(1ms);
    const auto begin = SteadyClock::now();
    EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", 1, 0));
    if (rank == 0) is_taken = true;
    EXPECT_KEDGE_OK(kedge_wait(context, "p", 1, KEDGE_LEVEL_STORE, 60));
    EXPECT_LT(SteadyClock::now() - begin, 30s) << "rank " << rank;
  });
  ExpectWhole(1);
  kill(agent.pid(), SIGTERM);
  EXPECT_TRUE(agent.Wait(20s).has_value());
}

// ---- A network that is cut ----

TEST_P(StagingOfLayout, AWayThatIsCutIsNotWaitedForForLong) {
  const std::string staging = " --set agent.staging=" + folder_ + " --set flush.rate=2MiB";
  TwoHosts hosts({nodes_.AgentLine(0, "10.77.0.1"), nodes_.AgentLine(1, "10.77.0.1")},
                 nodes_.AgentLine(2, "10.77.0.2") + staging);
  for (const int node : {0, 1, 2}) ASSERT_TRUE(nodes_.WaitForAgent(node));
  for (int i = 0; i < 1000 && !files::exists(folder_ + "/n2.staging"); ++i) std::this_thread::sleep_for(10ms);
  const std::string keys = KeysWith(GetParam());
  // A source that a busy machine keeps from asking for the staging agent writes by itself: then the next version may do.
  SteadyClock::duration took{};
  bool was_cut = false;
  int64_t version = 0;
  while (!was_cut && version < 5) {
    const auto before = version == 0 ? 0 : Counted(0, "parts_leased");
    took = TakeTwoChunks(++version, keys, [&] {
      for (int i = 0; i < 50 && !was_cut; ++i) {
        std::this_thread::sleep_for(10ms);
        was_cut = Counted(0, "parts_leased") > before;
      }
      if (was_cut) hosts.Cut();
    });
  }
  ASSERT_TRUE(was_cut) << "nothing was read there";
  EXPECT_LT(took, 30s);
  EXPECT_GE(Counted(0, "images_taken_back"), 2);
  ExpectWhole(version);
  hosts.Mend();
}

}  // namespace
}  // namespace kedge::testing
