// kedge rm: removes versions that somebody wants to be gone: one, all of a checkpoint name, or all of a job. Files of burst
// buffers are buffers/'s.
//
// Retention removes what newer versions have displaced; this also removes the newest. Nothing goes before all that stands against
// it was looked at and agreed to. The newest versions go first, each in the order of WithdrawVersion (store/retention.h): who is
// killed has removed some, and left the others whole.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "base/byte_size.h"
#include "base/clock.h"
#include "base/duration.h"
#include "base/json.h"
#include "store/attempts.h"
#include "store/reached.h"
#include "store/retention.h"
#include "tools/buffers/buffer_files.h"
#include "tools/command.h"
#include "tools/common.h"

namespace kedge::tools {
namespace {

// A lease that is longer is not watched to its end: its holder counts as alive.
constexpr Duration kLeasePatienceMax = std::chrono::minutes(2);
constexpr Duration kLookInterval = std::chrono::milliseconds(200);

struct RmOptions {
  StoreOptions store;
  std::string target;
  bool yes = false;
  bool dry_run = false;
  bool pinned = false;
  bool live = false;
  bool json = false;
};

// A version that is to go, and what stands against it; empty: nothing.
struct Doomed {
  VersionInfo info;
  std::string obstacle;
};

// Who works for a job. What no process here can see has a lease, which is watched for its length, once.
class Workers {
 public:
  Workers(const Catalog& catalog, std::string job)
      : catalog_(catalog), job_(std::move(job)), self_(RequestOfThisProcess(job_, AttemptRequest().lease_seconds, 1)) {}

  // The newest attempt's, for people, where it lives; else empty.
  Result<std::string> Holder() {
    if (holder_) return *holder_;
    KEDGE_RETURN_IF_ERROR(Watch([&]() -> Result<bool> {
      KEDGE_ASSIGN_OR_RETURN(const auto newest, NewestAttempt(catalog_, self_));
      holder_ = newest && newest->life != Life::kDead ? fmt::format("attempt {} ({})", newest->record.attempt, newest->why) : "";
      if (holder_->empty() || newest->life == Life::kLives) return true;
      const std::string key = keys::AttemptKey(job_, newest->record.attempt);
      KEDGE_ASSIGN_OR_RETURN(const Duration unchanged, watch_.Unchanged(catalog_, key));
      if (unchanged >= FromSeconds(newest->record.lease_seconds)) holder_ = "";
      return holder_->empty() || watch_.HasChanged(key);
    }));
    return *holder_;
  }

  // Whether rank 0 of the attempt or an agent that carries its images on is at work.
  Result<bool> IsSilent(uint32_t attempt) {
    Silence silence = Silence::kUnknown;
    KEDGE_RETURN_IF_ERROR(Watch([&]() -> Result<bool> {
      KEDGE_ASSIGN_OR_RETURN(silence, SilenceOf(catalog_, self_, attempt, &watch_));
      return silence != Silence::kUnknown;
    }));
    return silence == Silence::kSilent;
  }

 private:
  // Until `look` can tell, or for so long as it may take.
  template <typename Look>
  Status Watch(Look look) {
    ProgressLine line("");
    const Deadline deadline(SystemClock(), kLeasePatienceMax);
    for (;;) {
      KEDGE_ASSIGN_OR_RETURN(const bool is_told, look());
      if (is_told || deadline.Passed()) return Status::Ok();
      line.Wait(fmt::format("waiting up to {} whether anybody gives a sign of life for job {}; --live does not wait",
                            FormatDuration(kLeasePatienceMax), job_));
      std::this_thread::sleep_for(kLookInterval);
    }
  }

  const Catalog& catalog_;
  const std::string job_;
  const AttemptRequest self_;
  LeaseWatch watch_;
  std::optional<std::string> holder_;
};

// Of one name, the newest first. What is withdrawn already is gone, but for one whose remover died before its record went.
Result<std::vector<VersionInfo>> Select(const Catalog& catalog, const Target& target) {
  KEDGE_ASSIGN_OR_RETURN(std::vector<VersionInfo> versions, ListVersions(catalog, target.job, target.name));
  std::vector<VersionInfo> selected;
  for (const VersionInfo& info : versions) {
    if (IsWithdrawn(info, versions) && !info.doomed) continue;
    if (!target.version || target.version->Means(info.generation)) selected.push_back(info);
  }
  return selected;
}

Result<std::string> ObstacleOf(const RmOptions& options, const VersionInfo& info, const Generation* newest, Workers* workers) {
  if (info.unknown) return info.reason;
  if (info.pinned && !options.pinned) return std::string("pinned: kedge unpin lets go of it, --pinned removes it all the same");
  if (options.live) return std::string();
  if (newest != nullptr && info.generation == *newest) {
    KEDGE_ASSIGN_OR_RETURN(const std::string holder, workers->Holder());
    if (holder.empty()) return std::string();
    return fmt::format("the newest of a job that is alive, {}: kedge halt ends it, --live removes it all the same", holder);
  }
  if (info.complete || info.removed) return std::string();
  KEDGE_ASSIGN_OR_RETURN(const bool is_silent, workers->IsSilent(info.generation.attempt));
  if (is_silent) return std::string();
  return fmt::format("on its way to the store, attempt {} is at work: kedge wait waits for it, --live removes it all the same",
                     info.generation.attempt);
}

Result<std::vector<Doomed>> Look(const OpenedStore& opened, const RmOptions& options, const Target& target,
                                 const std::vector<std::string>& names) {
  Workers workers(opened.catalog, target.job);
  std::vector<Doomed> doomed;
  for (const std::string& name : names) {
    KEDGE_ASSIGN_OR_RETURN(const std::vector<VersionInfo> all, ListVersions(opened.catalog, target.job, name));
    const auto newest = std::find_if(all.begin(), all.end(), [](const auto& info) { return info.complete && !info.abandoned; });
    KEDGE_ASSIGN_OR_RETURN(const std::vector<VersionInfo> selected, Select(opened.catalog, {target.job, name, target.version}));
    for (const VersionInfo& info : selected) {
      const Generation* const of_lineage = newest == all.end() ? nullptr : &newest->generation;
      KEDGE_ASSIGN_OR_RETURN(std::string obstacle, ObstacleOf(options, info, of_lineage, &workers));
      doomed.push_back({info, std::move(obstacle)});
    }
  }
  return doomed;
}

// Of a job and its checkpoint of one name --job means the checkpoint: too little goes, not too much.
Result<Target> SelectDoomed(const OpenedStore& opened, const RmOptions& options) {
  if (options.store.job.empty()) return SelectTarget(opened, options.store, options.target, TargetForm::kFromJob);
  Result<Target> named = SelectTarget(opened, options.store, options.target, TargetForm::kName);
  return named.status().code() == Code::kNotFound ? SelectTarget(opened, options.store, options.target, TargetForm::kAny) : named;
}

uint64_t BytesOf(const std::vector<Doomed>& doomed) {
  uint64_t bytes = 0;
  for (const Doomed& one : doomed) bytes += one.info.image_bytes;
  return bytes;
}

std::string Summary(const std::vector<Doomed>& doomed) {
  return fmt::format("{}, {}", Counted(doomed.size(), "version"), FormatByteSize(BytesOf(doomed)));
}

void Print(const OpenedStore& opened, const RmOptions& options, const std::vector<Doomed>& doomed, bool removed,
           const std::vector<std::string>& problems) {
  if (options.json) {
    Json versions = Json::array();
    for (const auto& [info, obstacle] : doomed) {
      const Generation& generation = info.generation;
      versions.push_back({{"job", generation.job},
                          {"name", generation.name},
                          {"version", generation.version},
                          {"attempt", generation.attempt},
                          {"take", generation.take},
                          {"complete", info.complete},
                          {"pinned", info.pinned},
                          {"bytes", info.image_bytes},
                          {"obstacle", obstacle}});
    }
    return PrintJson({{"store", opened.path},
                      {"removed", removed},
                      {"versions", std::move(versions)},
                      {"problems", problems},
                      {"bytes", BytesOf(doomed)}});
  }
  if (!removed) {
    Table table({"JOB", "NAME", "VERSION", "BYTES", "AGE", "ATTEMPT", ""}, {false, false, true, true, true, true, false});
    for (const auto& [info, obstacle] : doomed) {
      const Generation& generation = info.generation;
      const std::string why = info.complete ? "" : "incomplete";
      table.AddRow({generation.job, generation.name, fmt::format("{}", generation.version), FormatByteSize(info.image_bytes),
                    FormatAge(info.wall_time_ns), fmt::format("{}.{}", generation.attempt, generation.take),
                    obstacle.empty() ? why : "STAYS: " + obstacle});
    }
    std::fputs(table.Text().c_str(), stdout);
    return;
  }
  for (const std::string& problem : problems) std::fprintf(stderr, "kedge: problem: %s\n", problem.c_str());
  if (problems.empty()) std::printf("removed %s\n", Summary(doomed).c_str());
}

Status RemoveOne(const Catalog& catalog, const VersionInfo& info) {
  if (info.pinned) KEDGE_RETURN_IF_ERROR(UnpinVersion(catalog, info.generation));
  const Status removed = WithdrawVersion(catalog, info.generation).status();
  return removed.code() == Code::kNotFound ? Status::Ok() : removed;  // by somebody else
}

// Where nothing of a name is left, none of it is lost either.
Status ForgetName(const Catalog& catalog, const std::string& job, const std::string& name) {
  KEDGE_ASSIGN_OR_RETURN(const std::vector<VersionInfo> versions, ListVersions(catalog, job, name));
  const bool is_empty = std::all_of(versions.begin(), versions.end(), [](const VersionInfo& info) { return info.removed; });
  return is_empty ? ForgetReached(catalog, job, name) : Status::Ok();
}

std::vector<std::string> RemoveAll(const Catalog& catalog, const Target& target, const std::vector<std::string>& names,
                                   const std::vector<Doomed>& doomed) {
  std::vector<std::string> problems;
  const auto note = [&](const Status& status) {
    if (!status.ok()) problems.push_back(status.message());
  };
  for (const Doomed& one : doomed) note(RemoveOne(catalog, one.info));
  if (!target.version) {
    for (const std::string& name : names) note(ForgetName(catalog, target.job, name));
  }
  return problems;
}

Outcome Rm(const RmOptions& options) {
  if (buffer::IsFileName(options.target))
    return RemoveFromBuffer(options.store.config, {options.target, options.yes, options.dry_run, options.json});
  KEDGE_ASSIGN_OR_RETURN(const OpenedStore opened, OpenStore(options.store));
  KEDGE_ASSIGN_OR_RETURN(const Target target, SelectDoomed(opened, options));
  std::vector<std::string> names = {target.name};
  if (target.name.empty()) {
    KEDGE_ASSIGN_OR_RETURN(names, opened.catalog.Names(target.job, nullptr));
  }
  KEDGE_ASSIGN_OR_RETURN(const std::vector<Doomed> doomed, Look(opened, options, target, names));
  if (doomed.empty()) return Status(Code::kNotFound, fmt::format("{} has no version of {}", opened.path, target.ToString()));
  const bool is_refused = std::any_of(doomed.begin(), doomed.end(), [](const Doomed& one) { return !one.obstacle.empty(); });
  if (options.dry_run || is_refused || (!options.yes && !options.json)) Print(opened, options, doomed, false, {});
  if (is_refused) std::fprintf(stderr, "kedge: nothing was removed: see what stands against it\n");
  if (is_refused) return kExitBad;
  if (options.dry_run) {
    if (!options.json) std::printf("%s; nothing was changed: --dry-run\n", Summary(doomed).c_str());
    return kExitOk;
  }
  if (!options.yes) {
    KEDGE_ASSIGN_OR_RETURN(const bool is_meant, ConfirmRemoval(Summary(doomed) + " of " + target.ToString()));
    if (!is_meant) {
      std::fprintf(stderr, "kedge: nothing was removed\n");
      return kExitBad;
    }
  }
  const std::vector<std::string> problems = RemoveAll(opened.catalog, target, names, doomed);
  Print(opened, options, doomed, true, problems);
  return problems.empty() ? kExitOk : kExitBad;
}

}  // namespace

Command RmCommand() {
  return {
      "rm", "remove a version, a checkpoint name or a job from the store", [](CLI::App& app) {
        auto options = std::make_shared<RmOptions>();
        options->store.AddTo(app);
        app.add_option("target", options->target,
                       "what goes: all of JOB, of JOB/NAME, or one version; or a file of a burst buffer")
            ->required()
            ->type_name("JOB[/NAME]|[JOB/]NAME@VERSION|bb://SERVER/PATH");
        app.add_flag("--yes", options->yes, "do it unasked");
        app.add_flag("--dry-run", options->dry_run, "only show what would go, and what stands against it");
        app.add_flag("--pinned", options->pinned, "also pinned versions");
        app.add_flag("--live", options->live, "also the newest version of a job that is alive, and versions on their way");
        app.add_flag("--json", options->json, "print JSON");
        app.footer(
            "Copies on nodes stay there until their agents let go of them. They do not come back to the store, and no restart "
            "goes on from them. Versions that were never in the store are not touched: kedge clean frees nodes.\n"
            "bb://SERVER/PATH is one file; where PATH ends with a slash, all below it.\n"
            "Examples:\n  kedge rm climate/heat@120\n  kedge rm climate --dry-run\n  kedge rm climate --yes\n  kedge rm "
            "bb://fast/run7/");
        return [options] { return Rm(*options); };
      }};
}

}  // namespace kedge::tools
