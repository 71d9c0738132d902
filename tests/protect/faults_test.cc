// Faults in the middle of the work: nodes that are lost while they encode, flush, restart or are rebuilt into, damaged parity, a
// cut link, agents that are none of the attempt's own. What was promised survives them; what was not is said, and nothing hangs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <regex>
#include <thread>

#include "agent/peers/peer_messages.h"
#include "format/set_records.h"
#include "net/network.h"
#include "tests/protect/protect_fixture.h"
#include "tests/support/two_hosts.h"

namespace kedge::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

std::string ReadAll(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class FaultTest : public ProtectTest {
 protected:
  using ProtectTest::ProtectTest;
  static std::string Keys() { return std::string(kXorOfFour) + kNoStore; }
  // Waits until the node's agent has written that.
  bool LogSays(int node, const std::string& text) const {
    for (int i = 0; i < 3000; ++i) {
      if (nodes_.Log(node).find(text) != std::string::npos) return true;
      std::this_thread::sleep_for(10ms);
    }
    return false;
  }
  // Flips a bit in every 4 KiB of all redundancy that lies in the node's pool; how many objects there are.
  int FlipInParity(int node) const {
    constexpr uint64_t kSlotBytes = 4 << 20;
    int flipped = 0;
    for (const auto& entry : std::filesystem::directory_iterator(nodes_.RunFolder(node) + "/sets")) {
      if (entry.path().extension() == ".set") continue;
      const std::string bytes = ReadAll(entry.path());
      const auto record = DecodeParityRecord(AsBytes(bytes));
      if (!record.ok()) continue;
      for (const ParitySlot& slot : record->slots) {
        for (uint64_t at = 0; at < slot.bytes; at += 4096)
          FlipBit(nodes_.RunFolder(node) + "/pool/pool", slot.slot * kSlotBytes + slot.offset + at);
      }
      ++flipped;
    }
    return flipped;
  }
};

TEST_F(FaultTest, ANodeLostWhileItEncodesCostsNoOlderVersion) {
  Take(all_, Keys(), 1);
  nodes_.KillAgent(1);
  nodes_.StartAgent(1, {{"KEDGE_TEST_KILL_POINT", "protect-block"}});
  nodes_.Run(all_, Keys(), [&](kedge_context* context, int rank) {
    std::vector<uint64_t> memory = Content(rank, 0);
    EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
    int64_t version = -1;
    EXPECT_KEDGE_OK(kedge_restart(context, "p", -1, &version));
    EXPECT_EQ(version, 1);
    Fill(&memory, rank, 2);
    EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", 2, 0));
    if (rank != 1) return;
    EXPECT_TRUE(nodes_.AgentWasKilled());
    nodes_.DeleteFiles(1);
  });
  // Version 2, when the others had made their parity of it by then.
  std::atomic<int64_t> restored{-1};
  nodes_.Run(all_, Keys(), [&](kedge_context* context, int rank) {
    std::vector<uint64_t> memory = Content(rank, 0);
    EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
    int64_t version = -1;
    EXPECT_KEDGE_OK(kedge_restart(context, "p", -1, &version));
    EXPECT_TRUE(version == 1 || version == 2) << version;
    EXPECT_TRUE(memory == Content(rank, version)) << "rank " << rank;
    const int64_t before = restored.exchange(version);
    EXPECT_TRUE(before == -1 || before == version);
  });
}

TEST_F(FaultTest, ANodeLostWhileItFlushesIsRebuilt) {
  // A store so slow that nobody has flushed when all have encoded.
  const std::string keys = std::string(kXorOfFour) + "flush.rate=100KiB\n";
  nodes_.Run(all_, keys, [&](kedge_context* context, int rank) {
    std::vector<uint64_t> memory = Content(rank, 1);
    EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
    EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", 1, 0));
    EXPECT_KEDGE_OK(kedge_wait(context, "p", 1, KEDGE_LEVEL_NODE, 60));
    kedge_level reached = KEDGE_LEVEL_NONE;
    EXPECT_KEDGE_OK(kedge_test(context, "p", 1, &reached));
    EXPECT_EQ(reached, KEDGE_LEVEL_NODE) << "it is in the store already, and the test shows nothing";
  });
  nodes_.Lose(1);
  for (const int node : {0, 2, 3}) nodes_.KillAgent(node);
  EXPECT_EQ(ExpectRestart(all_, kXorOfFour, 1,
                          [](kedge_context* context, int) {
                            EXPECT_KEDGE_OK(kedge_wait(context, "p", 1, KEDGE_LEVEL_STORE, 60)) << "what was rebuilt is flushed";
                          }),
            0u);
}

// It dies as soon as it knows that all groups are done; the other node of its group has heard before that theirs is. Its rank
// has ended, so that nobody starts a successor.
TEST_F(FaultTest, TheNodeThatHearsForAllDiesBeforeItTellsAnybody) {
  ChildProcess& partner = nodes_.StartAgent(2, {{"KEDGE_LOG", "debug"}});
  nodes_.StartAgent(0, {{"KEDGE_TEST_KILL_POINT", "protect-groups-done"}});
  nodes_.Run(all_, std::string("protect.scheme=xor\nprotect.group=2\n") + kNoStore, [&](kedge_context* context, int rank) {
    std::vector<uint64_t> memory = Content(rank, 1);
    EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
    EXPECT_TRUE(rank % 2 == 0 || partner.WaitForOutput("all nodes of group 0 are done", std::chrono::seconds(30)));
    EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", 1, 0));
  });
  EXPECT_TRUE(nodes_.AgentWasKilled());
  for (const int node : {1, 2, 3}) {
    auto wait = nodes_.Tool(node, {"wait", "--level", "node", "--timeout", "40s"});
    EXPECT_TRUE(wait->Succeeds(std::chrono::seconds(60))) << wait->Output();
  }
}

// One node is lost, and during the restart the same again, or another one.
// None of a node's two copies can be put on file for a while: a folder is where the file is to be. The room for them is given
// back, and both are made anew.
TEST_F(FaultTest, CopiesThatCannotBePutOnFileAreMadeAgain) {
  const std::string keys = std::string("protect.scheme=partner\nprotect.group=4\nprotect.copies=2\n") + kNoStore;
  ChildProcess& agent = nodes_.StartAgent(0, {});
  ASSERT_TRUE(agent.WaitForOutput("serves node n0", 30s)) << "it would count what lies there from before";
  const auto in_the_way = [&](int member) { return nodes_.RunFolder(0) + "/sets/1." + std::to_string(member); };
  for (const int member : all_) std::filesystem::create_directory(in_the_way(member));
  nodes_.Run(all_, keys, [&](kedge_context* context, int rank) {
    std::vector<uint64_t> memory = Content(rank, 1);
    EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
    EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", 1, 0));
    if (rank == 0) {
      EXPECT_TRUE(agent.WaitForOutput("It is tried again", 30s));
      for (const int member : all_) std::filesystem::remove(in_the_way(member));
    }
    EXPECT_KEDGE_OK(kedge_wait(context, "p", 1, KEDGE_LEVEL_NODE, 60));
  });
  EXPECT_EQ(Counted(0, "versions_protected"), 1) << "another agent has come in its place";
  nodes_.Lose(1);
  nodes_.Lose(2);
  ExpectRestart(all_, keys, 1);
}

class MidRestartTest : public FaultTest, public ::testing::WithParamInterface<int> {};
INSTANTIATE_TEST_SUITE_P(Nodes, MidRestartTest, ::testing::Values(1, 2),
                         [](const auto& node) { return node.param == 1 ? "TheOneThatIsRebuilt" : "ASurvivor"; });

TEST_P(MidRestartTest, ANodeThatIsLostCostsThatLaunchOnly) {
  const std::string keys = std::string("protect.scheme=rs\nprotect.losses=2\nprotect.group=4\n") + kNoStore;
  const int second = GetParam();
  Take(all_, keys, 1);
  nodes_.Lose(1);
  if (second != 1) nodes_.KillAgent(second);
  nodes_.StartAgent(second, {{"KEDGE_TEST_KILL_POINT", second == 1 ? "bring-block" : "serve-lease"}});
  // The node dies in the middle, and what comes up under its name is at another address, with nothing of what it had.
  std::thread fate([&] {
    EXPECT_TRUE(nodes_.AgentWasKilled());
    nodes_.DeleteFiles(second);
  });
  nodes_.Run(all_, keys, [](kedge_context* context, int rank) {
    std::vector<uint64_t> memory = Content(rank, 0);
    EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
    int64_t version = -1;
    const int code = kedge_restart(context, "p", -1, &version);
    EXPECT_NE(code, KEDGE_ERROR_CORRUPT) << kedge_error_message();
    EXPECT_TRUE(code != KEDGE_OK || memory == Content(rank, 1)) << "rank " << rank;
  });
  fate.join();
  nodes_.Lose(second);
  EXPECT_EQ(ExpectRestart(all_, keys, 1), 0u);
}

// Those whose parity the rebuild reads first.
class DamagedParityTest : public FaultTest, public ::testing::WithParamInterface<int> {};
INSTANTIATE_TEST_SUITE_P(Survivors, DamagedParityTest, ::testing::Values(0, 1));

TEST_P(DamagedParityTest, IsPassedOver) {
  const std::string keys = std::string("protect.scheme=rs\nprotect.losses=2\nprotect.group=4\n") + kNoStore;
  Take(all_, keys, 1);
  nodes_.Lose(3);
  ASSERT_EQ(FlipInParity(GetParam()), 1);
  EXPECT_EQ(ExpectRestart(all_, keys, 1), 0u);
  EXPECT_THAT(nodes_.Log(3), HasSubstr("is left out"));
}

TEST_F(FaultTest, WithoutAnotherWayAFlippedByteInParityIsNeverSpread) {
  Take(all_, Keys(), 1);
  nodes_.Lose(3);
  for (const int node : {0, 1, 2}) ASSERT_EQ(FlipInParity(node), 1);
  nodes_.Run(all_, Keys(), [](kedge_context* context, int rank) {
    std::vector<uint64_t> memory = Content(rank, 0);
    EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
    EXPECT_EQ(kedge_restart(context, "p", -1, nullptr), KEDGE_ERROR_INCOMPLETE) << kedge_error_message();
  });
  EXPECT_THAT(nodes_.Log(3), HasSubstr("is left out"));
}

TEST_F(FaultTest, WhatCameFromTheStoreIsProtectedAgain) {
  Take(all_, kXorOfFour, 1, KEDGE_LEVEL_STORE);
  for (const int node : all_) nodes_.Lose(node);
  const uint64_t from_store = ExpectRestart(all_, kXorOfFour, 1, [&](kedge_context*, int rank) {
    EXPECT_TRUE(LogSays(rank, "survives the loss of a node")) << "rank " << rank;
  });
  EXPECT_GT(from_store, 0u);
  nodes_.Lose(2);
  EXPECT_EQ(ExpectRestart(all_, kXorOfFour, 1), 0u);
}

// Their images come from the store one by one, and of those that were there before some nodes have as many as they have ranks.
TEST_F(FaultTest, RanksThatSwapTheirNodesAreProtectedAgain) {
  Take({0, 0, 1, 1, 2, 2, 3, 3}, kXorOfFour, 1, KEDGE_LEVEL_STORE);
  for (const int node : {2, 3}) nodes_.Lose(node);
  const std::vector<int> moved = {2, 2, 3, 3, 0, 0, 1, 1};
  ExpectRestart(moved, kXorOfFour, 1, [&](kedge_context*, int rank) {
    EXPECT_TRUE(rank >= 4 || LogSays(moved[static_cast<size_t>(rank)], "survives the loss of a node")) << "rank " << rank;
  });
  nodes_.Lose(0);
  EXPECT_EQ(ExpectRestart(moved, kXorOfFour, 1), 0u);
}

// Five nodes, of which one is a spare at first: the job moves from node 3 to it.
class MovedTest : public FaultTest {
 protected:
  MovedTest() : FaultTest(5) {}
  // Until rank 0 has version 1 back, which all nodes of `places` are left with. `from_store`: how many bytes came from there.
  double SecondsUntilRestarted(const std::vector<int>& places, const std::string& keys, uint64_t* from_store = nullptr) {
    const auto began = std::chrono::steady_clock::now();
    double seconds = 0;
    const uint64_t bytes = ExpectRestart(places, keys, 1, [&](kedge_context* context, int rank) {
      if (rank == 0) seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
      EXPECT_KEDGE_OK(kedge_wait(context, "p", 1, KEDGE_LEVEL_NODE, 60)) << ", rank " << rank;
    });
    if (from_store != nullptr) *from_store = bytes;
    return seconds;
  }
  // Whether a dead node is waited for: that takes 1.5 s, and whoever waits for it does each time. So much longer than the same
  // restart when nobody is left out takes one that does not wait only beside much else.
  static constexpr double kWaitSeconds = 1.3;
  static constexpr int kTries = 5;
};

// Whether a dead node still answers is found out beside a restart that can do without it.
TEST_F(MovedTest, ADeadNodeThatIsLeftOutIsNotWaitedFor) {
  Take(all_, Keys(), 1);
  int dead = 3, spare = 4;
  double longer = kWaitSeconds;
  for (int i = 0; i < kTries && longer >= kWaitSeconds; ++i, std::swap(dead, spare)) {
    nodes_.Lose(dead);
    uint64_t from_store = 0;
    const double left_out = SecondsUntilRestarted({0, 1, 2, spare}, Keys(), &from_store);
    EXPECT_EQ(from_store, 0u);
    longer = left_out - SecondsUntilRestarted({0, 1, 2, spare}, Keys());
  }
  EXPECT_LT(longer, kWaitSeconds);
  EXPECT_TRUE(LogSays(0, "does not answer and is left alone"));
}

// When the others do not have all of the newest version it is worth to wait for a node that is left out, but not when its machine
// says that nobody is there. Two are dead, which is one too many.
TEST_F(MovedTest, ADeadNodeWhoseImagesAreWantedIsNotWaitedForEither) {
  Take({0, 1, 2, 3}, kXorOfFour, 1, KEDGE_LEVEL_STORE);
  std::vector<int> dead = {2, 3}, others = {1, 4};
  double longer = kWaitSeconds;
  for (int i = 0; i < kTries && longer >= kWaitSeconds; ++i, std::swap(dead, others)) {
    for (const int node : dead) nodes_.Lose(node);
    const std::vector<int> places = {0, others[0], others[1], others[1]};
    const double left_out = SecondsUntilRestarted(places, kXorOfFour);
    longer = left_out - SecondsUntilRestarted(places, kXorOfFour);
  }
  EXPECT_LT(longer, kWaitSeconds);
  EXPECT_TRUE(LogSays(0, "does not answer and is left alone"));
}

TEST_F(MovedTest, AnImageOnANodeThatTheJobHasLeftIsFound) {
  Take(all_, Keys(), 1);
  // And another node's is gone for good: with node 3's it can be rebuilt, without it both were lost.
  nodes_.Lose(1);
  EXPECT_EQ(ExpectRestart({0, 1, 2, 4}, Keys(), 1,
                          [](kedge_context* context, int rank) {
                            EXPECT_KEDGE_OK(kedge_wait(context, "p", 1, KEDGE_LEVEL_NODE, 60)) << ", rank " << rank;
                          }),
            0u);
  EXPECT_THAT(nodes_.Log(4), HasSubstr("is here again: from node n3"));
  // It is protected where it is now.
  nodes_.Lose(3);
  nodes_.Lose(4);
  EXPECT_EQ(ExpectRestart({0, 1, 2, 4}, Keys(), 1), 0u);
}

// Somebody at the address of a node of the job.
class Stranger {
 public:
  // Null when the address cannot be had.
  static std::unique_ptr<Stranger> At(const std::string& address) {
    net::SetFabricDefaults();  // as agents do: ends with buffers of other sizes do not connect
    net::NetworkOptions options;
    options.former_address = net::NodeAddress::FromText(address).value_or(net::NodeAddress{});
    options.connect_timeout = 2s;
    auto network = net::Network::Open(options);
    EXPECT_TRUE(network.ok()) << network.status().ToString();
    if (!network.ok()) return nullptr;
    auto stranger = std::make_unique<Stranger>();
    stranger->network_ = std::move(*network);
    return stranger;
  }
  // Asks `to`, as `self` in that attempt of the job, what it has.
  Result<Buffer> AskInventory(const InventoryRequest& request, const std::string& as_job, uint32_t attempt,
                              const net::Secret& secret, const net::Member& to) {
    const std::string job = request.store_id.ToHex() + "/" + as_job;
    network_->Leave(job);
    EXPECT_TRUE(network_->Join({job, attempt, "n1", secret, {to}, nullptr, 0, nullptr}).ok());
    std::promise<Result<Buffer>> reply;
    network_->Call({job, to.node}, static_cast<uint16_t>(PeerKind::kInventory), Encode(request), 3s,
                   [&reply](Result<Buffer> answer) { reply.set_value(std::move(answer)); });
    return reply.get_future().get();
  }

 private:
  std::unique_ptr<net::Network> network_;
};

class StrangerTest : public FaultTest {
 protected:
  // Of the job's newest attempt, as the node keeps it.
  net::Secret SecretOn(int node, const std::string& job = "nodes") const {
    for (const auto& entry : std::filesystem::directory_iterator(nodes_.RunFolder(node) + "/jobs")) {
      const std::string bytes = ReadAll(entry.path());
      if (bytes.find(job) == std::string::npos) continue;
      std::smatch secret;
      if (std::regex_search(bytes, secret, std::regex("[0-9a-f]{64}"))) return *net::Secret::FromHex(secret.str());
    }
    ADD_FAILURE() << "no secret on node " << node;
    return net::Secret::Generate();
  }
  StoreId IdOfStore() const {
    for (const auto& entry : std::filesystem::directory_iterator(nodes_.RunFolder(0) + "/sets")) {
      const std::string bytes = ReadAll(entry.path());
      if (const auto record = DecodeSetRecord(AsBytes(bytes)); record.ok()) return record->identity.generation.store_id;
    }
    ADD_FAILURE() << "no set on node 0";
    return {};
  }
};

TEST_F(StrangerTest, OnlyTheAttemptsOwnNodesAreServed) {
  Take(all_, Keys(), 1);
  const net::Secret former = SecretOn(0);
  ExpectRestart(all_, Keys(), 1,
                [](kedge_context* context, int) { EXPECT_KEDGE_OK(kedge_wait(context, "p", 1, KEDGE_LEVEL_NODE, 60)); });
  const net::Secret secret = SecretOn(0);
  const net::Member n0{"n0", net::NodeAddress::FromText(ReadAll(nodes_.RunFolder(0) + "/address")).value()};
  const std::string address = ReadAll(nodes_.RunFolder(1) + "/address");
  const InventoryRequest request{IdOfStore(), "nodes", "p"};
  // A job of the same store that has the same nodes.
  Take(all_, Keys() + "job.name=neighbour\n", 1);
  const net::Secret neighbours = SecretOn(0, "neighbour");
  nodes_.Lose(1);
  {
    auto stranger = Stranger::At(address);
    ASSERT_NE(stranger, nullptr);
    const auto refused = [&](const std::string& job, uint32_t attempt, const net::Secret& with) {
      return stranger->AskInventory(request, job, attempt, with, n0).status();
    };
    EXPECT_EQ(refused("nodes", 2, net::Secret::Generate()).code(), Code::kPermission) << "a wrong secret";
    const Status stale = refused("nodes", 1, former);
    EXPECT_EQ(stale.code(), Code::kPermission) << "an agent from before the relaunch";
    EXPECT_THAT(stale.message(), HasSubstr("attempt 2"));
    EXPECT_EQ(refused("another", 2, secret).code(), Code::kTimeout) << "another job's agent";
    const Status neighbour = refused("neighbour", 1, neighbours);
    EXPECT_EQ(neighbour.code(), Code::kNotFound) << "a member of another job: " << neighbour.ToString();
    EXPECT_THAT(neighbour.message(), HasSubstr("knows no such job"));
    // And it was not for another reason that nothing was said.
    const auto served = stranger->AskInventory(request, "nodes", 2, secret, n0);
    ASSERT_TRUE(served.ok()) << served.status().ToString();
    const auto inventory = DecodeInventoryReply(*served);
    ASSERT_TRUE(inventory.ok());
    EXPECT_EQ(inventory->images.size(), 1u);
  }
  EXPECT_EQ(ExpectRestart(all_, Keys(), 1), 0u) << "the job goes on";
}

// Two nodes with partners' copies, each agent in a network of its own.
class LinkTest : public FaultTest {
 protected:
  static constexpr char kPartners[] = "protect.scheme=partner\nschedule.store=0\n";
  void SetUp() override {
    hosts_ =
        std::make_unique<TwoHosts>(std::vector<std::string>{nodes_.AgentLine(0, "10.77.0.1")}, nodes_.AgentLine(1, "10.77.0.2"));
    for (const int node : {0, 1}) ASSERT_TRUE(nodes_.WaitForAgent(node));
  }
  void Checkpoint(kedge_context* context, int rank, int64_t version) {
    std::vector<uint64_t> memory = Content(rank, version);
    EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
    EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", version, 0));
  }

  std::unique_ptr<TwoHosts> hosts_;
};

TEST_F(LinkTest, CutForFiveSecondsDelaysTheLevel) {
  nodes_.Run({0, 1}, kPartners, [&](kedge_context* context, int rank) {
    Checkpoint(context, rank, 1);
    EXPECT_KEDGE_OK(kedge_wait(context, "p", 1, KEDGE_LEVEL_NODE, 60));
    if (rank == 0) hosts_->Cut();
    Checkpoint(context, rank, 2);
    if (rank == 0) {
      std::this_thread::sleep_for(5s);
      kedge_level reached = KEDGE_LEVEL_NODE;
      EXPECT_KEDGE_OK(kedge_test(context, "p", 2, &reached));
      EXPECT_LT(reached, KEDGE_LEVEL_NODE) << "the link was not cut";  // at LOCAL, if the other node could still say so
      hosts_->Mend();
    }
    EXPECT_KEDGE_OK(kedge_wait(context, "p", 2, KEDGE_LEVEL_NODE, 60));
  });
}

TEST_F(LinkTest, RanksWhoseAgentsDoNotReachEachOtherAskEachOther) {
  hosts_->Cut();
  nodes_.Run({0, 1}, "schedule.interval=100ms\n", [&](kedge_context* context, int rank) {
    int due = 0;
    for (int i = 0; i < 1000 && due == 0; ++i) {
      EXPECT_KEDGE_OK(kedge_checkpoint_due(context, &due));
      std::this_thread::sleep_for(10ms);
    }
    EXPECT_EQ(due, 1) << "rank " << rank << " would never take a checkpoint";
    Checkpoint(context, rank, 1);
  });
}

TEST_F(LinkTest, CutForEverIsSaidAndTheJobGoesOn) {
  const std::string keys = std::string(kPartners) + "protect.timeout=3s\n";
  nodes_.Run({0, 1}, keys, [&](kedge_context* context, int rank) {
    Checkpoint(context, rank, 1);
    EXPECT_KEDGE_OK(kedge_wait(context, "p", 1, KEDGE_LEVEL_NODE, 60));
    rank == 0 ? hosts_->Cut() : hosts_->WaitUntilCut();
    for (const int64_t version : {2, 3}) {
      Checkpoint(context, rank, version);
      EXPECT_EQ(kedge_wait(context, "p", version, KEDGE_LEVEL_NODE, 40), KEDGE_ERROR_UNAVAILABLE);
      EXPECT_THAT(kedge_error_message(), HasSubstr(rank == 0 ? "n1" : "n0"));
    }
  });
  // What is here can be restarted from without the other.
  nodes_.Run({0, 1}, keys, [&](kedge_context* context, int rank) {
    std::vector<uint64_t> memory = Content(rank, 0);
    EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
    int64_t version = -1;
    EXPECT_KEDGE_OK(kedge_restart(context, "p", -1, &version));
    EXPECT_EQ(version, 3);
    EXPECT_TRUE(memory == Content(rank, 3)) << "rank " << rank;
  });
}

}  // namespace
}  // namespace kedge::testing
