// The job's lease, renewed behind the application's back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <thread>

#include "client/session/watcher.h"
#include "client/testing/stored.h"
#include "os/testing/simulated_file_system.h"
#include "store/attempts.h"
#include "store/keys.h"

namespace kedge::client {
namespace {

using os::testing::Call;
using os::testing::CallsOf;
using std::chrono::milliseconds;
using ::testing::HasSubstr;
using testing::StoredTest;

class LeaseTest : public StoredTest {
 protected:
  LeaseTest() {
    core_->job.lease = milliseconds(40);
    LeaseWatch watch;
    EXPECT_TRUE(AcquireAttempt(catalog(), RequestOfThisProcess("job", 0.04, 2), &watch).ok());
  }
  template <typename Condition>
  static bool Eventually(Condition condition) {
    for (int i = 0; i < 5000 && !condition(); ++i) std::this_thread::sleep_for(milliseconds(1));
    return condition();
  }
  int64_t Stamp() const { return catalog().store().Stamp(keys::AttemptKey("job", 1)).value(); }

  Watcher watcher_{core_.get(), &session_};
};

TEST_F(LeaseTest, IsRenewedHoweverLongACallHoldsTheLock) {
  const std::lock_guard in_a_call(core_->mutex);
  int64_t stamp = Stamp();
  ASSERT_TRUE(watcher_.Start().ok());
  for (int renewals = 0; renewals < 2; ++renewals) {
    EXPECT_TRUE(Eventually([&] { return Stamp() != stamp; }));
    stamp = Stamp();
  }
  watcher_.Stop();
  stamp = Stamp();
  std::this_thread::sleep_for(milliseconds(60));
  EXPECT_EQ(Stamp(), stamp) << "it has stopped";
}

TEST_F(LeaseTest, ANewerAttemptIsHeardOfByWhoeverAsksNext) {
  fs_.faults().Add({.calls = CallsOf(Call::kList), .count = 1, .errno_value = EIO});
  const int64_t stamp = Stamp();
  ASSERT_TRUE(watcher_.Start().ok());
  EXPECT_TRUE(Eventually([&] { return Stamp() != stamp; })) << "one error of the store is no newer attempt";
  EXPECT_FALSE(core_->superseded);
  BeginNewerAttempt();
  EXPECT_TRUE(Eventually([&] { return core_->superseded.load(); }));
  const Status status = core_->CheckNotSuperseded();
  EXPECT_EQ(status.code(), Code::kBusy);
  EXPECT_THAT(status.message(), HasSubstr("job"));
}

}  // namespace
}  // namespace kedge::client
