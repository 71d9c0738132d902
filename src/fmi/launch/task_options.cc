#include "fmi/launch/task_options.h"

#include <charconv>
#include <optional>

#include "fmi/board.h"

namespace kedge::fmi {
namespace {

// Takes one text after the other from what Encode has made.
class Texts {
 public:
  explicit Texts(std::string_view all) : left_(all) {}

  bool is_empty() const { return left_.empty(); }
  Result<std::string> Next() {
    const size_t end = left_.find('\0');
    if (end == std::string_view::npos) return Status(Code::kCorrupt, "the options of a task are cut off");
    std::string text(left_.substr(0, end));
    left_.remove_prefix(end + 1);
    return text;
  }
  template <typename Number>
  Result<Number> UpTo(Number most) {
    KEDGE_ASSIGN_OR_RETURN(const std::string text, Next());
    Number number = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
    if (read.ec == std::errc() && read.ptr == text.data() + text.size() && number <= most) return number;
    return Status(Code::kCorrupt, "the options of a task have \"" + text + "\" where a number belongs");
  }

 private:
  std::string_view left_;
};

}  // namespace

std::string Encode(const TaskOptions& options) {
  std::vector<std::string> texts = {options.secret.ToHex(),
                                    std::to_string(options.node),
                                    std::to_string(options.fmirun.address),
                                    std::to_string(options.fmirun.port),
                                    std::to_string(options.ranks),
                                    std::to_string(options.is_alone ? 1 : 0),
                                    std::to_string(options.interval),
                                    options.folder,
                                    std::to_string(options.variables.size())};
  for (const auto& [name, value] : options.variables) texts.insert(texts.end(), {name, value});
  texts.insert(texts.end(), options.command.begin(), options.command.end());
  std::string all;
  for (const std::string& text : texts) all += text + '\0';
  return all;
}

Result<TaskOptions> DecodeTaskOptions(std::string_view text) {
  Texts texts(text);
  TaskOptions options;
  KEDGE_ASSIGN_OR_RETURN(const std::string secret, texts.Next());
  const std::optional<net::Secret> proven = net::Secret::FromHex(secret);
  if (!proven) return Status(Code::kCorrupt, "the options of a task begin with no secret");
  options.secret = *proven;
  KEDGE_ASSIGN_OR_RETURN(options.node, texts.UpTo(kNodesMax));
  KEDGE_ASSIGN_OR_RETURN(options.fmirun.address, texts.UpTo<uint32_t>(UINT32_MAX));
  KEDGE_ASSIGN_OR_RETURN(options.fmirun.port, texts.UpTo<uint16_t>(UINT16_MAX));
  KEDGE_ASSIGN_OR_RETURN(options.ranks, texts.UpTo(kRanksMax));
  KEDGE_ASSIGN_OR_RETURN(const int is_alone, texts.UpTo(1));
  options.is_alone = is_alone != 0;
  KEDGE_ASSIGN_OR_RETURN(options.interval, texts.UpTo<uint64_t>(kIntervalMax));
  KEDGE_ASSIGN_OR_RETURN(options.folder, texts.Next());
  KEDGE_ASSIGN_OR_RETURN(const size_t variables, texts.UpTo(text.size()));
  for (size_t i = 0; i < variables; ++i) {
    KEDGE_ASSIGN_OR_RETURN(std::string name, texts.Next());
    KEDGE_ASSIGN_OR_RETURN(std::string value, texts.Next());
    options.variables.emplace_back(std::move(name), std::move(value));
  }
  while (!texts.is_empty()) {
    KEDGE_ASSIGN_OR_RETURN(std::string word, texts.Next());
    options.command.push_back(std::move(word));
  }
  if (options.command.empty()) return Status(Code::kCorrupt, "the options of a task have no program");
  return options;
}

}  // namespace kedge::fmi
