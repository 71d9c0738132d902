#include "fmi/launch/launcher.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>

#include "base/clock.h"
#include "fmi/environment.h"
#include "os/events/poll_set.h"
#include "os/process/exec_words.h"
#include "os/process/folder.h"
#include "os/process/kill_point.h"

namespace kedge::fmi {
namespace {

using Kind = ControlMessage::Kind;

constexpr Duration kLookPeriod = std::chrono::milliseconds(20);
constexpr Duration kTaskStartMax = std::chrono::seconds(30);
// A connection that ends without a death: so long one of them is waited for.
constexpr Duration kDoubt = std::chrono::seconds(1);
// Connections of which nobody knows yet whose they are, besides one for each node.
constexpr size_t kStrangersMax = 64;
// For what ranks have written last to come here.
constexpr Duration kTaskEndMax = std::chrono::seconds(10);
constexpr Duration kTurn = std::chrono::milliseconds(20);
constexpr char kNodeVariable[] = "KEDGE_NODE";

// What ranks need of this process's environment on other machines.
std::vector<std::pair<std::string, std::string>> KedgeVariables() {
  std::vector<std::pair<std::string, std::string>> variables;
  for (const std::string& text : os::EnvironmentWith({})) {
    const size_t end = std::min(text.find('='), text.size());
    const std::string name = text.substr(0, end);
    if (name == kNodeVariable || (!name.starts_with("KEDGE_") && !name.starts_with("VELOC_"))) continue;
    variables.emplace_back(name, text.substr(std::min(end + 1, text.size())));
  }
  return variables;
}

}  // namespace

Result<std::unique_ptr<Launcher>> Launcher::Create(LaunchOptions options, std::optional<StateFolder> folder,
                                                   std::optional<JobState> former) {
  KEDGE_ASSIGN_OR_RETURN(auto loop, os::EventLoop::Create());
  KEDGE_ASSIGN_OR_RETURN(os::TcpListener listener,
                         os::TcpListener::Listen(options.shell.empty() ? os::kLoopback : options.address));
  KEDGE_ASSIGN_OR_RETURN(std::string here, os::CurrentFolder());
  if (former) here = former->folder;
  return std::unique_ptr<Launcher>(new Launcher(std::move(options), std::move(here), std::move(loop), std::move(listener),
                                                std::move(folder), std::move(former)));
}

Launcher::Launcher(LaunchOptions options, std::string folder, std::unique_ptr<os::EventLoop> loop, os::TcpListener listener,
                   std::optional<StateFolder> state_folder, std::optional<JobState> former)
    : options_(std::move(options)),
      folder_(std::move(folder)),
      state_folder_(std::move(state_folder)),
      former_(std::move(former)),
      secret_(state_folder_ ? state_folder_->secret() : net::Secret::Generate()),
      loop_(std::move(loop)),
      listener_(std::move(listener)),
      nodes_(std::max<size_t>(1, options_.nodes.size())),
      ranks_(options_.ranks) {
  for (size_t node = 0; node < options_.nodes.size(); ++node) nodes_[node].name = options_.nodes[node];
  for (Node& node : nodes_) node.shell = options_.shell;
  Spread();
  if (former_) Adopt(*former_);
}

int Launcher::Run(const os::EventFd& stop) {
  const auto stopping = loop_->Watch(stop.descriptor(), os::EventLoop::Interest::kRead, [this, &stop](os::Readiness) {
    stop.Drain();
    EndJob(1, "ended by a signal");
  });
  const auto accepting =
      loop_->Watch(listener_.descriptor(), os::EventLoop::Interest::kRead, [this](os::Readiness) { Accept(); });
  if (!stopping.ok() || !accepting.ok()) return Say((stopping.ok() ? accepting : stopping).status().ToString()), 1;
  const auto looking = loop_->AddPeriodic(kLookPeriod, [this] {
    if (is_interrupted_) Look();
  });
  if (!options_.shell.empty()) {
    silence_.emplace(
        loop_.get(),
        Silence::Events{[this](size_t node) { return OnNode(node, {"true"}); },
                        [this](size_t node) {
                          Say(fmt::format("the task of node {} stands still, but the node does not", nodes_[node].name));
                        },
                        [this](size_t node, const std::string& why) { OnNodeEnd(node, why); }},
        Silence::Limits());
  }
  interrupted_ns_ = SystemClock().NowNs();
  if (!former_) (void)Note();
  for (size_t node = 0; node < nodes_.size() && !has_ended_; ++node) {
    if (const Status status = BeginNode(node); !status.ok()) EndJob(1, status.message());
  }
  os::KillPoint("fmirun.tasks");
  StartWhenReady();
  const Status ran = has_ended_ ? Status::Ok() : loop_->Run();
  if (!ran.ok()) EndJob(1, ran.ToString());
  silence_.reset();
  EndTasks();
  loop_->CancelTimer(looking);
  loop_->Unwatch(*accepting);
  loop_->Unwatch(*stopping);
  return exit_code_;
}

void Launcher::Spread() {
  const size_t used = nodes_.size() - options_.spares;
  const size_t least = ranks_.size() / used;
  const size_t with_one_more = ranks_.size() % used;
  uint32_t rank = 0;
  for (size_t node = 0; node < used; ++node) {
    for (size_t i = 0; i < least + (node < with_one_more ? 1 : 0); ++i) ranks_[rank++].node = node;
  }
}

Status Launcher::BeginNode(size_t node) {
  Node& its = nodes_[node];
  if (its.is_dead) return Status::Ok();
  if (WasAskedFor(node) && its.name.empty()) return its.request ? Status::Ok() : Ask(node);
  if (its.endpoint.port != 0) {
    if (const Status reached = Reach(node); !reached.ok()) OnUnreached(node, reached);
    return Status::Ok();
  }
  if (is_resuming()) {
    OnNodeEnd(node, "its task has ended with its fmirun");
    return Status::Ok();
  }
  // That of a former fmirun has not been told to outlive it.
  EndTask(&its);
  return StartTask(node);
}

Status Launcher::StartTask(size_t node) {
  os::ChildOptions options;
  const TaskOptions task = TaskOf(node);
  nodes_[node].task_begun_ns = SystemClock().NowNs();
  if (nodes_[node].shell.empty()) {
    options.program = options_.program;
    options.arguments = {"--task"};
  } else {
    options = OnNode(node, {options_.program, "--task"});
  }
  options.set = task.variables;
  options.input = Encode(task);
  options.outlives = options_.orphan_timeout > Duration::zero();
  KEDGE_ASSIGN_OR_RETURN(nodes_[node].task, os::Child::Start(options));
  KEDGE_ASSIGN_OR_RETURN(nodes_[node].watch, loop_->Watch(nodes_[node].task->descriptor(), os::EventLoop::Interest::kRead,
                                                          [this, node](os::Readiness) { OnNodeEnd(node, WhyTaskEnded(node)); }));
  return Status::Ok();
}

os::ChildOptions Launcher::OnNode(size_t node, std::initializer_list<std::string> words) const {
  os::ChildOptions options;
  options.program = "sh";
  options.arguments = {"-c", "exec " + nodes_[node].shell + " \"$@\"", "sh", nodes_[node].name};
  options.arguments.insert(options.arguments.end(), words);
  options.input = "";
  return options;
}

TaskOptions Launcher::TaskOf(size_t node) const {
  TaskOptions task;
  task.node = static_cast<uint32_t>(node);
  task.fmirun = {options_.shell.empty() ? os::kLoopback : options_.address, listener_.port()};
  task.secret = secret_;
  task.ranks = options_.ranks;
  task.is_alone = nodes_.size() == 1 && options_.more.empty();
  task.seals_messages = options_.seals_messages;
  task.interval = options_.interval;
  task.orphan_timeout = options_.orphan_timeout;
  task.has_shell = !nodes_[node].shell.empty();
  if (state_folder_) task.state = state_folder_->path();
  task.folder = folder_;
  if (!options_.shell.empty()) task.variables = KedgeVariables();
  if (options_.is_virtual) task.variables.emplace_back(kNodeVariable, nodes_[node].name);
  task.command = options_.command;
  return task;
}

std::string Launcher::WhyTaskEnded(size_t node) const {
  if (nodes_[node].link != nullptr) return "its task has ended";
  const os::ChildEnd end = nodes_[node].task->End();
  return end.signal != 0 ? fmt::format("its task was killed by signal {} before it had begun", end.signal)
                         : fmt::format("its task does not begin (exit code {})", end.exit_code);
}

void Launcher::Accept() {
  auto socket = listener_.Accept();
  if (!socket.ok() || !*socket) return;
  // Who has ended is not needed any more, and of strangers not more than a few are listened to.
  std::erase_if(links_, [](const auto& link) { return link->has_ended(); });
  const auto is_stranger = [this](const auto& link) { return !link->was_open() && NodeOf(link.get()) == nodes_.size(); };
  if (static_cast<size_t>(std::count_if(links_.begin(), links_.end(), is_stranger)) >= nodes_.size() + kStrangersMax)
    links_.erase(std::find_if(links_.begin(), links_.end(), is_stranger));
  // The events know the link by what is put here once it is there.
  auto self = std::make_shared<ControlLink*>(nullptr);
  auto link = ControlLink::Create(
      loop_.get(), ProcessConnection(std::move(**socket), secret_, Secrecy::kSealed, kFmirun),
      {[this, self] { OnOpened(*self); }, [this, self](const ControlMessage& message) { OnMessage(*self, message); },
       [this, self](const Status& why) {
         const size_t node = NodeOf(*self);
         if (node == nodes_.size()) return;
         OnNodeEnd(node, why.message());
       }});
  if (!link.ok()) return;
  *self = link->get();
  links_.push_back(std::move(*link));
}

void Launcher::OnOpened(ControlLink* link) {
  const uint32_t node = link->from();
  const bool is_new = link->connection().speakers().epoch == 0;
  if (node >= nodes_.size()) return link->End();
  Node& its = nodes_[node];
  // A task that a successor has yet to reach asks whether its former fmirun lives, which has listened at this port by chance.
  if (!is_new && !its.is_dead && !has_ended_ && !its.is_ready) return link->End();
  if (!is_new || its.link != nullptr || its.is_dead || has_ended_) {
    // It has lost its connection, and is not let in again.
    OnNodeEnd(node, "its connection has ended");
    return link->Send(Of(Kind::kLeave));
  }
  its.link = link;
  if (silence_) silence_->OnHeard(node);
  if (options_.orphan_timeout == Duration::zero()) OnReady(node);
}

void Launcher::OnReady(size_t node) {
  nodes_[node].is_ready = true;
  if (has_started_) return Join(node);
  StartWhenReady();
}

void Launcher::StartWhenReady() {
  const bool all = std::all_of(nodes_.begin(), nodes_.end(), [this](const Node& one) {
    // Who goes on with a job does not wait for what that waited for.
    return one.is_ready || one.is_dead || (one.request && is_resuming());
  });
  if (!all || has_started_ || has_ended_) return;
  if (is_resuming()) return Resume();
  former_.reset();
  if (const Status status = CheckAddresses(); !status.ok()) return EndJob(1, status.message());
  if (!Note()) return;
  os::KillPoint("fmirun.noted");
  Keep();
  os::KillPoint("fmirun.kept");
  has_started_ = true;
  Plan(all_ranks(), /*joins=*/false);
  if (!Note()) return;
  TellState();
  Start(all_ranks());
}

void Launcher::Keep() {
  for (const Node& node : nodes_) Keep(node);
}

void Launcher::Keep(const Node& node) {
  if (node.link == nullptr || node.endpoint.port == 0) return;
  ControlMessage kept = Of(Kind::kKept);
  if (node.link->from() == kFmirun) {
    const auto own = node.link->connection().socket().Own();
    if (own.ok()) kept.endpoint = Pack({own->address, listener_.port()});
  }
  node.link->Send(kept);
}

Status Launcher::CheckAddresses() const {
  std::vector<std::string> here;
  size_t elsewhere = 0;
  for (const Node& node : nodes_) {
    if (node.link == nullptr) continue;
    KEDGE_ASSIGN_OR_RETURN(const os::TcpEndpoint own, node.link->connection().socket().Own());
    if (os::IsLoopback(own.address)) {
      here.push_back(node.name);
    } else {
      ++elsewhere;
    }
  }
  if (here.empty() || elsewhere == 0) return Status::Ok();
  return Status(Code::kMismatch, fmt::format("node {} is this machine, and no other node reaches it at a loopback address: "
                                             "--interface says at which they do",
                                             fmt::join(here, ", ")));
}

size_t Launcher::NodeOf(const ControlLink* link) const {
  const auto found = std::find_if(nodes_.begin(), nodes_.end(), [&](const Node& node) { return node.link == link; });
  return static_cast<size_t>(found - nodes_.begin());
}

void Launcher::OnMessage(const ControlLink* link, const ControlMessage& message) {
  const size_t node = NodeOf(link);
  if (has_ended_ || node == nodes_.size() || message.rank >= ranks_.size()) return;
  if (silence_) silence_->OnHeard(node);
  if (message.kind == Kind::kReplaced) {
    is_replaced_ = true;
    return (void)LeaveIfReplaced();
  }
  if (message.kind == Kind::kShared) return OnShared(node, message);
  if (message.kind == Kind::kListens || message.kind == Kind::kReported) {
    if (message.kind == Kind::kListens) nodes_[node].endpoint = UnpackEndpoint(message.endpoint);
    return OnReady(node);
  }
  if (former_) return OnReport(node, message);
  // Of a former process of the rank: nothing any more.
  Rank& its = ranks_[message.rank];
  if (its.node != node || message.start != its.starts || !its.runs) return;
  if (message.kind == Kind::kRow) OnRow(message);
  if (message.kind == Kind::kEnded) OnEnd(message);
}

void Launcher::OnShared(size_t node, const ControlMessage& message) {
  has_checkpoint_ = has_checkpoint_ || message.has_checkpoint != 0;
  relaunch_ = relaunch_ || message.relaunch != 0;
  // Checkpoints are counted on the board of rank 0, wherever that is.
  const bool is_more = message.progress > std::exchange(nodes_[node].progress, message.progress);
  if (is_more && nodes_[node].is_ready) ++progress_;
}

void Launcher::OnRow(const ControlMessage& message) {
  ranks_[message.rank].row = message;
  Forward(message);
  FinishWhenAllLeave();
}

void Launcher::Forward(const ControlMessage& row) {
  for (size_t node = 0; node < nodes_.size(); ++node) {
    if (node != ranks_[row.rank].node && nodes_[node].link != nullptr) nodes_[node].link->Send(row);
  }
  if (row.epoch == epoch_) OnLost(row.rank, row.epoch);
}

void Launcher::FinishWhenAllLeave() {
  if (!has_finished_ && Missing(Place{epoch_, Phase::kLeaving}, places()).empty()) {
    has_finished_ = true;
    if (!Note()) return;
    os::KillPoint("fmirun.finished");
    TellState();
    os::KillPoint("fmirun.told");
  }
}

void Launcher::OnLost(uint32_t rank, uint32_t epoch) {
  loop_->AddTimer(kDoubt, [this, rank, epoch] {
    if (has_ended_ || has_finished_ || epoch_ != epoch) return;
    OnFailure({}, fmt::format("rank {} has lost a connection", rank));
  });
}

std::vector<uint32_t> Launcher::all_ranks() const {
  std::vector<uint32_t> all(ranks_.size());
  std::iota(all.begin(), all.end(), 0);
  return all;
}

std::vector<uint32_t> Launcher::RanksOf(size_t node) const {
  std::vector<uint32_t> its = all_ranks();
  std::erase_if(its, [&](uint32_t rank) { return ranks_[rank].node != node; });
  return its;
}

void Launcher::Plan(const std::vector<uint32_t>& ranks, bool joins) {
  for (const uint32_t rank : ranks) {
    Rank& its = ranks_[rank];
    ++its.starts;
    its.runs = true;
    its.joins = joins;
    its.row = ControlMessage();
    its.ended.reset();
  }
}

void Launcher::Start(const std::vector<uint32_t>& ranks) {
  // All of them are known to be there before one of them looks who is.
  for (const Kind kind : {Kind::kHere, Kind::kStart}) {
    for (const uint32_t rank : ranks) {
      if (kind == Kind::kStart) os::KillPoint("fmirun.start");
      const Rank& its = ranks_[rank];
      ControlMessage message = Of(kind);
      message.rank = rank;
      message.start = its.starts;
      message.joins = its.joins ? 1 : 0;
      if (nodes_[its.node].link != nullptr) nodes_[its.node].link->Send(message);
    }
  }
}

void Launcher::OnEnd(const ControlMessage& ended) {
  const uint32_t rank = ended.rank;
  ranks_[rank].runs = false;
  if (has_finished_ || (ended.signal == 0 && !relaunch_)) {
    const int code = ended.signal != 0 ? 128 + ended.signal : ended.exit_code;
    if (has_finished_ && code != 0) Say(fmt::format("rank {} has ended with code {} after FMI_Finalize", rank, code));
    return OnExit(rank, code);
  }
  OnFailure({rank}, ended.signal == 0
                        ? fmt::format("rank {} cannot go on alone", rank)
                        : fmt::format("rank {} (process {}) was killed by signal {}", rank, ended.process_id, ended.signal));
}

void Launcher::OnExit(uint32_t rank, int code) {
  if (!has_finished_ && (code != 0 || HasBegun())) {
    return EndJob(code != 0 ? code : 1, fmt::format("rank {} has ended with code {} before FMI_Finalize", rank, code));
  }
  if (exit_code_ == 0) exit_code_ = code;
  if (std::none_of(ranks_.begin(), ranks_.end(), [](const Rank& other) { return other.runs; })) EndJob(exit_code_, "");
}

void Launcher::OnNodeEnd(size_t node, const std::string& why) {
  Node& its = nodes_[node];
  if (has_ended_ && its.link != nullptr && its.link->has_ended()) its.link = nullptr;
  if (has_ended_ || its.is_dead || LeaveIfReplaced()) return;
  its.is_dead = true;
  // Whatever goes on there ends when its task sees this.
  if (its.link != nullptr) std::exchange(its.link, nullptr)->End();
  if (silence_) silence_->Forget(node);
  EndTask(&its);
  std::string what = its.name.empty() ? fmt::format("the task of this node is gone: {}", why)
                                      : fmt::format("node {} is gone: {}", its.name, why);
  // One that does not even begin is asked for once.
  const bool may_ask = has_started_ || !WasAskedFor(node);
  std::vector<uint32_t> ranks = RanksOf(node);
  std::erase_if(ranks, [this](uint32_t rank) { return has_started_ && !ranks_[rank].runs; });
  // A successor decides when it knows who lives.
  if (ranks.empty() || is_resuming()) {
    for (const uint32_t rank : ranks) ranks_[rank].runs = false;
    Say(what);
    return StartWhenReady();
  }
  if (has_finished_) {
    Say(what);
    for (const uint32_t rank : ranks) {
      ranks_[rank].runs = false;
      OnExit(rank, 1);
    }
    return;
  }
  if (!Move(ranks, may_ask, &what)) return;
  if (has_started_) return OnFailure(ranks, what);
  Say(what);
  StartWhenReady();
}

bool Launcher::Move(const std::vector<uint32_t>& ranks, bool may_ask, std::string* what) {
  std::optional<size_t> place = FindSpare();
  if (!place && may_ask) place = AddLateNode();
  if (!place) {
    EndJob(1, fmt::format("{}, and no spare node is left for rank {}", *what, fmt::join(ranks, ", ")));
    return false;
  }
  for (const uint32_t rank : ranks) ranks_[rank].node = *place;
  const std::string& name = nodes_[*place].name;
  *what += fmt::format("; {} rank {}", name.empty() ? "another node is asked for, for" : "node " + name + " takes",
                       fmt::join(ranks, ", "));
  return true;
}

std::optional<size_t> Launcher::FindSpare() const {
  for (size_t node = 0; node < nodes_.size(); ++node) {
    // One that has not answered yet may still do so.
    const bool is_there = !nodes_[node].is_dead && (nodes_[node].link != nullptr || !has_started_);
    if (is_there && RanksOf(node).empty()) return node;
  }
  return std::nullopt;
}

void Launcher::OnFailure(const std::vector<uint32_t>& ranks, const std::string& what) {
  failures_ = progress_ > progress_at_failure_ ? 1 : failures_ + 1;
  progress_at_failure_ = progress_;
  if (failures_ > options_.failures_max) {
    Say(what);
    return EndJob(1,
                  options_.failures_max == 0
                      ? "no failure is survived (--failures 0)"
                      : fmt::format("{} failures without a new checkpoint: something other than the machine fails", failures_));
  }
  is_interrupted_ = true;
  interrupted_ns_ = SystemClock().NowNs();
  if (!relaunch_ && has_checkpoint_) {
    ++epoch_;
    Plan(ranks, /*joins=*/true);
    if (!Note()) return;
    TellState();
    os::KillPoint("fmirun.epoch");
    Say(what + (ranks.empty()       ? "; all go back to the last checkpoint"
                : ranks.size() == 1 ? "; it is started again"
                                    : "; they are started again"));
    return Start(ranks);
  }
  Say(what + (has_checkpoint_ ? "; all ranks are started again"
                              : " before the first checkpoint; all ranks are started again, from the begin: "
                                "a program that calls FMI_Loop at the head of its main loop goes back to a checkpoint"));
  RelaunchAll();
}

void Launcher::RelaunchAll() {
  relaunch_ = false;
  has_checkpoint_ = false;
  ++epoch_;
  Plan(all_ranks(), /*joins=*/false);
  if (!Note()) return;
  SendAll(Of(Kind::kKillAll));
  os::KillPoint("fmirun.kill-all");
  TellState();
  Start(all_ranks());
}

void Launcher::TellState() {
  SendAll(StateMessage());
}

ControlMessage Launcher::StateMessage() const {
  ControlMessage message = Of(Kind::kState);
  message.epoch = epoch_;
  message.has_finished = has_finished_ ? 1 : 0;
  message.has_checkpoint = has_checkpoint_ ? 1 : 0;
  return message;
}

void Launcher::SendAll(const ControlMessage& message) {
  for (const Node& node : nodes_) {
    if (node.link != nullptr) node.link->Send(message);
  }
}

std::vector<Place> Launcher::places() const {
  std::vector<Place> all;
  for (const Rank& rank : ranks_) all.push_back(Unpack(rank.row.place));
  return all;
}

bool Launcher::HasBegun() const {
  const auto all = places();
  return std::any_of(all.begin(), all.end(), [](Place place) { return place.phase != Phase::kLaunched; });
}

void Launcher::Look() {
  const int64_t now_ns = SystemClock().NowNs();
  const Duration took(now_ns - interrupted_ns_);
  const char* const since = epoch_ > 1 ? "failure" : "start";
  for (size_t node = 0; node < nodes_.size() && !has_ended_; ++node) {
    const Node& its = nodes_[node];
    if (its.request) {
      if (took > options_.timeout)
        EndJob(1, fmt::format("{} after the {}, no other node has come for rank {}", FormatDuration(took), since,
                              fmt::join(RanksOf(node), ", ")));
    } else if (!its.is_ready && Duration(now_ns - std::max(interrupted_ns_, its.task_begun_ns)) > kTaskStartMax) {
      OnNodeEnd(node, "its task does not answer");
    }
  }
  if (has_ended_ || !has_started_ || !HasBegun()) return;
  if (!has_finished_ && std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return !rank.runs; }))
    return EndJob(1, "a rank has ended without FMI_Init, and others wait for it there");
  const std::vector<uint32_t> behind = Missing(Place{epoch_, Phase::kRunning}, places());
  if (behind.empty()) {
    is_interrupted_ = false;
    if (epoch_ > 1) Say(fmt::format("all ranks run again after {}", FormatDuration(took)));
  } else if (took > options_.timeout) {
    const std::vector<uint32_t> absent = Missing(Place{epoch_, Phase::kBootstrapping}, places());
    EndJob(1, fmt::format("{} after the {}, rank {} {}", FormatDuration(took), since,
                          fmt::join(absent.empty() ? behind : absent, ", "),
                          absent.empty() ? "cannot go on" : "has not come to where all go on together"));
  }
}

bool Launcher::Note() {
  if (!state_folder_) return true;
  const Status written = state_folder_->Write(state());
  // The job is worth more than what follows its fmirun.
  if (!written.ok() && !std::exchange(is_unnoted_, true))
    Say(fmt::format("no other fmirun will be able to take over: {}", written.message()));
  return !LeaveIfReplaced();
}

JobState Launcher::state() const {
  JobState now;
  now.options = options_;
  now.folder = folder_;
  now.boot = BootOfThisMachine();
  for (const Node& node : nodes_) {
    now.nodes.push_back(
        {node.endpoint, node.task ? node.task->identity() : os::ProcessIdentity(), node.is_dead, node.name, node.shell});
  }
  for (const Rank& rank : ranks_) now.ranks.push_back({static_cast<uint32_t>(rank.node), rank.starts});
  now.epoch = epoch_;
  now.failures = failures_;
  now.has_started = has_started_;
  now.has_finished = has_finished_;
  now.has_ended = has_ended_;
  now.exit_code = exit_code_;
  now.why = why_;
  return now;
}

bool Launcher::LeaveIfReplaced() {
  if (!state_folder_ || !(is_replaced_ || state_folder_->IsReplaced())) return false;
  is_replaced_ = true;
  has_ended_ = true;
  exit_code_ = kReplacedExitCode;
  Say("another fmirun has taken the job over, and this one leaves");
  loop_->Stop();
  return true;
}

void Launcher::EndJob(int code, const std::string& why) {
  if (has_ended_) return;
  has_ended_ = true;
  exit_code_ = code;
  why_ = why;
  if (!Note()) return;
  if (!why.empty()) Say(why);
  loop_->Stop();
}

void Launcher::EndTasks() {
  if (is_replaced_) return;
  os::KillPoint("fmirun.leave");
  SendAll(Of(Kind::kLeave));
  for (Node& node : nodes_) node.request.reset();
  // Who connects from now on is told so, too.
  const Deadline deadline(SystemClock(), kTaskEndMax);
  for (Node& node : nodes_) {
    if (node.task) loop_->Unwatch(node.watch);
  }
  while (HasTasks() && !deadline.Passed()) (void)loop_->RunOnce(kTurn);
  for (Node& node : nodes_) EndTask(&node);
  links_.clear();
  os::KillPoint("fmirun.left");
  if (state_folder_) state_folder_->Remove();
}

bool Launcher::HasTasks() const {
  return std::any_of(nodes_.begin(), nodes_.end(), [](const Node& node) {
    const bool is_linked = node.link != nullptr && !node.link->has_ended();
    return is_linked || (node.task && !node.task->HasEnded());
  });
}

void Launcher::EndTask(Node* node) {
  if (!node->task) return;
  loop_->Unwatch(node->watch);
  node->task->Kill();
  node->task->Reap();
  node->task.reset();
}

}  // namespace kedge::fmi
