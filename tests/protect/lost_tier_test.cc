// The pool of a node is deleted under its agent: what lay there counts for level NODE no longer.
#include <signal.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>

#include "tests/protect/protect_fixture.h"

namespace kedge::testing {
namespace {

using std::chrono::milliseconds;

class LostTierTest : public ProtectTest, public ::testing::WithParamInterface<Scheme> {
 protected:
  void RemovePool(int node) const { std::filesystem::remove(nodes_.RunFolder(node) + "/pool/pool"); }
  void LosePool(int node) const {
    RemovePool(node);
    for (int i = 0; i < 100 && nodes_.Log(node).find("tier lost") == std::string::npos; ++i)
      std::this_thread::sleep_for(milliseconds(100));
    EXPECT_THAT(nodes_.Log(node), ::testing::HasSubstr("tier lost"));
  }
  // Version 2 waits for node 3 when node 0 loses its pool by `lose`; whether it was said to be at its level, it is there when as
  // many nodes are lost as the scheme survives.
  void LoseWhileOneIsWaitedFor(const std::function<void()>& lose);
};
INSTANTIATE_TEST_SUITE_P(Schemes, LostTierTest, ::testing::ValuesIn(kSchemes), NameOf);

// A restart among the same nodes keeps what is there already.
TEST_P(LostTierTest, WhatAFormerProtectionHadThereIsMadeAnew) {
  const std::string keys = std::string(GetParam().keys) + kNoStore;
  Take(all_, keys, 1);
  LosePool(0);
  ExpectRestart(all_, keys, 1, [](kedge_context* context, int rank) {
    EXPECT_KEDGE_OK(kedge_wait(context, "p", 1, KEDGE_LEVEL_NODE, 60)) << "rank " << rank;
  });
  for (int loss = 0; loss < GetParam().losses; ++loss) nodes_.Lose(1 + loss);
  ExpectRestart(all_, keys, 1);
}

void LostTierTest::LoseWhileOneIsWaitedFor(const std::function<void()>& lose) {
  const std::string keys = std::string(GetParam().keys) + kNoStore;
  Take(all_, keys, 1);
  std::barrier<> together(4);
  std::atomic<bool> is_declared{false};
  nodes_.Run(all_, keys, [&](kedge_context* context, int rank) {
    std::vector<uint64_t> memory = Content(rank, 0);
    EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
    EXPECT_KEDGE_OK(kedge_restart(context, "p", -1, nullptr));
    EXPECT_KEDGE_OK(kedge_wait(context, "p", 1, KEDGE_LEVEL_NODE, 60));
    Fill(&memory, rank, 2);
    together.arrive_and_wait();
    const int agent = AgentPidAt(nodes_.RunFolder(3));
    if (rank == 3) {
      EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", 2, 0));
      std::this_thread::sleep_for(milliseconds(20));
      kill(agent, SIGSTOP);
    }
    together.arrive_and_wait();
    if (rank != 3) {
      EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", 2, 0));
    }
    std::this_thread::sleep_for(milliseconds(500));
    together.arrive_and_wait();
    if (rank == 0) lose();
    together.arrive_and_wait();
    if (rank == 3) kill(agent, SIGCONT);
    if (kedge_wait(context, "p", 2, KEDGE_LEVEL_NODE, 30) == KEDGE_OK) is_declared = true;
    together.arrive_and_wait();
  });
  for (int loss = 0; loss < GetParam().losses; ++loss) nodes_.Lose(1 + loss);
  nodes_.Run(all_, keys, [&](kedge_context* context, int rank) {
    std::vector<uint64_t> memory = Content(rank, 0);
    EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
    int64_t version = -1;
    const int code = kedge_restart(context, "p", -1, &version);
    if (is_declared) {
      EXPECT_EQ(version, 2) << "it was said to survive a node: " << code;
    }
  });
}

// One node of the group keeps the version from its level, and meanwhile another one loses what it has told that it holds.
TEST_P(LostTierTest, ALevelThatIsNotReachedYetIsNotReachedWithIt) {
  LoseWhileOneIsWaitedFor([&] { LosePool(0); });
}

// Its agent looks once a second; it must have looked when it says that it has done its part.
TEST_P(LostTierTest, NorWithWhatWasLostAMomentAgo) {
  LoseWhileOneIsWaitedFor([&] { RemovePool(0); });
}

// The application has been told so before: asked again, every rank hears that it holds no longer, and the next version gets
// there.
TEST_P(LostTierTest, ALevelThatWasReachedIsNotSaidAgain) {
  const std::string keys = std::string(GetParam().keys) + kNoStore;
  std::barrier<> together(4);
  nodes_.Run(all_, keys, [&](kedge_context* context, int rank) {
    std::vector<uint64_t> memory = Content(rank, 1);
    EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
    EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", 1, 0));
    EXPECT_KEDGE_OK(kedge_wait(context, "p", 1, KEDGE_LEVEL_NODE, 60));
    together.arrive_and_wait();
    if (rank == 0) LosePool(0);
    together.arrive_and_wait();
    int code = KEDGE_OK;
    for (int i = 0; i < 100 && code == KEDGE_OK; ++i) {
      std::this_thread::sleep_for(milliseconds(50));
      code = kedge_wait(context, "p", 1, KEDGE_LEVEL_NODE, 60);
    }
    EXPECT_EQ(code, KEDGE_ERROR_UNAVAILABLE) << "rank " << rank;
    EXPECT_THAT(kedge_error_message(), ::testing::HasSubstr("has lost the tier")) << "rank " << rank;
    together.arrive_and_wait();
    // Nor by the successor of another node's agent, which has its own part still.
    if (rank == 1) kill(AgentPidAt(nodes_.RunFolder(1)), SIGKILL);
    together.arrive_and_wait();
    EXPECT_EQ(kedge_wait(context, "p", 1, KEDGE_LEVEL_NODE, 60), KEDGE_ERROR_UNAVAILABLE) << "rank " << rank;
    EXPECT_THAT(kedge_error_message(), ::testing::HasSubstr("would not survive")) << "rank " << rank;
    together.arrive_and_wait();
    Fill(&memory, rank, 2);
    EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", 2, 0));
    EXPECT_KEDGE_OK(kedge_wait(context, "p", 2, KEDGE_LEVEL_NODE, 60)) << "rank " << rank;
  });
  for (int loss = 0; loss < GetParam().losses; ++loss) nodes_.Lose(1 + loss);
  ExpectRestart(all_, keys, 2);
}

}  // namespace
}  // namespace kedge::testing
