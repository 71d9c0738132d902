// Who dies when: the agent at each point and at random moments, clients in the middle of an image, agents that race.
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "store/keys.h"
#include "store/posix/posix_store.h"
#include "store/testing/version_maker.h"
#include "tests/agent/agent_client.h"
#include "tests/support/child_process.h"
#include "tests/support/point_names.h"

namespace kedge::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const std::string kActor = KEDGE_TEST_ACTOR;

// The number that follows `"field":` in the agent's status, summed over all places.
uint64_t SumOf(const std::string& json, const std::string& field) {
  uint64_t sum = 0;
  const std::string key = "\"" + field + "\":";
  for (size_t at = json.find(key); at != std::string::npos; at = json.find(key, at + 1))
    sum += std::stoull(json.substr(at + key.size()));
  return sum;
}

// Asked as a tool, so that no session is in the way.
std::string StatusOf(const std::string& run_folder) {
  ConnectOptions options;
  options.node = *ReadNodeSettings(NodeConfig(run_folder));
  options.start_agent = false;
  auto connection = Connection::Connect(options);
  if (!connection.ok() || !(*connection)->AttachTool(seconds(10)).ok()) return "";
  auto reply = (*connection)->Call<StatusReply>(StatusRequest{}, seconds(10));
  return reply.ok() ? reply->json : "";
}

// Every slot is free or cached: nothing was forgotten.
::testing::AssertionResult NoSlotIsLost(const std::string& run_folder) {
  std::string status;
  const bool all_back = WaitFor(
      [&] {
        status = StatusOf(run_folder);
        return !status.empty() && SumOf(status, "occupied_slots") == 0;
      },
      seconds(20));
  return all_back ? ::testing::AssertionSuccess() : ::testing::AssertionFailure() << status;
}

// An agent may be killed again while it answers.
Status AttachAgain(AgentClient& client) {
  Status attached;
  for (int i = 0; i < 20; ++i) {
    attached = client.Attach();
    if (attached.code() != Code::kUnavailable) break;
  }
  return attached;
}

// Takes a version, over as many agents as it needs; a take that broke is given up and taken again, as applications do.
Result<Generation> TakeVersion(AgentClient& client, int64_t version, size_t bytes) {
  Status last;
  for (uint32_t take = 1; take <= 12; ++take) {
    const Generation generation = client.GenerationOf("ckpt", version, static_cast<uint32_t>(12 * (version - 1)) + take);
    last = client.Capture(generation, bytes);
    for (int wait = 0; wait < 12 && last.ok(); ++wait) {
      auto reply = client.Wait(generation, Level::kStore);
      if (reply.ok() && reply->failure.ok()) return generation;
      last = reply.ok() ? reply->failure : AttachAgain(client);
    }
    if (last.code() != Code::kUnavailable) return last.WithContext("take " + std::to_string(take));
    Status attached = AttachAgain(client);
    if (!attached.ok()) return attached.WithContext("attach again");
    client.Abort();
  }
  return last;
}

class AgentKilledWhileVersionsShare : public ::testing::TestWithParam<std::string> {
 protected:
  static void ExpectItsSuccessorGoesOn(Feature compress);
};

void AgentKilledWhileVersionsShare::ExpectItsSuccessorGoesOn(Feature compress) {
  constexpr size_t kSharedBytes = 3 << 20;
  ScenarioFolder scenario;
  MakeStoreOf(scenario.store());
  ChildProcess doomed(AgentCommand(scenario.run_folder()), {{"KEDGE_TEST_KILL_POINT", GetParam()}}, scenario.NewOutput());
  ASSERT_TRUE(WaitFor([&] { return scenario.AgentPid() != 0; }, seconds(20))) << doomed.Output();
  JobKeys keys;
  keys.reduce_incremental = Feature::kOn;
  keys.reduce_block_bytes = 4096;
  keys.reduce_compress = compress;
  AgentClient client(scenario, {.keys = keys});
  ASSERT_TRUE(IsOk(client.Attach()));
  std::vector<Generation> taken;
  for (int64_t version = 1; version <= 5; ++version) {
    auto generation = TakeVersion(client, version, kSharedBytes);
    ASSERT_TRUE(IsOk(generation)) << doomed.Output();
    taken.push_back(*generation);
    EXPECT_TRUE(IsOk(CheckStored(scenario.store(), *generation, 0, kSharedBytes)));
  }
  auto result = doomed.Wait(seconds(10));
  ASSERT_TRUE(result.has_value()) << "the point was never passed";
  EXPECT_EQ(result->signal, SIGKILL);
  if (client.connection().WaitForPeerToClose(milliseconds(0))) {
    ASSERT_TRUE(IsOk(client.Attach()));
  }
  EXPECT_TRUE(WaitFor(
      [&] {
        return StoredVersions(scenario.store(), "job", "ckpt") == std::vector<int64_t>{4, 5};
      },
      seconds(10)));
  for (const size_t i : {3, 4}) {
    EXPECT_TRUE(IsOk(CheckStored(scenario.store(), taken[i], 0, kSharedBytes)));
    const std::filesystem::path data = scenario.store() + "/" + keys::GenerationFolder(taken[i]) + "/data";
    // One that was seen and that no record names may be left beside it: it goes with the version.
    EXPECT_LE(std::distance(std::filesystem::directory_iterator(data), std::filesystem::directory_iterator()), 2);
  }
  ASSERT_TRUE(IsOk(client.Goodbye()));
}

TEST_P(AgentKilledWhileVersionsShare, ItsSuccessorGoesOn) {
  ExpectItsSuccessorGoesOn(Feature::kOff);
}

TEST_P(AgentKilledWhileVersionsShare, ItsSuccessorGoesOnWhereBlocksAreCompressed) {
  ExpectItsSuccessorGoesOn(Feature::kOn);
}

INSTANTIATE_TEST_SUITE_P(Points, AgentKilledWhileVersionsShare,
                         ::testing::Values("flush-base-claimed:2", "flush-base-claimed:4", "piece-written:20",
                                           "publish-records-written:3", "publish-done:3", "publish-saved:3", "retention-done:3",
                                           "retention-done:4"),
                         NameOfPoint<std::string>);

class AgentKilledAt : public ::testing::TestWithParam<std::string> {};

TEST_P(AgentKilledAt, ItsSuccessorGoesOn) {
  ScenarioFolder scenario;
  MakeStoreOf(scenario.store());
  ChildProcess doomed(AgentCommand(scenario.run_folder()), {{"KEDGE_TEST_KILL_POINT", GetParam()}}, scenario.NewOutput());
  ASSERT_TRUE(WaitFor([&] { return scenario.AgentPid() != 0; }, seconds(20))) << doomed.Output();
  AgentClient client(scenario, {});
  ASSERT_TRUE(IsOk(client.Attach()));
  std::vector<Generation> taken;
  for (int64_t version = 1; version <= 4; ++version) {
    auto generation = TakeVersion(client, version, version % 2 == 0 ? 1000 : 3 << 20);
    ASSERT_TRUE(IsOk(generation)) << doomed.Output();
    taken.push_back(*generation);
  }
  auto result = doomed.Wait(seconds(10));
  ASSERT_TRUE(result.has_value()) << "the point was never passed";
  EXPECT_EQ(result->signal, SIGKILL);
  // It may have died after the last call: somebody must want a successor.
  if (client.connection().WaitForPeerToClose(milliseconds(0))) {
    ASSERT_TRUE(IsOk(client.Attach()));
  }
  for (int64_t version = 3; version <= 4; ++version) {
    EXPECT_TRUE(
        IsOk(CheckStored(scenario.store(), taken[static_cast<size_t>(version) - 1], 0, version % 2 == 0 ? 1000 : 3 << 20)));
  }
  EXPECT_TRUE(WaitFor(
      [&] {
        return StoredVersions(scenario.store(), "job", "ckpt") == std::vector<int64_t>{3, 4};
      },
      seconds(10)));
  EXPECT_TRUE(WaitFor([&] { return client.mailbox().images_done.load() == client.serial(); }, seconds(10)));
  EXPECT_EQ(client.mailbox().images_failed.load(), 0u) << "the client is told that an image is lost, and it is not";
  ASSERT_TRUE(IsOk(client.Goodbye()));
  EXPECT_TRUE(NoSlotIsLost(scenario.run_folder()));
}

INSTANTIATE_TEST_SUITE_P(Points, AgentKilledAt,
                         ::testing::Values("slot-assigned:1", "slot-assigned:3", "image-end-before-record:2",
                                           "image-end-after-record:1", "image-end-after-record:3", "image-end-done:1",
                                           "image-end-done:2", "piece-written:1", "piece-written:8", "publish-records-written:2",
                                           "publish-done:1", "publish-done:3", "publish-saved:2", "retention-done:3"),
                         NameOfPoint<std::string>);

TEST(AgentDeath, KilledAtRandomNothingIsLost) {
  const uint64_t seed =
      std::getenv("KEDGE_TEST_SEED") != nullptr ? std::strtoull(std::getenv("KEDGE_TEST_SEED"), nullptr, 10) : 4711;
  SCOPED_TRACE("KEDGE_TEST_SEED=" + std::to_string(seed));
  Random random(seed);
  ScenarioFolder scenario;
  AgentClient client(scenario, {});
  ASSERT_TRUE(IsOk(client.Attach()));
  std::atomic<bool> stop{false};
  std::atomic<int> kills{0};
  std::thread killer([&] {
    Random pauses(seed + 1);
    while (!stop && kills < 12) {
      std::this_thread::sleep_for(milliseconds(20 + pauses.Below(250)));
      if (!stop && scenario.KillAgent()) ++kills;
    }
  });
  Generation last;
  size_t last_bytes = 0;
  Status failed;
  for (int64_t version = 1; version <= 25 && failed.ok(); ++version) {
    last_bytes = 1 + random.Below(4 << 20);
    auto taken = TakeVersion(client, version, last_bytes);
    failed = taken.status();
    if (taken.ok()) last = *taken;
    if (taken.ok()) failed = CheckStored(scenario.store(), last, 0, last_bytes);
  }
  stop = true;
  killer.join();
  ASSERT_TRUE(IsOk(failed));
  EXPECT_GT(kills, 0);
  ASSERT_TRUE(IsOk(client.Attach()));
  EXPECT_TRUE(IsOk(client.CheckLocal(last, last_bytes))) << "the newest version stays on the node";
  ASSERT_TRUE(IsOk(client.Goodbye()));
  EXPECT_TRUE(NoSlotIsLost(scenario.run_folder()));
}

TEST(AgentDeath, ASuccessorFinishesWhatDeadClientsHandedOver) {
  ScenarioFolder scenario;
  MakeStoreOf(scenario.store());
  // Nothing is flushed by the first agent: it dies with the first piece.
  ChildProcess doomed(AgentCommand(scenario.run_folder()), {{"KEDGE_TEST_KILL_POINT", "piece-written:1"}}, scenario.NewOutput());
  ASSERT_TRUE(WaitFor([&] { return scenario.AgentPid() != 0; }, seconds(20)));
  ChildProcess actor({kActor, scenario.run_folder(), scenario.store(), "0", "1", "capture:1:3000", "pause"}, {},
                     scenario.NewOutput());
  ASSERT_TRUE(actor.WaitForOutput("done capture", seconds(20))) << actor.Output();
  ASSERT_TRUE(doomed.Wait(seconds(20)).has_value());
  actor.Kill();
  AgentClient other(scenario, {.job = "other"});
  ASSERT_TRUE(IsOk(other.Attach()));
  EXPECT_TRUE(WaitFor([&] { return StoredVersions(scenario.store(), "job", "ckpt") == std::vector<int64_t>{1}; }, seconds(20)));
  EXPECT_TRUE(IsOk(CheckStored(scenario.store(), Generation{other.hello().store_id, "job", "ckpt", 1, 1, 1}, 0, 3000)));
}

// What becomes of an image is told to the session that captured it, and to none that has its number later.
TEST(AgentDeath, ASuccessorsSessionsAreNoneOfThoseThatHaveLeftImages) {
  ScenarioFolder scenario;
  JobKeys keys;
  keys.schedule_store = 0;
  AgentClient first(scenario, {.keys = keys});
  ASSERT_TRUE(IsOk(first.Attach()));
  const Generation generation = first.GenerationOf("ckpt", 1);
  ASSERT_TRUE(IsOk(first.Capture(generation, 3000)));
  ASSERT_TRUE(IsOk(first.Wait(generation, Level::kLocal)));
  const uint32_t session = first.attachment().welcome.session_id;
  ASSERT_TRUE(IsOk(first.Goodbye()));
  ASSERT_TRUE(scenario.KillAgent());
  AgentClient second(scenario, {.attempt = 2, .keys = keys});
  ASSERT_TRUE(IsOk(second.Attach()));
  EXPECT_NE(second.attachment().welcome.session_id, session);
  EXPECT_TRUE(IsOk(second.CheckLocal(generation, 3000)));
}

TEST(ClientDeath, WhatEndedIsKeptAndWhatDidNotIsDropped) {
  ScenarioFolder scenario;
  ChildProcess actor({kActor, scenario.run_folder(), scenario.store(), "0", "1", "capture:1:3000000", "half:2:3000000", "pause"},
                     {}, scenario.NewOutput());
  ASSERT_TRUE(actor.WaitForOutput("done half", seconds(30))) << actor.Output();
  actor.Kill();
  EXPECT_TRUE(WaitFor([&] { return StoredVersions(scenario.store(), "job", "ckpt") == std::vector<int64_t>{1}; }, seconds(20)));
  EXPECT_TRUE(NoSlotIsLost(scenario.run_folder()));
  const std::string status = StatusOf(scenario.run_folder());
  EXPECT_EQ(SumOf(status, "images_pending"), 0u) << status;
  EXPECT_NE(status.find("\"sessions\":[]"), std::string::npos) << status;
}

// A node's images go to the store together. Of ranks whose images wait for that of another one which then dies in the middle.
TEST(ClientDeath, WhatHasWaitedForItsImageGoesOnWithoutIt) {
  ScenarioFolder scenario;
  AgentClient client(scenario, {.ranks = 2});
  ASSERT_TRUE(IsOk(client.Attach()));
  ChildProcess actor({kActor, scenario.run_folder(), scenario.store(), "1", "2", "half:1:3000000", "pause"}, {},
                     scenario.NewOutput());
  ASSERT_TRUE(actor.WaitForOutput("done half", seconds(30))) << actor.Output();
  ASSERT_TRUE(IsOk(client.Capture(client.GenerationOf("ckpt", 1), 3000)));
  const auto drain = [&](Duration timeout) {
    const auto drained = client.Drain(timeout);
    return drained.ok() ? drained->failure : drained.status();
  };
  ASSERT_TRUE(
      WaitFor([&] { return drain(milliseconds(10)).message().find("rank 0 (written)") != std::string::npos; }, seconds(20)))
      << drain(milliseconds(10)).ToString();
  actor.Kill();
  EXPECT_TRUE(IsOk(drain(seconds(30))));
}

// The other rank had no agent just then, and wrote its image straight to the store.
TEST(ClientDeath, HalfOfAVersionIsKeptForTheHalfThatIsInTheStore) {
  ScenarioFolder scenario;
  const Generation generation{MakeStoreOf(scenario.store()), "job", "ckpt", 1, 1, 1};
  ChildProcess actor({kActor, scenario.run_folder(), scenario.store(), "0", "2:local", "capture:1:3000", "pause"}, {},
                     scenario.NewOutput());
  ASSERT_TRUE(actor.WaitForOutput("done capture", seconds(30))) << actor.Output();
  PosixStoreOptions options;
  options.path = scenario.store();
  const auto store = MakePosixStore(os::SystemFileSystem(), options);
  const Catalog catalog = Catalog::Open(*store, {"test", 1, "r1"}).value();
  ASSERT_TRUE(PublishRanks(catalog, generation, 1, 1, {}).ok());
  actor.Kill();
  EXPECT_TRUE(WaitFor([&] { return StoredVersions(scenario.store(), "job", "ckpt") == std::vector<int64_t>{1}; }, seconds(20)));
  EXPECT_TRUE(IsOk(CheckStored(scenario.store(), generation, 0, 3000)));
}

TEST(ClientDeath, WhatWasOnlyInTheMailboxIsKept) {
  ScenarioFolder scenario;
  ChildProcess actor({kActor, scenario.run_folder(), scenario.store(), "0", "1", "capture:1:3000", "pause"}, {},
                     scenario.NewOutput());
  ASSERT_TRUE(actor.WaitForOutput("doing capture", seconds(30))) << actor.Output();
  // The agent cannot look while the image ends, and then finds its owner dead.
  ASSERT_TRUE(actor.WaitForOutput("done capture", seconds(30))) << actor.Output();
  scenario.KillAgent();
  actor.Kill();
  AgentClient other(scenario, {.job = "other"});
  ASSERT_TRUE(IsOk(other.Attach()));
  EXPECT_TRUE(WaitFor([&] { return StoredVersions(scenario.store(), "job", "ckpt") == std::vector<int64_t>{1}; }, seconds(20)));
}

// One rank's image is on record, the other's end only in its mailbox: together they are the newest version. Whose session is
// found first depends on the folder's order, so both orders are tried.
class MailboxesOfDeadRanks : public ::testing::TestWithParam<bool> {};

TEST_P(MailboxesOfDeadRanks, AreAllReadBeforeAnythingIsDropped) {
  ScenarioFolder scenario;
  MakeStoreOf(scenario.store());
  ChildProcess agent(AgentCommand(scenario.run_folder(), {{"flush.rate", "100KiB"}}), {}, scenario.NewOutput());
  ASSERT_TRUE(WaitFor([&] { return scenario.AgentPid() != 0; }, seconds(20))) << agent.Output();
  const std::string go = scenario.path() + "/go";
  auto start = [&](const char* rank, const std::vector<std::string>& actions) {
    std::vector<std::string> command = {kActor, scenario.run_folder(), scenario.store(), rank, "2"};
    command.insert(command.end(), actions.begin(), actions.end());
    auto actor = std::make_unique<ChildProcess>(command, std::map<std::string, std::string>{}, scenario.NewOutput());
    EXPECT_TRUE(actor->WaitForOutput("doing", seconds(30))) << actor->Output();  // it is attached
    return actor;
  };
  std::unique_ptr<ChildProcess> early, late;
  const auto start_early = [&] { early = start("0", {"capture:1:300000", "capture:2:300000", "pause"}); };
  if (GetParam()) start_early();
  late = start("1", {"capture:1:300000", "half:2:300000", "until:" + go, "end", "pause"});
  if (!GetParam()) start_early();
  ASSERT_TRUE(early->WaitForOutput("done capture:2", seconds(30))) << early->Output();
  ASSERT_TRUE(late->WaitForOutput("done half:2", seconds(30))) << late->Output();
  ASSERT_TRUE(WaitFor([&] { return SumOf(StatusOf(scenario.run_folder()), "images_captured") == 3; }, seconds(20)))
      << StatusOf(scenario.run_folder());
  agent.Signal(SIGSTOP);
  std::ofstream(go) << "now";
  ASSERT_TRUE(late->WaitForOutput("done end", seconds(30))) << late->Output();
  agent.Kill();
  early->Kill();
  late->Kill();
  AgentClient other(scenario, {.job = "other"});
  ASSERT_TRUE(IsOk(other.Attach()));
  const auto stored = [&] { return StoredVersions(scenario.store(), "job", "ckpt"); };
  EXPECT_TRUE(WaitFor([&] { return !stored().empty() && stored().back() == 2; }, seconds(20)));
}

INSTANTIATE_TEST_SUITE_P(Orders, MailboxesOfDeadRanks, ::testing::Bool(),
                         [](const auto& order) { return std::string(order.param ? "EarlyFirst" : "LateFirst"); });

TEST(ClientDeath, AStoppedOwnerKeepsItsSlots) {
  ScenarioFolder scenario;
  ChildProcess actor({kActor, scenario.run_folder(), scenario.store(), "0", "1", "half:1:4000000", "hold:3", "pause"}, {},
                     scenario.NewOutput());
  ASSERT_TRUE(actor.WaitForOutput("done hold", seconds(30))) << actor.Output();
  kill(actor.pid(), SIGSTOP);
  // Another job wants all the room there is, and more, for longer than a recall may take.
  AgentClient busy(scenario, {.job = "other"});
  ASSERT_TRUE(IsOk(busy.Attach()));
  for (int64_t version = 1; version <= 3; ++version) {
    const Generation generation = busy.GenerationOf("ckpt", version);
    ASSERT_TRUE(IsOk(busy.Capture(generation, 14 << 20)));
    auto stored = busy.Wait(generation, Level::kStore);
    ASSERT_TRUE(IsOk(stored));
    EXPECT_TRUE(IsOk(stored->failure));
    EXPECT_TRUE(IsOk(CheckStored(scenario.store(), generation, 0, 14 << 20)));
  }
  ASSERT_TRUE(IsOk(busy.Goodbye()));
  EXPECT_EQ(SumOf(StatusOf(scenario.run_folder()), "assigned_slots"), 4u)
      << "an open slot, 3 held; its whole chunks were flushed";
  kill(actor.pid(), SIGCONT);
  actor.Kill();
  EXPECT_TRUE(NoSlotIsLost(scenario.run_folder()));
}

TEST(AgentRace, OneOfManyServes) {
  ScenarioFolder scenario;
  MakeStoreOf(scenario.store());
  std::vector<std::unique_ptr<ChildProcess>> agents;
  for (int i = 0; i < 6; ++i) {
    agents.push_back(std::make_unique<ChildProcess>(AgentCommand(scenario.run_folder()), std::map<std::string, std::string>{},
                                                    scenario.NewOutput()));
  }
  AgentClient client(scenario, {});
  ASSERT_TRUE(IsOk(client.Attach()));
  ASSERT_TRUE(IsOk(client.Capture(client.GenerationOf("ckpt", 1), 1000)));
  ASSERT_TRUE(IsOk(client.Wait(client.GenerationOf("ckpt", 1), Level::kStore)));
  const int winner = scenario.AgentPid();
  int alive = 0;
  for (auto& agent : agents) {
    auto result = agent->Wait(seconds(agent->pid() == winner ? 0 : 10));
    if (!result.has_value()) {
      ++alive;
      EXPECT_EQ(agent->pid(), winner);
    } else {
      EXPECT_EQ(result->exit_code, 0) << agent->Output();
    }
  }
  EXPECT_LE(alive, 1);
}

TEST(AgentStop, TermLeavesTheStateForASuccessor) {
  ScenarioFolder scenario;
  MakeStoreOf(scenario.store());
  ChildProcess first(AgentCommand(scenario.run_folder(), {{"flush.rate", "1MiB"}}), {}, scenario.NewOutput());
  ASSERT_TRUE(WaitFor([&] { return scenario.AgentPid() != 0; }, seconds(20)));
  AgentClient client(scenario, {.node_keys = {{"flush.rate", "1MiB"}}});
  ASSERT_TRUE(IsOk(client.Attach()));
  const Generation generation = client.GenerationOf("ckpt", 1);
  ASSERT_TRUE(IsOk(client.Capture(generation, 6 << 20)));
  ASSERT_TRUE(IsOk(client.Wait(generation, Level::kLocal)));
  first.Signal(SIGTERM);
  auto result = first.Wait(seconds(5));
  ASSERT_TRUE(result.has_value()) << "it must not wait for a slow flush";
  EXPECT_EQ(result->exit_code, 0) << first.Output();
  ASSERT_TRUE(IsOk(client.Attach()));
  EXPECT_TRUE(client.attachment().welcome.attached_again);
  auto stored = client.Wait(generation, Level::kStore, seconds(60));
  ASSERT_TRUE(IsOk(stored));
  EXPECT_TRUE(IsOk(stored->failure));
  EXPECT_TRUE(IsOk(CheckStored(scenario.store(), generation, 0, 6 << 20)));
}

}  // namespace
}  // namespace kedge::testing
