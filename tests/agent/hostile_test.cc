// What others can do to an agent: nonsense in mailboxes, messages and the control block, deleted tiers, broken stores. It
// survives, the others are unharmed, and what went wrong is said.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "session/testing/any_entry.h"
#include "tests/agent/agent_client.h"
#include "tests/support/child_process.h"

namespace kedge::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

void ExpectWorks(AgentClient& client, const ScenarioFolder& scenario, int64_t version, size_t bytes = 2 << 20) {
  const Generation generation = client.GenerationOf("ckpt", version);
  ASSERT_TRUE(IsOk(client.Capture(generation, bytes)));
  auto stored = client.Wait(generation, Level::kStore);
  ASSERT_TRUE(IsOk(stored));
  EXPECT_TRUE(IsOk(stored->failure));
  EXPECT_TRUE(IsOk(CheckStored(scenario.store(), generation, client.hello().rank, bytes)));
}

// Half of what it gives is small enough to make sense.
class RandomSource : public EntrySource {
 public:
  explicit RandomSource(uint64_t seed) : random_(seed) {}
  uint64_t Below(uint64_t bound) override { return random_.Chance(0.5) ? random_.Below(bound) : random_.Next(); }
  uint64_t Number() override { return Below(1 << 20); }
  SlotRange Range() override {
    return {static_cast<uint32_t>(Below(1)), static_cast<uint32_t>(Below(20)), Below(4), Number(), Number()};
  }

 private:
  Random random_;
};

class Hostile : public ::testing::Test {
 protected:
  Hostile() : victim_(scenario_, {.job = "victim"}), attacker_(scenario_, {}) {
    EXPECT_TRUE(IsOk(victim_.Attach()));
    EXPECT_TRUE(IsOk(attacker_.Attach()));
    agent_ = scenario_.AgentPid();
  }
  void ExpectUnharmed(int64_t version) {
    ExpectWorks(victim_, scenario_, version);
    EXPECT_EQ(scenario_.AgentPid(), agent_) << "the agent died";
  }
  ScenarioFolder scenario_;
  AgentClient victim_;
  AgentClient attacker_;
  int agent_ = 0;
};

TEST_F(Hostile, RandomEntriesAreRefused) {
  RandomSource source(99);
  for (int round = 0; round < 20000; ++round) {
    attacker_.Push(AnyEntry(source));
  }
  // What it was assigned by some of these requests is its own until it leaves.
  static_cast<void>(attacker_.Goodbye());
  ExpectUnharmed(1);
}

TEST_F(Hostile, MutatedImagesAreRefusedOrHarmTheirOwnerOnly) {
  Random random(7);
  for (int64_t version = 1; version <= 60; ++version) {
    ASSERT_TRUE(IsOk(attacker_.CaptureButEnd(attacker_.GenerationOf("ckpt", version), 400000)));
    // The record and placement table, with some of its bytes changed under the agent's eyes.
    const SlotRange& open = attacker_.open_slot();
    std::byte* slot = attacker_.attachment().tiers[0]->SlotMemory(open.slot);
    for (int i = 0; i < 20; ++i) slot[random.Below(1 << 20)] = static_cast<std::byte>(random.Below(256));
    ASSERT_TRUE(IsOk(attacker_.SendEnd()));
  }
  ExpectUnharmed(1);
}

TEST_F(Hostile, AScribbledMailboxEndsItsSessionOnly) {
  Random random(5);
  random.Fill(&attacker_.mailbox(), sizeof(Mailbox));
  attacker_.attachment().wake_agent.Signal();
  EXPECT_TRUE(attacker_.connection().WaitForPeerToClose(seconds(10))) << "the session goes on with a mailbox of nonsense";
  ExpectUnharmed(1);
  // It may come back, as a new session.
  ASSERT_TRUE(IsOk(attacker_.Attach()));
  EXPECT_FALSE(attacker_.attachment().welcome.attached_again);
  ExpectWorks(attacker_, scenario_, 1);
}

TEST_F(Hostile, AScribbledControlBlockHarmsNobody) {
  std::atomic<bool> stop{false};
  std::thread scribbler([&] {
    Random random(3);
    auto* bytes = reinterpret_cast<std::byte*>(ControlOf(attacker_.attachment().control));
    while (!stop) {
      for (int i = 0; i < 100; ++i) bytes[random.Below(sizeof(ControlBlock))] = static_cast<std::byte>(random.Below(256));
      std::this_thread::sleep_for(milliseconds(1));
    }
  });
  for (int64_t version = 1; version <= 5; ++version) ExpectUnharmed(version);
  stop = true;
  scribbler.join();
}

// A client may cut short any file that it can open; the agent has them mapped.
TEST_F(Hostile, AMailboxCutShortHarmsItsOwnerOnly) {
  ASSERT_TRUE(IsOk(attacker_.Capture(attacker_.GenerationOf("ckpt", 1), 1000)));
  ASSERT_EQ(ftruncate(attacker_.attachment().mailbox.descriptor(), 0), 0);
  attacker_.attachment().wake_agent.Signal();
  for (int64_t version = 1; version <= 2; ++version) ExpectUnharmed(version);
  // Not mapped any more where it would end this test; the agent finds no sense in it and asks it to come back.
  attacker_.Disconnect();
  ASSERT_TRUE(IsOk(attacker_.Attach()));
  EXPECT_FALSE(attacker_.attachment().welcome.attached_again);
  ExpectWorks(attacker_, scenario_, 2);
  ExpectUnharmed(3);
}

TEST_F(Hostile, TheControlBlockCannotBeCutShort) {
  EXPECT_EQ(ftruncate(attacker_.attachment().control.descriptor(), 0), -1);
  EXPECT_EQ(ftruncate(attacker_.attachment().control.descriptor(), 1 << 20), -1);
  ExpectUnharmed(1);
}

TEST_F(Hostile, MessagesOfNoSenseEndTheirConnectionOnly) {
  Random random(11);
  for (int round = 0; round < 200; ++round) {
    auto socket = os::UnixSocket::Connect(scenario_.run_folder() + "/agent.sock", seconds(5));
    ASSERT_TRUE(IsOk(socket));
    std::string body(random.Below(300), '\0');
    random.Fill(body.data(), body.size());
    if (random.Chance(0.5) && !body.empty()) body[0] = static_cast<char>(random.Below(24));
    (void)socket->Send(body, {}, seconds(1));
    if (random.Chance(0.5)) (void)socket->Receive(milliseconds(200));
  }
  ExpectUnharmed(1);
}

TEST_F(Hostile, AnotherProtocolIsRefusedWithBothNumbers) {
  auto socket = os::UnixSocket::Connect(scenario_.run_folder() + "/agent.sock", seconds(5));
  ASSERT_TRUE(IsOk(socket));
  Hello hello = victim_.hello();
  hello.protocol = 77;
  const Buffer frame = EncodeMessage(1, hello);
  ASSERT_TRUE(IsOk(socket->Send(AsText(frame), {}, seconds(5))));
  auto reply = socket->Receive(seconds(5));
  ASSERT_TRUE(IsOk(reply));
  auto message = DecodeMessage(AsBytes(reply->body));
  ASSERT_TRUE(IsOk(message));
  const Status& refused = std::get<ErrorReply>(message->message).status;
  EXPECT_EQ(refused.code(), Code::kMismatch);
  EXPECT_NE(refused.message().find("77"), std::string::npos) << refused.ToString();
  EXPECT_NE(refused.message().find(std::to_string(kProtocolVersion)), std::string::npos) << refused.ToString();
}

TEST(Requests, WithoutEndAreRefusedWhileNoneCanBeServed) {
  ScenarioFolder scenario;
  const std::map<std::string, std::string> slow = {{"flush.rate", "64KiB"}, {"pool.size", "4MiB"}};
  AgentClient victim(scenario, {.job = "victim", .node_keys = slow});
  AgentClient attacker(scenario, {.node_keys = slow});
  ASSERT_TRUE(IsOk(victim.Attach()));
  ASSERT_TRUE(IsOk(attacker.Attach()));
  // Its flush takes longer than this test, and room that it will make is waited for.
  ASSERT_TRUE(IsOk(victim.Capture(victim.GenerationOf("ckpt", 1), 3 << 20)));
  for (uint64_t number = 1; number <= 3 * kClientRingEntries; ++number) {
    attacker.Push(RequestPlace{.place = PlaceKind::kFullChunk, .number = number, .bytes = 1 << 20});
  }
  auto status = victim.AgentStatus();
  ASSERT_TRUE(IsOk(status));
  const std::string field = "\"requests_waiting\":";
  const size_t at = status->find(field);
  ASSERT_NE(at, std::string::npos) << *status;
  const unsigned long waiting = std::stoul(status->substr(at + field.size()));
  EXPECT_GT(waiting, 0u) << *status;
  EXPECT_LE(waiting, kClientRingEntries) << *status;
}

TEST(Lost, APoolDeletedUnderTheAgentIsMadeAnew) {
  ScenarioFolder scenario;
  AgentClient client(scenario, {.node_keys = {{"flush.rate", "2MiB"}}});
  ASSERT_TRUE(IsOk(client.Attach()));
  const Generation generation = client.GenerationOf("ckpt", 1);
  ASSERT_TRUE(IsOk(client.Capture(generation, 5 << 20)));
  ASSERT_TRUE(IsOk(client.Wait(generation, Level::kLocal)));
  ASSERT_TRUE(std::filesystem::remove(scenario.run_folder() + "/pool/pool"));
  EXPECT_TRUE(client.connection().WaitForPeerToClose(seconds(10))) << "nobody noticed";
  ASSERT_TRUE(IsOk(client.Attach()));
  EXPECT_FALSE(client.attachment().welcome.attached_again);
  // What was captured before still reaches the store, from what the agent holds open.
  auto stored = client.Wait(generation, Level::kStore);
  ASSERT_TRUE(IsOk(stored));
  EXPECT_TRUE(IsOk(stored->failure));
  EXPECT_TRUE(IsOk(CheckStored(scenario.store(), generation, 0, 5 << 20)));
  auto status = client.AgentStatus();
  ASSERT_TRUE(IsOk(status));
  EXPECT_NE(status->find("\"tiers_lost\":1"), std::string::npos) << *status;
  EXPECT_EQ(client.CheckLocal(generation, 5 << 20).code(), Code::kNotFound);
  ExpectWorks(client, scenario, 2);
}

// Also versions that were to stay on the node, one that ends before its client knows included.
TEST(Lost, VersionsForTheNodeAloneGoToTheStoreFromADeletedPool) {
  ScenarioFolder scenario;
  ClientOptions options;
  options.keys.schedule_store = 0;
  AgentClient client(scenario, options);
  ASSERT_TRUE(IsOk(client.Attach()));
  const Generation before = client.GenerationOf("ckpt", 1), between = client.GenerationOf("ckpt", 2);
  ASSERT_TRUE(IsOk(client.Capture(before, 3 << 20)));
  ASSERT_TRUE(IsOk(client.CaptureButEnd(between, 3 << 20)));
  ASSERT_TRUE(std::filesystem::remove(scenario.run_folder() + "/pool/pool"));
  EXPECT_TRUE(client.connection().WaitForPeerToClose(seconds(10))) << "nobody noticed";
  ASSERT_TRUE(IsOk(client.SendEnd()));
  ASSERT_TRUE(IsOk(client.Attach()));
  for (const Generation& generation : {before, between}) {
    auto reached = client.Wait(generation, Level::kLocal);
    ASSERT_TRUE(IsOk(reached));
    EXPECT_TRUE(IsOk(reached->failure)) << generation.ToString();
    EXPECT_TRUE(IsOk(CheckStored(scenario.store(), generation, 0, 3 << 20)));
  }
}

// What lay beyond its new end is lost, and said to be; what had reached the store is there.
TEST(Lost, APoolCutShortIsMadeAnew) {
  ScenarioFolder scenario;
  AgentClient client(scenario, {});
  ASSERT_TRUE(IsOk(client.Attach()));
  const int agent = scenario.AgentPid();
  ExpectWorks(client, scenario, 1, 5 << 20);
  std::filesystem::resize_file(scenario.run_folder() + "/pool/pool", 4096);
  EXPECT_TRUE(client.connection().WaitForPeerToClose(seconds(10))) << "nobody noticed";
  ASSERT_TRUE(IsOk(client.Attach()));
  EXPECT_FALSE(client.attachment().welcome.attached_again);
  EXPECT_FALSE(IsOk(client.CheckLocal(client.GenerationOf("ckpt", 1), 5 << 20)));
  ExpectWorks(client, scenario, 2, 5 << 20);
  EXPECT_TRUE(IsOk(CheckStored(scenario.store(), client.GenerationOf("ckpt", 1), 0, 5 << 20)));
  EXPECT_EQ(scenario.AgentPid(), agent) << "the agent died";
}

TEST(Lost, ATierFolderDeletedUnderTheAgentFailsWhatWasOnlyThere) {
  ScenarioFolder scenario;
  const std::string tier = "[{name=\"disk\", path='" + scenario.path() + "/disk', capacity=\"64MiB\"}]";
  AgentClient client(scenario, {.node_keys = {{"pool.size", "0"}, {"tier", tier}, {"flush.rate", "1MiB"}}});
  ASSERT_TRUE(IsOk(client.Attach()));
  const Generation generation = client.GenerationOf("ckpt", 1);
  ASSERT_TRUE(IsOk(client.Capture(generation, 8 << 20)));
  std::filesystem::remove_all(scenario.path() + "/disk");
  EXPECT_TRUE(client.connection().WaitForPeerToClose(seconds(10)));
  ASSERT_TRUE(IsOk(client.Attach()));
  auto failed = client.Wait(generation, Level::kStore, seconds(60));
  ASSERT_TRUE(IsOk(failed));
  EXPECT_FALSE(failed->failure.ok()) << "the bytes are gone: that must be said";
  ASSERT_TRUE(IsOk(client.Capture(client.GenerationOf("ckpt", 2), 1000)));
  auto stored = client.Wait(client.GenerationOf("ckpt", 2), Level::kStore, seconds(60));
  ASSERT_TRUE(IsOk(stored));
  EXPECT_TRUE(IsOk(stored->failure));
}

TEST(BrokenStore, AFlushThatFailsIsSaidEverywhereAndTheNextOneWorks) {
  ScenarioFolder scenario;
  AgentClient client(scenario, {});
  ASSERT_TRUE(IsOk(client.Attach()));
  ExpectWorks(client, scenario, 1);
  std::filesystem::rename(scenario.store() + "/jobs", scenario.store() + "/jobs-away");
  std::ofstream(scenario.store() + "/jobs") << "in the way";
  const Generation generation = client.GenerationOf("ckpt", 2);
  ASSERT_TRUE(IsOk(client.Capture(generation, 2 << 20)));
  auto failed = client.Wait(generation, Level::kStore, seconds(60));
  ASSERT_TRUE(IsOk(failed));
  EXPECT_FALSE(failed->failure.ok());
  EXPECT_NE(failed->failure.message().find("jobs"), std::string::npos) << failed->failure.ToString();
  const auto told = client.NextFailure(seconds(10));
  ASSERT_TRUE(IsOk(told));
  EXPECT_EQ(told->image_serial, client.serial());
  EXPECT_NE(told->code, Code::kOk);
  EXPECT_TRUE(WaitFor([&] { return client.mailbox().images_failed.load() == 1; }, seconds(5)));
  EXPECT_TRUE(IsOk(client.CheckLocal(generation, 2 << 20))) << "the copy on the node stays";
  auto now = client.Test(generation);
  ASSERT_TRUE(IsOk(now));
  EXPECT_EQ(now->level, Level::kLocal);
  EXPECT_FALSE(now->failure.ok());
  std::filesystem::remove(scenario.store() + "/jobs");
  std::filesystem::rename(scenario.store() + "/jobs-away", scenario.store() + "/jobs");
  ExpectWorks(client, scenario, 3);
  EXPECT_EQ(StoredVersions(scenario.store(), "job", "ckpt"), (std::vector<int64_t>{1, 3}));
}

TEST(Readers, AnOpenImageIsNotEvicted) {
  ScenarioFolder scenario;
  AgentClient client(scenario, {.node_keys = {{"pool.size", "8MiB"}}});
  ASSERT_TRUE(IsOk(client.Attach()));
  const Generation first = client.GenerationOf("ckpt", 1);
  ASSERT_TRUE(IsOk(client.Capture(first, 3 << 20)));
  ASSERT_TRUE(IsOk(client.Wait(first, Level::kStore)));
  auto open = client.connection().Call<OpenImageReply>(OpenImageRequest{first, 0}, seconds(10));
  ASSERT_TRUE(IsOk(open));
  for (int64_t version = 2; version <= 6; ++version) {
    ASSERT_TRUE(IsOk(client.Capture(client.GenerationOf("ckpt", version), 3 << 20)));
    ASSERT_TRUE(IsOk(client.Wait(client.GenerationOf("ckpt", version), Level::kStore)));
  }
  const std::vector<std::byte> expected = PatternOf(first, 0, 3 << 20);
  EXPECT_EQ(std::memcmp(client.attachment().tiers[0]->SlotMemory(open->chunks[0].slot), expected.data(), 1 << 20), 0)
      << "a slot was used again under its reader";
  ASSERT_TRUE(IsOk(client.connection().Call<DoneReply>(CloseImageRequest{open->image}, seconds(10))));
  EXPECT_EQ(client.CheckLocal(first, 3 << 20).code(), Code::kNotFound) << "let go when its last reader was through";
}

// What the metrics' server answers on a connection.
std::string MetricsFrom(int fd) {
  const std::string request = "GET /metrics HTTP/1.0\r\n\r\n";
  EXPECT_EQ(write(fd, request.data(), request.size()), static_cast<ssize_t>(request.size()));
  std::string text(1 << 16, '\0');
  size_t size = 0;
  for (ssize_t bytes; (bytes = read(fd, text.data() + size, text.size() - size)) > 0;) size += static_cast<size_t>(bytes);
  close(fd);
  text.resize(size);
  return text;
}

// A port of this machine that nobody listens on.
uint16_t FreePort() {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  socklen_t length = sizeof address;
  EXPECT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&address), length), 0);
  EXPECT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length), 0);
  close(fd);
  return ntohs(address.sin_port);
}

TEST(Metrics, AreServedAsPrometheusText) {
  ScenarioFolder scenario;
  const uint16_t port = FreePort();
  AgentClient client(scenario, {.node_keys = {{"agent.metrics_port", std::to_string(port)}}});
  ASSERT_TRUE(IsOk(client.Attach()));
  ExpectWorks(client, scenario, 1);
  const int local = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un path{};
  path.sun_family = AF_UNIX;
  std::strcpy(path.sun_path, (scenario.run_folder() + "/metrics.sock").c_str());
  ASSERT_EQ(connect(local, reinterpret_cast<const sockaddr*>(&path), sizeof path), 0);
  const int loopback = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  ASSERT_EQ(connect(loopback, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  for (int fd : {local, loopback}) {
    const std::string text = MetricsFrom(fd);
    EXPECT_TRUE(text.starts_with("HTTP/1.0 200 OK")) << text;
    EXPECT_NE(text.find("\nkedge_versions_completed_total 1\n"), std::string::npos) << text;
    EXPECT_NE(text.find("kedge_tier_slots{tier=\"pool\",unit=\"1\"} 16"), std::string::npos) << text;
    EXPECT_NE(text.find("\nkedge_memory_used_bytes "), std::string::npos) << text;
    // What bounds the room is this machine's to say.
    EXPECT_NE(text.find("\nkedge_memory_room_bytes{bound=\""), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace kedge::testing
