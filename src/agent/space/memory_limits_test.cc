#include "agent/space/memory_limits.h"

#include <gtest/gtest.h>

#include <string>

namespace kedge {
namespace {

constexpr uint64_t kLimitMiB = uint64_t{1} << 20;
constexpr uint64_t kLimitGiB = uint64_t{1} << 30;

MemoryLimits Plenty() {
  MemoryLimits limits;
  limits.machine = {32 * kLimitGiB, 20 * kLimitGiB};
  return limits;
}

TEST(MemoryLimits, TheTightestBounds) {
  MemoryLimits limits = Plenty();
  limits.machine.available_bytes = 3 * kLimitGiB;
  EXPECT_EQ(RoomOf(limits).bytes, static_cast<int64_t>(2 * kLimitGiB)) << "a 32nd is the application's";
  EXPECT_EQ(RoomOf(limits).bound, std::string("the machine's memory"));
  limits.cgroup = os::CgroupMemory{kLimitGiB, 700 * kLimitMiB, 100 * kLimitMiB};
  EXPECT_EQ(RoomOf(limits).bytes, static_cast<int64_t>((1024 - 600 - 64) * kLimitMiB)) << "file cache can be dropped";
  EXPECT_EQ(RoomOf(limits).bound, std::string("the cgroup's memory"));
}

TEST(MemoryLimits, OthersUseTheFileSystemAsWell) {
  os::VolumeInfo volume;
  volume.total_bytes = 16 * kLimitGiB;
  volume.available_bytes = 10 * kLimitGiB;
  EXPECT_EQ(RoomOf(volume).bytes, static_cast<int64_t>(9 * kLimitGiB + 512 * kLimitMiB));
  EXPECT_EQ(RoomOf(volume).bound, std::string("the memory file system"));
}

TEST(MemoryLimits, WhatIsMissingIsToBeGivenBack) {
  MemoryLimits limits = Plenty();
  limits.cgroup = os::CgroupMemory{kLimitGiB, 1000 * kLimitMiB, 0};
  EXPECT_EQ(RoomOf(limits).bytes, -40 * static_cast<int64_t>(kLimitMiB));
  limits.cgroup.reset();
  limits.pressure_percent = 11;
  EXPECT_LT(RoomOf(limits).bytes, 0);
  EXPECT_EQ(RoomOf(limits).bound, std::string("memory pressure"));
}

TEST(MemoryLimits, WhatIsNotKnownBoundsNothing) {
  EXPECT_EQ(RoomOf(MemoryLimits{}).bytes, INT64_MAX);
  EXPECT_EQ(RoomOf(os::VolumeInfo{}).bytes, INT64_MAX);
}

TEST(MemoryLimits, ThisMachineHasSome) {
  EXPECT_GT(LookAtMemory().machine.total_bytes, 0u);
}

}  // namespace
}  // namespace kedge
