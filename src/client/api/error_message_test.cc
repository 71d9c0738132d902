// A thread's last error, also where something is thrown.
#include <gtest/gtest.h>

#include <new>
#include <stdexcept>
#include <thread>

#include "base/last_error.h"
#include "kedge/kedge.h"

namespace kedge::client {
namespace {

TEST(ErrorMessage, IsTheThreadsLastAndOkClearsIt) {
  EXPECT_EQ(Guarded([] { return Status(Code::kCorrupt, "region 3"); }), KEDGE_ERROR_CORRUPT);
  EXPECT_STREQ(kedge_error_message(), "region 3");
  std::thread([] {
    EXPECT_STREQ(kedge_error_message(), "") << "another thread's";
    EXPECT_EQ(Report(Status(Code::kIo, "elsewhere")), KEDGE_ERROR_IO);
  }).join();
  EXPECT_STREQ(kedge_error_message(), "region 3");
  EXPECT_EQ(Report(Status::Ok()), KEDGE_OK);
  EXPECT_STREQ(kedge_error_message(), "");
}

TEST(ErrorMessage, NothingIsThrownOut) {
  EXPECT_EQ(Guarded([]() -> Status { throw std::bad_alloc(); }), KEDGE_ERROR_NO_SPACE);
  EXPECT_STREQ(kedge_error_message(), "out of memory");
  EXPECT_EQ(Guarded([]() -> Status { throw std::runtime_error("what it says"); }), KEDGE_ERROR_INTERNAL);
  EXPECT_STREQ(kedge_error_message(), "what it says");
  EXPECT_EQ(Guarded([]() -> Status { throw 1; }), KEDGE_ERROR_INTERNAL);
  EXPECT_STREQ(kedge_error_message(), "an unknown exception");
}

TEST(ErrorMessage, ABootstrapReportsItsOwn) {
  EXPECT_EQ(kedge_report_error(KEDGE_ERROR_TIMEOUT, "rank 2 has not come"), KEDGE_ERROR_TIMEOUT);
  EXPECT_STREQ(kedge_error_message(), "rank 2 has not come");
  EXPECT_EQ(kedge_report_error(KEDGE_ERROR_IO, nullptr), KEDGE_ERROR_IO);
  EXPECT_STREQ(kedge_error_message(), "");
  EXPECT_EQ(kedge_report_error(KEDGE_OK, "all is well"), KEDGE_OK);
  EXPECT_STREQ(kedge_error_message(), "");
  EXPECT_STREQ(kedge_status_name(KEDGE_ERROR_LOST), CodeName(Code::kLost));
  EXPECT_STREQ(kedge_status_name(KEDGE_ERROR_LOST + 1), "unknown");
  EXPECT_STREQ(kedge_status_name(-1), "unknown");
}

}  // namespace
}  // namespace kedge::client
