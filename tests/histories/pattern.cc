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

std::string ContentOf(const Tag& tag, size_t bytes) {
  std::string content;
  const std::string of_image = PatternOf(tag);
  const std::string by_block[] = {of_image, fmt::format("rank {} always ", tag.rank), of_image,
                                  fmt::format("rank {} in launch {} ", tag.rank, tag.launch)};
  for (size_t line = 0; content.size() < bytes; ++line) {
    std::string text = by_block[line / kBlockLines % std::size(by_block)] + fmt::format("line {}", line);
    text.resize(kLineBytes - 1, '.');
    content += text + "\n";
  }
  content.resize(bytes);
  return content;
}

std::optional<Tag> ReadContent(const std::string& memory, std::string* problem) {
  Tag tag;
  if (std::sscanf(memory.c_str(), "rank %d version %" SCNd64 " launch %d taking %d ", &tag.rank, &tag.version, &tag.launch,
                  &tag.taking) != 4) {
    *problem = "it begins with \"" + memory.substr(0, 40) + "\"";
    return std::nullopt;
  }
  const std::string expected = ContentOf(tag, memory.size());
  if (expected == memory) return tag;
  const auto at = static_cast<size_t>(std::mismatch(memory.begin(), memory.end(), expected.begin()).first - memory.begin());
  *problem = fmt::format("it begins as {}, and at {} of {} bytes stands \"{}\"", PatternOf(tag), at, memory.size(),
                         memory.substr(at / kLineBytes * kLineBytes, kLineBytes - 1));
  return std::nullopt;
}

}  // namespace kedge::histories
