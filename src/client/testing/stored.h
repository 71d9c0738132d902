// A rank without an agent, in a job of two, and what others have put into its store.
#pragma once

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <memory>
#include <string>

#include "client/core/ledger.h"
#include "client/session/agent_session.h"
#include "client/testing/make_core.h"
#include "os/testing/simulated_file_system.h"
#include "store/attempts.h"
#include "store/keys.h"
#include "store/record_io.h"
#include "store/testing/version_maker.h"

namespace kedge::client::testing {

class StoredTest : public ::testing::Test {
 protected:
  Generation At(int64_t version, uint32_t attempt = 1) const {
    return {catalog().id(), "job", "wave", version, attempt, static_cast<uint32_t>(version) + 1};
  }
  const Catalog& catalog() const { return *core_->catalog; }
  // By both ranks, as others saw to it.
  Generation Store(int64_t version) {
    const Status status = kedge::testing::TakeVersion(catalog(), At(version), {});
    EXPECT_TRUE(status.ok()) << status.ToString();
    return At(version);
  }
  Generation StoreRank(uint32_t rank, int64_t version) {
    const auto outcome = kedge::testing::PublishRanks(catalog(), At(version), rank, 1, {});
    EXPECT_TRUE(outcome.ok()) << outcome.status().ToString();
    return At(version);
  }
  // This context's own taking of At(version), captured inline.
  TakenVersion* Taken(int64_t version) {
    ledger_.CatchUp("wave", static_cast<uint32_t>(version) + 1);
    TakenVersion* const taken = ledger_.Begin("wave", version, true).value();
    ledger_.Captured(taken);
    taken->in_store = true;
    return taken;
  }
  void BeginNewerAttempt() {
    const AttemptRecord record = RecordOf(RequestOfThisProcess("job", 60, 2), catalog().id(), 2);
    ASSERT_TRUE(catalog().EnsureJob("job").ok());
    ASSERT_TRUE(
        catalog().store().PutIfAbsent(keys::AttemptKey("job", 2), Encoded(record), catalog().owner(), Folders::kCreate).ok());
  }
  void Fail(const std::string& path, uint64_t count = os::testing::kForEver) {
    fs_.faults().Add({.calls = CallsOf(os::testing::Call::kOpen, os::testing::Call::kPread),
                      .path_contains = path,
                      .count = count,
                      .errno_value = EIO});
  }

  os::testing::SimulatedFileSystem fs_;
  const std::unique_ptr<Core> core_ = MakeStartedCore(fs_);
  Ledger ledger_{core_->catalog->id(), "job", 1, {}};
  AgentSession session_{core_.get(), &ledger_};
};

}  // namespace kedge::client::testing
