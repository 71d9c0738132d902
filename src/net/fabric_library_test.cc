#include "net/fabric_library.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <array>

namespace kedge::net {
namespace {

using Handlers = std::array<void (*)(int), 32>;

Handlers Now() {
  Handlers handlers{};
  for (int number = 1; number < 32; ++number) {
    struct sigaction action {};
    EXPECT_EQ(sigaction(number, nullptr, &action), 0);
    handlers[static_cast<size_t>(number)] = action.sa_handler;
  }
  return handlers;
}

// A program of its own under ctest: nothing has loaded it before.
TEST(FabricLibraryTest, SignalsAreThePrograms) {
  ASSERT_NE(signal(SIGTERM, [](int) {}), SIG_ERR);
  const Handlers before = Now();
  ASSERT_TRUE(LoadFabric().ok());
  EXPECT_EQ(Now(), before);
}

}  // namespace
}  // namespace kedge::net
