// A version is complete in the store when its last node has published; the others hear it from that one.
#include <chrono>
#include <thread>

#include "tests/protect/protect_fixture.h"

namespace kedge::testing {
namespace {

using namespace std::chrono_literals;

class CompletionsTest : public ProtectTest {
 protected:
  // Whoever is asked for a level does not look into the store for it, unlike one that is waited for.
  static bool IsSoonInStore(kedge_context* context, int64_t version) {
    kedge_level level = KEDGE_LEVEL_NONE;
    for (int i = 0; i < 3000 && level < KEDGE_LEVEL_STORE; ++i) {
      EXPECT_KEDGE_OK(kedge_test(context, "p", version, &level));
      std::this_thread::sleep_for(10ms);
    }
    return level >= KEDGE_LEVEL_STORE;
  }
  // The ranks of node `last` come when all others have published.
  void TakeLast(const std::vector<int>& places, int last) {
    nodes_.Run(places, "", [&](kedge_context* context, int rank) {
      std::vector<uint64_t> memory = Content(rank, 1);
      EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
      if (places[static_cast<size_t>(rank)] == last) std::this_thread::sleep_for(1s);
      EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", 1, 0));
      EXPECT_TRUE(IsSoonInStore(context, 1)) << "rank " << rank;
    });
  }
};

class WhoIsLast : public CompletionsTest, public ::testing::WithParamInterface<int> {};
INSTANTIATE_TEST_SUITE_P(Node, WhoIsLast, ::testing::Values(0, 1, 2, 3), ::testing::PrintToStringParamName());

TEST_P(WhoIsLast, TellsAllOthersWhoDoNotLook) {
  TakeLast({0, 0, 1, 2, 3}, GetParam());
}

}  // namespace
}  // namespace kedge::testing
