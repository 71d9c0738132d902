#include "agent/door/waiters.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "agent/flush/attempt_watch.h"
#include "agent/flush/flush.h"
#include "agent/flush/publisher.h"
#include "agent/images/pending_images.h"
#include "agent/protect/node_level.h"
#include "agent/schedule/local_level.h"
#include "agent/tables/agent_core.h"
#include "agent/tables/protection.h"

namespace kedge {
namespace {

constexpr Duration kWaitLookPause = std::chrono::milliseconds(500);
constexpr Duration kReportPause = std::chrono::milliseconds(500);
constexpr size_t kMissingNamedMax = 16;
// That a version is in the store is said when no newer attempt, which may remove it, was there so long ago or later.
constexpr Duration kLookAge = std::chrono::milliseconds(250);
// A store that does not answer is waited for no longer, unless the caller waits longer.
constexpr Duration kStoreLookPatience = std::chrono::seconds(5);

Status NotDrained(const Generation& generation) {
  return {Code::kTimeout, fmt::format("{} is complete on the burst buffer, whose server has not brought it to the store yet",
                                      generation.ToString())};
}

// The time may be anything a client wrote.
int64_t DeadlineNs(int64_t now_ns, Duration timeout) {
  const int64_t bounded = std::clamp<int64_t>(timeout.count(), 0, Duration(std::chrono::hours(24 * 365)).count());
  return now_ns + bounded;
}

}  // namespace

Waiters::Waiters(AgentCore& core, AttemptWatch& attempt_watch, Flush& flush, LocalLevel& local_level, NodeLevel& node_level,
                 PendingImages& pending, Publisher& publisher)
    : core_(core),
      attempt_watch_(attempt_watch),
      flush_(flush),
      local_level_(local_level),
      node_level_(node_level),
      pending_(pending),
      publisher_(publisher) {
  core.requests().On<WaitRequest>(std::bind_front(&Waiters::AddWait, this));
  core.requests().On<TestRequest>(std::bind_front(&Waiters::AddTest, this));
  core.requests().On<DrainRequest>(std::bind_front(&Waiters::AddDrain, this));
}

void Waiters::AddWait(const WaitRequest& request, const Question& question) {
  const int64_t now_ns = core_.clock().NowNs();
  Add(Wait{question, request.generation, request.level, false, now_ns, DeadlineNs(now_ns, request.timeout)});
}

void Waiters::AddTest(const TestRequest& request, const Question& question) {
  const int64_t now_ns = core_.clock().NowNs();
  Add(Wait{question, request.generation, Level::kLast, true, now_ns, DeadlineNs(now_ns, std::chrono::seconds(10))});
}

void Waiters::Add(Wait wait) {
  waits_.push_back(std::move(wait));
  if (Answer(waits_.back())) {
    waits_.pop_back();
    return;
  }
  const Wait& added = waits_.back();
  if (!IsForStore(added)) return;
  // The answer will ask for it: it is looked meanwhile.
  static_cast<void>(StillHasJob({added.question.connection(), added.asked_ns, added.deadline_ns, added.is_test}));
  NoteAwaited();
}

bool Waiters::IsForStore(const Wait& wait) {
  return !wait.is_test && wait.level >= Level::kBuffer;
}

void Waiters::NoteAwaited() {
  core_.SetFlushAwaited(std::any_of(waits_.begin(), waits_.end(), &IsForStore));
}

void Waiters::AddDrain(const DrainRequest& request, const Question& question) {
  const int64_t now_ns = core_.clock().NowNs();
  if (request.level >= Level::kBuffer) {
    const Job* job = request.job.empty() ? nullptr : core_.FindJob(request.store_id, request.job);
    if (job != nullptr || request.job.empty()) flush_.TryAgain(job);
  }
  drains_.push_back(DrainWait{question, request, now_ns, DeadlineNs(now_ns, request.timeout), now_ns, 0, {}});
  if (AnswerDrain(drains_.back())) drains_.pop_back();
}

void Waiters::DropConnection(uint64_t connection) {
  waits_.remove_if([&](const Wait& wait) { return wait.question.connection() == connection; });
  NoteAwaited();
  drains_.remove_if([&](const DrainWait& drain) { return drain.question.connection() == connection; });
}

std::vector<uint32_t> Waiters::MissingRanks(const Version& version, Level level) const {
  if (level >= Level::kBuffer && !version.missing_in_store.empty()) return version.missing_in_store;
  std::vector<uint32_t> missing;
  // Of ranks on other nodes nothing is known here.
  std::set<uint32_t> elsewhere;
  const Membership& members = version.job->members;
  for (const JobNode& node : members.nodes) {
    const bool is_other = members.attempt == version.generation.attempt && node.name != core_.settings().node;
    if (is_other && level < Level::kBuffer) elsewhere.insert(node.ranks.begin(), node.ranks.end());
  }
  for (uint32_t rank = 0; rank < version.ranks && missing.size() < kMissingNamedMax; ++rank) {
    if (elsewhere.contains(rank)) continue;
    auto image = version.images.find(rank);
    const bool is_there = image != version.images.end() &&
                          (level < Level::kBuffer ? image->second->IsHeld() : image->second->flush == FlushState::kStored);
    if (!is_there) missing.push_back(rank);
  }
  return missing;
}

bool Waiters::AnswerKnown(Wait& wait, Version& version) {
  LevelReply reply;
  reply.level = version.ReachedLevel();
  reply.scheduled = version.LastLevel();
  const Level target = wait.level == Level::kLast ? std::max(version.LastLevel(), Level::kLocal) : wait.level;
  const Level by_nodes = version.LevelByNodes();
  if (reply.level >= Level::kBuffer && (wait.is_test || target > by_nodes)) {
    const auto sure = StillHasJob({wait.question.connection(), wait.asked_ns, wait.deadline_ns, wait.is_test});
    if (!sure) return false;
    if (!sure->ok() && !wait.is_test) {
      wait.question.Answer(LevelReply{by_nodes, reply.scheduled, *sure, {}});
      return true;
    }
    if (!sure->ok()) reply.level = by_nodes;
  }
  // Files at their original paths belong to the store level, and to that of a burst buffer before it.
  const bool files_due =
      version.in_store() && std::any_of(version.images.begin(), version.images.end(), [&](const auto& entry) {
        return entry.second->has_files && !entry.second->files_published && version.job->hello.keys.files_publish;
      });
  const bool reached = reply.level >= target && !(target >= Level::kBuffer && files_due);
  // Where ranks disagree about what they took, no level will ever hold for all of them.
  const bool disagree = version.failure.code() == Code::kMismatch;
  const bool failed = !version.failure.ok() && (wait.is_test || target > Level::kLocal || reply.level < target || disagree);
  if (failed) reply.failure = version.failure;
  // What does not get to other nodes may get to the store, which is more.
  const bool node_failed = !version.node_failure.ok() && version.scheduled() < Level::kStore && reply.level < Level::kNode &&
                           (wait.is_test || target >= Level::kNode);
  if (!failed && node_failed) reply.failure = version.node_failure;
  const bool never = !version.undecided && target > version.scheduled() && version.scheduled() != Level::kNone && !reached;
  if (never && !wait.is_test && !failed && !node_failed) {
    reply.failure = Status(
        Code::kFailedPrecondition,
        version.skipped
            ? fmt::format("the flush of {} was left out for a newer version", version.generation.ToString())
            : fmt::format("{} is scheduled for level {} only", version.generation.ToString(), LevelName(version.scheduled())));
  }
  const bool passed_by =
      target <= Level::kLocal && !reached && version.LastLevel() <= Level::kLocal && LocalLevel::IsPassedBy(version);
  if (passed_by && !wait.is_test) {
    reply.failure =
        Status(Code::kFailedPrecondition,
               fmt::format("{} is passed by: another node has a newer one, and has let go of it", version.generation.ToString()));
  }
  if (!wait.is_test && !reached && !failed && !node_failed && !never && !passed_by) {
    const int64_t now_ns = core_.clock().NowNs();
    if (now_ns < wait.deadline_ns) {
      // Another node may have finished it, and its word (schedule/completions.h) been lost; then it has every level.
      const bool is_stored = std::any_of(version.images.begin(), version.images.end(),
                                         [](const auto& entry) { return entry.second->flush == FlushState::kStored; });
      if (is_stored && now_ns >= wait.next_look_ns) {
        wait.next_look_ns = now_ns + kWaitLookPause.count();
        publisher_.Probe(version);
      }
      return false;
    }
    reply.missing_ranks = MissingRanks(version, target);
    reply.failure =
        Status(Code::kTimeout,
               fmt::format("{} has not reached level {}; missing {} {}", version.generation.ToString(), LevelName(target),
                           reply.missing_ranks.size() == 1 ? "is rank" : "are ranks", fmt::join(reply.missing_ranks, ", ")));
    if (target == Level::kLocal && version.IsWhole()) {
      reply.missing_ranks.clear();
      reply.failure = Status(Code::kTimeout, local_level_.Missing(version));
    }
    if (target == Level::kNode && version.protection != nullptr) {
      reply.missing_ranks.clear();
      reply.failure = version.protection->Missing();
    }
    const auto disagreed = version.job->disagreements.find(version.generation.name);
    if (disagreed != version.job->disagreements.end()) reply.failure = disagreed->second.why;
    if (reply.level == Level::kBuffer) {
      reply.missing_ranks.clear();
      reply.failure = NotDrained(version.generation);
    }
    if (target >= Level::kBuffer && !version.absence.ok()) {
      reply.missing_ranks.clear();
      reply.failure = Status(Code::kTimeout,
                             fmt::format("{} waits for the store: {}", version.generation.ToString(), version.absence.message()));
    }
  }
  wait.question.Answer(reply);
  return true;
}

const Session* Waiters::SessionOf(uint64_t connection) const {
  for (const Session* session : core_.sessions().all()) {
    if (session->connection == connection && session->job != nullptr) return session;
  }
  return nullptr;
}

// Whether who asks may be told that the store has something: a newer attempt, which may have removed it, has not taken over. Ok,
// or kBusy: one has; kTimeout: the store did not tell in time. Nothing: that is being looked at.
std::optional<Status> Waiters::StillHasJob(const Asked& asked) const {
  const Session* session = SessionOf(asked.connection);
  if (session == nullptr) return Status::Ok();  // a tool, which works for no attempt
  const auto found = attempt_watch_.TakenOver(*session->job, session->hello.attempt, asked.since_ns - kLookAge.count());
  if (found.taken_over) return found.taken_over;
  const int64_t now_ns = core_.clock().NowNs();
  const bool has_failed = !found.error.ok();
  const int64_t wanted_ns = asked.at_once ? asked.since_ns : asked.deadline_ns;
  const int64_t until_ns = has_failed ? wanted_ns : std::max(wanted_ns, asked.since_ns + kStoreLookPatience.count());
  if (now_ns < until_ns) return std::nullopt;
  return Status(Code::kTimeout, fmt::format("the store does not tell whether a newer attempt has taken the job over: {}",
                                            has_failed ? found.error.message()
                                                       : "it has not answered for " + FormatDuration(kStoreLookPatience)));
}

bool Waiters::Answer(Wait& wait) {
  const Session* session = SessionOf(wait.question.connection());
  const Status known = session == nullptr ? Status::Ok() : attempt_watch_.Known(*session->job, session->hello.attempt);
  if (!known.ok()) {
    wait.question.Answer(LevelReply{Level::kNone, Level::kStore, known, {}});
    return true;
  }
  if (wait.stored) {
    const auto sure = StillHasJob({wait.question.connection(), wait.asked_ns, wait.deadline_ns, wait.is_test});
    if (!sure) return false;
    const Level level = sure->ok() ? *wait.stored : Level::kNone;
    const bool is_drained_later = sure->ok() && !wait.is_test && std::min(wait.level, Level::kStore) > level;
    if (is_drained_later && core_.clock().NowNs() < wait.deadline_ns) {
      LookUp(wait);
      return false;
    }
    // No node has a copy that would vouch for another level.
    Status failure = wait.is_test && sure->code() == Code::kTimeout ? Status(Code::kUnavailable, sure->message()) : *sure;
    if (is_drained_later) failure = NotDrained(wait.generation);
    wait.question.Answer(LevelReply{level, Level::kStore, failure, {}});
    return true;
  }
  if (Version* version = core_.FindVersion(wait.generation)) return AnswerKnown(wait, *version);
  const int64_t now_ns = core_.clock().NowNs();
  if (wait.level == Level::kNode && wait.looked_up && !wait.is_test) {
    LevelReply reply;
    reply.failure = node_level_.FormerFailure(wait.generation);
    if (!reply.failure.ok()) {
      wait.question.Answer(reply);
      return true;
    }
  }
  if ((wait.is_test && wait.looked_up) || (!wait.looking && now_ns >= wait.deadline_ns)) {
    LevelReply reply;
    if (!wait.is_test) {
      reply.failure = Status(
          Code::kTimeout,
          fmt::format("{} has not been captured on this node, and is not complete in the store", wait.generation.ToString()));
    }
    wait.question.Answer(reply);
    return true;
  }
  LookUp(wait);
  return false;
}

// A generation that is not on the node: gone from here since, or never handed over (captured without the agent).
void Waiters::LookUp(Wait& wait) {
  const int64_t now_ns = core_.clock().NowNs();
  if (wait.looking || now_ns < wait.next_look_ns) return;
  wait.looking = true;
  wait.next_look_ns = now_ns + kWaitLookPause.count();
  publisher_.Lookup(wait.generation, [this, question = wait.question](std::optional<Level> stored) {
    auto found =
        std::find_if(waits_.begin(), waits_.end(), [&](const Wait& candidate) { return candidate.question == question; });
    if (found == waits_.end()) return;
    found->looking = false;
    found->looked_up = true;
    found->stored = stored;
    if (Answer(*found)) waits_.erase(found);
  });
}

void Waiters::OnVersionGone(const Version& version) {
  const Generation& generation = version.generation;
  const bool is_missed = !version.failure.ok() && version.scheduled() >= Level::kStore && !version.in_store() && !version.skipped;
  const auto is_stored = [](const Version& newer) { return newer.in_store(); };
  if (!is_missed || version.job->HasNewer(generation, is_stored)) return;
  GoneFailure& gone = gone_failures_[NameKeyOf(generation)];
  if (gone.why.ok() || gone.generation < generation) gone = {generation, version.failure};
}

void Waiters::Check(const Generation& generation) {
  const auto gone = gone_failures_.find(NameKeyOf(generation));
  if (gone != gone_failures_.end() && !(generation < gone->second.generation)) {
    const Version* version = core_.FindVersion(generation);
    if (version != nullptr && version->in_store()) gone_failures_.erase(gone);
  }
  for (auto wait = waits_.begin(); wait != waits_.end();) {
    const bool answered = wait->generation == generation && Answer(*wait);
    wait = answered ? waits_.erase(wait) : std::next(wait);
  }
  NoteAwaited();
}

void Waiters::Tick() {
  std::erase_if(gone_failures_, [this](const auto& entry) {
    const Job* job = core_.FindJob(entry.first.first);
    return job == nullptr || !core_.sessions().HasAttempt(*job, entry.second.generation.attempt);
  });
  waits_.remove_if([this](Wait& wait) { return Answer(wait); });
  NoteAwaited();
  drains_.remove_if([this](DrainWait& drain) { return AnswerDrain(drain); });
}

// Whether a failure at one level means that the version never gets to the other. What does not get to other nodes may get to
// the store, which is more, and what does not get to the store may get to other nodes.
bool Waiters::IsFailed(const Version& version, Level at, Level wanted) const {
  if (wanted != Level::kNode) return wanted == at || wanted == Level::kLast || (wanted == Level::kBuffer && at == Level::kStore);
  if (version.ReachedLevel() >= Level::kNode) return false;
  return at == Level::kStore ? !version.IsOwedToNodes() : version.scheduled() < Level::kStore || !version.failure.ok();
}

// Whether the attempt has only gone on from it, and has a newer one there by now: nobody misses its protection.
bool Waiters::IsOutlived(const Version& version, Level level) const {
  if (!version.restored) return false;
  // That may be gone from here by now.
  const Job& job = *version.job;
  if (level == Level::kNode && node_level_.IsOutlived(version, job.LineageOf(version.generation.name))) return true;
  return job.HasNewer(version.generation, [&](const Version& newer) { return newer.ReachedLevel() >= level; });
}

void Waiters::OnFailure(const Version& version, Level level, const Status& failure) {
  const Job& job = *version.job;
  for (DrainWait& drain : drains_) {
    const bool meant = drain.request.job.empty() || (drain.request.job == job.name && drain.request.store_id == job.store_id);
    if (!meant || IsOutlived(version, level) || !IsFailed(version, level, drain.request.level)) continue;
    // Who waits for the last level of what his attempt has taken does not miss it.
    if (drain.request.level == Level::kLast && version.IsAbandoned()) continue;
    ++drain.images_failed;
    if (drain.failure.ok()) drain.failure = failure;
  }
}

// Of what failed before a drain began, that counts which has not been made good: no newer version of the name was to get as far;
// of an attempt that runs, where each version's last level is meant. What is left of one that has ended is carried as far as it
// goes.
Status Waiters::FormerFailure(const Job& job, Level wanted) const {
  if (!job.disagreements.empty()) return job.disagreements.begin()->second.why;
  const auto target = [&](const Version& version) { return wanted == Level::kLast ? version.LastLevel() : wanted; };
  std::map<std::pair<std::string, Level>, const Version*> newest;
  for (const auto& [generation, version] : job.versions) {
    const bool runs = core_.sessions().HasAttempt(job, generation.attempt);
    const bool is_meant = wanted == Level::kLast ? runs && !version->IsAbandoned() : version->scheduled() >= wanted;
    if (version->skipped || !is_meant) continue;
    const Version*& found = newest[{generation.name, target(*version)}];
    if (found == nullptr || generation.attempt >= found->generation.attempt) found = version.get();
  }
  for (const auto& [key, version] : newest) {
    const auto makes_good = [&, version = version](const auto& other) {
      return other.first.first == version->generation.name && other.first.second > target(*version) &&
             version->generation < other.second->generation;
    };
    if (std::any_of(newest.begin(), newest.end(), makes_good)) continue;
    if (version->ReachedLevel() >= target(*version)) continue;
    if (!version->failure.ok() && IsFailed(*version, Level::kStore, wanted)) return version->failure;
    const bool goes_on = wanted == Level::kBuffer || wanted == Level::kStore;
    if (const Status missing = NeverTaken(*version); goes_on && !missing.ok()) return missing;
    if (!version->node_failure.ok() && IsFailed(*version, Level::kNode, wanted)) return version->node_failure;
  }
  for (const auto& [key, gone] : gone_failures_) {
    const bool is_missed = wanted == Level::kLast && key.first == job.key() &&
                           core_.sessions().HasAttempt(job, gone.generation.attempt) &&
                           job.LineageOf(key.second).Has(gone.generation);
    const auto is_to_get_there = [](const Version& newer) { return newer.LastLevel() >= Level::kStore; };
    if (is_missed && !job.HasNewer(gone.generation, is_to_get_there)) return gone.why;
  }
  return Status::Ok();
}

// Of the job, or (null) of any: what its images wait for.
std::string Waiters::AbsenceOf(const Job* job) const {
  for (const auto& [key, one] : core_.jobs()) {
    if (job != nullptr && one.get() != job) continue;
    for (const auto& [generation, version] : one->versions) {
      if (!version->absence.ok()) return "; they wait for the store: " + version->absence.message();
    }
  }
  return "";
}

// Of a version whose attempt is over here: ranks of this node that have no image of it will never have one.
Status Waiters::NeverTaken(const Version& version) const {
  const bool is_missing =
      version.images.size() < version.node_ranks && version.scheduled() >= Level::kStore && !version.in_store();
  if (!is_missing || core_.sessions().HasAttempt(*version.job, version.generation.attempt)) return Status::Ok();
  const Status incomplete(Code::kIncomplete, fmt::format("{} is incomplete: {} of the {} ranks of this node have not taken it",
                                                         version.generation.ToString(),
                                                         version.node_ranks - version.images.size(), version.node_ranks));
  if (version.node_ranks < version.ranks) return incomplete;  // who else is on this node is not known
  const std::vector<uint32_t> missing = MissingRanks(version, Level::kLocal);
  return Status(Code::kIncomplete, fmt::format("{} is incomplete: {} {} {} not taken it", version.generation.ToString(),
                                               missing.size() == 1 ? "rank" : "ranks", fmt::join(missing, ", "),
                                               missing.size() == 1 ? "has" : "have"));
}

// Where the nodes do not hear each other, only the store knows that a version will never be complete, because other ranks have
// taken another one. Of the newest of each name that waits for nobody here.
void Waiters::AskWhetherRanksDisagree(DrainWait& drain) {
  drain.has_asked = true;
  for (const auto& [key, job] : core_.jobs()) {
    if (!drain.request.job.empty() && (job->name != drain.request.job || job->store_id != drain.request.store_id)) continue;
    std::map<std::string, const Version*> newest;
    for (const auto& [generation, version] : job->versions) newest[generation.name] = version.get();
    for (const auto& [name, version] : newest) {
      if (version->in_store() || version->scheduled() < Level::kStore || version->skipped || !version->failure.ok()) continue;
      ++drain.asking;
      publisher_.LookForDisagreement(*version, [this, question = drain.question] {
        const auto asked = std::find_if(drains_.begin(), drains_.end(),
                                        [&](const DrainWait& candidate) { return candidate.question == question; });
        if (asked == drains_.end()) return;
        --asked->asking;
        if (AnswerDrain(*asked)) drains_.erase(asked);
      });
    }
  }
}

// Whether the store has got something of the attempt that asks: else nothing is said of it by saying that all is done.
bool Waiters::HasStored(uint64_t connection) const {
  const Session* session = SessionOf(connection);
  if (session == nullptr) return false;
  const Job& job = *session->job;
  const uint32_t attempt = session->hello.attempt;
  return job.stored_attempt >= attempt || std::any_of(job.versions.begin(), job.versions.end(), [attempt](const auto& entry) {
           const Version& version = *entry.second;
           const auto is_stored = [](const auto& image) { return image.second->flush == FlushState::kStored; };
           const bool any_stored = std::any_of(version.images.begin(), version.images.end(), is_stored);
           return version.generation.attempt == attempt && (version.in_store() || any_stored);
         });
}

bool Waiters::AnswerDrain(DrainWait& drain) {
  const Job* job = drain.request.job.empty() ? nullptr : core_.FindJob(drain.request.store_id, drain.request.job);
  DrainReply reply;
  if (job != nullptr || drain.request.job.empty()) {
    pending_.Count(job, drain.request.level, &reply.images_pending, &reply.bytes_pending);
  }
  reply.images_failed = drain.images_failed;
  reply.failure = drain.failure;
  const int64_t now_ns = core_.clock().NowNs();
  if (reply.images_pending > 0 && now_ns >= drain.deadline_ns) {
    reply.failure =
        Status(Code::kTimeout, fmt::format("{} images ({} bytes) are still on their way: {}{}", reply.images_pending,
                                           reply.bytes_pending, pending_.Name(job, drain.request.level), AbsenceOf(job)));
    reply.finished = true;
  }
  reply.finished = reply.finished || reply.images_pending == 0;
  if (reply.finished && now_ns < drain.deadline_ns && drain.request.level >= Level::kBuffer) {
    if (!drain.has_asked) AskWhetherRanksDisagree(drain);
    reply.finished = drain.asking == 0;
  }
  for (const auto& [key, one] : core_.jobs()) {
    const bool is_meant = drain.request.job.empty() || one.get() == job;
    if (reply.finished && reply.failure.ok() && is_meant) reply.failure = FormerFailure(*one, drain.request.level);
  }
  if (reply.finished && reply.failure.ok() && drain.request.level >= Level::kBuffer && HasStored(drain.question.connection())) {
    const auto sure = StillHasJob({drain.question.connection(), drain.asked_ns, drain.deadline_ns, false});
    if (sure) reply.failure = *sure;
    reply.finished = sure.has_value();
  }
  if (!reply.finished && now_ns < drain.next_report_ns) return false;
  drain.next_report_ns = now_ns + kReportPause.count();
  drain.question.Answer(reply);
  return reply.finished;
}

}  // namespace kedge
