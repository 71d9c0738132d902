// What fmirun does as the successor of another one: it reaches the tasks, learns from them how their ranks are, and goes on.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "base/clock.h"
#include "fmi/environment.h"
#include "fmi/launch/launcher.h"
#include "os/process/kill_point.h"

namespace kedge::fmi {

using Kind = ControlMessage::Kind;

void Launcher::Adopt(const JobState& former) {
  nodes_.resize(former.nodes.size());
  for (size_t node = 0; node < nodes_.size(); ++node) {
    const JobState::Node& its = former.nodes[node];
    nodes_[node].name = its.name;
    nodes_[node].shell = its.shell;
    nodes_[node].is_dead = its.is_dead;
    nodes_[node].endpoint = its.task;
    if (its.holder.process_id == 0 || former.boot != BootOfThisMachine()) continue;
    if (auto task = os::Child::Adopt(its.holder); task.ok()) nodes_[node].task = std::move(*task);
  }
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    ranks_[rank].node = former.ranks[rank].node;
    ranks_[rank].starts = former.ranks[rank].starts;
  }
  failures_ = former.failures;
  exit_code_ = former.exit_code;
}

Status Launcher::Reach(size_t node) {
  KEDGE_ASSIGN_OR_RETURN(os::TcpSocket socket, os::TcpSocket::Connect(nodes_[node].endpoint));
  const Speakers speakers{state_folder_->number(), kFmirun, static_cast<uint32_t>(node)};
  auto self = std::make_shared<ControlLink*>(nullptr);
  ControlLink::Events events;
  events.opened = [this, self] {
    if (has_ended_ && !is_replaced_) (*self)->Send(Of(Kind::kLeave));
  };
  events.received = [this, self](const ControlMessage& message) { OnMessage(*self, message); };
  events.ended = [this, self, node](const Status& why) {
    if (nodes_[node].link == *self) OnUnreached(node, why);
  };
  KEDGE_ASSIGN_OR_RETURN(
      auto link, ControlLink::Create(loop_.get(), ProcessConnection(std::move(socket), secret_, Secrecy::kSealed, speakers),
                                     std::move(events)));
  *self = link.get();
  nodes_[node].link = link.get();
  links_.push_back(std::move(link));
  return Status::Ok();
}

void Launcher::OnUnreached(size_t node, const Status& why) {
  Node& its = nodes_[node];
  // A task without ranks is as good as any other.
  if (its.is_ready || !former_ || former_->has_started || former_->has_ended || has_ended_) return OnNodeEnd(node, why.message());
  its.link = nullptr;
  its.endpoint = os::TcpEndpoint();
  if (const Status status = BeginNode(node); !status.ok()) EndJob(1, status.message());
}

void Launcher::OnReport(size_t node, const ControlMessage& message) {
  if (message.kind == Kind::kState) {
    former_->epoch = std::max(former_->epoch, message.epoch);
    former_->has_finished = former_->has_finished || message.has_finished != 0;
  }
  if (message.kind != Kind::kRow && message.kind != Kind::kEnded) return;
  Rank& its = ranks_[message.rank];
  if (its.runs && message.start < its.row.start) return;
  if (message.start != its.row.start) its.ended.reset();
  its.node = node;
  its.runs = true;
  if (message.kind == Kind::kEnded) its.ended = message;
  if (message.kind == Kind::kRow) its.row = message;
  its.row.rank = message.rank;
  its.row.start = message.start;
}

void Launcher::Resume() {
  const JobState former = *std::exchange(former_, std::nullopt);
  os::KillPoint("fmirun.reached");
  has_started_ = true;
  epoch_ = former.epoch;
  has_finished_ = former.has_finished;
  interrupted_ns_ = SystemClock().NowNs();
  if (former.has_ended) return EndJob(former.exit_code, former.why);
  if (!has_finished_ && !FindPlaces()) return;
  const auto runs = std::count_if(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.runs && !rank.ended; });
  Say(fmt::format("takes the job over, in which {} of {} ranks run", runs, ranks_.size()));
  if (!Note()) return;
  Keep();
  os::KillPoint("fmirun.resumed");
  ResumeRanks();
}

bool Launcher::FindPlaces() {
  has_nothing_left_ = std::all_of(nodes_.begin(), nodes_.end(), [](const Node& node) { return node.is_dead || node.request; });
  if (has_nothing_left_) {
    EndJob(1, "no task of the job is left; its checkpoints may be");
    return false;
  }
  for (size_t node = 0; node < nodes_.size(); ++node) {
    const std::vector<uint32_t> ranks = RanksOf(node);
    std::string what = fmt::format("node {} is gone", nodes_[node].name);
    if (ranks.empty() || !nodes_[node].is_dead) continue;
    if (!Move(ranks, /*may_ask=*/true, &what)) return false;
    Say(what);
  }
  return true;
}

void Launcher::ResumeRanks() {
  std::vector<uint32_t> lost;
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    Rank& its = ranks_[rank];
    if (its.runs && its.row.start >= its.starts) {
      its.starts = its.row.start;
      continue;
    }
    lost.push_back(rank);
    its.runs = false;
    its.ended.reset();
  }
  // Whoever is told that the job has finished looks at the rows of all.
  for (const Rank& rank : ranks_) {
    if (rank.runs) Forward(rank.row);
  }
  TellState();
  FinishWhenAllLeave();
  if (has_finished_) {
    for (const uint32_t rank : lost) OnExit(rank, 1);
  } else if (!lost.empty()) {
    OnFailure(lost, fmt::format("rank {} {} gone", fmt::join(lost, ", "), lost.size() == 1 ? "is" : "are"));
  }
  for (Rank& rank : ranks_) {
    const std::optional<ControlMessage> ended = std::exchange(rank.ended, std::nullopt);
    if (ended && !has_ended_ && rank.runs && ended->start == rank.starts) OnEnd(*ended);
  }
}

}  // namespace kedge::fmi
