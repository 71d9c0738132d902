// A store that is full, over quota, broken or read only while an application runs: through the agent, without one, and with
// an agent that has no tier. The checkpoint or its wait fails with errno and path, the application goes on, older versions
// stay, and the next one works once the store does. Also a tier that is full.
//
// Application and agent are linked with a file system whose faults this test steers (os/testing/steering.h).
#include <gmock/gmock.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "os/testing/steering.h"
#include "tests/client/api_fixture.h"

namespace kedge::testing {
namespace {

using os::testing::Call;
using os::testing::CallSet;
using os::testing::CallsOf;
using ::testing::HasSubstr;

const std::string kSteeredAgent = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "steered_agent";
const std::string kSteering = std::filesystem::temp_directory_path() / ("kedge-test-steering-" + std::to_string(getpid()));

struct Fault {
  const char* name;
  CallSet calls;
  int errno_value;
  kedge_status status;
  const char* below = "";  // of the store: where alone
};
const Fault kFaults[] = {
    {"Full", CallsOf(Call::kPwrite, Call::kFallocate), ENOSPC, KEDGE_ERROR_NO_SPACE},
    {"NoInodes", CallsOf(Call::kMkdir, Call::kLink), ENOSPC, KEDGE_ERROR_NO_SPACE},
    {"OverQuota", CallsOf(Call::kPwrite), EDQUOT, KEDGE_ERROR_NO_SPACE},
    {"Broken", CallsOf(Call::kPwrite), EIO, KEDGE_ERROR_IO},
    {"FailedSync", CallsOf(Call::kFsync, Call::kFdatasync), EIO, KEDGE_ERROR_IO},
    {"FailedSyncOfTheData", CallsOf(Call::kFsync, Call::kFdatasync), EIO, KEDGE_ERROR_IO, "/data/r0."},
    {"FailedClose", CallsOf(Call::kClose), EDQUOT, KEDGE_ERROR_NO_SPACE},
    {"FailedCloseOfTheData", CallsOf(Call::kClose), EDQUOT, KEDGE_ERROR_NO_SPACE, "/data/r0."},
    {"ReadOnly", os::testing::kChangingCalls, EROFS, KEDGE_ERROR_PERMISSION},
};
constexpr Mode kTierless{"Tierless", "pool.size=0\n"};

constexpr size_t kBytes = 3000000;

class StoreFaultTest : public ApiTest {
 protected:
  StoreFaultTest() {
    setenv("KEDGE_AGENT", kSteeredAgent.c_str(), 1);
    setenv(os::testing::kSteeringVariable, kSteering.c_str(), 1);
  }
  ~StoreFaultTest() override {
    os::testing::StopSteering(kSteering);
    unsetenv("KEDGE_AGENT");
    unsetenv(os::testing::kSteeringVariable);
  }

  static void FailBelow(const std::string& path, CallSet calls, int errno_value) {
    os::testing::FaultRule rule;
    rule.calls = calls;
    rule.path_contains = path;
    rule.errno_value = errno_value;
    os::testing::Steer(kSteering, {rule});
  }
  static std::string Content(int64_t version) { return std::string(kBytes, static_cast<char>('a' + version % 26)); }
  // Takes the version and waits for the store; the first error.
  int Take(kedge_context* context, int64_t version) {
    data_ = Content(version);
    EXPECT_KEDGE_OK(kedge_protect(context, 0, data_.data(), data_.size(), 1, nullptr));
    const int code = kedge_checkpoint(context, "s", version, 0);
    return code != KEDGE_OK ? code : kedge_wait(context, "s", version, KEDGE_LEVEL_STORE, 60);
  }
  void ExpectRestart(kedge_context* context, int64_t expected) {
    data_ = std::string(kBytes, ' ');
    EXPECT_KEDGE_OK(kedge_protect(context, 0, data_.data(), data_.size(), 1, nullptr));
    int64_t version = -1;
    EXPECT_KEDGE_OK(kedge_restart(context, "s", -1, &version));
    EXPECT_EQ(version, expected);
    EXPECT_TRUE(data_ == Content(expected));
  }
  static void ExpectInStore(kedge_context* context, int64_t version) {
    kedge_level level = KEDGE_LEVEL_NONE;
    EXPECT_KEDGE_OK(kedge_test(context, "s", version, &level));
    EXPECT_EQ(level, KEDGE_LEVEL_STORE);
  }

  std::string data_;
};
INSTANTIATE_TEST_SUITE_P(Modes, StoreFaultTest, ::testing::Values(kInline, kAgent, kTierless), ModeName);

TEST_P(StoreFaultTest, IsReportedAndTheNextCheckpointWorksOnceItIsOver) {
  kedge_context* context = Open();
  const bool has_local_copies = GetParam().name == kAgent.name;
  int64_t version = 1;
  ASSERT_EQ(Take(context, version), KEDGE_OK) << kedge_error_message();
  for (const Fault& fault : kFaults) {
    SCOPED_TRACE(fault.name);
    FailBelow(*fault.below == '\0' ? folder_.store() : fault.below, fault.calls, fault.errno_value);
    EXPECT_EQ(Take(context, version + 1), fault.status) << kedge_error_message();
    EXPECT_THAT(kedge_error_message(), HasSubstr(std::strerror(fault.errno_value)));
    EXPECT_THAT(kedge_error_message(), HasSubstr(folder_.store()));
    EXPECT_EQ(kedge_last_flush_error(context, nullptr, 0, nullptr), has_local_copies ? fault.status : KEDGE_OK);
    ExpectInStore(context, version);
    ExpectRestart(context, has_local_copies ? version + 1 : version);
    os::testing::StopSteering(kSteering);
    version += 2;
    ASSERT_EQ(Take(context, version), KEDGE_OK) << kedge_error_message();
  }
  // What the store holds is whole.
  Close(context, 0);
  folder_.KillAgent();
  std::filesystem::remove_all(folder_.run_folder());
  ExpectRestart(Open(), version);
}

class FlushFaultTest : public StoreFaultTest {};
INSTANTIATE_TEST_SUITE_P(Modes, FlushFaultTest, ::testing::Values(kAgent), ModeName);

// Nobody has waited for the version: the last call that can tell does.
TEST_P(FlushFaultTest, IsReturnedByFinalizeAndTheCopyOnTheNodeStays) {
  const std::string overrides = Overrides();
  kedge_options options = KEDGE_OPTIONS_INIT;
  options.overrides = overrides.c_str();
  kedge_context* context = nullptr;
  ASSERT_KEDGE_OK(kedge_init(&options, nullptr, &context));
  EXPECT_EQ(Take(context, 1), KEDGE_OK) << kedge_error_message();
  FailBelow("/data/r0.", CallsOf(Call::kPwrite), ENOSPC);
  data_ = Content(2);
  EXPECT_KEDGE_OK(kedge_protect(context, 0, data_.data(), data_.size(), 1, nullptr));
  EXPECT_KEDGE_OK(kedge_checkpoint(context, "s", 2, 0));
  EXPECT_EQ(kedge_finalize(context, 1), KEDGE_ERROR_NO_SPACE) << kedge_error_message();
  EXPECT_THAT(kedge_error_message(), HasSubstr(folder_.store()));
  os::testing::StopSteering(kSteering);
  ExpectRestart(Open(), 2);
}

// Part of the image has left its slots for the object that fails: it cannot be written again, and is not kept for a copy.
TEST_P(FlushFaultTest, AnImageGreaterThanThePoolIsLostAndTheOlderOneStays) {
  kedge_context* context = Open("pool.size=16MiB\n");
  ASSERT_EQ(Take(context, 1), KEDGE_OK) << kedge_error_message();
  os::testing::FaultRule full;
  full.calls = CallsOf(Call::kPwrite);
  full.path_contains = "/data/r0.";
  full.errno_value = ENOSPC;
  full.byte_budget = 24 << 20;
  full.count = os::testing::kForEver;
  os::testing::Steer(kSteering, {full});
  std::string large(40 << 20, 'x');
  EXPECT_KEDGE_OK(kedge_protect(context, 0, large.data(), large.size(), 1, nullptr));
  int code = kedge_checkpoint(context, "s", 2, 0);
  if (code == KEDGE_OK) code = kedge_wait(context, "s", 2, KEDGE_LEVEL_STORE, 60);
  EXPECT_EQ(code, KEDGE_ERROR_NO_SPACE) << kedge_error_message();
  os::testing::StopSteering(kSteering);
  ExpectRestart(context, 1);
  ASSERT_EQ(Take(context, 3), KEDGE_OK) << kedge_error_message();
  ExpectRestart(context, 3);
}

class TierFaultTest : public StoreFaultTest {
 protected:
  std::string Disk() const { return folder_.path() + "/disk"; }
  std::string DiskTier() const { return "tier=[{name=\"disk\", path='" + Disk() + "', capacity=\"64MiB\"}]\n"; }
};
INSTANTIATE_TEST_SUITE_P(Modes, TierFaultTest, ::testing::Values(kAgent), ModeName);

TEST_P(TierFaultTest, APoolWithoutSpaceLeavesItToTheNextTier) {
  FailBelow(folder_.run_folder() + "/pool", CallsOf(Call::kFallocate), ENOSPC);
  kedge_context* context = Open(DiskTier());
  ASSERT_EQ(Take(context, 1), KEDGE_OK) << kedge_error_message();
  EXPECT_EQ(Statistics(context).bytes_directory, kBytes);
  EXPECT_EQ(Statistics(context).bytes_pool, 0u);
  ExpectRestart(context, 1);
}

TEST_P(TierFaultTest, ATierThatCannotBeWrittenLeavesItToTheStore) {
  kedge_context* context = Open("pool.size=0\n" + DiskTier());
  ASSERT_EQ(Take(context, 1), KEDGE_OK) << kedge_error_message();
  for (int errno_value : {EIO, ENOSPC}) {
    FailBelow(Disk(), CallsOf(Call::kPwrite), errno_value);
    ASSERT_EQ(Take(context, errno_value), KEDGE_OK) << kedge_error_message();
    os::testing::StopSteering(kSteering);
    ExpectRestart(context, errno_value);
    ASSERT_GT(Statistics(context).checkpoints_inline, 0u);
  }
  // And with neither: the checkpoint fails with the reason.
  FailBelow(folder_.path(), CallsOf(Call::kPwrite), ENOSPC);
  EXPECT_EQ(Take(context, 100), KEDGE_ERROR_NO_SPACE);
  EXPECT_THAT(kedge_error_message(), HasSubstr(folder_.store()));
  os::testing::StopSteering(kSteering);
  ASSERT_EQ(Take(context, 101), KEDGE_OK) << kedge_error_message();
  ExpectRestart(context, 101);
}

}  // namespace
}  // namespace kedge::testing
