#include "fmi/launch/job_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "fmi/board.h"
#include "fmi/launch/task_options.h"
#include "fmi/launch/texts.h"
#include "os/machine/machine.h"

namespace kedge::fmi {
namespace {

constexpr char kStateMagic[] = "fmirun 4";  // changes with what is written
constexpr int kExitCodeMax = 255;

void Add(const LaunchOptions& options, TextWriter* texts) {
  texts->AddNumber(options.ranks);
  texts->AddAll(options.nodes);
  texts->AddNumber(options.is_virtual ? 1 : 0);
  texts->Add(options.shell);
  texts->AddNumber(options.address);
  texts->AddNumber(options.spares);
  texts->Add(options.more);
  texts->AddNumber(options.interval);
  texts->AddNumber(options.failures_max);
  texts->AddNumber(options.timeout.count());
  texts->AddNumber(options.orphan_timeout.count());
  texts->AddNumber(options.seals_messages ? 1 : 0);
  texts->AddAll(options.command);
}

Result<LaunchOptions> TakeOptions(TextReader* texts, size_t words_max) {
  LaunchOptions options;
  KEDGE_ASSIGN_OR_RETURN(options.ranks, texts->UpTo(kRanksMax));
  KEDGE_ASSIGN_OR_RETURN(options.nodes, texts->Strings(kNodesMax));
  KEDGE_ASSIGN_OR_RETURN(options.is_virtual, texts->Flag());
  KEDGE_ASSIGN_OR_RETURN(options.shell, texts->Next());
  KEDGE_ASSIGN_OR_RETURN(options.address, texts->UpTo<uint32_t>(UINT32_MAX));
  KEDGE_ASSIGN_OR_RETURN(options.spares, texts->UpTo(kNodesMax));
  KEDGE_ASSIGN_OR_RETURN(options.more, texts->Next());
  KEDGE_ASSIGN_OR_RETURN(options.interval, texts->UpTo<uint64_t>(kIntervalMax));
  KEDGE_ASSIGN_OR_RETURN(options.failures_max, texts->UpTo<uint32_t>(UINT32_MAX));
  KEDGE_ASSIGN_OR_RETURN(const int64_t timeout_ns, texts->UpTo<int64_t>(INT64_MAX));
  KEDGE_ASSIGN_OR_RETURN(const int64_t orphan_timeout_ns, texts->UpTo<int64_t>(INT64_MAX));
  options.timeout = Duration(timeout_ns);
  options.orphan_timeout = Duration(orphan_timeout_ns);
  KEDGE_ASSIGN_OR_RETURN(options.seals_messages, texts->Flag());
  KEDGE_ASSIGN_OR_RETURN(options.command, texts->Strings(words_max));
  return options;
}

Result<JobState::Node> TakeNode(TextReader* texts) {
  JobState::Node node;
  KEDGE_ASSIGN_OR_RETURN(node.task.address, texts->UpTo<uint32_t>(UINT32_MAX));
  KEDGE_ASSIGN_OR_RETURN(node.task.port, texts->UpTo<uint16_t>(UINT16_MAX));
  KEDGE_ASSIGN_OR_RETURN(node.holder.process_id, texts->UpTo<pid_t>(std::numeric_limits<pid_t>::max()));
  KEDGE_ASSIGN_OR_RETURN(node.holder.start_ticks, texts->UpTo<uint64_t>(UINT64_MAX));
  KEDGE_ASSIGN_OR_RETURN(node.is_dead, texts->Flag());
  KEDGE_ASSIGN_OR_RETURN(node.name, texts->Next());
  KEDGE_ASSIGN_OR_RETURN(node.shell, texts->Next());
  return node;
}

}  // namespace

std::string Encode(const JobState& state) {
  TextWriter texts;
  texts.Add(kStateMagic);
  Add(state.options, &texts);
  texts.Add(state.folder);
  texts.Add(state.boot);
  texts.AddNumber(state.nodes.size());
  for (const JobState::Node& node : state.nodes) {
    texts.AddNumber(node.task.address);
    texts.AddNumber(node.task.port);
    texts.AddNumber(node.holder.process_id);
    texts.AddNumber(node.holder.start_ticks);
    texts.AddNumber(node.is_dead ? 1 : 0);
    texts.Add(node.name);
    texts.Add(node.shell);
  }
  for (const JobState::Rank& rank : state.ranks) {
    texts.AddNumber(rank.node);
    texts.AddNumber(rank.starts);
  }
  texts.AddNumber(state.epoch);
  texts.AddNumber(state.failures);
  for (const bool flag : {state.has_started, state.has_finished, state.has_ended}) texts.AddNumber(flag ? 1 : 0);
  texts.AddNumber(state.exit_code);
  texts.Add(state.why);
  return texts.all();
}

Result<JobState> DecodeJobState(std::string_view text) {
  TextReader texts(text, "what fmirun has left");
  JobState state;
  KEDGE_ASSIGN_OR_RETURN(const std::string magic, texts.Next());
  if (magic != kStateMagic) return Status(Code::kCorrupt, "what is left there is not of this version of fmirun");
  KEDGE_ASSIGN_OR_RETURN(state.options, TakeOptions(&texts, text.size()));
  KEDGE_ASSIGN_OR_RETURN(state.folder, texts.Next());
  KEDGE_ASSIGN_OR_RETURN(state.boot, texts.Next());
  KEDGE_ASSIGN_OR_RETURN(const uint32_t nodes, texts.UpTo(kNodesMax));
  if (nodes < std::max<size_t>(1, state.options.nodes.size()))
    return Status(Code::kCorrupt, "what fmirun has left lacks nodes of the job");
  for (size_t node = 0; node < nodes; ++node) {
    KEDGE_ASSIGN_OR_RETURN(JobState::Node its, TakeNode(&texts));
    state.nodes.push_back(its);
  }
  for (uint32_t rank = 0; rank < state.options.ranks; ++rank) {
    JobState::Rank its;
    KEDGE_ASSIGN_OR_RETURN(its.node, texts.UpTo(nodes - 1));
    KEDGE_ASSIGN_OR_RETURN(its.starts, texts.UpTo<uint32_t>(UINT32_MAX));
    state.ranks.push_back(its);
  }
  KEDGE_ASSIGN_OR_RETURN(state.epoch, texts.UpTo<uint32_t>(UINT32_MAX));
  KEDGE_ASSIGN_OR_RETURN(state.failures, texts.UpTo<uint32_t>(UINT32_MAX));
  for (bool* flag : {&state.has_started, &state.has_finished, &state.has_ended}) {
    KEDGE_ASSIGN_OR_RETURN(*flag, texts.Flag());
  }
  KEDGE_ASSIGN_OR_RETURN(state.exit_code, texts.UpTo(kExitCodeMax));
  KEDGE_ASSIGN_OR_RETURN(state.why, texts.Next());
  if (!texts.is_empty() || state.options.command.empty() || state.options.ranks == 0)
    return Status(Code::kCorrupt, "what fmirun has left is none of its");
  return state;
}

std::string BootOfThisMachine() {
  return fmt::format("{} {}", os::BootId(), os::PidNamespace());
}

bool AreSame(const LaunchOptions& one, const LaunchOptions& other) {
  TextWriter texts[2];
  Add(one, &texts[0]);
  Add(other, &texts[1]);
  return texts[0].all() == texts[1].all();
}

}  // namespace kedge::fmi
