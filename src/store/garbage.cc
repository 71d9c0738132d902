#include "store/garbage.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "store/attempts.h"
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
  Collector(const Catalog& catalog, const GarbageOptions& options) : catalog_(catalog), options_(options) {}

  void CollectJob(const std::string& job);
  void CollectRoot();
  GarbageReport TakeReport() { return std::move(report_); }
  void Problem(const Status& status) { report_.problems.push_back(status.ToString()); }

 private:
  // How an attempt is to be treated: silent for how long, and whether that is longer than its lease.
  struct Silence {
    bool silent = false;
    double seconds = 0;
  };
  Silence SilenceOf(const std::string& job, uint32_t attempt);
  void CollectName(const std::string& job, const std::string& name);
  void Consider(const VersionInfo& info, int64_t newest_complete, References* references);
  void CollectTemporary(const std::string& job, const Temporary& temporary);
  void RemoveAs(GarbageItem::Kind kind, const VersionInfo& info, const std::string& why, References* references);
  void Finish(const VersionInfo& info);

  const Catalog& catalog_;
  const GarbageOptions& options_;
  GarbageReport report_;
  std::map<uint32_t, Silence> silences_;  // of the job at hand
};

Collector::Silence Collector::SilenceOf(const std::string& job, uint32_t attempt) {
  const auto known = silences_.find(attempt);
  if (known != silences_.end()) return known->second;
  Silence silence;
  const Result<double> seconds = SilentSeconds(catalog_, job, attempt);
  const Result<AttemptRecord> record = ReadOwnRecord(catalog_, layout::AttemptKey(job, attempt), &DecodeAttemptRecord);
  if (seconds.ok() && record.ok()) {
    silence = {*seconds > record->lease_seconds, *seconds};
  } else if (seconds.status().code() == Code::kNotFound || record.status().code() == Code::kCorrupt) {
    // No record, as for a generation copied here: nobody is at work. Its own age cannot be told, so it counts as old.
    silence = {true, options_.incomplete_age_seconds + options_.orphan_age_seconds};
  } else {
    Problem(seconds.ok() ? record.status() : seconds.status());
  }
  silences_[attempt] = silence;
  return silence;
}

void Collector::CollectJob(const std::string& job) {
  silences_.clear();
  const Result<std::vector<Temporary>> temporaries = catalog_.store().ListTemporaries(layout::JobFolder(job), catalog_.owner());
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
    const Silence silence = SilenceOf(job, attempt);
    if (!silence.silent) return;
    why = fmt::format("of {} on {} in attempt {}, silent for {:.0f} s", temporary.owner.writer, temporary.owner.node, attempt,
                      silence.seconds);
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
    if (info.finishable) Finish(info);
  }
  if (!options_.dry_run) versions = ListVersions(catalog_, job, name);
  if (!versions.ok()) return Problem(versions.status());
  int64_t newest_complete = -1;
  for (const VersionInfo& info : *versions) {
    const bool complete = info.complete || (options_.dry_run && info.finishable);
    if (complete) newest_complete = std::max(newest_complete, info.generation.version);
  }
  Result<References> references = References::Read(catalog_, job);
  if (!references.ok()) return Problem(references.status().WithContext("nothing of '" + name + "' was removed"));
  const bool one_stands =
      std::any_of(versions->begin(), versions->end(), [](const VersionInfo& info) { return info.complete && !info.reprieved; });
  for (const VersionInfo& info : *versions) {
    if (one_stands || !info.doomed) Consider(info, newest_complete, &*references);
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

void Collector::Consider(const VersionInfo& info, int64_t newest_complete, References* references) {
  if (info.unknown) return Problem(Status(Code::kUnsupported, info.generation.ToString() + ": " + info.reason));
  if (info.pinned || info.finishable) return;
  if (info.removed) return RemoveAs(GarbageItem::Kind::kEmptied, info, "nothing refers to it any more", references);
  if (info.complete) {
    if (!info.superseded) return;
    return RemoveAs(GarbageItem::Kind::kSuperseded, info, "a later taking of the version is complete", references);
  }
  const Silence silence = SilenceOf(info.generation.job, info.generation.attempt);
  if (!silence.silent) return;
  const bool needless = info.generation.version <= newest_complete;
  if (!needless && silence.seconds <= options_.incomplete_age_seconds) return;
  RemoveAs(GarbageItem::Kind::kIncomplete, info,
           fmt::format("{}; its attempt has been silent for {:.0f} s", info.reason, silence.seconds), references);
}

void Collector::RemoveAs(GarbageItem::Kind kind, const VersionInfo& info, const std::string& why, References* references) {
  const Generation& generation = info.generation;
  if (references->ReferTo(generation)) return;  // its objects are needed
  if (!options_.dry_run && kind == GarbageItem::Kind::kSuperseded) {
    const Status removed = RemoveVersion(catalog_, generation, {});
    if (!removed.ok()) return Problem(removed);
  } else if (!options_.dry_run) {
    const Result<Removal> removal = RemoveGeneration(catalog_, info, references);
    if (!removal.ok()) return Problem(removal.status());
    if (*removal != Removal::kRemoved) return;
  }
  report_.items.push_back({kind, generation.ToString(), why, info.image_bytes});
}

void Collector::CollectRoot() {
  // Not below: that of jobs is judged by their attempts.
  for (const char* folder : {"", layout::kJobsFolder}) {
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

Result<GarbageReport> CollectGarbage(const Catalog& catalog, const GarbageOptions& options) {
  Collector collector(catalog, options);
  if (!options.job.empty()) {
    collector.CollectJob(options.job);
    return collector.TakeReport();
  }
  std::vector<std::string> skipped;
  KEDGE_ASSIGN_OR_RETURN(const std::vector<std::string> jobs, catalog.Jobs(&skipped));
  for (const std::string& sentence : skipped) collector.Problem(Status(Code::kCorrupt, sentence));
  collector.CollectRoot();
  for (const std::string& job : jobs) collector.CollectJob(job);
  return collector.TakeReport();
}

Status RemoveOwnTemporaries(const Catalog& catalog, const std::string& job, const std::set<std::string>& keep) {
  const std::string own = MakeTemporaryTag(catalog.owner());
  const Result<std::vector<Temporary>> temporaries = catalog.store().ListTemporaries(layout::JobFolder(job), catalog.owner());
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
