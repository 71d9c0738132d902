// Nodes whose agents know of the job what a test says, before an attempt begins.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/core/core.h"
#include "client/testing/fake_agent.h"
#include "format/store_records.h"
#include "os/testing/temporary_folder.h"
#include "session/connection.h"
#include "session/messages.h"

namespace kedge::client::testing {

inline constexpr StoreId kStore{.high = 1, .low = 2};
inline constexpr StoreId kOtherStore{.high = 1, .low = 3};

inline RestoredRecord RestartBefore(uint32_t attempt, uint32_t take, int64_t wall_time_ns) {
  return {{kStore, "job", "wave", 5, 1, 1}, attempt, take, wall_time_ns};
}

class NodesTest : public ::testing::Test {
 protected:
  // The node's run folder.
  std::string AddNode(std::vector<KnownJob> known) {
    return AddAgent([known = std::move(known)](uint64_t number) { return Frame(number, KnownJobsReply{known}); });
  }
  std::string AddAgent(const FakeAgent::Answer& answer) {
    const std::string run_folder = folder_ / std::to_string(agents_.size());
    agents_.push_back(std::make_unique<FakeAgent>(run_folder + "/agent.sock", answer));
    return run_folder;
  }
  static std::string Frame(uint64_t number, const Message& message) {
    return std::string(AsText(EncodeMessage(number, message)));
  }
  static Result<std::unique_ptr<Connection>> Connect(Core* core, const std::string& run_folder) {
    core->node.run_folder = run_folder;
    if (run_folder.empty()) return Status(Code::kUnavailable, "no agent");
    return Connection::Connect({.node = core->node, .start_agent = false, .node_keys = {}});
  }

  const os::testing::TemporaryFolder folder_;
  std::vector<std::unique_ptr<FakeAgent>> agents_;
};

}  // namespace kedge::client::testing
