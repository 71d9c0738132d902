#include "os/machine/machine.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <vector>

#include "os/files/files.h"
#include "os/machine/cgroup.h"

namespace kedge::os {
namespace {

constexpr uint64_t kProcFileBytesMax = 4 << 20;

std::string_view TrimmedRight(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  return text;
}

// The number of kibibytes that stands after `key` ("MemTotal:") at the start of a line.
std::optional<uint64_t> KibibytesAfter(std::string_view text, std::string_view key) {
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    if (line.substr(0, key.size()) != key) continue;
    line.remove_prefix(key.size());
    while (!line.empty() && line.front() == ' ') line.remove_prefix(1);
    uint64_t value = 0;
    if (std::from_chars(line.data(), line.data() + line.size(), value).ec == std::errc()) return value * 1024;
  }
  return std::nullopt;
}

}  // namespace

std::string BootId() {
  const auto text = ReadFile(SystemFileSystem(), "/proc/sys/kernel/random/boot_id", 4096);
  return text.ok() ? std::string(TrimmedRight(*text)) : std::string();
}

std::string MachineId() {
  const auto text = ReadFile(SystemFileSystem(), "/etc/machine-id", 4096);
  return text.ok() ? std::string(TrimmedRight(*text)) : std::string();
}

uint64_t PidNamespace() {
  const auto info = SystemFileSystem().Stat("/proc/self/ns/pid");
  return info.ok() ? info->inode : 0;
}

std::string HostName() {
  char name[256] = {};
  if (gethostname(name, sizeof name - 1) != 0) return "localhost";
  return name;
}

uid_t EffectiveUser() {
  return geteuid();
}

std::string KernelRelease() {
  utsname names{};
  return uname(&names) == 0 ? names.release : "unknown";
}

Result<MemoryInfo> MachineMemory() {
  KEDGE_ASSIGN_OR_RETURN(const std::string text, ReadFile(SystemFileSystem(), "/proc/meminfo", kProcFileBytesMax));
  const auto total = KibibytesAfter(text, "MemTotal:");
  if (!total) return Status(Code::kUnsupported, "/proc/meminfo names no MemTotal");
  return MemoryInfo{*total, KibibytesAfter(text, "MemAvailable:").value_or(0)};
}

uint64_t CgroupMemory::LeftBytes() const {
  const uint64_t fixed_bytes = used_bytes - std::min(used_bytes, reclaimable_bytes);
  return limit_bytes - std::min(limit_bytes, fixed_bytes);
}

int UsableCpuCount() {
  int count = 1;
  // More processors than cpu_set_t holds exist; ask for a set as large as the kernel wants.
  for (int cpus = 1024; cpus <= 1024 * 64; cpus *= 2) {
    cpu_set_t* set = CPU_ALLOC(static_cast<size_t>(cpus));
    const size_t bytes = CPU_ALLOC_SIZE(static_cast<size_t>(cpus));
    const bool known = set != nullptr && sched_getaffinity(0, bytes, set) == 0;
    if (known) count = CPU_COUNT_S(bytes, set);
    CPU_FREE(set);
    if (known) break;
  }
  if (const auto quota = CgroupCpuQuota("/proc/self", "")) count = std::min(count, std::max(1, *quota));
  return std::max(1, count);
}

Result<ProcessMemory> OwnMemory() {
  KEDGE_ASSIGN_OR_RETURN(const std::string text, ReadFile(SystemFileSystem(), "/proc/self/smaps_rollup", kProcFileBytesMax));
  ProcessMemory memory;
  memory.resident_bytes = KibibytesAfter(text, "Rss:").value_or(0);
  memory.private_bytes = KibibytesAfter(text, "Private_Clean:").value_or(0) + KibibytesAfter(text, "Private_Dirty:").value_or(0);
  return memory;
}

}  // namespace kedge::os
