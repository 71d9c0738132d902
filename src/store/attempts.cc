#include "store/attempts.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "base/clock.h"
#include "os/machine/machine.h"
#include "os/process/process.h"
#include "store/record_io.h"

namespace kedge {

namespace {

constexpr Duration kPollInterval = std::chrono::milliseconds(200);

// The greatest attempt of any generation of the job: a copy from another store may be ahead of the records here.
Result<uint32_t> GreatestOfGenerations(const Catalog& catalog, const std::string& job) {
  uint32_t greatest = 0;
  KEDGE_ASSIGN_OR_RETURN(const std::vector<StoreEntry> names, ListIfThere(catalog.store(), keys::NamesFolder(job)));
  for (const StoreEntry& name : names) {
    if (!name.is_folder) continue;
    KEDGE_ASSIGN_OR_RETURN(const auto generations, catalog.store().List(keys::NamesFolder(job) + '/' + name.name));
    for (const StoreEntry& entry : generations) {
      Generation generation;
      if (keys::ParseGenerationFolder(entry.name, &generation)) greatest = std::max(greatest, generation.attempt);
    }
  }
  return greatest;
}

bool ProcessIsAlive(const AttemptRequest& self, const AttemptRecord& holder) {
  if (self.is_alive) return self.is_alive(holder.pid, holder.process_start_time);
  return os::IsAlive({static_cast<pid_t>(holder.pid), holder.process_start_time});
}

// Whether the holder's pid names a process that `self` can see.
bool IsSeenFrom(const AttemptRequest& self, const AttemptRecord& holder) {
  return !holder.boot_id.empty() && holder.boot_id == self.boot_id && holder.machine_id == self.machine_id &&
         holder.pid_namespace != 0 && holder.pid_namespace == self.pid_namespace;
}

// Fills in `life` and `why`.
Status Judge(const Catalog& catalog, const AttemptRequest& self, AttemptState* state) {
  const AttemptRecord& holder = state->record;
  const Result<AttemptEndRecord> end =
      ReadOwnRecord(catalog, keys::AttemptEndKey(holder.job, holder.attempt), &DecodeAttemptEndRecord);
  if (!end.ok() && end.status().code() != Code::kNotFound && end.status().code() != Code::kCorrupt) return end.status();
  if (end.ok()) {
    state->life = Life::kDead;
    state->why = "ended";
  } else if (!IsSeenFrom(self, holder)) {
    state->life = Life::kLeased;
    state->why = fmt::format("process {} on {}, lease of {:g} s", holder.pid, holder.host, holder.lease_seconds);
  } else if (ProcessIsAlive(self, holder)) {
    state->life = Life::kLives;
    state->why = fmt::format("process {} on {}", holder.pid, holder.host);
  } else {
    state->life = Life::kDead;
    state->why = fmt::format("its process {} on {} is gone", holder.pid, holder.host);
  }
  return Status::Ok();
}

// Whether the newest attempt holds its job no more, as far as `watch` has seen by now.
Result<bool> IsFree(const Catalog& catalog, const AttemptState& holder, LeaseWatch* watch) {
  if (holder.life == Life::kDead) return true;
  // One that is seen to live may be stopped, or hang: it holds the job as long as it gives signs of life, too.
  KEDGE_ASSIGN_OR_RETURN(const Duration unchanged,
                         watch->Unchanged(catalog, keys::AttemptKey(holder.record.job, holder.record.attempt)));
  return unchanged >= FromSeconds(holder.record.lease_seconds);
}

Status HeldBy(const AttemptState& state) {
  return Status(Code::kBusy,
                fmt::format("job '{}' is held by attempt {} ({}): end that run, wait until its lease has run out, or "
                            "choose another job name (job.name)",
                            state.record.job, state.record.attempt, state.why));
}

// The state of the newest attempt; one whose record is torn counts as dead, since its creator never got to know of it.
Result<std::optional<AttemptState>> StateOf(const Catalog& catalog, const AttemptRequest& self, uint32_t attempt) {
  if (attempt == 0) return std::optional<AttemptState>();
  AttemptState state;
  const Result<AttemptRecord> record = ReadOwnRecord(catalog, keys::AttemptKey(self.job, attempt), &DecodeAttemptRecord);
  if (record.status().code() == Code::kCorrupt) {
    state.record.store_id = catalog.id();
    state.record.job = self.job;
    state.record.attempt = attempt;
    state.life = Life::kDead;
    state.why = "its record cannot be read: " + record.status().message();
    return std::optional(state);
  }
  if (!record.ok()) return record.status();
  state.record = *record;
  KEDGE_RETURN_IF_ERROR(Judge(catalog, self, &state));
  return std::optional(state);
}

Status TakenOver(const std::string& job, uint32_t attempt, uint32_t newest) {
  return Status(Code::kBusy, fmt::format("job '{}': a newer attempt goes on: attempt {} has taken over from attempt {}, "
                                         "which is to end",
                                         job, newest, attempt));
}

// For an attempt that has begun without the store.
Status GivesWay(const AttemptRecord& record, uint32_t newest) {
  return Status(Code::kBusy,
                fmt::format("job '{}': attempt {} began without the store, where attempt {} of another launch stands", record.job,
                            record.attempt, newest));
}

// Numbers leap, so that two launches may both put theirs: the smaller one ends.
Result<bool> StaysNewest(const Catalog& catalog, const std::string& job, uint32_t attempt) {
  KEDGE_ASSIGN_OR_RETURN(const uint32_t newest, catalog.GreatestRecorded(job));
  if (newest <= attempt) return true;
  KEDGE_RETURN_IF_ERROR(EndAttempt(catalog, job, attempt));
  return false;
}

}  // namespace

Result<Duration> LeaseWatch::Unchanged(const Catalog& catalog, const std::string& key) {
  KEDGE_ASSIGN_OR_RETURN(const int64_t stamp, catalog.store().Stamp(key));
  const int64_t now_ns = clock_->NowNs();
  Seen& seen = seen_.try_emplace(key, Seen{stamp, now_ns, false}).first->second;
  if (seen.stamp != stamp) seen = {stamp, now_ns, true};
  return Duration(now_ns - seen.since_ns);
}

bool LeaseWatch::HasChanged(const std::string& key) const {
  const auto seen = seen_.find(key);
  return seen != seen_.end() && seen->second.has_changed;
}

Duration LeasePatience(double lease_seconds) {
  return FromSeconds(lease_seconds * 1.25);
}

AttemptRequest RequestOfThisProcess(std::string job, double lease_seconds, uint32_t ranks) {
  const os::ProcessIdentity self = os::OwnIdentity();
  AttemptRequest request;
  request.job = std::move(job);
  request.host = os::HostName().substr(0, kHostBytesMax);
  request.boot_id = os::BootId().substr(0, kBootIdBytesMax);
  request.machine_id = os::MachineId().substr(0, kMachineIdBytesMax);
  request.pid_namespace = os::PidNamespace();
  request.pid = self.process_id;
  request.process_start_time = self.start_ticks;
  request.lease_seconds = lease_seconds;
  request.ranks = ranks;
  return request;
}

Result<std::optional<AttemptState>> NewestAttempt(const Catalog& catalog, const AttemptRequest& self) {
  KEDGE_ASSIGN_OR_RETURN(const uint32_t newest, catalog.GreatestRecorded(self.job));
  return StateOf(catalog, self, newest);
}

Result<AttemptRecord> AcquireAttempt(const Catalog& catalog, const AttemptRequest& request, LeaseWatch* watch) {
  if (!(request.lease_seconds > 0 && request.lease_seconds < 1e9) || request.ranks < 1 || request.ranks > kRanksMax) {
    return Status(Code::kInvalidArgument, fmt::format("job '{}': a lease of {} s for {} ranks is out of range", request.job,
                                                      request.lease_seconds, request.ranks));
  }
  KEDGE_RETURN_IF_ERROR(catalog.EnsureJob(request.job));
  const Deadline deadline(SystemClock(), request.wait);
  for (;;) {
    KEDGE_ASSIGN_OR_RETURN(const uint32_t recorded, catalog.GreatestRecorded(request.job));
    KEDGE_ASSIGN_OR_RETURN(const std::optional<AttemptState> holder, StateOf(catalog, request, recorded));
    KEDGE_ASSIGN_OR_RETURN(const bool is_free, holder ? IsFree(catalog, *holder, watch) : Result<bool>(true));
    if (!is_free) {
      const bool gives_signs = holder->life == Life::kLives && watch->HasChanged(keys::AttemptKey(request.job, recorded));
      if (gives_signs || deadline.Passed()) return HeldBy(*holder);
      std::this_thread::sleep_for(std::min(kPollInterval, deadline.Remaining()));
      continue;
    }
    KEDGE_ASSIGN_OR_RETURN(const uint32_t used, GreatestOfGenerations(catalog, request.job));
    const uint32_t newest = std::max({recorded, used, request.newer_than});
    if (newest == UINT32_MAX) {
      return Status(Code::kUnsupported, "job '" + request.job + "' has used up its attempt numbers");
    }
    const AttemptRecord record = RecordOf(request, catalog.id(), newest + 1);
    const Status made = catalog.store().PutIfAbsent(keys::AttemptKey(request.job, record.attempt), Encoded(record),
                                                    catalog.owner(), Folders::kCreate);
    // Somebody was faster; look at them.
    if (made.code() == Code::kAlreadyExists) continue;
    KEDGE_RETURN_IF_ERROR(made);
    KEDGE_ASSIGN_OR_RETURN(const bool is_newest, StaysNewest(catalog, request.job, record.attempt));
    if (is_newest) return record;
  }
}

AttemptRecord RecordOf(const AttemptRequest& request, const StoreId& store_id, uint32_t attempt) {
  return {store_id,
          request.job,
          attempt,
          request.host,
          request.boot_id,
          request.machine_id,
          request.pid_namespace,
          request.pid,
          request.process_start_time,
          request.lease_seconds,
          WallTimeNs(),
          request.ranks};
}

uint32_t AttemptBeyond(uint32_t newest) {
  constexpr uint32_t kLeapMax = 1 << 16;
  const auto leap = static_cast<uint32_t>(Id128::Generate().low % kLeapMax) + 2;
  return newest > UINT32_MAX - leap ? UINT32_MAX : newest + leap;
}

Status RegisterAttempt(const Catalog& catalog, const AttemptRecord& record, const AttemptRequest& self, LeaseWatch* watch) {
  KEDGE_RETURN_IF_ERROR(catalog.Confirm());
  KEDGE_RETURN_IF_ERROR(catalog.EnsureJob(record.job));
  const auto there = ReadOwnRecord(catalog, keys::AttemptKey(record.job, record.attempt), &DecodeAttemptRecord);
  if (there.ok()) return *there == record ? Status::Ok() : GivesWay(record, record.attempt);
  KEDGE_ASSIGN_OR_RETURN(const uint32_t newest, catalog.GreatestRecorded(record.job));
  if (newest >= record.attempt) return GivesWay(record, newest);
  KEDGE_ASSIGN_OR_RETURN(const std::optional<AttemptState> holder, StateOf(catalog, self, newest));
  KEDGE_ASSIGN_OR_RETURN(const bool is_free, holder ? IsFree(catalog, *holder, watch) : Result<bool>(true));
  if (!is_free) return Status(Code::kUnavailable, HeldBy(*holder).message());
  const Status made = catalog.store().PutIfAbsent(keys::AttemptKey(record.job, record.attempt), Encoded(record), catalog.owner(),
                                                  Folders::kCreate);
  // By another node, perhaps.
  if (made.code() == Code::kAlreadyExists) return RegisterAttempt(catalog, record, self, watch);
  KEDGE_RETURN_IF_ERROR(made);
  KEDGE_ASSIGN_OR_RETURN(const bool is_newest, StaysNewest(catalog, record.job, record.attempt));
  return is_newest ? Status::Ok() : GivesWay(record, record.attempt + 1);
}

Status RegisterEndedAttempt(const Catalog& catalog, const AttemptRecord& record, LeaseWatch* watch, Duration wait) {
  const AttemptRequest self = RequestOfThisProcess(record.job, record.lease_seconds, record.ranks);
  const Deadline deadline(SystemClock(), wait);
  for (;;) {
    const Status noted = RegisterAttempt(catalog, record, self, watch);
    if (noted.ok()) return EndAttempt(catalog, record.job, record.attempt);
    if (noted.code() != Code::kUnavailable || deadline.Passed()) return noted;
    std::this_thread::sleep_for(std::min(kPollInterval, deadline.Remaining()));
  }
}

Status CheckNotTakenOver(const Catalog& catalog, const std::string& job, uint32_t attempt) {
  KEDGE_ASSIGN_OR_RETURN(const uint32_t newest, catalog.GreatestRecorded(job));
  if (newest == 0) return catalog.Confirm();  // there is no folder either where the store is not any more
  return newest > attempt ? TakenOver(job, attempt, newest) : Status::Ok();
}

Status AwaitCheckNotTakenOver(const std::function<Result<Catalog>()>& catalog, const std::string& job, uint32_t attempt,
                              Duration patience) {
  constexpr Duration kPause = std::chrono::milliseconds(250);
  const Deadline deadline(SystemClock(), patience);
  for (;;) {
    const Result<Catalog> there = catalog();
    const Status looked = there.ok() ? CheckNotTakenOver(*there, job, attempt) : there.status();
    if (looked.ok() || looked.code() == Code::kBusy) return looked;
    if (deadline.Passed()) {
      return looked.WithContext("the store does not tell whether a newer attempt has taken the job over");
    }
    std::this_thread::sleep_for(std::min(kPause, deadline.Remaining()));
  }
}

Status RenewAttempt(const Catalog& catalog, const std::string& job, uint32_t attempt) {
  KEDGE_RETURN_IF_ERROR(catalog.Confirm());
  KEDGE_RETURN_IF_ERROR(CheckNotTakenOver(catalog, job, attempt));
  return catalog.store().Touch(keys::AttemptKey(job, attempt), catalog.owner());
}

Status EndAttempt(const Catalog& catalog, const std::string& job, uint32_t attempt) {
  KEDGE_RETURN_IF_ERROR(catalog.Confirm());
  const AttemptEndRecord record{catalog.id(), job, attempt, WallTimeNs()};
  const Status made =
      catalog.store().PutIfAbsent(keys::AttemptEndKey(job, attempt), Encoded(record), catalog.owner(), Folders::kMustExist);
  return made.code() == Code::kAlreadyExists ? Status::Ok() : made;
}

Status MarkDraining(const Catalog& catalog, const std::string& job, uint32_t attempt) {
  const std::string key = keys::AttemptDrainKey(job, attempt);
  const Status touched = catalog.store().Touch(key, catalog.owner());
  if (touched.code() != Code::kNotFound) return touched;
  const AttemptDrainRecord record{catalog.id(), job, attempt, WallTimeNs()};
  const Status made = catalog.store().PutIfAbsent(key, Encoded(record), catalog.owner(), Folders::kMustExist);
  return made.code() == Code::kAlreadyExists ? Status::Ok() : made;
}

Result<AttemptLook> LookAfterAttempt(const Catalog& catalog, const std::string& job, uint32_t attempt, bool gives_sign) {
  AttemptLook look;
  look.taken_over = CheckNotTakenOver(catalog, job, attempt);
  // Of one that began without the store nobody can tell before its record stands there: its number says nothing till then.
  if (look.taken_over.ok()) look.taken_over = catalog.CheckRecordOf(job, attempt);
  if (!look.taken_over.ok() && look.taken_over.code() != Code::kBusy) return look.taken_over;
  // The others' records tell; its own one may be gone or damaged.
  const auto record = ReadOwnRecord(catalog, keys::AttemptKey(job, attempt), &DecodeAttemptRecord);
  const bool is_settled = record.status().code() == Code::kNotFound || record.status().code() == Code::kCorrupt;
  if (!record.ok() && !is_settled && look.taken_over.ok()) return record.status();
  look.lease = FromSeconds(record.ok() ? record->lease_seconds : AttemptRequest().lease_seconds);
  if (gives_sign) look.marked = record.ok() ? MarkDraining(catalog, job, attempt) : record.status();
  return look;
}

Result<std::vector<AttemptLife>> ReadAttempts(const Catalog& catalog, const std::string& job, uint32_t before) {
  KEDGE_ASSIGN_OR_RETURN(const std::vector<StoreEntry> entries, ListIfThere(catalog.store(), keys::AttemptsFolder(job)));
  std::vector<uint32_t> attempts;
  for (const StoreEntry& entry : entries) {
    const std::optional<uint32_t> attempt = keys::ParseNumber(entry.name);
    if (attempt && *attempt < before) attempts.push_back(*attempt);
  }
  std::sort(attempts.begin(), attempts.end());
  if (attempts.size() > kHistoryAttemptsMax) attempts.erase(attempts.begin(), attempts.end() - kHistoryAttemptsMax);
  std::vector<AttemptLife> lives;
  for (const uint32_t attempt : attempts) {
    const auto record = ReadOwnRecord(catalog, keys::AttemptKey(job, attempt), &DecodeAttemptRecord);
    if (IsUnknown(record.status())) return record.status();
    if (!record.ok()) continue;
    AttemptLife life{*record};
    const auto end = ReadOwnRecord(catalog, keys::AttemptEndKey(job, attempt), &DecodeAttemptEndRecord);
    if (IsUnknown(end.status())) return end.status();
    if (end.ok()) {
      life.ended_ns = end->wall_time_ns;
    } else {
      KEDGE_ASSIGN_OR_RETURN(const double silent, catalog.store().AgeSeconds(keys::AttemptKey(job, attempt), catalog.owner()));
      life.silent_seconds = std::max(silent, 0.0);
    }
    lives.push_back(std::move(life));
  }
  return lives;
}

Result<AttemptHistory> ReadAttemptHistory(const Catalog& catalog, const std::string& job, uint32_t before) {
  KEDGE_ASSIGN_OR_RETURN(const std::vector<AttemptLife> lives, ReadAttempts(catalog, job, before));
  AttemptHistory history;
  for (const AttemptLife& life : lives) {
    const bool has_ended = life.ended_ns != 0;
    const int64_t until = has_ended ? life.ended_ns : WallTimeNs();
    const double seconds = 1e-9 * static_cast<double>(until - life.record.wall_time_ns) - life.silent_seconds;
    history.seconds += std::max(0.0, seconds);
    if (!has_ended) history.failed.push_back(life.record.attempt);
  }
  return history;
}

Result<Silence> SilenceOf(const Catalog& catalog, const AttemptRequest& self, uint32_t attempt, LeaseWatch* watch) {
  const std::string key = keys::AttemptKey(self.job, attempt);
  const Result<AttemptRecord> record = ReadOwnRecord(catalog, key, &DecodeAttemptRecord);
  if (record.status().code() == Code::kNotFound || record.status().code() == Code::kCorrupt) return Silence::kSilent;
  if (!record.ok()) return record.status();
  KEDGE_ASSIGN_OR_RETURN(const uint32_t newest, catalog.GreatestRecorded(self.job));
  if (newest == attempt) {
    AttemptState state;
    state.record = *record;
    KEDGE_RETURN_IF_ERROR(Judge(catalog, self, &state));
    KEDGE_ASSIGN_OR_RETURN(const bool is_free, IsFree(catalog, state, watch));
    if (!is_free) return state.life == Life::kLives || watch->HasChanged(key) ? Silence::kBroken : Silence::kUnknown;
  }
  const std::string drain_key = keys::AttemptDrainKey(self.job, attempt);
  const Result<Duration> unchanged = watch->Unchanged(catalog, drain_key);
  if (unchanged.status().code() == Code::kNotFound) return Silence::kSilent;
  if (!unchanged.ok()) return unchanged.status();
  if (*unchanged >= FromSeconds(record->lease_seconds)) return Silence::kSilent;
  return watch->HasChanged(drain_key) ? Silence::kBroken : Silence::kUnknown;
}

bool IsSilent(const Catalog& catalog, const std::string& job, uint32_t attempt, LeaseWatch* watch) {
  const Result<AttemptRecord> record = ReadOwnRecord(catalog, keys::AttemptKey(job, attempt), &DecodeAttemptRecord);
  if (!record.ok()) return record.status().code() == Code::kNotFound || record.status().code() == Code::kCorrupt;
  const AttemptRequest self = RequestOfThisProcess(job, record->lease_seconds, record->ranks);
  const Result<Silence> silence = SilenceOf(catalog, self, attempt, watch);
  return silence.ok() && *silence == Silence::kSilent;
}

Result<double> SilentSeconds(const Catalog& catalog, const std::string& job, uint32_t attempt) {
  KEDGE_ASSIGN_OR_RETURN(const double lease_age, catalog.store().AgeSeconds(keys::AttemptKey(job, attempt), catalog.owner()));
  const Result<double> drain_age = catalog.store().AgeSeconds(keys::AttemptDrainKey(job, attempt), catalog.owner());
  if (!drain_age.ok() && drain_age.status().code() != Code::kNotFound) return drain_age.status();
  return std::max(drain_age.ok() ? std::min(lease_age, *drain_age) : lease_age, 0.0);
}

}  // namespace kedge
