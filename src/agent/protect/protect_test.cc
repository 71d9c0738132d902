#include "agent/protect/protect.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace kedge
