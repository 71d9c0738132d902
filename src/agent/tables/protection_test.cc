#include "agent/tables/protection.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "redundancy/layout.h"

namespace kedge {
namespace {

constexpr uint32_t kSelf = 0, kOther = 1;

// Both know each other's image; the other has said that it is done.
SetProgress WithOneThatIsDone() {
  SetProgress set;
  set.members.resize(2, SetMember{});
  set.done = {false, true};
  set.contacts.resize(2);
  return set;
}

TEST(SetProgressTest, NobodyIsAskedTwiceAtATime) {
  SetProgress set = WithOneThatIsDone();
  set.done[kOther] = false;
  EXPECT_TRUE(set.IsToAsk(kSelf, kOther, 0));
  set.contacts[kOther].asking = true;
  EXPECT_FALSE(set.IsToAsk(kSelf, kOther, 0));
  EXPECT_FALSE(set.IsToAsk(kSelf, kSelf, 0));
}

// The answer of a slow node to an earlier question: what it waits for to be told must not wait for that.
TEST(SetProgressTest, ThatWeAreDoneIsToldWhileAnAnswerIsAwaited) {
  SetProgress set = WithOneThatIsDone();
  set.contacts[kOther].asking = true;
  EXPECT_FALSE(set.IsToAsk(kSelf, kOther, 0)) << "it is done, and we are not";
  set.done[kSelf] = true;
  EXPECT_TRUE(set.IsToAsk(kSelf, kOther, 0));
  set.contacts[kOther].telling_done = true;
  EXPECT_FALSE(set.IsToAsk(kSelf, kOther, 0));
  set.contacts[kOther].asking = false;
  set.contacts[kOther].told_done = true;
  EXPECT_FALSE(set.IsToAsk(kSelf, kOther, 0)) << "nothing is left to be said";
}

// A worker's bytes count beyond those of an earlier try; the wait for its turn counts before the first failure.
TEST(SetProgressTest, BytesThatWereWrittenBeforeCountOnce) {
  SetProgress set = WithOneThatIsDone();
  EXPECT_FALSE(set.GetsOn()) << "nobody makes it";
  set.making = std::make_shared<Making>();
  EXPECT_TRUE(set.GetsOn()) << "it waits for its turn";
  set.making->begun = true;
  EXPECT_FALSE(set.GetsOn());
  set.making->bytes = 10;
  EXPECT_TRUE(set.GetsOn());
  EXPECT_FALSE(set.GetsOn());
  const uint64_t mark = set.Mark();
  set.failures = 1;
  set.making = std::make_shared<Making>();
  EXPECT_FALSE(set.GetsOn()) << "its turn is waited for a second time";
  set.making->begun = true;
  set.making->bytes = 10;
  EXPECT_FALSE(set.GetsOn());
  EXPECT_EQ(set.Mark(), mark);
  set.making->bytes = 11;
  EXPECT_TRUE(set.GetsOn());
  EXPECT_GT(set.Mark(), mark);
}

// Three groups of two nodes; this node is the first of the first.
Protection AmongSixNodes() {
  redundancy::Layout layout;
  layout.groups = {{{"n0", "n0", {0}}, {"n1", "n1", {1}}}, {{"n2", "n2", {2}}, {"n3", "n3", {3}}}, {{"n4", "n4", {4}}}};
  Protection protection;
  protection.layout = std::make_shared<const redundancy::Layout>(std::move(layout));
  protection.sets.push_back(WithOneThatIsDone());
  return protection;
}

TEST(ProtectionTest, NodesOfTheOwnGroupAreMissingBeforeGroups) {
  Protection protection = AmongSixNodes();
  SetProgress& set = protection.sets[0];
  set.contacts[kSelf].error = Status(Code::kNoSpace, "no room");
  EXPECT_EQ(protection.Missing().message(), "still missing: nodes n0; no room");
  set.members[kOther].reset();
  set.contacts[kSelf].error = Status::Ok();
  EXPECT_EQ(protection.Missing().message(), "still missing: nodes n0, n1");
  set.members[kOther] = SetMember{};
  set.done[kSelf] = true;
  protection.groups_done = {0, 2};
  EXPECT_EQ(protection.Missing().message(), "still missing: group 1 (nodes n2, n3)");
}

}  // namespace
}  // namespace kedge
