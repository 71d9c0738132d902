#include "store/garbage.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <thread>

#include "store/publish.h"
#include "store/record_io.h"
#include "store/retention.h"
#include "store/temporary_tag.h"
#include "store/versions.h"

namespace kedge {

namespace {

// Looks at one job after the other and decides item by item.
class Collector {
 public:
  Collector(const Catalog& catalog, const GarbageOptions& options, LeaseWatch* watch)
      : catalog_(catalog), options_(options), watch_(watch) {}

  void CollectJob(const std::string& job);
  void CollectRoot();
  // Of the attempts that were asked for: how long their leases are to be watched yet, at most.
  Duration ToBeWatched() const { return to_be_watched_; }
  GarbageReport TakeReport() { return std::move(report_); }
  void Problem(const Status& status) { report_.problems.push_back(status.ToString()); }

 private:
  // The last that was heard of an attempt.
  struct Sign {
    double seconds = 0;                   // ago
    std::optional<AttemptRecord> record;  // none: nobody is at work
  };
  Result<Sign> ReadSign(const std::string& job, uint32_t attempt) const;
  const Result<Sign>& SignOf(const std::string& job, uint32_t attempt);
  // How an attempt is to be treated: silent for how long, and whether that is longer than its lease.
  struct Quiet {
    bool silent = false;
    double seconds = 0;
  };
  Quiet QuietOf(const std::string& job, uint32_t attempt);
  Result<Quiet> LookAt(const std::string& job, uint32_t attempt);
  void CollectName(const std::string& job, const std::string& name);
  void Consider(const VersionInfo& info, const std::vector<VersionInfo>& versions, int64_t newest_complete,
                References* references);
  void CollectTemporary(const std::string& job, const Temporary& temporary);
  void FreeWithdrawn(const VersionInfo& info, References* references);
  void RemoveAs(GarbageItem::Kind kind, const VersionInfo& info, const std::string& why, References* references,
                const RemovalOptions& options = {});
  void Finish(const VersionInfo& info);

  const Catalog& catalog_;
  const GarbageOptions& options_;
  LeaseWatch* watch_;
  Duration to_be_watched_{};
  GarbageReport report_;
  // Of the job at hand, by attempt:
  std::map<uint32_t, Result<Sign>> signs_;
  std::map<uint32_t, Quiet> quiet_;
};

Result<Collector::Sign> Collector::ReadSign(const std::string& job, uint32_t attempt) const {
  const Result<double> seconds = SilentSeconds(catalog_, job, attempt);
  Result<AttemptRecord> record = ReadOwnRecord(catalog_, keys::AttemptKey(job, attempt), &DecodeAttemptRecord);
  if (seconds.status().code() == Code::kNotFound || record.status().code() == Code::kCorrupt) {
    // No record, as for a generation copied here: nobody is at work. Its own age cannot be told, so it counts as old.
    return Sign{options_.incomplete_age_seconds + options_.orphan_age_seconds, std::nullopt};
  }
  if (!seconds.ok()) return seconds.status();
  if (!record.ok()) return record.status();
  return Sign{*seconds, *std::move(record)};
}

const Result<Collector::Sign>& Collector::SignOf(const std::string& job, uint32_t attempt) {
  const auto known = signs_.find(attempt);
  return known != signs_.end() ? known->second : signs_.emplace(attempt, ReadSign(job, attempt)).first->second;
}

Result<Collector::Quiet> Collector::LookAt(const std::string& job, uint32_t attempt) {
  const Result<Sign>& sign = SignOf(job, attempt);
  if (!sign.ok()) return sign.status();
  if (!sign->record) return Quiet{true, sign->seconds};
  const AttemptRequest self = RequestOfThisProcess(job, sign->record->lease_seconds, sign->record->ranks);
  KEDGE_ASSIGN_OR_RETURN(const Silence silence, SilenceOf(catalog_, self, attempt, watch_));
  if (silence == Silence::kUnknown) to_be_watched_ = std::max(to_be_watched_, LeasePatience(sign->record->lease_seconds));
  return Quiet{silence == Silence::kSilent, sign->seconds};
}

Collector::Quiet Collector::QuietOf(const std::string& job, uint32_t attempt) {
  const auto known = quiet_.find(attempt);
  if (known != quiet_.end()) return known->second;
  const Result<Quiet> quiet = LookAt(job, attempt);
  if (!quiet.ok()) Problem(quiet.status());
  return quiet_[attempt] = quiet.ok() ? *quiet : Quiet{};
}

void Collector::CollectJob(const std::string& job) {
  signs_.clear();
  quiet_.clear();
  const Result<std::vector<Temporary>> temporaries = catalog_.store().ListTemporaries(keys::JobFolder(job), catalog_.owner());
  if (temporaries.ok()) {
    for (const Temporary& temporary : *temporaries) CollectTemporary(job, temporary);
  } else {
    Problem(temporaries.status());
  }
  std::vector<std::string> skipped;
  const Result<std::vector<std::string>> names = catalog_.Names(job, &skipped);
  for (const std::string& sentence : skipped) report_.problems.push_back(sentence);
  if (!names.ok()) return Problem(names.status());
  for (const std::string& name : *names) CollectName(job, name);
}

void Collector::CollectTemporary(const std::string& job, const Temporary& temporary) {
  const uint32_t attempt = temporary.owner.attempt;
  std::string why;
  if (attempt == 0 || job.empty()) {
    if (temporary.age_seconds <= options_.orphan_age_seconds) return;
    why =
        fmt::format("of {} on {}, not written for {:.0f} s", temporary.owner.writer, temporary.owner.node, temporary.age_seconds);
  } else {
    const Quiet quiet = QuietOf(job, attempt);
    if (!quiet.silent) return;
    why = fmt::format("of {} on {} in attempt {}, silent for {:.0f} s", temporary.owner.writer, temporary.owner.node, attempt,
                      quiet.seconds);
  }
  if (!options_.dry_run) {
    const Status removed = catalog_.store().RemoveTemporary(temporary.handle);
    if (!removed.ok()) return Problem(removed);
  }
  report_.items.push_back({GarbageItem::Kind::kTemporary, temporary.handle, why, temporary.bytes});
}

void Collector::CollectName(const std::string& job, const std::string& name) {
  Result<std::vector<VersionInfo>> versions = ListVersions(catalog_, job, name);
  if (!versions.ok()) return Problem(versions.status());
  for (const VersionInfo& info : *versions) {
    if (info.finishable && !info.abandoned) Finish(info);
  }
  if (!options_.dry_run) versions = ListVersions(catalog_, job, name);
  if (!versions.ok()) return Problem(versions.status());
  int64_t newest_complete = -1;
  for (const VersionInfo& info : *versions) {
    const bool complete = info.complete || (options_.dry_run && info.finishable);
    if (complete && !info.abandoned) newest_complete = std::max(newest_complete, info.generation.version);
  }
  Result<References> references = References::Read(catalog_, job);
  if (!references.ok()) return Problem(references.status().WithContext("nothing of '" + name + "' was removed"));
  const bool one_stands = std::any_of(versions->begin(), versions->end(), [](const VersionInfo& info) {
    return info.complete && !info.abandoned && !info.reprieved;
  });
  for (const VersionInfo& info : *versions) {
    if (one_stands || !info.doomed) Consider(info, *versions, newest_complete, &*references);
  }
}

void Collector::Finish(const VersionInfo& info) {
  if (!options_.dry_run) {
    const Result<FinishOutcome> outcome = FinishVersion(catalog_, info.generation);
    if (!outcome.ok()) return Problem(outcome.status());
    if (!outcome->created) return;
  }
  report_.items.push_back(
      {GarbageItem::Kind::kFinished, info.generation.ToString(), "all its images are there", info.image_bytes});
}

// Of a withdrawal that did not come to its end: the mark stays.
void Collector::FreeWithdrawn(const VersionInfo& info, References* references) {
  const Result<std::vector<StoreEntry>> entries = catalog_.store().List(keys::GenerationFolder(info.generation));
  if (entries.status().code() == Code::kNotFound) return;
  if (!entries.ok()) return Problem(entries.status());
  if (entries->size() > 1) {
    RemoveAs(GarbageItem::Kind::kEmptied, info, "it was withdrawn, and its removal was not finished", references,
             {.keep_mark = true});
  }
}

void Collector::Consider(const VersionInfo& info, const std::vector<VersionInfo>& versions, int64_t newest_complete,
                         References* references) {
  if (info.unknown) return Problem(Status(Code::kUnsupported, info.generation.ToString() + ": " + info.reason));
  if (info.pinned || (info.finishable && !info.abandoned)) return;
  if (IsWithdrawn(info, versions)) return FreeWithdrawn(info, references);
  if (info.removed) return RemoveAs(GarbageItem::Kind::kEmptied, info, "nothing refers to it any more", references);
  if (info.complete) {
    if (!info.superseded) return;
    return RemoveAs(GarbageItem::Kind::kSuperseded, info, "a later taking of the version is complete", references);
  }
  const bool needless = info.abandoned || info.generation.version <= newest_complete;
  const Result<Sign>& sign = SignOf(info.generation.job, info.generation.attempt);
  if (!needless && sign.ok() && sign->seconds <= options_.incomplete_age_seconds) {
    ++report_.young;  // whoever is at work
    return;
  }
  const Quiet quiet = QuietOf(info.generation.job, info.generation.attempt);
  if (!quiet.silent) return;
  RemoveAs(GarbageItem::Kind::kIncomplete, info,
           fmt::format("{}; its attempt has been silent for {:.0f} s", info.reason, quiet.seconds), references);
}

void Collector::RemoveAs(GarbageItem::Kind kind, const VersionInfo& info, const std::string& why, References* references,
                         const RemovalOptions& options) {
  const Generation& generation = info.generation;
  if (references->ReferTo(generation)) return;  // its objects are needed
  if (!options_.dry_run && kind == GarbageItem::Kind::kSuperseded) {
    const Status removed = RemoveVersion(catalog_, generation, {});
    if (!removed.ok()) return Problem(removed);
  } else if (!options_.dry_run) {
    const Result<Removal> removal = RemoveGeneration(catalog_, info, references, options);
    if (!removal.ok()) return Problem(removal.status());
    if (*removal != Removal::kRemoved) return;
  }
  report_.items.push_back({kind, generation.ToString(), why, info.image_bytes});
}

void Collector::CollectRoot() {
  // Not below: that of jobs is judged by their attempts.
  for (const char* folder : {"", keys::kJobsFolder}) {
    const Result<std::vector<Temporary>> temporaries = catalog_.store().ListTemporaries(folder, catalog_.owner());
    if (!temporaries.ok()) {
      Problem(temporaries.status());
      continue;
    }
    for (const Temporary& temporary : *temporaries) {
      const size_t slash = temporary.handle.rfind('/');
      const std::string parent = slash == std::string::npos ? "" : temporary.handle.substr(0, slash);
      if (parent == folder) CollectTemporary({}, temporary);
    }
  }
}

}  // namespace

const char* KindName(GarbageItem::Kind kind) {
  switch (kind) {
    case GarbageItem::Kind::kTemporary: return "temporary";
    case GarbageItem::Kind::kIncomplete: return "incomplete";
    case GarbageItem::Kind::kSuperseded: return "superseded";
    case GarbageItem::Kind::kEmptied: return "emptied";
    case GarbageItem::Kind::kFinished: return "finished";
  }
  return "unknown";
}

namespace {

// A look reads all that is there: few are made, however long the leases.
constexpr Duration kWatchIntervalMin = std::chrono::milliseconds(200);
constexpr int kLooksPerLease = 8;

Status CollectAll(const Catalog& catalog, const std::string& only_job, Collector* collector) {
  if (!only_job.empty()) {
    collector->CollectJob(only_job);
    return Status::Ok();
  }
  std::vector<std::string> skipped;
  KEDGE_ASSIGN_OR_RETURN(const std::vector<std::string> jobs, catalog.Jobs(&skipped));
  for (const std::string& sentence : skipped) collector->Problem(Status(Code::kCorrupt, sentence));
  collector->CollectRoot();
  for (const std::string& job : jobs) collector->CollectJob(job);
  return Status::Ok();
}

// Until the leases of all attempts that have left something have been watched for long enough.
Status WatchLeases(const Catalog& catalog, const GarbageOptions& options, LeaseWatch* watch) {
  GarbageOptions look = options;
  look.dry_run = true;
  Collector first(catalog, look, watch);
  KEDGE_RETURN_IF_ERROR(CollectAll(catalog, options.job, &first));
  const Duration watched = std::min(options.patience, first.ToBeWatched());
  const Duration interval = std::max<Duration>(watched / kLooksPerLease, kWatchIntervalMin);
  const Deadline deadline(SystemClock(), watched);
  while (!deadline.Passed()) {
    if (options.watching) options.watching(watched);
    std::this_thread::sleep_for(std::min(interval, deadline.Remaining()));
    Collector again(catalog, look, watch);
    KEDGE_RETURN_IF_ERROR(CollectAll(catalog, options.job, &again));
    if (again.ToBeWatched() == Duration::zero()) break;
  }
  return Status::Ok();
}

}  // namespace

Result<GarbageReport> CollectGarbage(const Catalog& catalog, const GarbageOptions& options) {
  LeaseWatch own_watch;
  LeaseWatch* const watch = options.watch != nullptr ? options.watch : &own_watch;
  KEDGE_RETURN_IF_ERROR(WatchLeases(catalog, options, watch));
  Collector collector(catalog, options, watch);
  KEDGE_RETURN_IF_ERROR(CollectAll(catalog, options.job, &collector));
  return collector.TakeReport();
}

Status RemoveOwnTemporaries(const Catalog& catalog, const std::string& job, const std::set<std::string>& keep) {
  const std::string own = MakeTemporaryTag(catalog.owner());
  const Result<std::vector<Temporary>> temporaries = catalog.store().ListTemporaries(keys::JobFolder(job), catalog.owner());
  if (temporaries.status().code() == Code::kNotFound) return Status::Ok();
  if (!temporaries.ok()) return temporaries.status();
  Status first;
  for (const Temporary& temporary : *temporaries) {
    if (temporary.tag != own || keep.contains(temporary.handle)) continue;
    const Status removed = catalog.store().RemoveTemporary(temporary.handle);
    if (first.ok()) first = removed;
  }
  return first;
}

}  // namespace kedge
