// Ranks of two nodes that take different versions: their agents find out, on whatever level the versions are to stay.
#include <barrier>

#include "tests/protect/protect_fixture.h"

namespace kedge::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class TakingsTest : public ProtectTest {
 protected:
  TakingsTest() : ProtectTest(2) {}
};

TEST_F(TakingsTest, RanksOfTwoNodesThatDisagreeAreTold) {
  const auto names_both = AllOf(HasSubstr("rank 0"), HasSubstr("version 10"), HasSubstr("rank 1"), HasSubstr("version 11"));
  std::barrier together(2);
  nodes_.Run({0, 1}, kNoStore, [&](kedge_context* context, int rank) {
    uint64_t value = 7;
    EXPECT_KEDGE_OK(kedge_protect(context, 0, &value, 1, sizeof value, nullptr));
    EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", 1, 0));
    EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", 10 + rank, 0));
    together.arrive_and_wait();
    int code = KEDGE_OK;
    for (int i = 0; i < 1000 && code == KEDGE_OK; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      code = kedge_last_flush_error(context, nullptr, 0, nullptr);
    }
    EXPECT_EQ(code, KEDGE_ERROR_MISMATCH);
    EXPECT_THAT(kedge_error_message(), names_both);
    EXPECT_EQ(kedge_wait(context, "p", 10 + rank, KEDGE_LEVEL_LOCAL, 20), KEDGE_ERROR_MISMATCH);
    EXPECT_THAT(kedge_error_message(), names_both);
    EXPECT_KEDGE_OK(kedge_wait(context, "p", 1, KEDGE_LEVEL_LOCAL, 20));
    together.arrive_and_wait();
  });
}

// Without a network only the store knows.
TEST_F(TakingsTest, RanksThatDisagreeAreToldAtTheEndWhereNodesDoNotHearEachOther) {
  std::barrier together(2);
  ThreadRanks(2)
      .ExpectOfFinalize(1, KEDGE_ERROR_MISMATCH)
      .Run([&](int rank) { return nodes_.Overrides(rank, "net.provider=nonesuch\n"); },
           [&](kedge_context* context, int rank) {
             uint64_t value = 7;
             EXPECT_KEDGE_OK(kedge_protect(context, 0, &value, 1, sizeof value, nullptr));
             EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", 1, 0));
             EXPECT_KEDGE_OK(kedge_wait(context, "p", 1, KEDGE_LEVEL_STORE, 20));
             EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", 10 + rank, 0));
             EXPECT_EQ(kedge_wait(context, "p", 10 + rank, KEDGE_LEVEL_STORE, 3), KEDGE_ERROR_TIMEOUT) << kedge_error_message();
             together.arrive_and_wait();
           });
}

}  // namespace
}  // namespace kedge::testing
