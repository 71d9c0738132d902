#include "os/machine/storage_device.h"

#include <fmt/format.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include "os/files/files.h"
#include "os/machine/machine.h"

namespace kedge::os {
namespace {

constexpr uint64_t kFileBytesMax = 8 << 20;
constexpr uint64_t kSectorBytes = 512;
constexpr size_t kDescriptionMax = 255;

std::string ReadLine(const std::string& path) {
  auto text = ReadFile(SystemFileSystem(), path, kFileBytesMax);
  if (!text.ok()) return "";
  std::string line = text->substr(0, text->find('\n'));
  line.erase(line.find_last_not_of(' ') + 1);
  return line.substr(std::min(line.find_first_not_of(' '), line.size()));
}

std::vector<std::string_view> Words(std::string_view line) {
  std::vector<std::string_view> words;
  for (size_t begin = 0; begin < line.size();) {
    const size_t end = std::min(line.find(' ', begin), line.size());
    if (end > begin) words.push_back(line.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

struct Mount {
  std::string type;
  std::string source;
};

bool IsBelow(std::string_view path, std::string_view folder) {
  return folder == "/" || path == folder || (path.starts_with(folder) && path[folder.size()] == '/');
}

// The mount that holds the path: the longest mount point on the way to it, and of several there the last one.
// A line is "ID PARENT MAJOR:MINOR ROOT MOUNTPOINT OPTIONS [FIELDS] - TYPE SOURCE SUPEROPTIONS" (proc(5)).
Mount MountOf(const std::string& path, const std::string& root) {
  auto text = ReadFile(SystemFileSystem(), root + "/proc/self/mountinfo", kFileBytesMax);
  Mount mount{"unknown file system", ""};
  size_t longest = 0;
  for (size_t begin = 0; text.ok() && begin < text->size();) {
    const size_t end = std::min(text->find('\n', begin), text->size());
    const auto words = Words(std::string_view(*text).substr(begin, end - begin));
    begin = end + 1;
    const auto dash = std::find(words.begin(), words.end(), "-");
    if (words.size() < 8 || words.end() - dash < 3) continue;
    if (!IsBelow(path, words[4]) || words[4].size() < longest) continue;
    longest = words[4].size();
    mount = {std::string(dash[1]), std::string(dash[2])};
  }
  return mount;
}

std::string GibibytesOf(uint64_t bytes) {
  return fmt::format("{} GiB", (bytes + (uint64_t{1} << 29)) >> 30);
}

std::string DescribeMemory(const std::string& root) {
  auto text = ReadFile(SystemFileSystem(), root + "/proc/cpuinfo", kFileBytesMax);
  std::string model = "processor of unknown model";
  if (text.ok()) {
    const size_t key = text->find("model name");
    const size_t colon = key == std::string::npos ? key : text->find(": ", key);
    if (colon != std::string::npos) model = text->substr(colon + 2, text->find('\n', colon) - colon - 2);
  }
  auto memory = MachineMemory();
  return fmt::format("{}, {} processors, {}", model, std::thread::hardware_concurrency(),
                     memory.ok() ? GibibytesOf(memory->total_bytes) : "unknown size");
}

// What the driver calls a disk: "vda"; empty when there is nothing.
std::string NameInUevent(const std::string& path) {
  constexpr std::string_view kKey = "DEVNAME=";
  auto text = ReadFile(SystemFileSystem(), path, kFileBytesMax);
  const size_t found = text.ok() ? text->find(kKey) : std::string::npos;
  if (found == std::string::npos) return "";
  const size_t begin = found + kKey.size();
  return text->substr(begin, text->find('\n', begin) - begin);
}

// Of a block device; empty when the file system lies on none.
std::string DescribeBlockDevice(uint64_t device, const std::string& root) {
  const std::string node = fmt::format("{}/sys/dev/block/{}:{}", root, gnu_dev_major(device), gnu_dev_minor(device));
  if (!Exists(SystemFileSystem(), node).ok() || !*Exists(SystemFileSystem(), node)) return "";
  // A partition's own folder lies in that of its disk.
  const bool is_partition = !ReadLine(node + "/partition").empty();
  const std::string disk = is_partition ? node + "/.." : node;
  std::string model = ReadLine(disk + "/device/model");
  if (model.empty()) model = ReadLine(disk + "/dm/name");
  if (model.empty()) model = NameInUevent(disk + "/uevent");  // virtual disks have neither
  if (model.empty()) model = "block device of unknown model";
  const std::string sectors_text = ReadLine(disk + "/size");
  uint64_t sectors = 0;
  (void)std::from_chars(sectors_text.data(), sectors_text.data() + sectors_text.size(), sectors);
  return fmt::format("{}, {}, {}", model, GibibytesOf(sectors * kSectorBytes),
                     ReadLine(disk + "/queue/rotational") == "1" ? "rotating" : "solid state");
}

std::string Printable(std::string text) {
  for (char& c : text) {
    if (c < 0x20 || c >= 0x7f) c = '?';
  }
  text.resize(std::min(text.size(), kDescriptionMax));
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

}  // namespace

std::string DescribeStorage(const std::string& folder, const std::string& root) {
  std::string path = AbsolutePath(folder);
  auto info = SystemFileSystem().Stat(path);
  while (!info.ok() && path.size() > 1) {
    path = ParentPath(path);
    info = SystemFileSystem().Stat(path);
  }
  const Mount mount = MountOf(path, root);
  if (mount.type == "tmpfs" || mount.type == "ramfs") return Printable(mount.type + ", " + DescribeMemory(root));
  const std::string block = info.ok() ? DescribeBlockDevice(info->device, root) : "";
  return Printable(mount.type + ", " + (block.empty() ? mount.source : block));
}

}  // namespace kedge::os
