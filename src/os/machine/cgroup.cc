#include "os/machine/cgroup.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <string_view>

#include "os/files/files.h"
#include "os/machine/machine.h"

namespace kedge::os {
namespace {

constexpr uint64_t kCgroupFileBytesMax = 4 << 20;
// Version 1 writes "no limit" as a number near 2^63.
constexpr uint64_t kUnlimitedBytes = uint64_t{1} << 60;

std::vector<std::string> Split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

std::string ReadOrEmpty(const std::string& path) {
  auto text = ReadFile(SystemFileSystem(), path, kCgroupFileBytesMax);
  return text.ok() ? std::move(*text) : std::string();
}

std::optional<uint64_t> Number(std::string_view text) {
  uint64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc()) return std::nullopt;
  return value;
}

// The value in "key value" lines, as in memory.stat.
uint64_t StatValue(const std::string& text, std::string_view key) {
  for (const std::string& line : Split(text, '\n')) {
    if (line.size() > key.size() && line.compare(0, key.size(), key) == 0 && line[key.size()] == ' ') {
      return Number(std::string_view(line).substr(key.size() + 1)).value_or(0);
    }
  }
  return 0;
}

bool Contains(const std::vector<std::string>& list, const std::string& item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

struct CgroupMount {
  std::string root;  // the part of the hierarchy that is mounted: a container sees its own group as /
  std::string point;
};

// From mountinfo: fields 4 and 5 are root and mount point; after " - " come type, source and super options.
std::optional<CgroupMount> FindMount(const std::string& mountinfo, int version, const std::string& controller) {
  for (const std::string& line : Split(mountinfo, '\n')) {
    const size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    const auto before = Split(std::string_view(line).substr(0, dash), ' ');
    const auto after = Split(std::string_view(line).substr(dash + 3), ' ');
    if (before.size() < 5 || after.size() < 3) continue;
    const bool fits = version == 2 ? after[0] == "cgroup2" : after[0] == "cgroup" && Contains(Split(after[2], ','), controller);
    if (fits) return CgroupMount{before[3], before[4]};
  }
  return std::nullopt;
}

std::vector<std::string> FoldersUpwards(const CgroupMount& mount, std::string group, const std::string& root) {
  if (mount.root != "/" && group.compare(0, mount.root.size(), mount.root) == 0) group.erase(0, mount.root.size());
  // With a private cgroup namespace the path can lie outside of what is mounted: "/../x".
  if (group.find("/..") != std::string::npos) group.clear();
  std::vector<std::string> folders;
  while (!group.empty() && group != "/") {
    folders.push_back(root + mount.point + group);
    group = group.substr(0, group.rfind('/'));
  }
  folders.push_back(root + mount.point);
  return folders;
}

}  // namespace

std::vector<std::string> CgroupFolders(const std::string& controller, const std::string& proc_folder, const std::string& root,
                                       int* version) {
  const std::string mountinfo = ReadOrEmpty(proc_folder + "/mountinfo");
  std::optional<std::string> group_v2;
  // Lines are "id:controllers:path"; version 2 is "0::path". A controller is in one of the two at a time.
  for (const std::string& line : Split(ReadOrEmpty(proc_folder + "/cgroup"), '\n')) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const auto controllers = Split(std::string_view(line).substr(first + 1, second - first - 1), ',');
    if (controllers.empty()) group_v2 = line.substr(second + 1);
    if (!Contains(controllers, controller)) continue;
    const auto mount = FindMount(mountinfo, 1, controller);
    if (!mount) return {};
    *version = 1;
    return FoldersUpwards(*mount, line.substr(second + 1), root);
  }
  const auto mount = FindMount(mountinfo, 2, controller);
  if (!group_v2 || !mount) return {};
  *version = 2;
  return FoldersUpwards(*mount, *group_v2, root);
}

std::optional<CgroupMemory> CgroupMemoryLimit(const std::string& proc_folder, const std::string& root) {
  int version = 0;
  std::optional<CgroupMemory> tightest;
  for (const std::string& folder : CgroupFolders("memory", proc_folder, root, &version)) {
    const auto limit = Number(ReadOrEmpty(folder + (version == 2 ? "/memory.max" : "/memory.limit_in_bytes")));
    if (!limit || *limit >= kUnlimitedBytes) continue;  // "max" is no number
    CgroupMemory memory;
    memory.limit_bytes = *limit;
    memory.used_bytes = Number(ReadOrEmpty(folder + (version == 2 ? "/memory.current" : "/memory.usage_in_bytes"))).value_or(0);
    const std::string stat = ReadOrEmpty(folder + "/memory.stat");
    memory.reclaimable_bytes = version == 2 ? StatValue(stat, "active_file") + StatValue(stat, "inactive_file")
                                            : StatValue(stat, "total_active_file") + StatValue(stat, "total_inactive_file");
    if (!tightest || memory.LeftBytes() < tightest->LeftBytes()) tightest = memory;
  }
  return tightest;
}

double PressurePercent(const std::string& resource, const std::string& proc_folder, const std::string& root) {
  int version = 0;
  const std::vector<std::string> folders = CgroupFolders(resource, proc_folder, root, &version);
  std::string told;
  if (version == 2 && !folders.empty()) told = ReadOrEmpty(folders.front() + "/" + resource + ".pressure");
  // The root group has no such file.
  if (told.empty()) told = ReadOrEmpty(root + "/proc/pressure/" + resource);
  double percent = 0;
  return std::sscanf(told.c_str(), "some avg10=%lf", &percent) == 1 ? percent : 0;
}

std::optional<int> CgroupCpuQuota(const std::string& proc_folder, const std::string& root) {
  int version = 0;
  std::optional<int> tightest;
  for (const std::string& folder : CgroupFolders("cpu", proc_folder, root, &version)) {
    std::optional<uint64_t> quota;
    std::optional<uint64_t> period;
    if (version == 2) {
      const auto parts = Split(ReadOrEmpty(folder + "/cpu.max"), ' ');
      if (parts.size() == 2) quota = Number(parts[0]), period = Number(parts[1]);
    } else {
      quota = Number(ReadOrEmpty(folder + "/cpu.cfs_quota_us"));  // -1 is no unsigned number
      period = Number(ReadOrEmpty(folder + "/cpu.cfs_period_us"));
    }
    if (!quota || !period || *period == 0) continue;
    const int cpus = static_cast<int>((*quota + *period - 1) / *period);
    tightest = std::min(tightest.value_or(cpus), cpus);
  }
  return tightest;
}

}  // namespace kedge::os
