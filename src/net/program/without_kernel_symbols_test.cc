#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <string>

#include "net/testing/nodes.h"

namespace kedge::net {
namespace {

uint64_t BytesReadByThisProcess() {
  std::ifstream file("/proc/self/io");
  std::string name;
  uint64_t value = 0;
  EXPECT_TRUE(file >> name >> value && name == "rchar:");
  return value;
}

TEST(WithoutKernelSymbols, OpeningTheFirstNetworkReadsLittle) {
  const uint64_t before = BytesReadByThisProcess();
  ASSERT_NE(testing::OpenNetwork(testing::TestOptions("tcp")), nullptr);
  EXPECT_LT(BytesReadByThisProcess() - before, 1u << 20);
}

TEST(WithoutKernelSymbols, OtherFilesAreOpened) {
  FILE* file = fopen("/proc/self/comm", "re");
  ASSERT_NE(file, nullptr);
  EXPECT_NE(fcntl(fileno(file), F_GETFD) & FD_CLOEXEC, 0);
  std::array<char, 32> name{};
  EXPECT_NE(fgets(name.data(), name.size(), file), nullptr);
  fclose(file);
  EXPECT_EQ(fopen("/proc/self/no-such-file", "r"), nullptr);
}

}  // namespace
}  // namespace kedge::net
