#include "agent/schedule/halts.h"

#include <algorithm>

#include "agent/tables/agent_core.h"
#include "base/log.h"
#include "os/process/kill_point.h"

namespace kedge {
namespace {

const char* HaltName(HaltWhen when) {
  switch (when) {
    case HaltWhen::kNextCheckpoint: return "after its next checkpoint";
    case HaltWhen::kNow: return "after a checkpoint that it is asked for now";
    case HaltWhen::kAtOnce: return "at once";
    case HaltWhen::kNever: return "not";
  }
  return "?";
}

bool IsOfNewestAttempt(const Session& session, const Job& job) {
  return session.job == &job && session.hello.attempt == job.hello.attempt && !session.ended;
}

bool ShowsExit(const Session& session) {
  return session.box().told_to_exit.load(std::memory_order_relaxed) != 0;
}

}  // namespace

Halts::Halts(AgentCore& core) : core_(core) {
  core.requests().On<HaltRequest>([this](const HaltRequest& request) { return HaltReply{Halt(request)}; });
}

void Halts::OnAttached(Session& session) {
  if (session.hello.attempt != session.job->hello.attempt) return;
  session.box().halt.store(Packed(session.job->halt), std::memory_order_relaxed);
}

void Halts::OnEnd(Session& session) {
  Job& job = *session.job;
  if (session.hello.attempt == job.hello.attempt && ShowsExit(session)) job.told_to_exit = true;
}

std::vector<HaltedJob> Halts::Halt(const HaltRequest& request) {
  std::vector<HaltedJob> halted;
  for (auto& [key, job] : core_.jobs()) {
    if (!request.job.empty() && request.job != job->name) continue;
    if (!core_.sessions().HasAttempt(*job, job->hello.attempt)) continue;
    job->halt = {request.when, core_.clock().NowNs()};
    LogInfo("agent", "job {}, attempt {}, is to halt {}", job->name, job->hello.attempt, HaltName(request.when));
    core_.events().job_changed(*job);
    os::KillPoint("agent-halt-noted");
    bool has_rank_0 = false;
    for (Session* session : core_.sessions().all()) {
      if (!IsOfNewestAttempt(*session, *job)) continue;
      has_rank_0 = has_rank_0 || (session->hello.rank == 0 && !session->broken);
      session->box().halt.store(Packed(job->halt), std::memory_order_relaxed);
    }
    halted.push_back({job->name, job->hello.attempt, has_rank_0});
  }
  return halted;
}

bool Halts::IsExitTold(const Job& job) const {
  const std::vector<Session*> sessions = core_.sessions().all();
  return job.told_to_exit || std::any_of(sessions.begin(), sessions.end(), [&](const Session* session) {
           return IsOfNewestAttempt(*session, job) && ShowsExit(*session);
         });
}

void Halts::Save(const kedge::Halt& halt, Encoder& encoder) {
  encoder.U8(static_cast<uint8_t>(halt.when));
  encoder.I64(halt.asked_ns);
}

void Halts::Load(Decoder& decoder, kedge::Halt* halt) {
  const uint8_t when = decoder.U8();
  halt->asked_ns = decoder.I64();
  decoder.Require(when <= static_cast<uint8_t>(HaltWhen::kNever), "no such halt");
  if (decoder.ok()) halt->when = static_cast<HaltWhen>(when);
}

}  // namespace kedge
