// The modelled device and what is made of it: it does what its curve says, whatever comes and goes.
#include <gtest/gtest.h>

#include "os/testing/modelled_device.h"
#include "os/testing/paced_device.h"

namespace kedge::os::testing {
namespace {

// 10 for one, 15 together for more.
double Total(uint32_t transfers) {
  return transfers == 1 ? 10 : 15;
}

uint64_t EndNext(ModelledDevice* device, double expected_second) {
  EXPECT_NEAR(device->NextEnd(), expected_second, 1e-6);
  device->Advance(device->NextEnd());
  uint64_t id = 0;
  EXPECT_TRUE(device->TakeEnded(&id));
  return id;
}

TEST(ModelledDevice, SharesItsThroughputAmongWhoIsThere) {
  ModelledDevice device(Total);
  EXPECT_EQ(device.NextEnd(), ModelledDevice::kNever);
  device.Begin(1, 100);
  device.Advance(4);  // 60 left
  device.Begin(2, 30);
  EXPECT_EQ(EndNext(&device, 8), 2u);  // 7.5 each; 30 left of the first
  EXPECT_EQ(EndNext(&device, 11), 1u);
  EXPECT_EQ(device.transfers(), 0u);
  device.Advance(50);
  device.Begin(3, 20);
  EXPECT_EQ(EndNext(&device, 52), 3u);
}

TEST(ModelledDevice, FollowsItsShare) {
  ModelledDevice device(Total, {{1, 0.5}, {3, 0}, {10, 2}});
  device.Begin(1, 10 + 10 + 20);
  EXPECT_DOUBLE_EQ(device.TotalAt(2, 1), 5);
  EXPECT_EQ(EndNext(&device, 11), 1u) << "10 in the first second, 10 in the next two, nothing until 10";
  ModelledDevice stalled(Total, {{1, 0}});
  stalled.Begin(1, 11);
  EXPECT_EQ(stalled.NextEnd(), ModelledDevice::kNever);
}

TEST(PacedDevice, BlocksThreadsForAsLongAsTheModelSays) {
  const int64_t start_ns = SystemClock().NowNs();
  PacedDevice device(ModelledDevice(Total), 0.01, start_ns);
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) threads.emplace_back([&] { device.Transfer(30); });
  for (std::thread& thread : threads) thread.join();
  const double seconds = static_cast<double>(SystemClock().NowNs() - start_ns) * 1e-9 / 0.01;
  EXPECT_GE(seconds, 8 * 30 / 15.0 - 1);
}

}  // namespace
}  // namespace kedge::os::testing
