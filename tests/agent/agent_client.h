// A client of the agent in its plainest form, for tests: speaks the socket and the mailbox as libkedge does, but does one
// thing at a time, shows everything, and can be told to do it wrong.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/config.h"
#include "session/connection.h"
#include "session/mailbox_file.h"
#include "session/mailbox_ring.h"
#include "store/catalog.h"
#include "tests/support/scenario_folder.h"

namespace kedge::testing {

struct ClientOptions {
  std::string job = "job";
  uint32_t attempt = 1;
  uint32_t rank = 0;
  uint32_t ranks = 1;
  JobKeys keys = {};                                  // store_path and store_mode are filled in from the scenario when empty
  std::map<std::string, std::string> node_keys = {};  // beside those of every test
  bool start_agent = true;
  std::string run_folder = {};  // filled in from the scenario when empty
};

// The settings that tests give an agent: a small pool, small chunks, a short idle timeout; `more` wins.
Config NodeConfig(const std::string& run_folder, const std::map<std::string, std::string>& more = {});
// The same as the arguments of a kedge-agent that a test starts by itself.
std::vector<std::string> AgentCommand(const std::string& run_folder, const std::map<std::string, std::string>& more = {});

// Whether all clients ask for store.layout = node, whatever their keys say (KEDGE_TEST_LAYOUT=node), to run a suite by hand.
bool IsLayoutNode();

// The store of the scenario, made when it is not there; its id.
StoreId MakeStoreOf(const std::string& path);
// A checkpoint name of whose images three blocks of four are those of all ranks, too.
inline constexpr char kCommonName[] = "common";
// The bytes that test images of a generation and rank consist of: three blocks of four are those of all versions of the rank.
std::vector<std::byte> PatternOf(const Generation& generation, uint32_t rank, size_t bytes);
// Ok when the store holds that image, complete and with exactly those bytes.
Status CheckStored(const std::string& store_path, const Generation& generation, uint32_t rank, size_t bytes);
// Versions of `name` that are complete in the store, oldest first.
std::vector<int64_t> StoredVersions(const std::string& store_path, const std::string& job, const std::string& name);

// Of all objects and records there; too many to be true where some went while it was counted.
uint64_t BytesIn(const std::string& store_path);

// Whether a Status or Result is ok, with its message: ASSERT_TRUE(IsOk(call)).
inline ::testing::AssertionResult IsOk(const Status& status) {
  return status.ok() ? ::testing::AssertionSuccess() : ::testing::AssertionFailure() << status.ToString();
}
template <typename T>
::testing::AssertionResult IsOk(const Result<T>& result) {
  return IsOk(result.ok() ? Status::Ok() : result.status());
}
// Polls until `condition` holds; false at the timeout.
bool WaitFor(const std::function<bool()>& condition, Duration timeout);

class AgentClient {
 public:
  explicit AgentClient(ClientOptions options);
  AgentClient(const ScenarioFolder& scenario, ClientOptions options);

  // Connects and attaches; again after the agent died (with what it still holds).
  Status Attach();
  void Disconnect() { connection_.reset(); }
  Connection& connection() { return *connection_; }
  const Attachment& attachment() const { return attachment_; }
  Mailbox& mailbox() { return *MailboxOf(attachment_.mailbox); }
  const Hello& hello() const { return hello_; }

  // `take` 0: as of a rank that counts its versions from 1.
  Generation GenerationOf(const std::string& name, int64_t version, uint32_t take = 0) const;
  // Captures an image of `bytes` bytes of pattern; returns when the agent has been told of its end.
  Status Capture(const Generation& generation, size_t bytes);
  // The image is given up, after an error in the middle of it.
  void Abort();
  // The same in two halves: everything but the image's end, and the end.
  Status CaptureButEnd(const Generation& generation, size_t bytes);
  Status SendEnd();
  // A bit of the next image that it captures flips, `at` bytes into its region, between its checksum and the agent's first sight.
  void FlipInNextCapture(size_t at) { flip_at_ = at; }

  void Push(const ClientMessage& message);
  // Pushes a request and waits for its answer.
  Result<AssignPlace> Request(PlaceKind place, uint64_t bytes, Duration timeout = std::chrono::seconds(20));
  // The next message of the agent that is no answer to a request: a flush that failed.
  Result<FlushFailed> NextFailure(Duration timeout);
  void Return(const SlotRange& range);

  Result<LevelReply> Wait(const Generation& generation, Level level, Duration timeout = std::chrono::seconds(30));
  Result<LevelReply> Test(const Generation& generation);
  // Until nothing of any job is on its way any more.
  Result<DrainReply> Drain(Duration timeout = std::chrono::seconds(30));
  // Reads the image back from the node's tiers and compares it with its pattern.
  Status CheckLocal(const Generation& generation, size_t bytes);
  Result<std::string> AgentStatus();
  Status Goodbye();

  uint64_t chunks_through() const { return chunks_through_; }
  uint64_t serial() const { return serial_; }
  const SlotRange& open_slot() const { return open_; }

 private:
  Result<SlotRange> TakeOpen(uint64_t bytes);
  // Of the next version of that name, by the configured counts.
  uint32_t DueLevelsOf(const std::string& name);
  Status WriteSlot(const SlotRange& range, const void* data);
  Result<AgentMessage> NextMessage(Duration timeout);

  ClientOptions options_;
  Hello hello_;
  ConnectOptions connect_;
  std::unique_ptr<Connection> connection_;
  Attachment attachment_;
  ClientRingProducer to_agent_;
  AgentRingConsumer from_agent_;
  std::vector<AgentMessage> notices_;
  SlotRange open_{};  // offset: where the next chunk goes; bytes: what is left
  uint64_t serial_ = 0;
  std::map<std::string, uint32_t> turns_;  // versions begun, by name
  uint64_t last_request_ = 0;
  uint64_t chunks_through_ = 0;
  std::optional<size_t> flip_at_;
  ImageEnd end_;
  std::unique_ptr<Store> store_;
};

// Takes a version with all clients, over as many agents as it needs, as applications do.
Status TakeOverAgents(const std::vector<std::unique_ptr<AgentClient>>& clients, const std::string& name, int64_t version,
                      size_t bytes, Generation* taken);

}  // namespace kedge::testing
