// See pattern.h.
#include "tests/histories/pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <iterator>

namespace kedge::histories {

std::string PatternOf(const Tag& tag) {
  return fmt::format("rank {} version {} launch {} taking {} ", tag.rank, tag.version, tag.launch, tag.taking);
}

std::string ContentOf(const Tag& tag, size_t bytes, size_t first_line) {
  std::string content;
  const std::string of_image = PatternOf(tag);
  constexpr size_t kAlways = 1;
  const std::string by_block[] = {of_image, std::string("all ranks always "),
                                  fmt::format("all in version {} launch {} taking {} ", tag.version, tag.launch, tag.taking),
                                  fmt::format("rank {} in launch {} ", tag.rank, tag.launch)};
  for (size_t line = first_line; content.size() < bytes; ++line) {
    const size_t kind = line / kBlockLines % std::size(by_block);
    std::string text = by_block[kind] + fmt::format("line {}", kind == kAlways ? line % kBlockLines : line);
    text.resize(kLineBytes - 1, '.');
    content += text + "\n";
  }
  content.resize(bytes);
  return content;
}

void WriteContent(const Tag& tag, std::span<char> memory, size_t first_line) {
  const std::string content = ContentOf(tag, memory.size(), first_line);
  for (size_t at = 0; at < content.size(); at += kLineBytes) {
    const std::string_view line = std::string_view(content).substr(at, kLineBytes);
    if (std::string_view(&memory[at], line.size()) != line) std::ranges::copy(line, &memory[at]);
  }
}

bool HasContent(const Tag& tag, std::string_view memory, size_t first_line, std::string* problem) {
  const std::string expected = ContentOf(tag, memory.size(), first_line);
  if (expected == memory) return true;
  const auto at = static_cast<size_t>(std::mismatch(memory.begin(), memory.end(), expected.begin()).first - memory.begin());
  *problem = fmt::format("it is to be {}, and at {} of {} bytes stands \"{}\"", PatternOf(tag), at, memory.size(),
                         memory.substr(at / kLineBytes * kLineBytes, kLineBytes - 1));
  return false;
}

std::optional<Tag> ReadContent(std::string_view memory, std::string* problem) {
  Tag tag;
  const std::string begin(memory.substr(0, kLineBytes));
  if (std::sscanf(begin.c_str(), "rank %d version %" SCNd64 " launch %d taking %d ", &tag.rank, &tag.version, &tag.launch,
                  &tag.taking) != 4) {
    *problem = "it begins with \"" + begin.substr(0, 40) + "\"";
    return std::nullopt;
  }
  return HasContent(tag, memory, 0, problem) ? std::optional(tag) : std::nullopt;
}

}  // namespace kedge::histories
