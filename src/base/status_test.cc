#include "base/status.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace kedge {
namespace {

Result<int> Half(int value) {
  if (value % 2 != 0) return Status(Code::kInvalidArgument, "odd");
  return value / 2;
}

Status Quarter(int value, int* out) {
  KEDGE_ASSIGN_OR_RETURN(const int half, Half(value));
  KEDGE_ASSIGN_OR_RETURN(*out, Half(half));
  return Status::Ok();
}

TEST(Status, CarriesCodeAndMessage) {
  EXPECT_TRUE(Status().ok());
  EXPECT_EQ(Status().ToString(), "ok");
  const Status full = Status::FromErrno(ENOSPC, "fsync /a/b");
  EXPECT_EQ(full.code(), Code::kNoSpace);
  EXPECT_EQ(full.errno_value(), ENOSPC);
  EXPECT_EQ(full.WithContext("rank 3").ToString(), "no space: rank 3: fsync /a/b: No space left on device");
}

TEST(Status, ResultPropagates) {
  int out = 0;
  EXPECT_TRUE(Quarter(8, &out).ok());
  EXPECT_EQ(out, 2);
  EXPECT_EQ(Quarter(6, &out).message(), "odd");
  EXPECT_EQ(Half(3).status().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace kedge
