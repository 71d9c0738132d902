#include "tests/agent/several_ranks.h"

#include <signal.h>

#include <chrono>
#include <utility>

#include "store/posix/posix_store.h"
#include "store/verify.h"
#include "tests/support/child_process.h"

namespace kedge::testing {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

std::unique_ptr<Store> StoreOf(const ScenarioFolder& scenario) {
  return MakePosixStore(os::SystemFileSystem(), {scenario.store(), 0600, 0700, false});
}

}  // namespace

SeveralRanks::SeveralRanks(std::string name, size_t bytes) : name_(std::move(name)), bytes_(bytes), store_(StoreOf(scenario_)) {}

void SeveralRanks::Attach(uint32_t ranks, const JobKeys& keys, const std::map<std::string, std::string>& node_keys) {
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    clients_.push_back(std::make_unique<AgentClient>(
        scenario_, ClientOptions{.rank = rank, .ranks = ranks, .keys = keys, .node_keys = node_keys}));
    ASSERT_TRUE(IsOk(clients_.back()->Attach()));
  }
}

void SeveralRanks::CaptureAtOnce(const Generation& generation, size_t bytes) {
  for (const auto& one : clients_) ASSERT_TRUE(IsOk(one->CaptureButEnd(generation, bytes)));
  const int agent = scenario_.AgentPid();
  ASSERT_EQ(kill(agent, SIGSTOP), 0);
  for (const auto& one : clients_) EXPECT_TRUE(IsOk(one->SendEnd()));
  ASSERT_EQ(kill(agent, SIGCONT), 0);
}

void SeveralRanks::ExpectStored(int64_t version, uint32_t rank, size_t bytes) {
  const auto stored = client(rank).Wait(At(version), Level::kStore);
  ASSERT_TRUE(IsOk(stored));
  ASSERT_TRUE(IsOk(stored->failure));
  EXPECT_TRUE(IsOk(CheckStored(scenario_.store(), At(version), rank, bytes)));
}

void SeveralRanks::Take(int64_t version) {
  CaptureAll(version);
  for (uint32_t rank = 0; rank < clients_.size(); ++rank) ExpectStored(version, rank);
  EXPECT_TRUE(VerifyVersion(catalog(), At(version), {})->problems.empty());
}

const Catalog& SeveralRanks::catalog() {
  if (!catalog_) catalog_ = Catalog::OpenOrCreate(*store_, {"test", 0, "test"}).value();
  return *catalog_;
}

void ExpectASuccessorGoesOn(const std::string& kill_point, const JobKeys& keys, const std::string& name, size_t bytes) {
  constexpr uint32_t kNodeRanks = 3;
  ScenarioFolder scenario;
  MakeStoreOf(scenario.store());
  ChildProcess doomed(AgentCommand(scenario.run_folder()), {{"KEDGE_TEST_KILL_POINT", kill_point}}, scenario.NewOutput());
  ASSERT_TRUE(WaitFor([&] { return scenario.AgentPid() != 0; }, seconds(20))) << doomed.Output();
  std::vector<std::unique_ptr<AgentClient>> clients;
  for (uint32_t rank = 0; rank < kNodeRanks; ++rank) {
    clients.push_back(std::make_unique<AgentClient>(scenario, ClientOptions{.rank = rank, .ranks = kNodeRanks, .keys = keys}));
    ASSERT_TRUE(IsOk(clients.back()->Attach()));
  }
  std::vector<Generation> taken(5);
  for (int64_t version = 1; version <= 4; ++version) {
    Generation& generation = taken[static_cast<size_t>(version)];
    ASSERT_TRUE(IsOk(TakeOverAgents(clients, name, version, bytes, &generation))) << doomed.Output();
    for (uint32_t rank = 0; rank < kNodeRanks; ++rank) {
      EXPECT_TRUE(IsOk(CheckStored(scenario.store(), generation, rank, bytes)));
    }
  }
  const auto result = doomed.Wait(seconds(10));
  ASSERT_TRUE(result.has_value()) << "the point was never passed";
  EXPECT_EQ(result->signal, SIGKILL);
  for (const auto& one : clients) {
    if (one->connection().WaitForPeerToClose(milliseconds(0))) {
      ASSERT_TRUE(IsOk(one->Attach()));
    }
  }
  EXPECT_TRUE(WaitFor([&] { return StoredVersions(scenario.store(), "job", name) == std::vector<int64_t>{3, 4}; }, seconds(20)));
  const auto store = StoreOf(scenario);
  const Catalog catalog = Catalog::OpenOrCreate(*store, {"test", 0, "test"}).value();
  for (const size_t version : {3, 4}) EXPECT_TRUE(VerifyVersion(catalog, taken[version], {})->problems.empty());
  for (const auto& one : clients) ASSERT_TRUE(IsOk(one->Goodbye()));
}

}  // namespace kedge::testing
