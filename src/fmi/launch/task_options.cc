#include "fmi/launch/task_options.h"

#include <optional>

#include "fmi/board.h"
#include "fmi/launch/texts.h"

namespace kedge::fmi {

std::string Encode(const TaskOptions& options) {
  TextWriter texts;
  texts.Add(options.secret.ToHex());
  texts.AddNumber(options.node);
  texts.AddNumber(options.fmirun.address);
  texts.AddNumber(options.fmirun.port);
  texts.AddNumber(options.ranks);
  texts.AddNumber(options.is_alone ? 1 : 0);
  texts.AddNumber(options.seals_messages ? 1 : 0);
  texts.AddNumber(options.interval);
  texts.AddNumber(options.orphan_timeout.count());
  texts.Add(options.state);
  texts.AddNumber(options.has_shell ? 1 : 0);
  texts.Add(options.folder);
  texts.AddNumber(options.variables.size());
  for (const auto& [name, value] : options.variables) {
    texts.Add(name);
    texts.Add(value);
  }
  for (const std::string& word : options.command) texts.Add(word);
  return texts.all();
}

Result<TaskOptions> DecodeTaskOptions(std::string_view text) {
  TextReader texts(text, "the options of a task");
  TaskOptions options;
  KEDGE_ASSIGN_OR_RETURN(const std::string secret, texts.Next());
  const std::optional<net::Secret> proven = net::Secret::FromHex(secret);
  if (!proven) return Status(Code::kCorrupt, "the options of a task begin with no secret");
  options.secret = *proven;
  KEDGE_ASSIGN_OR_RETURN(options.node, texts.UpTo(kNodesMax));
  KEDGE_ASSIGN_OR_RETURN(options.fmirun.address, texts.UpTo<uint32_t>(UINT32_MAX));
  KEDGE_ASSIGN_OR_RETURN(options.fmirun.port, texts.UpTo<uint16_t>(UINT16_MAX));
  KEDGE_ASSIGN_OR_RETURN(options.ranks, texts.UpTo(kRanksMax));
  KEDGE_ASSIGN_OR_RETURN(options.is_alone, texts.Flag());
  KEDGE_ASSIGN_OR_RETURN(options.seals_messages, texts.Flag());
  KEDGE_ASSIGN_OR_RETURN(options.interval, texts.UpTo<uint64_t>(kIntervalMax));
  KEDGE_ASSIGN_OR_RETURN(const int64_t orphan_timeout_ns, texts.UpTo<int64_t>(INT64_MAX));
  options.orphan_timeout = Duration(orphan_timeout_ns);
  KEDGE_ASSIGN_OR_RETURN(options.state, texts.Next());
  KEDGE_ASSIGN_OR_RETURN(options.has_shell, texts.Flag());
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
