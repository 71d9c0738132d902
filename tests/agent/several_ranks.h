// Several ranks of one node, whose images their agent writes together: what a fixture of such tests has, and the life of an agent
// that is killed meanwhile.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "store/catalog.h"
#include "tests/agent/agent_client.h"

namespace kedge::testing {

class SeveralRanks : public ::testing::Test {
 protected:
  // What they take: images of `bytes` each, under that name.
  SeveralRanks(std::string name, size_t bytes);

  void Attach(uint32_t ranks, const JobKeys& keys, const std::map<std::string, std::string>& node_keys = {});
  AgentClient& client(uint32_t rank) { return *clients_[rank]; }
  Generation At(int64_t version) { return client(0).GenerationOf(name_, version); }
  // All ranks', so that the agent hears of all at once: it waits for none of whom it has not heard.
  void CaptureAtOnce(const Generation& generation, size_t bytes);
  void CaptureAll(int64_t version) { CaptureAtOnce(At(version), bytes_); }
  void ExpectStored(int64_t version, uint32_t rank) { ExpectStored(version, rank, bytes_); }
  void ExpectStored(int64_t version, uint32_t rank, size_t bytes);
  // Captured by all, stored, and found to be whole.
  void Take(int64_t version);
  const Catalog& catalog();

  ScenarioFolder scenario_;
  std::vector<std::unique_ptr<AgentClient>> clients_;

 private:
  const std::string name_;
  const size_t bytes_;
  const std::unique_ptr<Store> store_;
  std::optional<Catalog> catalog_;
};

// Three ranks take versions 1 to 4 while their agent dies at the kill point. All are stored, and the last two whole in the end.
void ExpectASuccessorGoesOn(const std::string& kill_point, const JobKeys& keys, const std::string& name, size_t bytes);

}  // namespace kedge::testing
