#include "agent/protect/done_groups.h"

#include <gtest/gtest.h>

#include "agent/protect/node_level.h"
#include "agent/testing/protected_job.h"

namespace kedge {
namespace {

using Groups = std::vector<uint32_t>;

TEST(DoneGroupsTest, GroupsAreAddedUntilAllAreDone) {
  testing::ProtectedJob nodes(6);
  Version& version = nodes.Put(1);
  nodes.Begin(version);
  const auto tell = [&](Groups done) {
    const GroupsNotice notice{version.generation, nodes.job().layout->id, false, std::move(done), {}};
    return nodes->done_groups().OnTold(nodes.job(), notice).value().done;
  };
  const uint32_t own = nodes.self().group;
  Groups others;
  for (uint32_t group = 0; group < 3; ++group) {
    if (group != own) others.push_back(group);
  }
  EXPECT_EQ(tell({others[0], own, 7}), Groups{}) << "the answer tells what was known before";
  EXPECT_EQ(tell({}), Groups{others[0]}) << "of its own group it is told by its members, and there is no seventh";
  nodes->done_groups().OnOwnSetsDone(version);
  EXPECT_FALSE(version.at_node);
  tell({others[1]});
  EXPECT_TRUE(version.at_node);
  EXPECT_EQ(tell({}), (Groups{0, 1, 2}));
}

TEST(DoneGroupsTest, WhoAsksForAVersionThatHasGoneIsTold) {
  testing::ProtectedJob nodes(2);
  const auto ask = [&](int64_t number) {
    return nodes->done_groups().OnTold(nodes.job(), {nodes.GenerationOf(number), nodes.job().layout->id, false, {}, {}});
  };
  EXPECT_EQ(ask(1).value().done, Groups{}) << "nothing is known";
  for (const int64_t number : {1, 2}) {
    Version& version = nodes.Put(number);
    nodes.Begin(version);
    number == 1 ? nodes->done_groups().OnOwnSetsDone(version)
                : nodes->node_level().Fail(version, Status(Code::kIo, "a device failed"));
  }
  nodes.job().versions.clear();
  EXPECT_EQ(ask(1).value().done, Groups{0});
  EXPECT_EQ(ask(2).status().message(), "node local: a device failed");
  EXPECT_EQ(nodes->node_level().FormerFailure(nodes.GenerationOf(2)).code(), Code::kUnavailable);
  EXPECT_TRUE(nodes->node_level().FormerFailure(nodes.GenerationOf(1)).ok());
}

TEST(DoneGroupsTest, ANodeThatHasLostItsPartIsHeard) {
  testing::ProtectedJob nodes(2);
  const auto give_up = [&](int64_t number) {
    const GroupsNotice notice{nodes.GenerationOf(number), nodes.job().layout->id, false, {}, "node n1 has lost it"};
    EXPECT_TRUE(nodes->done_groups().OnTold(nodes.job(), notice).ok());
    EXPECT_TRUE(nodes->core().loop().RunOnce(Duration::zero()).ok());
  };
  Version& reached = nodes.Put(1);
  nodes.Begin(reached);
  nodes->done_groups().OnOwnSetsDone(reached);
  ASSERT_TRUE(reached.at_node && reached.node_failure.ok());
  give_up(1);
  EXPECT_TRUE(reached.at_node);
  EXPECT_NE(reached.node_failure.message().find("would not survive the loss of a node any more: node n1 has lost it"),
            std::string::npos)
      << reached.node_failure.message();
  Version& on_its_way = nodes.Put(2);
  nodes.Begin(on_its_way);
  give_up(2);
  EXPECT_FALSE(on_its_way.at_node);
  EXPECT_EQ(on_its_way.protection, nullptr);
  EXPECT_NE(on_its_way.node_failure.message().find("has not reached level node: node n1 has lost it"), std::string::npos)
      << on_its_way.node_failure.message();
}

}  // namespace
}  // namespace kedge
