#include "os/memory/address_space.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string>

#include "os/files/files.h"

namespace kedge::os {
namespace {

std::string_view NextWord(std::string_view* line) {
  line->remove_prefix(std::min(line->find_first_not_of(' '), line->size()));
  const std::string_view word = line->substr(0, line->find(' '));
  line->remove_prefix(word.size());
  return word;
}

// "5590a000-5590c000 rw-p 00000000 00:00 0 [heap]"; the path may have blanks.
bool ReadMapped(std::string_view line, Mapped* mapped) {
  const std::string_view range = NextWord(&line);
  const size_t dash = range.find('-');
  if (dash == std::string_view::npos) return false;
  std::from_chars(range.data(), range.data() + dash, mapped->begin, 16);
  std::from_chars(range.data() + dash + 1, range.data() + range.size(), mapped->end, 16);
  mapped->permissions = NextWord(&line);
  NextWord(&line);  // offset
  NextWord(&line);  // device
  mapped->inode = NextWord(&line);
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  mapped->path = line;
  return !mapped->inode.empty();
}

}  // namespace

Status ForEachMapped(const std::function<bool(const Mapped&)>& visit) {
  KEDGE_ASSIGN_OR_RETURN(const std::string maps, ReadFile(SystemFileSystem(), "/proc/self/maps", uint64_t{256} << 20));
  for (std::string_view rest = maps; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    Mapped mapped;
    if (ReadMapped(line, &mapped) && !visit(mapped)) break;
  }
  return Status::Ok();
}

// The kernel would tell of a file's pages, and hold writes to them, but only this process's writes.
Status CheckPrivate(uint64_t begin, uint64_t end) {
  uint64_t position = begin;
  bool is_private = true;
  KEDGE_RETURN_IF_ERROR(ForEachMapped([&](const Mapped& mapped) {
    if (mapped.end <= position) return true;
    if (mapped.begin > position) return false;
    is_private = mapped.permissions.starts_with("rw") && mapped.permissions.ends_with("p") && mapped.inode == "0";
    if (!is_private) return false;
    position = mapped.end;
    return position < end;
  }));
  if (!is_private) {
    return Status(Code::kUnsupported,
                  fmt::format("memory at {:#x} is shared, of a file, or read-only; only private anonymous memory can be tracked",
                              position));
  }
  if (position >= end) return Status::Ok();
  return Status(Code::kInvalidArgument, fmt::format("nothing is mapped at {:#x}", position));
}

}  // namespace kedge::os
