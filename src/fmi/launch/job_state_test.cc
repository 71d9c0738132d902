#include "fmi/launch/job_state.h"

#include <gtest/gtest.h>

namespace kedge::fmi {
namespace {

JobState SomeState() {
  JobState state;
  state.options.ranks = 3;
  state.options.nodes = {"a", "b", "spare"};
  state.options.is_virtual = true;
  state.options.shell = "ssh -F 'a file'";
  state.options.address = 0x0a00'0001;
  state.options.spares = 1;
  state.options.more = "sbatch a 'node'";
  state.options.interval = 20;
  state.options.failures_max = 7;
  state.options.timeout = std::chrono::seconds(3);
  state.options.orphan_timeout = std::chrono::milliseconds(1500);
  state.options.seals_messages = true;
  state.options.command = {"./app", "", "an \"argument\"\n"};
  state.folder = "/a folder";
  state.boot = "a boot";
  state.nodes = {{{0x7f00'0001, 4711}, {12, 345678}, false, "", ""},
                 {{}, {}, true, "", ""},
                 {{0x7f00'0001, 65535}, {}, false, "", ""},
                 {{}, {}, false, "later", "srun --jobid=7"}};
  state.ranks = {{0, 1}, {2, 4}, {3, 3}};
  state.epoch = 5;
  state.failures = 2;
  state.has_started = true;
  state.exit_code = 137;
  state.why = "rank 1 has ended";
  return state;
}

TEST(JobState, ComesAsItWas) {
  const JobState state = SomeState();
  const auto found = DecodeJobState(Encode(state));
  ASSERT_TRUE(found.ok()) << found.status().ToString();
  EXPECT_TRUE(AreSame(found->options, state.options));
  EXPECT_EQ(found->options.nodes, state.options.nodes);
  EXPECT_EQ(found->options.command, state.options.command);
  EXPECT_EQ(found->options.orphan_timeout, state.options.orphan_timeout);
  EXPECT_EQ(found->folder, state.folder);
  EXPECT_EQ(found->nodes[0].task.port, 4711);
  EXPECT_EQ(found->nodes[0].holder, state.nodes[0].holder);
  EXPECT_TRUE(found->nodes[1].is_dead);
  EXPECT_EQ(found->nodes[2].task.port, 65535);
  EXPECT_EQ(found->nodes[3].name, "later");
  EXPECT_EQ(found->nodes[3].shell, "srun --jobid=7");
  EXPECT_EQ(found->ranks[1].node, 2U);
  EXPECT_EQ(found->ranks[1].starts, 4U);
  // Once more: whatever is not looked at above is the same, too.
  EXPECT_EQ(Encode(*found), Encode(state));
}

TEST(JobState, IsRefusedWhenItIsCutOffOrLonger) {
  const std::string whole = Encode(SomeState());
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
    EXPECT_EQ(DecodeJobState(whole.substr(0, bytes)).status().code(), Code::kCorrupt) << bytes;
  }
  EXPECT_EQ(DecodeJobState(whole + '\0').status().code(), Code::kCorrupt);
}

TEST(JobState, IsRefusedWhereARankIsOnNoNode) {
  JobState state = SomeState();
  state.ranks[1].node = 4;
  EXPECT_EQ(DecodeJobState(Encode(state)).status().code(), Code::kCorrupt);
}

TEST(JobState, IsRefusedWithFewerNodesThanWereNamed) {
  JobState state = SomeState();
  state.nodes.resize(2);
  state.ranks = {{0, 1}, {1, 4}, {1, 3}};
  EXPECT_EQ(DecodeJobState(Encode(state)).status().code(), Code::kCorrupt);
}

TEST(JobState, KnowsTheSameCommandLine) {
  LaunchOptions options = SomeState().options;
  options.program = "/wherever/fmirun";
  EXPECT_TRUE(AreSame(options, SomeState().options));
  options.command.back() += "more";
  EXPECT_FALSE(AreSame(options, SomeState().options));
}

}  // namespace
}  // namespace kedge::fmi
