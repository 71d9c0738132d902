#include "fmi/launch/task.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/duration.h"
#include "fmi/environment.h"

namespace kedge::fmi {

using Kind = ControlMessage::Kind;

namespace {

constexpr Duration kAlivePeriod = std::chrono::seconds(1);

}  // namespace

Result<std::unique_ptr<Task>> Task::Create(TaskOptions options) {
  KEDGE_ASSIGN_OR_RETURN(Board board, Board::Create(options.ranks));
  const ByteSpan secret = options.secret.bytes();
  std::copy(secret.begin(), secret.end(), board.header().secret.begin());
  KEDGE_ASSIGN_OR_RETURN(auto loop, os::EventLoop::Create());
  KEDGE_ASSIGN_OR_RETURN(os::TcpSocket socket, os::TcpSocket::Connect(options.fmirun));
  if (!options.is_alone) {
    KEDGE_ASSIGN_OR_RETURN(const os::TcpEndpoint own, socket.Own());
    board.header().address = own.address;
  }
  Connection connection(std::move(socket), options.secret, Speakers{0, options.node, kFmirun});
  std::unique_ptr<Task> task(new Task(std::move(options), std::move(board), std::move(loop)));
  KEDGE_ASSIGN_OR_RETURN(
      task->link_, ControlLink::Create(task->loop_.get(), std::move(connection),
                                       {[] {}, [raw = task.get()](const ControlMessage& message) { raw->OnMessage(message); },
                                        [raw = task.get()](const Status& why) { raw->OnGone(why); }}));
  return task;
}

Task::Task(TaskOptions options, Board board, std::unique_ptr<os::EventLoop> loop)
    : options_(std::move(options)), board_(std::move(board)), loop_(std::move(loop)), ranks_(options_.ranks) {}

Status Task::Run() {
  KEDGE_ASSIGN_OR_RETURN(const auto watch,
                         loop_->Watch(board_.task_bell().descriptor(), os::EventLoop::Interest::kRead, [this](os::Readiness) {
                           board_.task_bell().Drain();
                           Tell();
                         }));
  const auto living = loop_->AddPeriodic(kAlivePeriod, [this] {
    ControlMessage alive;
    alive.kind = Kind::kAlive;
    link_->Send(alive);
  });
  const Status ran = loop_->Run();
  loop_->CancelTimer(living);
  loop_->Unwatch(watch);
  KillAll();
  return ran.ok() ? ended_ : ran;
}

void Task::OnGone(const Status& why) {
  if (!link_->was_open()) {
    const os::TcpEndpoint& fmirun = options_.fmirun;
    ended_ = why.WithContext(fmt::format("fmirun is not reached at {}:{}", os::AddressText(fmirun.address), fmirun.port));
  }
  loop_->Stop();
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
    case Kind::kShared:
    case Kind::kEnded:
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
  options.set = options_.variables;
  options.set.insert(options.set.end(), {{kRankVariable, std::to_string(rank)},
                                         {kRanksVariable, std::to_string(options_.ranks)},
                                         {kRespawnsVariable, std::to_string(message.start - 1)},
                                         {kIntervalVariable, std::to_string(options_.interval)},
                                         {kBoardVariable, std::to_string(board_.descriptor())}});
  its.start = message.start;
  its.has_ended = false;
  ControlMessage ended;
  ended.kind = Kind::kEnded;
  ended.rank = rank;
  ended.start = its.start;
  ended.exit_code = 1;
  auto child = os::Child::Start(options);
  if (!child.ok()) {
    Say(fmt::format("rank {}: {}", rank, child.status().message()));
    return link_->Send(ended);
  }
  its.child = std::move(*child);
  const auto watch =
      loop_->Watch(its.child->descriptor(), os::EventLoop::Interest::kRead, [this, rank](os::Readiness) { OnEnd(rank); });
  if (!watch.ok()) return link_->Send(ended);
  its.watch = *watch;
}

void Task::OnEnd(uint32_t rank) {
  Tell();
  Rank& its = ranks_[rank];
  const os::ChildEnd end = its.child->End();
  loop_->Unwatch(its.watch);
  its.has_ended = true;
  ControlMessage ended;
  ended.kind = Kind::kEnded;
  ended.rank = rank;
  ended.start = its.start;
  ended.process_id = its.child->process_id();
  ended.exit_code = end.exit_code;
  ended.signal = end.signal;
  link_->Send(ended);
}

void Task::Forget(uint32_t rank) {
  Rank& its = ranks_[rank];
  if (!its.child) return;
  if (!its.has_ended) loop_->Unwatch(its.watch);
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
    ControlMessage now;
    now.kind = Kind::kRow;
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
  ControlMessage shared;
  shared.kind = Kind::kShared;
  shared.progress = board_.header().progress;
  shared.has_checkpoint = board_.header().has_checkpoint != 0 ? 1 : 0;
  shared.relaunch = board_.header().relaunch != 0 ? 1 : 0;
  if (shared == told_shared_) return;
  told_shared_ = shared;
  link_->Send(shared);
}

}  // namespace kedge::fmi
