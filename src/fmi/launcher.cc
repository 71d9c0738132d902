#include "fmi/launcher.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <utility>

#include "base/clock.h"
#include "fmi/environment.h"

namespace kedge::fmi {
namespace {

constexpr Duration kLookPeriod = std::chrono::milliseconds(20);

void Say(const std::string& what) {
  std::fprintf(stderr, "fmirun: %s\n", what.c_str());
}

}  // namespace

Result<std::unique_ptr<Launcher>> Launcher::Create(LaunchOptions options) {
  KEDGE_ASSIGN_OR_RETURN(Board board, Board::Create(options.ranks));
  KEDGE_ASSIGN_OR_RETURN(auto loop, os::EventLoop::Create());
  return std::unique_ptr<Launcher>(new Launcher(std::move(options), std::move(board), std::move(loop)));
}

Launcher::Launcher(LaunchOptions options, Board board, std::unique_ptr<os::EventLoop> loop)
    : options_(std::move(options)), board_(std::move(board)), loop_(std::move(loop)), ranks_(options_.ranks) {}

int Launcher::Run(const os::EventFd& stop) {
  const auto stopping = loop_->Watch(stop.descriptor(), os::EventLoop::Interest::kRead, [this, &stop](os::Readiness) {
    stop.Drain();
    EndJob(1, "ended by a signal");
  });
  if (!stopping.ok()) return Say(stopping.status().ToString()), 1;
  const auto looking = loop_->AddPeriodic(kLookPeriod, [this] {
    if (is_interrupted_) Look();
  });
  interrupted_ns_ = SystemClock().NowNs();
  StartAll();
  const Status ran = has_ended_ ? Status::Ok() : loop_->Run();
  if (!ran.ok()) EndJob(1, ran.ToString());
  loop_->CancelTimer(looking);
  loop_->Unwatch(*stopping);
  return exit_code_;
}

void Launcher::StartAll() {
  for (uint32_t rank = 0; rank < options_.ranks && !has_ended_; ++rank) Start(rank, /*joins=*/false);
}

void Launcher::Start(uint32_t rank, bool joins) {
  Rank& its = ranks_[rank];
  BoardRow& row = board_.row(rank);
  row.joins = joins ? 1 : 0;
  row.place = Pack(Place{});
  row.loops = 0;
  os::ChildOptions options;
  options.program = options_.command.front();
  options.arguments.assign(options_.command.begin() + 1, options_.command.end());
  options.descriptor = board_.descriptor();
  options.set = {{kRankVariable, std::to_string(rank)},
                 {kRanksVariable, std::to_string(options_.ranks)},
                 {kRespawnsVariable, std::to_string(its.starts)},
                 {kIntervalVariable, std::to_string(options_.interval)},
                 {kBoardVariable, std::to_string(board_.descriptor())}};
  auto child = os::Child::Start(options);
  if (!child.ok()) return EndJob(1, fmt::format("rank {}: {}", rank, child.status().message()));
  ++its.starts;
  its.child = std::move(*child);
  const auto watch =
      loop_->Watch(its.child->descriptor(), os::EventLoop::Interest::kRead, [this, rank](os::Readiness) { OnEnd(rank); });
  if (!watch.ok()) return EndJob(1, watch.status().ToString());
  its.watch = *watch;
}

void Launcher::OnEnd(uint32_t rank) {
  const os::ChildEnd end = ranks_[rank].child->End();
  if (board_.has_finished() || (end.signal == 0 && board_.header().relaunch == 0)) {
    Forget(rank);
    const int code = end.signal != 0 ? 128 + end.signal : end.exit_code;
    if (board_.has_finished() && code != 0) Say(fmt::format("rank {} has ended with code {} after FMI_Finalize", rank, code));
    OnExit(rank, code);
    return;
  }
  const pid_t process_id = ranks_[rank].child->process_id();
  OnFailure(rank, end.signal == 0 ? fmt::format("rank {} cannot go on alone", rank)
                                  : fmt::format("rank {} (process {}) was killed by signal {}", rank, process_id, end.signal));
}

void Launcher::OnExit(uint32_t rank, int code) {
  if (!board_.has_finished() && (code != 0 || HasBegun())) {
    return EndJob(code != 0 ? code : 1, fmt::format("rank {} has ended with code {} before FMI_Finalize", rank, code));
  }
  if (exit_code_ == 0) exit_code_ = code;
  if (std::none_of(ranks_.begin(), ranks_.end(), [](const Rank& other) { return other.child.has_value(); })) {
    has_ended_ = true;
    loop_->Stop();
  }
}

void Launcher::OnFailure(uint32_t rank, const std::string& what) {
  const uint64_t progress = board_.header().progress;
  failures_ = progress > progress_ ? 1 : failures_ + 1;
  progress_ = progress;
  if (failures_ > options_.failures_max) {
    Say(what);
    return EndJob(1, fmt::format("{} failures without a new checkpoint: something other than the machine fails", failures_));
  }
  is_interrupted_ = true;
  interrupted_ns_ = SystemClock().NowNs();
  // The epoch changes before the dead process's id is given away: nobody reads another process's memory under it, and believes
  // it.
  if (!board_.BeginEpoch()) {
    // All had made their last call.
    Forget(rank);
    return OnExit(rank, 1);
  }
  if (board_.header().relaunch == 0 && board_.header().has_checkpoint != 0) {
    Forget(rank);
    Say(what + "; it is started again");
    return Start(rank, /*joins=*/true);
  }
  Say(what + (board_.header().has_checkpoint != 0 ? "" : " before the first checkpoint") + "; all ranks are started again");
  RelaunchAll();
}

void Launcher::Forget(uint32_t rank) {
  Rank& its = ranks_[rank];
  loop_->Unwatch(its.watch);
  its.child->Reap();
  its.child.reset();
}

void Launcher::KillAll() {
  for (const Rank& rank : ranks_) {
    if (rank.child) rank.child->Kill();
  }
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    if (ranks_[rank].child) Forget(rank);
  }
}

void Launcher::RelaunchAll() {
  KillAll();
  // In an epoch in which none of the dead has said where it is.
  KEDGE_CHECK(board_.BeginEpoch());
  board_.header().relaunch = 0;
  board_.header().has_checkpoint = 0;
  StartAll();
}

bool Launcher::HasBegun() const {
  const auto places = board_.places();
  return std::any_of(places.begin(), places.end(), [](Place place) { return place.phase != Phase::kLaunched; });
}

bool Launcher::AnyHasEnded() const {
  return std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return !rank.child; });
}

void Launcher::Look() {
  if (!HasBegun()) return;
  if (AnyHasEnded() && !board_.has_finished())
    return EndJob(1, "a rank has ended without FMI_Init, and others wait for it there");
  const Duration took(SystemClock().NowNs() - interrupted_ns_);
  const auto places = board_.places();
  const std::vector<uint32_t> behind = Missing(Place{board_.epoch(), Phase::kRunning}, places);
  if (behind.empty()) {
    is_interrupted_ = false;
    if (board_.epoch() > 1) Say(fmt::format("all ranks run again after {}", FormatDuration(took)));
  } else if (took > options_.timeout) {
    const std::vector<uint32_t> absent = Missing(Place{board_.epoch(), Phase::kBootstrapping}, places);
    EndJob(1, fmt::format("{} after the {}, rank {} {}", FormatDuration(took), board_.epoch() > 1 ? "failure" : "start",
                          fmt::join(absent.empty() ? behind : absent, ", "),
                          absent.empty() ? "cannot go on" : "has not come to where all go on together"));
  }
}

void Launcher::EndJob(int code, const std::string& why) {
  if (has_ended_) return;
  has_ended_ = true;
  exit_code_ = code;
  Say(why);
  KillAll();
  loop_->Stop();
}

}  // namespace kedge::fmi
