// Staging agents: nodes without ranks that write the images of the others. Whatever becomes of them, each image gets to the
// store.
#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <thread>

#include "store/keys.h"
#include "store/posix/posix_store.h"
#include "store/versions.h"
#include "tests/gather/staging_fixture.h"

namespace kedge::testing {
namespace {

using ::testing::HasSubstr;

TEST_F(StagingTest, AStagingAgentWritesAllImages) {
  StartStager(2);
  Take(places_, Keys(), 3, KEDGE_LEVEL_STORE);
  EXPECT_EQ(Counted(0, "images_shipped"), 6);
  EXPECT_EQ(Counted(1, "images_shipped"), 3);
  EXPECT_EQ(Counted(2, "images_carried"), 9);
  EXPECT_EQ(Counted(0, "flushed_bytes"), 0);
  ExpectStored(3);
  EXPECT_FALSE(files::exists(folder_ + "/n2.staging")) << "nobody is to look for it any more";
}

TEST_F(StagingTest, SeveralShareTheNodes) {
  StartStager(2);
  StartStager(3);
  Take(places_, Keys(), 2, KEDGE_LEVEL_STORE);
  EXPECT_EQ(Counted(2, "images_carried") + Counted(3, "images_carried"), 6);
  EXPECT_EQ(std::min(Counted(2, "images_carried"), Counted(3, "images_carried")), 2)
      << "one has two ranks' images, one has one's";
  ExpectStored(2);
}

TEST_F(StagingTest, AJobOnOneNodeHasItsImagesWrittenToo) {
  StartStager(2);
  Take({0, 0}, Keys(), 1, KEDGE_LEVEL_STORE);
  EXPECT_EQ(Counted(2, "images_carried"), 2);
}

TEST_F(StagingTest, BytesAreSealedWhereThatIsAsked) {
  StartStager(2);
  Take(places_, Keys() + "net.encrypt=true\n", 1, KEDGE_LEVEL_STORE);
  EXPECT_EQ(Counted(2, "images_carried"), 3);
  ExpectStored(1);
}

// Steps of the application take many times as long while its nodes are read. What its node knows of that in the end.
class StagingAlpha : public StagingTest {
 protected:
  Json TakeInSteps(const std::string& keys, int64_t versions) {
    StartStager(2, {}, "16MiB");
    Json known;
    nodes_.Run(places_, Keys() + keys, [&](kedge_context* context, int rank) {
      std::vector<uint64_t> memory = TwoChunks(rank, 1);
      EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
      kedge_level level = KEDGE_LEVEL_STORE;
      int64_t version = 0;
      auto begun = std::chrono::steady_clock::now();
      for (int step = 0; step < versions * kSteps; ++step) {
        int due = 0;
        EXPECT_KEDGE_OK(kedge_checkpoint_due(context, &due));
        if (step % kSteps == 0) {
          EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", ++version, 0));
          begun = std::chrono::steady_clock::now();
        }
        EXPECT_KEDGE_OK(kedge_test(context, "p", version, &level));
        std::this_thread::sleep_for(level < KEDGE_LEVEL_STORE ? 20ms : 1ms);
        if (level < KEDGE_LEVEL_STORE) took_ = std::chrono::steady_clock::now() - begun;
      }
      if (rank != 0) return;
      auto status = nodes_.Tool(0, {"status", "--json"});
      EXPECT_TRUE(status->Succeeds(20s)) << status->Output();
      known = Json::parse(status->Output())["jobs"][0]["staging"];
    });
    return known;
  }
  static constexpr int kSteps = 150;
  std::atomic<std::chrono::steady_clock::duration> took_{};  // the last version on its way to the store, at least
};

TEST_F(StagingAlpha, ANodeIsReadMoreSlowlyWhereThatSlowsItsApplication) {
  const Json known = TakeInSteps("", 5);
  EXPECT_GT(known["slowdown"], 0.5) << known;
  EXPECT_GT(known["rate_limit"], 0) << known;
  EXPECT_GT(took_.load(), 2s) << "12.6 MB of node 0, of 16 MiB/s that could be read";
}

TEST_F(StagingAlpha, ANodeIsReadAsFastAsCanBeWhereThatIsAllowed) {
  const Json known = TakeInSteps("staging.alpha=0\n", 3);
  EXPECT_GT(known["slowdown"], 0.5) << known;
  EXPECT_EQ(known["rate_limit"], 0) << known;
}

TEST_F(StagingTest, OfAnotherStagingFolderIsNotAsked) {
  StartStager(2);
  files::create_directory(folder_ + "-other");
  Take(places_, "staging.folder=" + folder_ + "-other\n", 1, KEDGE_LEVEL_STORE);
  EXPECT_EQ(Counted(2, "images_carried"), 0);
  EXPECT_THAT(nodes_.Log(0), HasSubstr("no staging agent says in " + folder_ + "-other where it is"));
}

// Nobody else may have read it.
TEST_F(StagingTest, ASecretThatOthersMayReadIsNotUsed) {
  StartStager(2);
  files::permissions(folder_ + "/secret", files::perms::owner_read | files::perms::others_read);
  Take(places_, Keys(), 1, KEDGE_LEVEL_STORE);
  EXPECT_EQ(Counted(2, "images_carried"), 0);
  EXPECT_THAT(nodes_.Log(0), HasSubstr("chmod 600 it"));
}

TEST_F(StagingTest, ANodeThatHasAnAgentGetsNoOther) {
  nodes_.StartAgent(2, {});
  std::vector<std::string> command = nodes_.AgentCommand(2);
  command.insert(command.end(), {"--set", "agent.staging=" + folder_});
  ChildProcess second(command, {}, nodes_.NewOutput());
  const auto ended = second.Wait(20s);
  ASSERT_TRUE(ended.has_value());
  EXPECT_EQ(ended->exit_code, 1);
  EXPECT_THAT(second.Output(), HasSubstr("kedge agent --stop ends it"));
}

// ---- Phases of communication (kedge_phase) ----

class StagingPhases : public StagingTest {
 protected:
  // How long it takes from the beginning of `phase` until a version is in the store that is taken while it goes on.
  std::chrono::steady_clock::duration TimeToStore(const std::string& keys, const std::function<void(kedge_context*)>& phase) {
    std::atomic<std::chrono::steady_clock::duration> longest{};
    nodes_.Run({0}, Keys() + keys, [&](kedge_context* context, int rank) {
      std::vector<uint64_t> memory = TwoChunks(rank, 1);
      EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
      EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", 1, 0));
      EXPECT_KEDGE_OK(kedge_wait(context, "p", 1, KEDGE_LEVEL_STORE, 60));
      const auto begin = std::chrono::steady_clock::now();
      phase(context);
      EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", 2, 0));
      EXPECT_KEDGE_OK(kedge_wait(context, "p", 2, KEDGE_LEVEL_STORE, 60));
      longest = std::chrono::steady_clock::now() - begin;
      EXPECT_EQ(Counted(2, "images_carried"), 2);
      pauses_ = Counted(0, "read_pauses");
      paused_ = std::chrono::milliseconds(Counted(0, "read_pause_milliseconds"));
    });
    return longest;
  }
  static void Communicate(kedge_context* context) { EXPECT_KEDGE_OK(kedge_phase(context, KEDGE_PHASE_COMMUNICATION)); }
  static void Compute(kedge_context* context) { EXPECT_KEDGE_OK(kedge_phase(context, KEDGE_PHASE_COMPUTATION)); }
  int pauses_ = -1;
  std::chrono::milliseconds paused_{};
};

TEST_F(StagingPhases, ANodeIsNotReadWhileItsApplicationCommunicatesButNoLongerThanAllowed) {
  StartStager(2);
  EXPECT_GE(TimeToStore("net.pause=900ms\n", Communicate), 850ms) << "nothing is read, and the hint is never taken back";
  EXPECT_GE(pauses_, 1);
  EXPECT_GE(paused_, 850ms);
  EXPECT_LE(paused_, 1500ms);
}

TEST_F(StagingPhases, ItIsReadAsSoonAsTheApplicationComputes) {
  StartStager(2);
  std::jthread computing;
  const auto time = TimeToStore("net.pause=1s\n", [&](kedge_context* context) {
    Communicate(context);
    computing = std::jthread([=] {
      std::this_thread::sleep_for(300ms);
      Compute(context);
    });
  });
  EXPECT_GE(time, 250ms);
  EXPECT_GE(pauses_, 1);
  EXPECT_LE(paused_, 700ms) << "and not for all that is allowed";
}

TEST_F(StagingPhases, WhoeverComputesIsRead) {
  StartStager(2);
  TimeToStore("", [&](kedge_context* context) {
    Communicate(context);
    Compute(context);
  });
  EXPECT_LE(paused_, 300ms) << "and not for all that is allowed: at most for the time between the two calls";
}

TEST_F(StagingPhases, NothingPausesWhereThatIsNotAllowed) {
  StartStager(2);
  TimeToStore("net.pause=0s\n", Communicate);
  EXPECT_EQ(pauses_, 0);
}

// ---- Faults ----

TEST_F(StagingTest, OneThatIsStoppedIsNotWaitedForLong) {
  ChildProcess& stager = StartStager(2);
  Take(places_, Keys(), 1, KEDGE_LEVEL_STORE);
  kill(stager.pid(), SIGSTOP);
  const auto begin = std::chrono::steady_clock::now();
  nodes_.Run(places_, Keys(), [&](kedge_context* context, int rank) {
    std::vector<uint64_t> memory = Content(rank, 2);
    EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
    EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", 2, 0));
    EXPECT_KEDGE_OK(kedge_wait(context, "p", 2, KEDGE_LEVEL_STORE, 60));
  });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 30s);
  kill(stager.pid(), SIGCONT);
  ExpectStored(2);
}

TEST_F(StagingTest, ItsSuccessorGoesOn) {
  ChildProcess& first = StartStager(2);
  nodes_.Run(places_, Keys(), [&](kedge_context* context, int rank) {
    std::vector<uint64_t> memory = Content(rank, 0);
    EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
    for (int64_t version = 1; version <= 4; ++version) {
      Fill(&memory, rank, version);
      EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", version, 0));
      EXPECT_KEDGE_OK(kedge_wait(context, "p", version, KEDGE_LEVEL_STORE, 60));
      if (rank == 0 && version == 1) {
        kill(first.pid(), SIGKILL);
        EXPECT_TRUE(first.Wait(20s).has_value());
        StartStager(2);
      }
    }
  });
  EXPECT_GE(Counted(2, "images_carried"), 3) << nodes_.Log(0) << stagers_.back()->Output();
  ExpectStored(4);
}

// ---- Nodes that leave ----

// The store takes nine seconds for a version, and the network much less.
class StagingRelease : public StagingTest {
 protected:
  static constexpr char kSlowly[] = "2MiB";
  void TakeAndEnd(int64_t last = 1) {
    nodes_.Run(places_, Keys(), [&](kedge_context* context, int rank) {
      std::vector<uint64_t> memory = TwoChunks(rank, 0);
      EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
      for (int64_t version = 1; version <= last; ++version) {
        const std::vector<uint64_t> content = TwoChunks(rank, version);
        std::ranges::copy(content, memory.begin());
        EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", version, 0));
        EXPECT_KEDGE_OK(kedge_wait(context, "p", version, KEDGE_LEVEL_LOCAL, 60));
      }
    });
  }
  void ExpectRestartOf(int64_t expected, const std::string& keys = "") { ExpectTwoChunks(places_, keys, expected); }
  // As an operator ends an agent: it leaves when nothing needs it any more.
  void ExpectLeaves(int node) {
    auto stop = nodes_.Tool(node, {"agent", "--stop"});
    EXPECT_TRUE(stop->Succeeds(60s)) << stop->Output() << nodes_.Log(node);
    EXPECT_FALSE(files::exists(nodes_.RunFolder(node))) << nodes_.Log(node);
  }
  void ExpectNodesLeave() {
    for (const int node : {0, 1}) ExpectLeaves(node);
  }
  bool IsStored(int64_t version) const {
    const std::unique_ptr<Store> store = MakePosixStore(os::SystemFileSystem(), {nodes_.Store(), 0600, 0700, false});
    const Catalog catalog = Catalog::Open(*store, {"test", 0, "test"}).value();
    return files::exists(nodes_.Store() + "/" +
                         keys::VersionKey({catalog.id(), "nodes", "p", version, 1, static_cast<uint32_t>(version)}));
  }
  // By the staging agent, which leaves when it is.
  void ExpectStoredBy(int stager, int64_t version) {
    ExpectLeaves(stager);
    EXPECT_TRUE(IsStored(version));
    ExpectRestartOf(version);
  }
};

TEST_F(StagingRelease, TheNodesLeaveAsSoonAsTheirImagesAreHeld) {
  StartStager(2, {}, kSlowly);
  TakeAndEnd();
  const auto begin = std::chrono::steady_clock::now();
  ExpectNodesLeave();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 8s);
  EXPECT_FALSE(IsStored(1)) << "it was to take longer than that";
  ExpectStoredBy(2, 1);
}

TEST_F(StagingRelease, HoldsNothingThatIsStored) {
  StartStager(2, {}, kSlowly);
  TakeAndEnd();
  ExpectNodesLeave();
  auto wait = nodes_.Tool(2, {"wait", "--timeout", "60s"});
  EXPECT_TRUE(wait->Succeeds(60s)) << wait->Output();
  EXPECT_TRUE(IsStored(1));
  EXPECT_GE(Counted(2, "images_brought"), 1) << "others may have come too late, or found no memory made in time";
  EXPECT_EQ(Counted(2, "images_dropped"), Counted(2, "images_brought"));
}

TEST_F(StagingRelease, ASuccessorOfTheStagingAgentStoresWhatWasHeld) {
  ChildProcess& first = StartStager(2, {}, "128KiB");
  TakeAndEnd();
  ExpectNodesLeave();
  kill(first.pid(), SIGKILL);
  EXPECT_TRUE(first.Wait(20s).has_value());
  EXPECT_FALSE(IsStored(1));
  StartStager(2);
  ExpectStoredBy(2, 1);
}

TEST_F(StagingRelease, ARestartGoesOnFromWhatIsHeld) {
  StartStager(2, {}, kSlowly);
  StartStager(3, {}, kSlowly);
  TakeAndEnd();
  ExpectNodesLeave();
  EXPECT_FALSE(IsStored(1));
  ExpectRestartOf(1, Keys());
  ExpectNodesLeave();
  ExpectLeaves(3);
  ExpectStoredBy(2, 1);
}

TEST_F(StagingRelease, OneThatDiesBeforeItHasSaidSoIsNotCountedOn) {
  ChildProcess& stager = StartStager(2, {{"KEDGE_TEST_KILL_POINT", "carry-held"}}, kSlowly);
  TakeAndEnd();
  ExpectNodesLeave();
  EXPECT_TRUE(stager.Wait(20s).has_value());
  EXPECT_TRUE(IsStored(1)) << "the nodes write their images themselves";
  ExpectRestartOf(1);
}

TEST_F(StagingRelease, WhatFindsNoRoomIsWaitedFor) {
  StartStager(2, {}, "12MiB", "4MiB");
  TakeAndEnd(2);
  ExpectNodesLeave();
  EXPECT_TRUE(IsStored(1));
  EXPECT_EQ(Counted(2, "images_brought"), 0);
  ExpectStoredBy(2, 2);
}

}  // namespace
}  // namespace kedge::testing
