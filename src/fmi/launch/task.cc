#include "fmi/launch/task.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/duration.h"
#include "fmi/environment.h"
#include "fmi/launch/state_folder.h"
#include "os/process/process.h"

namespace kedge::fmi {

using Kind = ControlMessage::Kind;

namespace {

constexpr Duration kAlivePeriod = std::chrono::seconds(1);
constexpr Duration kAskPeriod = std::chrono::seconds(1);
constexpr size_t kCallersMax = 16;
// Of a task or a rank: a bell and a connection for each rank, and what else it has open.
constexpr uint64_t kDescriptorsPerRank = 2;
constexpr uint64_t kDescriptors = 512;

}  // namespace

Result<std::unique_ptr<Task>> Task::Create(TaskOptions options) {
  KEDGE_RETURN_IF_ERROR(os::AllowDescriptors(kDescriptors + kDescriptorsPerRank * uint64_t{options.ranks}));
  KEDGE_ASSIGN_OR_RETURN(Board board, Board::Create(options.ranks));
  const ByteSpan secret = options.secret.bytes();
  std::copy(secret.begin(), secret.end(), board.header().secret.begin());
  board.header().secrecy = options.seals_messages ? Secrecy::kSealed : Secrecy::kClear;
  KEDGE_ASSIGN_OR_RETURN(auto loop, os::EventLoop::Create());
  std::unique_ptr<Task> task(new Task(std::move(options), std::move(board), std::move(loop)));
  KEDGE_RETURN_IF_ERROR(task->Connect());
  return task;
}

Task::Task(TaskOptions options, Board board, std::unique_ptr<os::EventLoop> loop)
    : options_(std::move(options)),
      board_(std::move(board)),
      loop_(std::move(loop)),
      fmirun_(options_.fmirun),
      ranks_(options_.ranks) {}

Status Task::Connect() {
  KEDGE_ASSIGN_OR_RETURN(os::TcpSocket socket, os::TcpSocket::Connect(fmirun_));
  if (!options_.is_alone) {
    KEDGE_ASSIGN_OR_RETURN(const os::TcpEndpoint own, socket.Own());
    board_.header().address = own.address;
  }
  ProcessConnection connection(std::move(socket), options_.secret, Secrecy::kSealed, Speakers{0, options_.node, kFmirun});
  KEDGE_ASSIGN_OR_RETURN(
      link_, ControlLink::Create(loop_.get(), std::move(connection),
                                 {[this] { OnOpened(); }, [this](const ControlMessage& message) { OnMessage(message); },
                                  [this](const Status& why) { OnGone(why); }}));
  return Status::Ok();
}

Status Task::Run() {
  KEDGE_ASSIGN_OR_RETURN(const auto watch,
                         loop_->Watch(board_.task_bell().descriptor(), os::EventLoop::Interest::kRead, [this](os::Readiness) {
                           board_.task_bell().Drain();
                           Tell();
                         }));
  const auto living = loop_->AddPeriodic(kAlivePeriod, [this] { link_->Send(Of(Kind::kAlive)); });
  const Status ran = loop_->Run();
  loop_->CancelTimer(living);
  loop_->Unwatch(watch);
  EndWait();
  loop_->Unwatch(accepting_);
  KillAll();
  return ran.ok() ? ended_ : ran;
}

void Task::OnOpened() {
  if (options_.orphan_timeout == Duration::zero()) return;
  ControlMessage listens = Of(Kind::kListens);
  const auto endpoint = Listen();
  if (endpoint.ok()) listens.endpoint = Pack(*endpoint);
  if (!endpoint.ok())
    Say(fmt::format("the task of node {} will not outlive fmirun: {}", options_.node, endpoint.status().message()));
  link_->Send(listens);
}

Result<os::TcpEndpoint> Task::Listen() {
  KEDGE_ASSIGN_OR_RETURN(const os::TcpEndpoint own, link_->connection().socket().Own());
  KEDGE_ASSIGN_OR_RETURN(os::TcpListener listener, os::TcpListener::Listen(own.address));
  KEDGE_ASSIGN_OR_RETURN(
      accepting_, loop_->Watch(listener.descriptor(), os::EventLoop::Interest::kRead, [this](os::Readiness) { Accept(); }));
  listener_.emplace(std::move(listener));
  return os::TcpEndpoint{own.address, listener_->port()};
}

void Task::Accept() {
  auto socket = listener_->Accept();
  if (!socket.ok() || !*socket) return;
  std::erase_if(callers_, [](const auto& caller) { return caller->has_ended(); });
  // Who has not proved the secret yet waits in vain where there are many of them.
  if (callers_.size() >= kCallersMax) callers_.erase(callers_.begin());
  // The events know the link by what is put here once it is there.
  auto self = std::make_shared<ControlLink*>(nullptr);
  auto link =
      ControlLink::Create(loop_.get(), ProcessConnection(std::move(**socket), options_.secret, Secrecy::kSealed, options_.node),
                          {[this, self] { OnSuccessor(*self); },
                           [this, self](const ControlMessage& message) {
                             if (*self == link_.get()) OnMessage(message);
                           },
                           [this, self](const Status& why) {
                             if (*self == link_.get()) OnGone(why);
                           }});
  if (!link.ok()) return;
  *self = link->get();
  callers_.push_back(std::move(*link));
}

void Task::OnSuccessor(ControlLink* link) {
  const Speakers& speakers = link->connection().speakers();
  const ControlMessage replaced = Of(Kind::kReplaced);
  if (speakers.from != kFmirun || speakers.epoch <= number_) {
    link->Send(replaced);
    return link->End();
  }
  number_ = speakers.epoch;
  EndWait();
  link_->Send(replaced);
  link_->End();
  const auto caller = std::find_if(callers_.begin(), callers_.end(), [&](const auto& one) { return one.get() == link; });
  std::swap(link_, *caller);
  Report();
}

void Task::Report() {
  ControlMessage state = Of(Kind::kState);
  state.epoch = board_.epoch();
  state.has_finished = board_.has_finished() ? 1 : 0;
  link_->Send(state);
  told_shared_ = ControlMessage();
  for (Rank& rank : ranks_) rank.told = ControlMessage();
  Tell();
  for (const Rank& rank : ranks_) {
    if (rank.ended) link_->Send(*rank.ended);
  }
  link_->Send(Of(Kind::kReported));
}

void Task::OnGone(const Status& why) {
  if (!link_->was_open()) {
    ended_ = why.WithContext(fmt::format("fmirun is not reached at {}:{}", os::AddressText(fmirun_.address), fmirun_.port));
  }
  if (!outlives_ || is_orphan()) return loop_->Stop();
  awaiting_ = loop_->AddTimer(options_.orphan_timeout, [this] {
    ended_ = Status(Code::kTimeout, fmt::format("no fmirun has taken over node {} within {}, and its ranks end", options_.node,
                                                FormatDuration(options_.orphan_timeout)));
    StateFolder::RemoveLeft(options_.state);
    loop_->Stop();
  });
  if (options_.node == 0)
    Say(fmt::format("fmirun is gone, and the ranks run on: fmirun --take-over {} goes on within {}", options_.state,
                    FormatDuration(options_.orphan_timeout)));
  asking_ = loop_->AddPeriodic(kAskPeriod, [this] { AskFormer(); });
  AskFormer();
}

void Task::AskFormer() {
  if (former_ && !former_->has_ended()) return;
  former_.reset();
  auto socket = os::TcpSocket::Connect(fmirun_);
  if (!socket.ok()) return;
  auto link = ControlLink::Create(
      loop_.get(),
      ProcessConnection(std::move(*socket), options_.secret, Secrecy::kSealed, Speakers{number_, options_.node, kFmirun}),
      {[] {},
       [this](const ControlMessage& message) {
         if (message.kind == Kind::kLeave) loop_->Stop();
       },
       [](const Status&) {}});
  if (link.ok()) former_ = std::move(*link);
}

void Task::EndWait() {
  if (!is_orphan()) return;
  loop_->CancelTimer(*std::exchange(awaiting_, std::nullopt));
  loop_->CancelTimer(asking_);
  former_.reset();
}

void Task::OnMessage(const ControlMessage& message) {
  if (message.rank >= ranks_.size()) return;
  BoardRow& row = board_.row(message.rank);
  switch (message.kind) {
    case Kind::kRow:
      row.endpoint = message.endpoint;
      row.loops = message.loops;
      return board_.SetPlace(message.rank, Unpack(message.place));
    case Kind::kState:
      if (message.has_checkpoint != 0) board_.header().has_checkpoint = 1;
      return board_.SetEpoch(message.epoch, message.has_finished != 0);
    case Kind::kHere: row.is_here = 1; return;
    case Kind::kStart: return Start(message);
    case Kind::kKillAll:
      KillAll();
      board_.header().relaunch = 0;
      board_.header().has_checkpoint = 0;
      return;
    case Kind::kKept:
      // A successor is reached where it has come from.
      if (message.endpoint != 0) fmirun_ = UnpackEndpoint(message.endpoint);
      outlives_ = true;
      return;
    case Kind::kLeave: return loop_->Stop();
    case Kind::kShared:
    case Kind::kEnded:
    case Kind::kListens:
    case Kind::kReported:
    case Kind::kReplaced:
    case Kind::kAlive: return;
  }
}

void Task::Start(const ControlMessage& message) {
  const uint32_t rank = message.rank;
  // The epoch has changed since its predecessor ended: nobody reads another process's memory under its id, and believes it.
  Forget(rank);
  Rank& its = ranks_[rank];
  BoardRow& row = board_.row(rank);
  row.joins = message.joins;
  row.place = Pack(Place{});
  row.loops = 0;
  row.lost = 0;
  os::ChildOptions options;
  options.program = options_.command.front();
  options.arguments.assign(options_.command.begin() + 1, options_.command.end());
  options.descriptors = board_.descriptors();
  options.ignores_broken_pipes = options_.has_shell && outlives_;
  options.set = options_.variables;
  options.set.insert(options.set.end(), {{kRankVariable, std::to_string(rank)},
                                         {kRanksVariable, std::to_string(options_.ranks)},
                                         {kRespawnsVariable, std::to_string(message.start - 1)},
                                         {kIntervalVariable, std::to_string(options_.interval)},
                                         {kBoardVariable, std::to_string(board_.descriptor())}});
  its.start = message.start;
  ControlMessage ended;
  ended.exit_code = 1;
  auto child = os::Child::Start(options);
  if (!child.ok()) {
    Say(fmt::format("rank {}: {}", rank, child.status().message()));
    return NoteEnd(rank, ended);
  }
  its.child = std::move(*child);
  const auto watch =
      loop_->Watch(its.child->descriptor(), os::EventLoop::Interest::kRead, [this, rank](os::Readiness) { OnEnd(rank); });
  if (!watch.ok()) return NoteEnd(rank, ended);
  its.watch = *watch;
}

void Task::OnEnd(uint32_t rank) {
  Tell();
  Rank& its = ranks_[rank];
  const os::ChildEnd end = its.child->End();
  loop_->Unwatch(its.watch);
  ControlMessage ended;
  ended.process_id = its.child->process_id();
  ended.exit_code = end.exit_code;
  ended.signal = end.signal;
  NoteEnd(rank, ended);
}

void Task::NoteEnd(uint32_t rank, const ControlMessage& ended) {
  Rank& its = ranks_[rank];
  its.ended = ended;
  its.ended->kind = Kind::kEnded;
  its.ended->rank = rank;
  its.ended->start = its.start;
  link_->Send(*its.ended);
}

void Task::Forget(uint32_t rank) {
  Rank& its = ranks_[rank];
  const bool has_ended = std::exchange(its.ended, std::nullopt).has_value();
  if (!its.child) return;
  if (!has_ended) loop_->Unwatch(its.watch);
  // Where a fmirun has died while it started ranks again, its successor does so with some that have not ended.
  its.child->Kill();
  its.child->Reap();
  its.child.reset();
}

void Task::KillAll() {
  for (const Rank& rank : ranks_) {
    if (rank.child) rank.child->Kill();
  }
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank) Forget(rank);
}

void Task::Tell() {
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    Rank& its = ranks_[rank];
    if (!its.child) continue;
    const BoardRow& row = board_.row(rank);
    ControlMessage now = Of(Kind::kRow);
    now.rank = rank;
    now.start = its.start;
    now.place = row.place;
    now.loops = row.loops;
    now.endpoint = row.endpoint;
    now.epoch = row.lost;
    // Loops go with the place: alone they tell nobody anything.
    if (now.place == its.told.place && now.epoch == its.told.epoch && now.start == its.told.start) continue;
    its.told = now;
    link_->Send(now);
  }
  ControlMessage shared = Of(Kind::kShared);
  shared.progress = board_.header().progress;
  shared.has_checkpoint = board_.header().has_checkpoint != 0 ? 1 : 0;
  shared.relaunch = board_.header().relaunch != 0 ? 1 : 0;
  if (shared == told_shared_) return;
  told_shared_ = shared;
  link_->Send(shared);
}

}  // namespace kedge::fmi
