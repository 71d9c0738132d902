// Nodes that the job did not have from the begin: where a node is lost, and no spare is left, a command is asked for another one
// (node_request.h). Its ranks count as started meanwhile, and the others wait for them as for any that begins.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "fmi/environment.h"
#include "fmi/launch/launcher.h"
#include "os/process/kill_point.h"

namespace kedge::fmi {

using Kind = ControlMessage::Kind;

std::optional<size_t> Launcher::AddLateNode() {
  if (options_.more.empty() || nodes_.size() >= kNodesMax) return std::nullopt;
  const size_t node = nodes_.size();
  nodes_.emplace_back();
  if (const Status asked = Ask(node); !asked.ok()) {
    Say(asked.message());
    nodes_.pop_back();
    return std::nullopt;
  }
  return node;
}

Status Launcher::Ask(size_t node) {
  // One that a former fmirun has asked for is needed no more.
  if (former_ && former_->has_ended) {
    nodes_[node].is_dead = true;
    return Status::Ok();
  }
  KEDGE_ASSIGN_OR_RETURN(nodes_[node].request, NodeRequest::Create(loop_.get(), options_.more,
                                                                   [this, node](const auto& found) { OnFound(node, found); }));
  return Status::Ok();
}

void Launcher::OnFound(size_t node, const Result<FoundNode>& found) {
  Node& its = nodes_[node];
  its.request.reset();
  if (has_ended_ || LeaveIfReplaced()) return;
  const auto end = [&](const std::string& why) {
    EndJob(1, fmt::format("no other node is to be had for rank {}: {}", fmt::join(RanksOf(node), ", "), why));
  };
  if (!found.ok()) return end(fmt::format("\"{}\" was asked, and {}", options_.more, found.status().message()));
  const bool is_here =
      std::any_of(nodes_.begin(), nodes_.end(), [&](const Node& other) { return !other.is_dead && other.name == found->name; });
  if (is_here) return end(fmt::format("{} is one of the job already", found->name));
  if (options_.shell.empty() && !found->shell.empty()) return end("all nodes are names on this machine, which no shell reaches");
  its.name = found->name;
  its.shell = found->shell.empty() ? options_.shell : found->shell;
  Say(fmt::format("node {} has come, and takes rank {}", its.name, fmt::join(RanksOf(node), ", ")));
  os::KillPoint("fmirun.found");
  if (!Note()) return;
  if (const Status status = StartTask(node); !status.ok()) EndJob(1, status.message());
  os::KillPoint("fmirun.late-task");
}

void Launcher::Join(size_t node) {
  if (const Status status = CheckAddresses(); !status.ok()) return EndJob(1, status.message());
  if (!Note()) return;
  os::KillPoint("fmirun.joins");
  ControlLink* const link = nodes_[node].link;
  Keep(nodes_[node]);
  link->Send(StateMessage());
  for (const Rank& rank : ranks_) {
    if (rank.row.start != 0) link->Send(rank.row);
  }
  std::vector<uint32_t> planned = RanksOf(node);
  std::erase_if(planned, [&](uint32_t rank) { return !ranks_[rank].runs; });
  Start(planned);
}

}  // namespace kedge::fmi
