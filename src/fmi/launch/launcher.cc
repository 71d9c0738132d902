#include "fmi/launch/launcher.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/clock.h"
#include "fmi/environment.h"
#include "os/events/poll_set.h"
#include "os/process/exec_words.h"
#include "os/process/folder.h"

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

Result<std::unique_ptr<Launcher>> Launcher::Create(LaunchOptions options) {
  KEDGE_ASSIGN_OR_RETURN(auto loop, os::EventLoop::Create());
  KEDGE_ASSIGN_OR_RETURN(os::TcpListener listener,
                         os::TcpListener::Listen(options.shell.empty() ? os::kLoopback : options.address));
  KEDGE_ASSIGN_OR_RETURN(std::string folder, os::CurrentFolder());
  return std::unique_ptr<Launcher>(new Launcher(std::move(options), std::move(folder), std::move(loop), std::move(listener)));
}

Launcher::Launcher(LaunchOptions options, std::string folder, std::unique_ptr<os::EventLoop> loop, os::TcpListener listener)
    : options_(std::move(options)),
      folder_(std::move(folder)),
      loop_(std::move(loop)),
      listener_(std::move(listener)),
      nodes_(std::max<size_t>(1, options_.nodes.size())),
      ranks_(options_.ranks) {
  for (size_t node = 0; node < options_.nodes.size(); ++node) nodes_[node].name = options_.nodes[node];
  Spread();
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
  for (size_t node = 0; node < nodes_.size() && !has_ended_; ++node) {
    if (const Status status = StartTask(node); !status.ok()) EndJob(1, status.message());
  }
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

Status Launcher::StartTask(size_t node) {
  os::ChildOptions options;
  const TaskOptions task = TaskOf(node);
  if (options_.shell.empty()) {
    options.program = options_.program;
    options.arguments = {"--task"};
  } else {
    options = OnNode(node, {options_.program, "--task"});
  }
  options.set = task.variables;
  options.input = Encode(task);
  KEDGE_ASSIGN_OR_RETURN(nodes_[node].task, os::Child::Start(options));
  KEDGE_ASSIGN_OR_RETURN(nodes_[node].watch, loop_->Watch(nodes_[node].task->descriptor(), os::EventLoop::Interest::kRead,
                                                          [this, node](os::Readiness) { OnNodeEnd(node, WhyTaskEnded(node)); }));
  return Status::Ok();
}

os::ChildOptions Launcher::OnNode(size_t node, std::initializer_list<std::string> words) const {
  os::ChildOptions options;
  options.program = "sh";
  options.arguments = {"-c", "exec " + options_.shell + " \"$@\"", "sh", nodes_[node].name};
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
  task.is_alone = nodes_.size() == 1;
  task.interval = options_.interval;
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
  const auto is_stranger = [](const auto& link) { return !link->was_open(); };
  if (static_cast<size_t>(std::count_if(links_.begin(), links_.end(), is_stranger)) >= nodes_.size() + kStrangersMax)
    links_.erase(std::find_if(links_.begin(), links_.end(), is_stranger));
  // The events know the link by what is put here once it is there.
  auto self = std::make_shared<ControlLink*>(nullptr);
  auto link = ControlLink::Create(
      loop_.get(), Connection(std::move(**socket), secret_, kFmirun),
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
  // A node that has been given up is not let in later on.
  if (node >= nodes_.size() || nodes_[node].link != nullptr || nodes_[node].is_dead) return link->End();
  nodes_[node].link = link;
  if (silence_) silence_->OnHeard(node);
  StartWhenReady();
}

void Launcher::StartWhenReady() {
  const bool all = std::all_of(nodes_.begin(), nodes_.end(), [](const Node& one) { return one.link != nullptr || one.is_dead; });
  if (!all || has_started_) return;
  if (const Status status = CheckAddresses(); !status.ok()) return EndJob(1, status.message());
  has_started_ = true;
  TellState();
  StartAll();
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
  if (message.kind == Kind::kShared) {
    has_checkpoint_ = has_checkpoint_ || message.has_checkpoint != 0;
    relaunch_ = relaunch_ || message.relaunch != 0;
    // Checkpoints are counted on the board of rank 0, wherever that is.
    if (message.progress > std::exchange(nodes_[node].progress, message.progress)) ++progress_;
    return;
  }
  // Of a former process of the rank: nothing any more.
  Rank& its = ranks_[message.rank];
  if (its.node != node || message.start != its.starts || !its.runs) return;
  if (message.kind == Kind::kRow) OnRow(message);
  if (message.kind == Kind::kEnded) OnEnd(message);
}

void Launcher::OnRow(const ControlMessage& message) {
  ranks_[message.rank].row = message;
  for (size_t node = 0; node < nodes_.size(); ++node) {
    if (node != ranks_[message.rank].node && nodes_[node].link != nullptr) nodes_[node].link->Send(message);
  }
  if (message.epoch == epoch_) OnLost(message.rank, message.epoch);
  if (!has_finished_ && Missing(Place{epoch_, Phase::kLeaving}, places()).empty()) {
    has_finished_ = true;
    TellState();
  }
}

void Launcher::OnLost(uint32_t rank, uint32_t epoch) {
  loop_->AddTimer(kDoubt, [this, rank, epoch] {
    if (has_ended_ || has_finished_ || epoch_ != epoch) return;
    OnFailure({}, fmt::format("rank {} has lost a connection", rank));
  });
}

void Launcher::StartAll() {
  std::vector<uint32_t> all;
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank) all.push_back(rank);
  Start(all, /*joins=*/false);
}

void Launcher::Start(const std::vector<uint32_t>& ranks, bool joins) {
  // All of them are known to be there before one of them looks who is.
  for (const Kind kind : {Kind::kHere, Kind::kStart}) {
    for (const uint32_t rank : ranks) {
      Rank& its = ranks_[rank];
      ControlMessage message;
      message.kind = kind;
      message.rank = rank;
      message.joins = joins ? 1 : 0;
      if (kind == Kind::kStart) {
        message.start = ++its.starts;
        its.runs = true;
        its.row = ControlMessage();
      }
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
  if (std::none_of(ranks_.begin(), ranks_.end(), [](const Rank& other) { return other.runs; })) {
    has_ended_ = true;
    loop_->Stop();
  }
}

void Launcher::OnNodeEnd(size_t node, const std::string& why) {
  Node& its = nodes_[node];
  if (has_ended_ || std::exchange(its.is_dead, true)) return;
  // Whatever goes on there ends when its task sees this.
  if (its.link != nullptr) std::exchange(its.link, nullptr)->End();
  if (silence_) silence_->Forget(node);
  EndTask(&its);
  std::string what = its.name.empty() ? fmt::format("the task of this node is gone: {}", why)
                                      : fmt::format("node {} is gone: {}", its.name, why);
  std::vector<uint32_t> ranks;
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    if (ranks_[rank].node == node && (ranks_[rank].runs || !has_started_)) ranks.push_back(rank);
  }
  if (ranks.empty()) {
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
  const std::optional<size_t> spare = FindSpare();
  if (!spare) return EndJob(1, fmt::format("{}, and no spare node is left for rank {}", what, fmt::join(ranks, ", ")));
  for (Rank& rank : ranks_) {
    if (rank.node == node) rank.node = *spare;
  }
  what += fmt::format("; node {} takes rank {}", nodes_[*spare].name, fmt::join(ranks, ", "));
  if (has_started_) return OnFailure(ranks, what);
  Say(what);
  StartWhenReady();
}

std::optional<size_t> Launcher::FindSpare() const {
  for (size_t node = 0; node < nodes_.size(); ++node) {
    // One that has not answered yet may still do so.
    const bool is_there = !nodes_[node].is_dead && (nodes_[node].link != nullptr || !has_started_);
    if (is_there && std::none_of(ranks_.begin(), ranks_.end(), [&](const Rank& rank) { return rank.node == node; })) return node;
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
    BeginEpoch();
    Say(what + (ranks.empty()       ? "; all go back to the last checkpoint"
                : ranks.size() == 1 ? "; it is started again"
                                    : "; they are started again"));
    return Start(ranks, /*joins=*/true);
  }
  Say(what + (has_checkpoint_ ? "; all ranks are started again"
                              : " before the first checkpoint; all ranks are started again, from the begin: "
                                "a program that calls FMI_Loop at the head of its main loop goes back to a checkpoint"));
  RelaunchAll();
}

void Launcher::RelaunchAll() {
  ControlMessage message;
  message.kind = Kind::kKillAll;
  SendAll(message);
  relaunch_ = false;
  has_checkpoint_ = false;
  BeginEpoch();
  StartAll();
}

void Launcher::BeginEpoch() {
  ++epoch_;
  TellState();
}

void Launcher::TellState() {
  ControlMessage message;
  message.kind = Kind::kState;
  message.epoch = epoch_;
  message.has_finished = has_finished_ ? 1 : 0;
  message.has_checkpoint = has_checkpoint_ ? 1 : 0;
  SendAll(message);
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
  const Duration took(SystemClock().NowNs() - interrupted_ns_);
  if (!has_started_) {
    for (size_t node = 0; node < nodes_.size() && took > kTaskStartMax; ++node) {
      if (nodes_[node].link == nullptr) OnNodeEnd(node, "its task does not answer");
    }
    return;
  }
  if (!HasBegun()) return;
  if (!has_finished_ && std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return !rank.runs; }))
    return EndJob(1, "a rank has ended without FMI_Init, and others wait for it there");
  const std::vector<uint32_t> behind = Missing(Place{epoch_, Phase::kRunning}, places());
  if (behind.empty()) {
    is_interrupted_ = false;
    if (epoch_ > 1) Say(fmt::format("all ranks run again after {}", FormatDuration(took)));
  } else if (took > options_.timeout) {
    const std::vector<uint32_t> absent = Missing(Place{epoch_, Phase::kBootstrapping}, places());
    EndJob(1, fmt::format("{} after the {}, rank {} {}", FormatDuration(took), epoch_ > 1 ? "failure" : "start",
                          fmt::join(absent.empty() ? behind : absent, ", "),
                          absent.empty() ? "cannot go on" : "has not come to where all go on together"));
  }
}

void Launcher::EndJob(int code, const std::string& why) {
  if (has_ended_) return;
  has_ended_ = true;
  exit_code_ = code;
  Say(why);
  loop_->Stop();
}

void Launcher::EndTasks() {
  // Tasks end when they find that they are let go of, and shells when they have passed on what came from there.
  links_.clear();
  const Deadline deadline(SystemClock(), kTaskEndMax);
  for (Node& node : nodes_) {
    if (node.task) (void)os::WaitReadable({node.task->descriptor()}, deadline.Remaining());
    EndTask(&node);
  }
}

void Launcher::EndTask(Node* node) {
  if (!node->task) return;
  loop_->Unwatch(node->watch);
  node->task->Kill();
  node->task->Reap();
  node->task.reset();
}

}  // namespace kedge::fmi
