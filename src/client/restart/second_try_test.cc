// How often an error is asked again.
#include <gtest/gtest.h>

#include "client/restart/second_try.h"

namespace kedge::client {
namespace {

TEST(SecondTry, AnErrorThatMayPassIsAskedThreeTimesAtMost) {
  // How often `code` is asked, when it is over after `lasting` answers.
  const auto tries = [](Code code, int lasting, Status* last) {
    int asked = 0;
    *last = TryAgain([&] { return asked++ < lasting ? Status(code, "the store") : Status::Ok(); });
    return asked;
  };
  Status last;
  EXPECT_EQ(tries(Code::kOk, 0, &last), 1);
  EXPECT_TRUE(last.ok());
  EXPECT_EQ(tries(Code::kUnavailable, 100, &last), 3);
  EXPECT_EQ(last.code(), Code::kUnavailable);
  for (const Code code : {Code::kNotFound, Code::kCorrupt, Code::kMismatch, Code::kBusy}) {
    EXPECT_EQ(tries(code, 100, &last), 1) << CodeName(code);
  }
  EXPECT_EQ(tries(Code::kTimeout, 100, &last), 1) << "it has waited for long enough";
  EXPECT_TRUE(MayPass(last)) << "and may be there later all the same";
}

}  // namespace
}  // namespace kedge::client
