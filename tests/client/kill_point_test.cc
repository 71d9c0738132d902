// The application is killed at each of its publications in shared memory in turn, before and after. What it had handed over is
// restored, what it had not does not exist, and the version that the dead attempt left half done is taken again, unmixed.
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>

#include "os/memory/held_writes.h"
#include "tests/support/child_process.h"
#include "tests/support/point_names.h"
#include "tests/support/scenario_folder.h"

namespace kedge::testing {
namespace {

using std::chrono::seconds;

const std::string kApp = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "pattern_app";

struct Point {
  const char* name;  // of src/os/process/kill_point.h, and which pass
  const char* bytes;
  enum { kNot, kHandedOver, kEither } state;  // of the version being captured: whether the agent has it
};

// The number behind the last `word`; -1 when there is none.
int64_t Last(const std::string& output, const std::string& word) {
  const size_t at = output.rfind(word + " ");
  return at == std::string::npos ? -1 : std::stoll(output.substr(at + word.size() + 1));
}

class ClientKilledAt : public ::testing::TestWithParam<Point> {
 protected:
  ChildProcess Start(std::vector<std::string> arguments, const std::string& kill_point = "") {
    auto environment = folder_.Environment();
    environment["KEDGE_TEST_KILL_POINT"] = kill_point;
    arguments.insert(arguments.begin(), {kApp, std::string("bytes=") + GetParam().bytes});
    return ChildProcess(arguments, environment, folder_.NewOutput());
  }
  ScenarioFolder folder_;
};

TEST_P(ClientKilledAt, TheNextLaunchRestoresAndTakesAgain) {
  auto first = Start({"steps=30", "salt=1"}, GetParam().name);
  const auto killed = first.Wait(seconds(60));
  ASSERT_TRUE(killed.has_value() && killed->signal == SIGKILL) << "the point was never passed\n" << first.Output();
  const int64_t captured = Last(first.Output(), "captured");
  ASSERT_GE(captured, 0) << "nothing to lose";

  const int64_t end = captured + 5;
  auto second = Start({"steps=" + std::to_string(end), "salt=2", "expected_salt=1"});
  ASSERT_TRUE(second.Succeeds(seconds(60)));
  const int64_t restored = Last(second.Output(), "restored");
  const bool has_newest = GetParam().state == Point::kEither ? restored > captured : GetParam().state == Point::kHandedOver;
  EXPECT_EQ(restored, captured + (has_newest ? 1 : 0)) << first.Output() << second.Output();
  EXPECT_NE(second.Output().find("captured " + std::to_string(restored + 1) + "\n"), std::string::npos) << second.Output();

  // From the store alone: what the dead attempt left of its last version is in none of them.
  folder_.KillAgent();
  std::filesystem::remove_all(folder_.run_folder());
  auto third = Start({"restart_only=1", "salt=2"});
  ASSERT_TRUE(third.Succeeds(seconds(60)));
  EXPECT_EQ(Last(third.Output(), "restored"), end) << third.Output();
}

// Large images are announced and progress piece by piece; of small ones only the end is published.
INSTANTIATE_TEST_SUITE_P(Points, ClientKilledAt,
                         ::testing::Values(Point{"client-begin-before:3", "1500000", Point::kNot},
                                           Point{"client-begin-after:3", "1500000", Point::kNot},
                                           Point{"client-progress-before:10", "1500000", Point::kNot},
                                           Point{"client-progress-after:11", "1500000", Point::kNot},
                                           Point{"client-end-before:3", "1500000", Point::kNot},
                                           Point{"client-end-after:3", "1500000", Point::kHandedOver},
                                           Point{"client-end-returned:3", "1500000", Point::kHandedOver},
                                           Point{"client-pushed-before-wake:20", "1500000", Point::kEither},
                                           Point{"client-end-before:2", "1000", Point::kNot},
                                           Point{"client-end-after:2", "1000", Point::kHandedOver},
                                           Point{"client-end-returned:2", "1000", Point::kHandedOver}),
                         [](const auto& point) { return AsTestName(std::string(point.param.name) + "_" + point.param.bytes); });

// While memory is copied after its call (capture.mode = cow): a version that was not captured does not exist.
struct CopyPoint {
  const char* name;
  int64_t restored;
};
class ClientKilledWhileItCopies : public ::testing::TestWithParam<CopyPoint> {};

TEST_P(ClientKilledWhileItCopies, TheNextLaunchRestoresTheLastThatWasCaptured) {
  if (const Status probed = os::HeldWrites::Probe(); !probed.ok()) GTEST_SKIP() << probed.ToString();
  ScenarioFolder folder;
  auto environment = folder.Environment();
  environment["KEDGE_CAPTURE_MODE"] = "cow";
  environment["KEDGE_TEST_KILL_POINT"] = GetParam().name;
  ChildProcess first({kApp, "bytes=6000000", "regions=2", "steps=30", "salt=1"}, environment, folder.NewOutput());
  const auto killed = first.Wait(seconds(60));
  ASSERT_TRUE(killed.has_value() && killed->signal == SIGKILL) << "the point was never passed\n" << first.Output();

  environment["KEDGE_TEST_KILL_POINT"] = "";
  ChildProcess second({kApp, "bytes=6000000", "regions=2", "steps=8", "salt=2", "expected_salt=1"}, environment,
                      folder.NewOutput());
  ASSERT_TRUE(second.Succeeds(seconds(60)));
  EXPECT_EQ(Last(second.Output(), "restored"), GetParam().restored) << first.Output() << second.Output();
  folder.KillAgent();
  std::filesystem::remove_all(folder.run_folder());
  ChildProcess third({kApp, "bytes=6000000", "regions=2", "restart_only=1", "salt=2"}, environment, folder.NewOutput());
  ASSERT_TRUE(third.Succeeds(seconds(60)));
  EXPECT_EQ(Last(third.Output(), "restored"), 8) << third.Output();
}

// Versions begin with 0; two regions are about 185 blocks.
INSTANTIATE_TEST_SUITE_P(Points, ClientKilledWhileItCopies,
                         ::testing::Values(CopyPoint{"client-copy-begun:3", 1}, CopyPoint{"client-copy-unit:300", 0},
                                           CopyPoint{"client-copy-unit:460", 1}, CopyPoint{"client-copy-done:3", 1},
                                           CopyPoint{"client-end-before:3", 1}, CopyPoint{"client-end-after:3", 2}),
                         [](const auto& point) { return AsTestName(point.param.name); });

}  // namespace
}  // namespace kedge::testing
