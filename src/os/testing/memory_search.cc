#include "os/testing/memory_search.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "base/status.h"
#include "os/files/unique_fd.h"
#include "os/memory/secret_text.h"

namespace kedge::os::testing {

namespace {

constexpr size_t kWindowBytes = 1 << 20;
constexpr size_t kRangesMax = 16384;
constexpr size_t kLineBytesMax = 8192;

struct Range {
  uint64_t begin = 0;
  uint64_t end = 0;
};

// What is writable, private, and has no flag "dd" (do not dump).
std::vector<Range> DumpedRanges() {
  // Large blocks, so that none takes the place, and overwrites the bytes, of what was freed and is looked for.
  std::vector<Range> ranges;
  ranges.reserve(kRangesMax);
  std::string line;
  line.reserve(kLineBytesMax);
  Range range;
  bool is_writable = false;
  std::ifstream smaps("/proc/self/smaps");
  while (std::getline(smaps, line)) {
    unsigned long begin = 0, end = 0;
    char permissions[5] = {};
    if (std::sscanf(line.c_str(), "%lx-%lx %4s", &begin, &end, permissions) == 3) {
      range = {begin, end};
      is_writable = permissions[1] == 'w' && permissions[3] == 'p';
    } else if (line.starts_with("VmFlags:") && is_writable && line.find(" dd") == std::string::npos) {
      ranges.push_back(range);
    }
  }
  return ranges;
}

// Byte by byte, as memmem would leave what is wanted in registers, and so on the stack.
bool Holds(std::span<const std::byte> bytes, std::span<const std::byte> wanted) {
  const int first = std::to_integer<int>(wanted[0]);
  for (size_t at = 0; at + wanted.size() <= bytes.size(); ++at) {
    const void* const found = memchr(bytes.data() + at, first, bytes.size() - wanted.size() - at + 1);
    if (found == nullptr) return false;
    at = static_cast<size_t>(static_cast<const std::byte*>(found) - bytes.data());
    size_t equal = 1;
    while (equal < wanted.size() && bytes[at + equal] == wanted[equal]) ++equal;
    if (equal == wanted.size()) return true;
  }
  return false;
}

}  // namespace

bool IsInDumpedMemory(std::span<const std::byte> wanted) {
  const UniqueFd memory(open("/proc/self/mem", O_RDONLY | O_CLOEXEC));
  KEDGE_CHECK(memory.get() >= 0);
  KEDGE_CHECK(!wanted.empty() && wanted.size() < kWindowBytes);
  const SecretBytes window(kWindowBytes);  // not found in turn
  for (const Range& range : DumpedRanges()) {
    for (uint64_t at = range.begin; at < range.end; at += kWindowBytes - wanted.size()) {
      const size_t bytes = std::min<uint64_t>(kWindowBytes, range.end - at);
      const ssize_t read = pread(memory.get(), window.bytes().data(), bytes, static_cast<off_t>(at));
      if (read <= 0) continue;  // was unmapped meanwhile
      if (Holds(window.bytes().first(static_cast<size_t>(read)), wanted)) return true;
    }
  }
  return false;
}

}  // namespace kedge::os::testing
