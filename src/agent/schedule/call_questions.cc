#include "agent/schedule/call_questions.h"

#include <algorithm>
#include <chrono>

#include "agent/peers/peers.h"
#include "agent/schedule/tuning.h"
#include "agent/tables/agent_core.h"
#include "base/log.h"
#include "os/process/kill_point.h"
#include "schedule/schedule.h"

namespace kedge {
namespace {

// Beyond this the next housekeeping is early enough.
constexpr Duration kTimerHorizon = std::chrono::milliseconds(250);
// A client notes the end of a checkpoint just after the message of it.
constexpr Duration kSoon = std::chrono::milliseconds(1);
// In one look. Ranks that call faster than it takes to hold them are asked again at the next.
constexpr int kTriesInOneLook = 24;
// For another node's vote; its ranks, and ours, wait at the held call meanwhile. Who did not answer is not asked for a while;
// whose agent is gone, soon again: its successor is on the way, and nobody is held for long until it is there.
constexpr Duration kVoteTimeout = std::chrono::seconds(2);
constexpr Duration kSilencePause = std::chrono::seconds(10);
constexpr Duration kGonePause = std::chrono::seconds(1);
// Ranks that have still to read what was decided before, or have not joined, are given time.
constexpr Duration kRefusalPause = std::chrono::milliseconds(100);

std::vector<CallQuestion*> QuestionsOf(const std::vector<Session*>& ranks, CallQuestionIndex index) {
  std::vector<CallQuestion*> questions;
  for (const Session* session : ranks) questions.push_back(&session->box().questions[index]);
  return questions;
}

const Session* FirstOf(const std::vector<Session*>& ranks) {
  const auto first = std::find_if(ranks.begin(), ranks.end(), [](const Session* session) { return session->hello.rank == 0; });
  return first == ranks.end() ? nullptr : *first;
}

bool IsYes(uint64_t decision) {
  return decision % 2 == 1;
}

const char* HaltName(HaltWhen when) {
  switch (when) {
    case HaltWhen::kNextCheckpoint: return "after its next checkpoint";
    case HaltWhen::kNow: return "after a checkpoint that it is asked for now";
    case HaltWhen::kAtOnce: return "at once";
    case HaltWhen::kNever: return "not";
  }
  return "?";
}

}  // namespace

std::vector<Session*> CallQuestions::RanksOf(const Job& job, bool* are_all) const {
  std::vector<Session*> ranks;
  for (Session* session : core_.sessions().all()) {
    const bool counts = session->job == &job && session->hello.attempt == job.hello.attempt && !session->ended;
    if (counts && !session->broken) ranks.push_back(session);
  }
  size_t expected = job.hello.ranks;
  if (job.members.attempt == job.hello.attempt) {
    for (const JobNode& node : job.members.nodes) {
      if (node.name == core_.settings().node) expected = node.ranks.size();
    }
  }
  *are_all = ranks.size() == expected;
  return ranks;
}

std::vector<std::string> CallQuestions::OtherNodes(const Job& job) const {
  std::vector<std::string> others;
  if (job.members.attempt != job.hello.attempt) return others;
  for (const JobNode& node : job.members.nodes) {
    if (node.name != core_.settings().node && !node.ranks.empty()) others.push_back(node.name);
  }
  return others;
}

void CallQuestions::OnAttached(Session& session, bool attached_again) {
  JobCalls& calls = session.job->calls;
  if (attached_again || session.hello.attempt != session.job->hello.attempt) return;
  for (uint32_t index = 0; index < kCallQuestions; ++index) {
    session.box().questions[index].levels.store(Packed(calls.levels[index]), std::memory_order_relaxed);
    session.box().questions[index].held.store(calls.held[index], std::memory_order_seq_cst);
    session.box().questions[index].decision.store(calls.decision[index], std::memory_order_seq_cst);
  }
  if (session.hello.rank == 0 && calls.halt) calls.halt->checkpoints = 0;
}

void CallQuestions::LookAtAll() {
  for (auto& [key, job] : core_.jobs()) Look(*job);
}

void CallQuestions::LookSoon() {
  LookAgainAt(core_.clock().NowNs() + kSoon.count());
}

void CallQuestions::LookAgainAt(int64_t at_ns) {
  const int64_t now = core_.clock().NowNs();
  if (look_ns_ > now && look_ns_ <= at_ns) return;
  look_ns_ = at_ns;
  core_.loop().AddTimer(Duration(at_ns - now), [this, at_ns] {
    if (look_ns_ == at_ns) look_ns_ = 0;
    LookAtAll();
  });
}

bool CallQuestions::IsCheckpointDue(const Job& job, const Session& first) {
  const Mailbox& box = first.box();
  const JobCalls& calls = job.calls;
  const uint64_t newest_call = box.questions[kCheckpointDue].calls.load(std::memory_order_acquire);
  const int64_t began = box.interval_began_ns.load(std::memory_order_acquire);
  // What it was told has not led to a checkpoint yet; it asks again when the one it took has failed.
  const uint64_t told = calls.decision[kCheckpointDue];
  if (IsYes(told) && began == calls.due_interval_began_ns && newest_call <= CallOf(told / 2)) return false;
  if (IsCheckpointWanted(job, first)) return true;
  const Duration interval = CheckpointInterval(first.hello.keys, Tuning::ToldInterval(job));
  // Always due, as the ranks know themselves; or rank 0 has not said when it began.
  if (interval <= Duration::zero() || began <= 0) return false;
  const int64_t left_ns = interval.count() - (core_.clock().NowNs() - began);
  if (left_ns > 0 && left_ns < kTimerHorizon.count()) LookAgainAt(core_.clock().NowNs() + left_ns);
  return left_ns <= 0;
}

bool CallQuestions::IsCheckpointWanted(const Job& job, const Session& first) {
  return job.calls.halt && job.calls.halt->when == HaltWhen::kNow && !IsExitDue(job, first);
}

bool CallQuestions::IsExitDue(const Job& job, const Session& first) {
  const auto& halt = job.calls.halt;
  if (!halt) return false;
  return halt->when == HaltWhen::kAtOnce || first.box().checkpoints.calls.load(std::memory_order_acquire) > halt->checkpoints;
}

void CallQuestions::Look(Job& job) {
  bool are_all = false;
  const std::vector<Session*> ranks = RanksOf(job, &are_all);
  const Session* first = FirstOf(ranks);
  if (first == nullptr) return;
  for (const CallQuestionIndex index : {kCheckpointDue, kShouldExit}) Tell(job, index);
  const bool checkpoint = IsCheckpointDue(job, *first), exit = IsExitDue(job, *first);
  const uint32_t halt = IsCheckpointWanted(job, *first) ? job.calls.halts : 0;
  first->box().questions[kCheckpointDue].wanted.store(halt, std::memory_order_relaxed);
  first->box().told_levels.store(Packed(tuning_.LevelsToTell(job)), std::memory_order_relaxed);
  first->box().questions[kShouldExit].wanted.store(exit ? job.calls.halts : 0, std::memory_order_relaxed);
  job.calls.exit_wanted = job.calls.exit_wanted || exit;
  if (!are_all) return;
  if (checkpoint) {
    job.calls.due_interval_began_ns = first->box().interval_began_ns.load(std::memory_order_acquire);
    Propose(job, kCheckpointDue, ranks);
  }
  // Whoever was told to exit is told so for ever.
  if (exit && !IsYes(job.calls.decision[kShouldExit])) Propose(job, kShouldExit, ranks);
}

void CallQuestions::Propose(Job& job, CallQuestionIndex index, const std::vector<Session*>& ranks) {
  const std::vector<CallQuestion*> questions = QuestionsOf(ranks, index);
  const std::vector<std::string> others = OtherNodes(job);
  CallLeader& leader = job.calls.leaders[index];
  const CallRound& round = job.calls.rounds[index];
  if (leader.open() || !round.untold.empty() || core_.clock().NowNs() < round.not_before_ns) return;
  for (int tries = 0; tries < kTriesInOneLook; ++tries) {
    const uint64_t newest_call = LookAtCalls(questions).newest_call;
    if (newest_call == 0) return;  // not all have joined, or they ask each other
    const CallTicket ticket = leader.Propose(static_cast<uint32_t>(1 + others.size()), newest_call);
    const CallVote vote = HoldAt(questions, ticket);
    os::KillPoint("agent-call-held");
    const std::optional<bool> decision = leader.OnVote(ticket, vote);
    if (!decision.has_value()) return AskOthers(job, index, ticket, others);
    // The others have not heard of it when it is refused here; and when nobody refused here, there are none.
    const bool yes = *decision;
    Decide(job, index, {ticket, yes, LevelsWith(job, index)}, {});
    // Refused though no rank was there: somebody has still to read what was decided before.
    if (yes || vote.newest_call < CallOf(ticket)) return;
  }
}

void CallQuestions::AskOthers(Job& job, CallQuestionIndex index, CallTicket ticket, const std::vector<std::string>& nodes) {
  const CallHold call{job.store_id, job.name, job.hello.attempt, index, ticket};
  for (const std::string& node : nodes) {
    peers_.Call(job, node, PeerKind::kCallHold, Encode(call), kVoteTimeout, [this, call, index](const Result<Buffer>& answer) {
      Job* found = core_.FindJob(call.store_id, call.job);
      if (found == nullptr || found->hello.attempt != call.attempt) return;
      OnVote(*found, index, call.ticket, answer.ok() ? DecodeCallVote(*answer) : Result<CallVote>(answer.status()));
    });
  }
}

void CallQuestions::OnVote(Job& job, CallQuestionIndex index, CallTicket ticket, const Result<CallVote>& vote) {
  CallLeader& leader = job.calls.leaders[index];
  if (!leader.open() || leader.ticket() != ticket) return;
  if (!vote.ok()) {
    LogWarning("agent", "job {}: a node is not asked at which call its ranks are: {}", job.name, vote.status().ToString());
    const Duration pause = vote.status().code() == Code::kUnavailable ? kGonePause : kSilencePause;
    job.calls.rounds[index].not_before_ns = core_.clock().NowNs() + pause.count();
  } else if (!vote->accepted && vote->newest_call < CallOf(ticket)) {
    job.calls.rounds[index].not_before_ns = core_.clock().NowNs() + kRefusalPause.count();
  }
  const std::optional<bool> decision = leader.OnVote(ticket, vote.ok() ? *vote : CallVote{});
  if (decision.has_value()) Decide(job, index, {ticket, *decision, LevelsWith(job, index)}, OtherNodes(job));
}

LevelCounts CallQuestions::LevelsWith(Job& job, CallQuestionIndex index) const {
  return index == kCheckpointDue ? tuning_.LevelsToTell(job) : LevelCounts{};
}

// Our own ranks first: what a mailbox says, a successor tells the others.
void CallQuestions::Decide(Job& job, CallQuestionIndex index, const Decision& decision, const std::vector<std::string>& nodes) {
  bool are_all = false;
  const std::vector<CallQuestion*> questions = QuestionsOf(RanksOf(job, &are_all), index);
  DecideCall(questions, decision.ticket, decision.yes, decision.levels);
  if (!questions.empty()) {
    job.calls.held[index] = questions[0]->held.load(std::memory_order_relaxed);
    job.calls.decision[index] = questions[0]->decision.load(std::memory_order_relaxed);
  }
  if (decision.yes) job.calls.levels[index] = decision.levels;
  CallRound& round = job.calls.rounds[index];
  round.ticket = decision.ticket;
  round.yes = decision.yes;
  round.levels = decision.levels;
  round.untold = {nodes.begin(), nodes.end()};
  Tell(job, index);
}

void CallQuestions::Tell(Job& job, CallQuestionIndex index) {
  CallRound& round = job.calls.rounds[index];
  const CallDecision decision{{job.store_id, job.name, job.hello.attempt, index, round.ticket}, round.yes, round.levels};
  for (const std::string& node : round.untold) {
    if (!round.telling.insert(node).second) continue;
    peers_.Call(job, node, PeerKind::kCallDecision, Encode(decision), kVoteTimeout,
                [this, decision, index, node](const Result<Buffer>& answer) {
                  Job* found = core_.FindJob(decision.call.store_id, decision.call.job);
                  if (found == nullptr || found->hello.attempt != decision.call.attempt) return;
                  CallRound& told = found->calls.rounds[index];
                  told.telling.erase(node);
                  // Whoever missed it is told again at the next look.
                  if (!answer.ok() || told.ticket != decision.call.ticket) return;
                  told.untold.erase(node);
                  if (told.untold.empty()) LookSoon();
                });
  }
}

CallVote CallQuestions::OnHold(Job& job, const CallHold& call) {
  bool are_all = false;
  const std::vector<Session*> ranks = RanksOf(job, &are_all);
  const bool known =
      call.attempt == job.hello.attempt && are_all && !ranks.empty() && call.ticket > job.calls.held[call.question];
  if (!known) return CallVote{};
  const std::vector<CallQuestion*> questions = QuestionsOf(ranks, static_cast<CallQuestionIndex>(call.question));
  const CallVote vote = HoldAt(questions, call.ticket);
  os::KillPoint("agent-call-held");
  job.calls.held[call.question] = questions[0]->held.load(std::memory_order_relaxed);
  return vote;
}

void CallQuestions::OnDecision(Job& job, const CallDecision& decision) {
  const uint32_t question = decision.call.question;
  if (decision.call.attempt != job.hello.attempt) return;
  bool are_all = false;
  const std::vector<CallQuestion*> questions = QuestionsOf(RanksOf(job, &are_all), static_cast<CallQuestionIndex>(question));
  DecideCall(questions, decision.call.ticket, decision.yes, decision.levels);
  JobCalls& calls = job.calls;
  if (decision.call.ticket < calls.held[question]) return;
  if (decision.yes) calls.levels[question] = decision.levels;
  // Also when it was never held here: a hold that comes later is refused.
  calls.held[question] = decision.call.ticket;
  calls.decision[question] = std::max(calls.decision[question], decision.call.ticket * 2 + (decision.yes ? 1 : 0));
}

std::vector<HaltedJob> CallQuestions::Halt(const HaltRequest& request) {
  std::vector<HaltedJob> halted;
  for (auto& [key, job] : core_.jobs()) {
    if (!request.job.empty() && request.job != job->name) continue;
    if (!core_.sessions().HasAttempt(*job, job->hello.attempt)) continue;
    bool are_all = false;
    const Session* first = FirstOf(RanksOf(*job, &are_all));
    job->calls.halt.reset();
    job->calls.exit_wanted = false;
    if (request.when != HaltWhen::kNever) {
      const uint64_t taken = first == nullptr ? 0 : first->box().checkpoints.calls.load(std::memory_order_acquire);
      job->calls.halt = JobHalt{request.when, taken};
      ++job->calls.halts;
    }
    LogInfo("agent", "job {}, attempt {}, is to halt {}", job->name, job->hello.attempt, HaltName(request.when));
    halted.push_back({job->name, job->hello.attempt, first != nullptr});
    core_.events().job_changed(*job);
    Look(*job);
  }
  return halted;
}

bool CallQuestions::IsExitTold(const Job& job) {
  return job.calls.exit_wanted || IsYes(job.calls.decision[kShouldExit]);
}

void CallQuestions::RecoverQuestion(Job& job, CallQuestionIndex index, const std::vector<Session*>& ranks) {
  const std::vector<CallQuestion*> questions = QuestionsOf(ranks, index);
  const uint64_t newest_call = LookAtCalls(questions).newest_call;
  if (newest_call == 0) return;
  CallTicket held = 0;
  uint64_t decision = 0;
  LevelCounts levels;
  for (const CallQuestion* question : questions) {
    held = std::max(held, question->held.load(std::memory_order_seq_cst));
    const uint64_t told = question->decision.load(std::memory_order_seq_cst);
    if (told < decision) continue;
    decision = told;
    levels = UnpackedLevels(question->levels.load(std::memory_order_relaxed));
  }
  job.calls.held[index] = held;
  job.calls.decision[index] = decision;
  job.calls.levels[index] = levels;
  const std::vector<std::string> others = OtherNodes(job);
  if (FirstOf(ranks) == nullptr && !others.empty()) return;  // its leader tells what it has decided
  job.calls.leaders[index].ContinueAfter(held);
  // A yes that some have read holds for all; a call that was held and not decided is a no.
  if (held != 0) Decide(job, index, {held, decision / 2 == held && IsYes(decision), levels}, others);
}

void CallQuestions::Recover() {
  for (auto& [key, job] : core_.jobs()) {
    bool are_all = false;
    const std::vector<Session*> ranks = RanksOf(*job, &are_all);
    if (const Session* first = FirstOf(ranks)) job->calls.due_interval_began_ns = first->box().interval_began_ns.load();
    if (ranks.empty()) continue;
    for (const CallQuestionIndex index : {kCheckpointDue, kShouldExit}) RecoverQuestion(*job, index, ranks);
  }
}

void CallQuestions::Save(const JobCalls& calls, Encoder& encoder) {
  encoder.U8(static_cast<uint8_t>(calls.halt ? calls.halt->when : HaltWhen::kNever));
  encoder.Varint(calls.halt ? calls.halt->checkpoints : 0);
  encoder.Varint(calls.halts);
}

void CallQuestions::Load(Decoder& decoder, JobCalls* calls) {
  const uint8_t when = decoder.U8();
  const uint64_t checkpoints = decoder.Varint();
  calls->halts = decoder.Varint32();
  decoder.Require(when <= static_cast<uint8_t>(HaltWhen::kNever), "no such halt");
  if (decoder.ok() && when != static_cast<uint8_t>(HaltWhen::kNever)) {
    calls->halt = JobHalt{static_cast<HaltWhen>(when), checkpoints};
  }
}

}  // namespace kedge
