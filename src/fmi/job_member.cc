#include "fmi/job_member.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/log.h"
#include "fmi/environment.h"
#include "os/memory/other_process.h"
#include "os/process/kill_point.h"
#include "os/process/signals.h"

namespace kedge::fmi {
namespace {

constexpr int kOpensMax = 5;

Result<int64_t> NumberIn(const char* name, int64_t least) {
  const char* text = std::getenv(name);
  if (text == nullptr)
    return Status(Code::kFailedPrecondition, "this process is not started by fmirun: " + std::string(name) + " is not set");
  const std::string_view digits = text;
  int64_t number = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (read.ec == std::errc() && read.ptr == digits.data() + digits.size() && number >= least) return number;
  return Status(Code::kInvalidArgument, fmt::format("{} is \"{}\", which is no number from {} on", name, text, least));
}

}  // namespace

Result<JobMember::Options> JobMember::FromEnvironment() {
  Options options;
  KEDGE_ASSIGN_OR_RETURN(const int64_t rank, NumberIn(kRankVariable, 0));
  KEDGE_ASSIGN_OR_RETURN(const int64_t descriptor, NumberIn(kBoardVariable, 0));
  KEDGE_ASSIGN_OR_RETURN(options.interval, NumberIn(kIntervalVariable, kWhenDue));
  options.rank = static_cast<uint32_t>(rank);
  options.descriptor = static_cast<int>(descriptor);
  return options;
}

Result<std::unique_ptr<JobMember>> JobMember::Attach(const Options& options) {
  KEDGE_ASSIGN_OR_RETURN(Board board, Board::Attach(options.descriptor));
  if (options.rank >= board.ranks()) {
    return Status(Code::kInvalidArgument, fmt::format("{} is {} of {} ranks", kRankVariable, options.rank, board.ranks()));
  }
  std::unique_ptr<JobMember> job(new JobMember(std::move(board), options));
  KEDGE_RETURN_IF_ERROR(job->messenger_.Listen());
  return job;
}

JobMember::JobMember(Board board, const Options& options)
    : board_(std::move(board)),
      options_(options),
      probe_(options.rank),
      messenger_(&board_, options.rank),
      objects_(&messenger_),
      own_collectives_(CommunicatorChannel(&messenger_, Context::kCheckpoint)),
      checkpoints_(&own_collectives_, &objects_) {
  os::AllowReadingBy(os::ParentProcess());
  BoardRow& row = board_.row(options.rank);
  row.process_id = os::ThisProcess();
  row.probe_address = reinterpret_cast<uint64_t>(&probe_);
  row.loops = 0;
  row.sleeps = 0;
}

Status JobMember::Begin() {
  // The others have their memory, and wait in FMI_Loop.
  if (board_.row(options_.rank).joins != 0) return Status::Ok();
  return Enter([] { return Status::Ok(); });
}

uint32_t JobMember::FirstRankHere() const {
  uint32_t rank = 0;
  while (!board_.is_here(rank)) ++rank;
  return rank;
}

Status JobMember::Enter(const std::function<Status()>& connect) {
  messenger_.Adopt(board_.epoch());
  packed_messages_.Clear();
  freed_requests_.Clear();
  objects_.requests.ForEach([](PersistentRequest& request) { request.End(); });
  KEDGE_RETURN_IF_ERROR(Reach(Phase::kBootstrapping));
  os::KillPoint("fmi.h1");
  KEDGE_RETURN_IF_ERROR(ReachNeighbour());
  KEDGE_RETURN_IF_ERROR(connect());
  KEDGE_RETURN_IF_ERROR(Reach(Phase::kConnecting));
  os::KillPoint("fmi.h2");
  board_.SetPlace(options_.rank, {messenger_.epoch(), Phase::kRunning});
  return Status::Ok();
}

Status JobMember::Reach(Phase phase) {
  const Place own{messenger_.epoch(), phase};
  board_.SetPlace(options_.rank, own);
  Step step = Step::kWait;
  board_.Await(options_.rank, [&] {
    step = NextStep(own, board_.epoch(), board_.places());
    return step != Step::kWait;
  });
  return step == Step::kBroken ? Status(Code::kUnavailable, "a rank has died") : Status::Ok();
}

Status JobMember::ReachNeighbour() {
  // The next one of this node, which may be itself.
  uint32_t neighbour = (options_.rank + 1) % board_.ranks();
  while (!board_.is_here(neighbour)) neighbour = (neighbour + 1) % board_.ranks();
  const BoardRow& row = board_.row(neighbour);
  uint64_t number = 0;
  const Status status = os::ReadOtherMemory(row.process_id, row.probe_address, &number, sizeof number);
  // Whose process has ended is known to all in a moment.
  if (status.code() == Code::kNotFound) board_.Await(options_.rank, [&] { return messenger_.is_broken(); });
  if (messenger_.is_broken()) return Status(Code::kUnavailable, "a rank has died");
  if (!status.ok()) {
    return Status(Code::kPermission, fmt::format("the memory of rank {} cannot be read, so long messages cannot be sent: {}",
                                                 neighbour, status.message()));
  }
  KEDGE_CHECK(number == neighbour);
  return Status::Ok();
}

Result<int64_t> JobMember::Loop(const Arrays& arrays) {
  for (;;) {
    Status status;
    if (messenger_.is_broken()) {
      status = Recover(arrays);
    } else if (!step_) {
      status = FirstStep(arrays);
    } else if (inner_.is_spoilt) {
      status = BeginAgain(arrays);
    } else {
      status = Advance(arrays);
    }
    // An error that a failure has caused is none.
    if (messenger_.is_broken()) continue;
    if (!status.ok()) return status;
    return *step_;
  }
}

Status JobMember::Advance(const Arrays& arrays) {
  ++*step_;
  ++board_.row(options_.rank).loops;
  const bool is_wanted = std::exchange(inner_, {}).wants_one;
  KEDGE_ASSIGN_OR_RETURN(const bool is_due, IsDue(*step_));
  return is_due || is_wanted ? TakeCheckpoint(arrays) : Status::Ok();
}

Result<bool> JobMember::IsDue(int64_t number) {
  if (options_.interval == kWhenDue) return checkpoints_.IsDue();
  return number % options_.interval == 0;
}

Status JobMember::Recover(const Arrays& arrays) {
  step_.reset();
  inner_ = {};
  checkpoints_.Close();
  return Enter([&]() -> Status {
    KEDGE_RETURN_IF_ERROR(Restore(arrays));
    // Others have their memory from before the first step, and what they had sent for it is gone.
    if (!step_) RelaunchAll();
    return Status::Ok();
  });
}

Status JobMember::OpenCheckpoints() {
  for (int tries = 1;; ++tries) {
    const Status own = checkpoints_.Open();
    const auto code = static_cast<uint32_t>(own.code());
    std::vector<uint32_t> all(board_.ranks());
    KEDGE_RETURN_IF_ERROR(own_collectives_.Allgather(&code, all.data(), sizeof code));
    const auto is_well = [](uint32_t its) { return its == static_cast<uint32_t>(Code::kOk); };
    const auto failed = std::find_if_not(all.begin(), all.end(), is_well);
    if (failed == all.end()) return Status::Ok();
    // An agent that has died meanwhile has a successor then.
    const auto may_pass = [&](uint32_t its) { return is_well(its) || its == static_cast<uint32_t>(Code::kUnavailable); };
    if (tries == kOpensMax || !std::all_of(all.begin(), all.end(), may_pass)) {
      return own.ok() ? Status(static_cast<Code>(*failed), fmt::format("rank {} cannot begin", failed - all.begin())) : own;
    }
    checkpoints_.Close();
  }
}

Status JobMember::Restore(const Arrays& arrays) {
  KEDGE_RETURN_IF_ERROR(OpenCheckpoints());
  os::KillPoint("fmi.restore");
  KEDGE_RETURN_IF_ERROR(BringBack(arrays));
  inner_.is_restored = step_.has_value();
  return Status::Ok();
}

Status JobMember::BringBack(const Arrays& arrays) {
  KEDGE_ASSIGN_OR_RETURN(step_, checkpoints_.Restore(arrays));
  if (step_) board_.row(options_.rank).loops = static_cast<uint64_t>(*step_) + 1;
  return Status::Ok();
}

Status JobMember::FirstStep(const Arrays& arrays) {
  KEDGE_RETURN_IF_ERROR(Restore(arrays));
  if (!step_) {
    step_ = 0;
    board_.row(options_.rank).loops = 1;
    KEDGE_RETURN_IF_ERROR(TakeCheckpoint(arrays));
  }
  KEDGE_RETURN_IF_ERROR(own_collectives_.Barrier());
  board_.header().has_checkpoint = 1;
  board_.RingTask();
  return Status::Ok();
}

Result<std::vector<uint64_t>> JobMember::Agree(const std::string& loop, uint64_t number, uint64_t identity) {
  struct Call {
    char loop[kInnerLoopNameMax + 1];
    uint64_t number;
    uint64_t identity;
  };
  Call own{{}, number, identity};
  loop.copy(own.loop, kInnerLoopNameMax);
  std::vector<Call> all(board_.ranks());
  KEDGE_RETURN_IF_ERROR(own_collectives_.Allgather(&own, all.data(), sizeof own));
  const auto described = [](const Call& call, uint32_t rank) {
    return call.loop[0] == '\0' ? fmt::format("call {} of rank {}", call.number, rank)
                                : fmt::format("call {} of {} on rank {}", call.number, call.loop, rank);
  };
  std::vector<uint64_t> identities;
  for (uint32_t rank = 0; rank < all.size(); ++rank) {
    const Call& its = all[rank];
    if (its.number != number || loop != its.loop) {
      return Status(Code::kMismatch, fmt::format("this is {}, and {}", described(own, options_.rank), described(its, rank)));
    }
    identities.push_back(its.identity);
  }
  return identities;
}

Status JobMember::TakeCheckpoint(const Arrays& arrays) {
  KEDGE_ASSIGN_OR_RETURN(const auto identities, Agree("", board_.row(options_.rank).loops, Checkpoints::NewIdentity()));
  const uint64_t identity = identities.front();
  os::KillPoint("fmi.checkpoint");
  const Status taken = checkpoints_.Take(arrays, *step_, identity);
  if (taken.ok()) {
    inner_.identity = identity;
    CountCheckpoint();
    return taken;
  }
  // Without a first one nobody could go back.
  if (board_.header().has_checkpoint == 0) return taken;
  Warn(fmt::format("step {}", *step_), taken);
  return Status::Ok();
}

void JobMember::CountCheckpoint() {
  if (options_.rank != 0) return;
  ++board_.header().progress;
  board_.RingTask();
}

void JobMember::Warn(const std::string& of, const Status& why) const {
  LogWarning("fmi", "rank {}: the checkpoint of {} has failed, and the one before stays: {}", options_.rank, of, why.message());
}

Result<std::optional<int64_t>> JobMember::InnerLoop(const std::string& loop, const Arrays& arrays) {
  if (messenger_.is_broken()) return std::optional<int64_t>();
  if (!step_) return Status(Code::kFailedPrecondition, "it is called within a step of FMI_Loop");
  const Status status = inner_.numbers.contains(loop) ? AdvanceInner(loop, arrays) : BeginInner(loop, arrays);
  if (messenger_.is_broken() || inner_.is_spoilt) return std::optional<int64_t>();
  KEDGE_RETURN_IF_ERROR(status);
  return std::optional<int64_t>(inner_.numbers.at(loop));
}

Status JobMember::BeginAgain(const Arrays& arrays) {
  inner_ = {};
  KEDGE_RETURN_IF_ERROR(BringBack(arrays));
  return step_ ? Status::Ok() : Status(Code::kLost, "the checkpoint that came back a moment ago is gone");
}

Status JobMember::BeginInner(const std::string& loop, const Arrays& arrays) {
  int64_t number = 0;
  if (inner_.is_restored) {
    if (inner_.identity == 0) {
      KEDGE_ASSIGN_OR_RETURN(inner_.identity, checkpoints_.IdentityOf(*step_));
    }
    if (inner_.identity != 0) {
      os::KillPoint("fmi.restore-inner");
      const auto restored = checkpoints_.RestoreInner(loop, arrays, inner_.identity);
      if (restored.ok()) {
        number = restored->value_or(0);
      } else if (!messenger_.is_broken()) {
        LogWarning("fmi", "rank {}: the loop {} does not go on from its checkpoint, and step {} begins again: {}", options_.rank,
                   loop, *step_, restored.status().message());
        inner_.is_spoilt = true;
      }
    }
  }
  inner_.numbers[loop] = number;
  return Status::Ok();
}

Status JobMember::AdvanceInner(const std::string& loop, const Arrays& arrays) {
  const int64_t number = ++inner_.numbers.at(loop);
  if (number > Checkpoints::kInnerNumberMax) {
    return Status(Code::kInvalidArgument, fmt::format("there were more than {} calls in a step", Checkpoints::kInnerNumberMax));
  }
  KEDGE_ASSIGN_OR_RETURN(const bool is_due, IsDue(number));
  if (!is_due) return Status::Ok();
  KEDGE_ASSIGN_OR_RETURN(const auto identities, Agree(loop, static_cast<uint64_t>(number), inner_.identity));
  inner_.wants_one = true;
  // A rank has no checkpoint of the step.
  if (std::find(identities.begin(), identities.end(), 0) != identities.end()) return Status::Ok();
  os::KillPoint("fmi.inner");
  const Status taken = checkpoints_.TakeInner(loop, arrays, number, inner_.identity);
  if (taken.ok()) {
    CountCheckpoint();
  } else {
    Warn(fmt::format("call {} of the loop {} in step {}", number, loop, *step_), taken);
  }
  return Status::Ok();
}

Status JobMember::CheckLoops() const {
  const uint64_t own = board_.row(options_.rank).loops;
  for (uint32_t rank = 0; rank < board_.ranks(); ++rank) {
    const uint64_t its = board_.row(rank).loops;
    if (its == own) continue;
    const bool is_first = options_.rank < rank;
    return Status(Code::kMismatch,
                  fmt::format("rank {} has called FMI_Loop {} times, rank {} {} times", is_first ? options_.rank : rank,
                              is_first ? own : its, is_first ? rank : options_.rank, is_first ? its : own));
  }
  return Status::Ok();
}

Status JobMember::End() {
  // Once this rank has left, others know that it sends nothing more.
  const Status sent = freed_requests_.FinishSends(&messenger_, &packed_messages_);
  if (messenger_.is_broken()) RelaunchAll();
  KEDGE_RETURN_IF_ERROR(sent);
  board_.SetPlace(options_.rank, {messenger_.epoch(), Phase::kLeaving});
  os::KillPoint("fmi.finalize");
  messenger_.Leave([&] { return board_.has_finished() || messenger_.is_broken(); });
  if (messenger_.is_broken()) RelaunchAll();
  KEDGE_RETURN_IF_ERROR(CheckLoops());
  checkpoints_.Close();
  return Status::Ok();
}

void JobMember::WaitUnlessSurvivable() {
  board_.Await(options_.rank, [&] { return board_.header().has_checkpoint != 0; });
}

void JobMember::RelaunchAll() {
  board_.header().relaunch = 1;
  board_.RingTask();
  os::ExitNow(kRelaunchExitCode);
}

}  // namespace kedge::fmi
