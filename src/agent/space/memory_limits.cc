#include "agent/space/memory_limits.h"

#include <algorithm>

namespace kedge {
namespace {

// Left to the application, of the whole: a 16th of a cgroup, a 32nd of the rest, whatever their size at least this.
constexpr uint64_t kLeftBytesMin = uint64_t{32} << 20;
constexpr uint64_t kCgroupShare = 16;
constexpr uint64_t kMachineShare = 32;
constexpr double kPressurePercentMax = 10;

int64_t Left(uint64_t available_bytes, uint64_t whole_bytes, uint64_t share) {
  const uint64_t kept = std::min(std::max(whole_bytes / share, kLeftBytesMin), whole_bytes / 2);
  return static_cast<int64_t>(std::min<uint64_t>(available_bytes, INT64_MAX)) - static_cast<int64_t>(kept);
}

}  // namespace

MemoryRoom RoomOf(const MemoryLimits& limits) {
  MemoryRoom room{INT64_MAX, ""};
  const auto bind = [&](int64_t bytes, const char* bound) {
    if (bytes < room.bytes) room = {bytes, bound};
  };
  if (limits.machine.total_bytes > 0) {
    bind(Left(limits.machine.available_bytes, limits.machine.total_bytes, kMachineShare), "the machine's memory");
  }
  if (limits.cgroup.has_value()) {
    bind(Left(limits.cgroup->LeftBytes(), limits.cgroup->limit_bytes, kCgroupShare), "the cgroup's memory");
  }
  if (limits.pressure_percent > kPressurePercentMax) bind(-1, "memory pressure");
  return room;
}

MemoryRoom RoomOf(const os::VolumeInfo& volume) {
  if (volume.total_bytes == 0) return {INT64_MAX, ""};
  return {Left(volume.available_bytes, volume.total_bytes, kMachineShare), "the memory file system"};
}

MemoryLimits LookAtMemory() {
  MemoryLimits limits;
  if (const auto machine = os::MachineMemory(); machine.ok()) limits.machine = *machine;
  limits.cgroup = os::CgroupMemoryLimit();
  limits.pressure_percent = os::PressurePercent("memory");
  return limits;
}

}  // namespace kedge
