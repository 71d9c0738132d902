#include "fmi/launch/task_options.h"

#include <gtest/gtest.h>

namespace kedge::fmi {
namespace {

TaskOptions Some() {
  TaskOptions options;
  options.node = 3;
  options.fmirun = {0x0a00'0001, 4711};
  options.secret = net::Secret::Generate();
  options.ranks = 8;
  options.is_alone = false;
  options.seals_messages = true;
  options.interval = 20;
  options.orphan_timeout = std::chrono::milliseconds(1500);
  options.state = "/a folder/of states";
  options.has_shell = true;
  options.folder = "/a/folder of\nsomebody";
  options.variables = {{"KEDGE_STORE_PATH", "/store with\na line"}, {"KEDGE_NODE", ""}};
  options.command = {"./app", "", "an \"argument\""};
  return options;
}

TEST(TaskOptions, ComeAsTheyWere) {
  const TaskOptions options = Some();
  const auto found = DecodeTaskOptions(Encode(options));
  ASSERT_TRUE(found.ok()) << found.status().ToString();
  EXPECT_EQ(found->node, options.node);
  EXPECT_EQ(found->fmirun.address, options.fmirun.address);
  EXPECT_EQ(found->fmirun.port, options.fmirun.port);
  EXPECT_TRUE(found->secret == options.secret);
  EXPECT_EQ(found->ranks, options.ranks);
  EXPECT_EQ(found->is_alone, options.is_alone);
  EXPECT_EQ(found->seals_messages, options.seals_messages);
  EXPECT_EQ(found->interval, options.interval);
  EXPECT_EQ(found->orphan_timeout, options.orphan_timeout);
  EXPECT_EQ(found->state, options.state);
  EXPECT_EQ(found->has_shell, options.has_shell);
  EXPECT_EQ(found->folder, options.folder);
  EXPECT_EQ(found->variables, options.variables);
  EXPECT_EQ(found->command, options.command);
}

TEST(TaskOptions, AreRefusedWhenTheyAreCutOff) {
  const std::string whole = Encode(Some());
  // Behind the program's name the others are arguments, and may be fewer.
  for (size_t bytes = 0; bytes < whole.find("./app") + 6; ++bytes) {
    EXPECT_EQ(DecodeTaskOptions(whole.substr(0, bytes)).status().code(), Code::kCorrupt) << bytes;
  }
}

TEST(TaskOptions, AreRefusedWhenANumberIsNone) {
  std::string text = Encode(Some());
  text.replace(text.find("\0"
                         "3\0",
                         0, 3) +
                   1,
               1, "x");
  EXPECT_EQ(DecodeTaskOptions(text).status().code(), Code::kCorrupt);
}

}  // namespace
}  // namespace kedge::fmi
