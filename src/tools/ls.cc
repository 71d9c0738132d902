// kedge ls: the jobs of a store, their checkpoint names, versions, levels, sizes and ages.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/byte_size.h"
#include "base/clock.h"
#include "base/duration.h"
#include "base/json.h"
#include "store/attempts.h"
#include "tools/buffers/buffer_files.h"
#include "tools/command.h"
#include "tools/common.h"

namespace kedge::tools {
namespace {

struct LsOptions {
  StoreOptions store;
  std::string target;
  bool all = false;
  bool attempts = false;
  bool json = false;
};

std::string StateText(const VersionInfo& info) {
  if (info.removed) return "removed";
  if (info.complete) return info.abandoned ? "abandoned" : info.superseded ? "superseded" : "complete";
  return info.finishable ? "finishable" : "incomplete";
}

Json VersionJson(const std::string& job, const std::string& name, const VersionInfo& info) {
  Json json{{"job", job},
            {"name", name},
            {"version", info.generation.version},
            {"attempt", info.generation.attempt},
            {"take", info.generation.take},
            {"state", StateText(info)},
            {"complete", info.complete},
            {"pinned", info.pinned},
            {"level", !info.complete ? "none"
                      : info.drained ? "store"
                                     : "buffer"},
            {"ranks", info.ranks},
            {"bytes", info.image_bytes},
            {"wall_time_ns", info.wall_time_ns},
            {"missing_ranks_count", info.missing_count}};
  if (!info.reason.empty()) json["reason"] = info.reason;
  return json;
}

// The newest is not complete: it may be on its way, or have been taken by some ranks only.
void WarnOfIncomplete(const std::string& job, const std::vector<VersionInfo>& newest_first) {
  const VersionInfo* newest = nullptr;
  for (const VersionInfo& info : newest_first) {
    if (!info.removed && (newest == nullptr || info.generation.attempt > newest->generation.attempt)) newest = &info;
  }
  const bool is_incomplete = newest != nullptr && !newest->complete && !newest->unknown;
  if (is_incomplete) {
    std::fprintf(stderr, "kedge: warning: job %s: '%s' version %lld is not complete: %s\n", job.c_str(),
                 newest->generation.name.c_str(), static_cast<long long>(newest->generation.version), newest->reason.c_str());
  }
  const Status disagreement = DisagreementAmong(newest_first);
  if (disagreement.ok() || (is_incomplete && newest->reason == disagreement.message())) return;
  std::fprintf(stderr, "kedge: warning: job %s: %s\n", job.c_str(), disagreement.message().c_str());
}

// Everything, or what the text means: a name may be one of several jobs.
Result<std::vector<Target>> Select(const OpenedStore& opened, const LsOptions& options) {
  if (!options.target.empty()) {
    KEDGE_ASSIGN_OR_RETURN(std::vector<Target> found, SelectTargets(opened, options.store, options.target, TargetForm::kAny));
    // A job has attempts, a checkpoint has none: other jobs' checkpoints of that name are not meant.
    const auto is_job = [](const Target& target) { return target.name.empty(); };
    if (options.attempts && std::ranges::any_of(found, is_job)) std::erase_if(found, std::not_fn(is_job));
    return found;
  }
  KEDGE_ASSIGN_OR_RETURN(const std::vector<std::string> jobs, SelectJobs(opened, options.store));
  std::vector<Target> targets;
  for (const std::string& job : jobs) targets.push_back({job, {}, {}});
  return targets;
}

// The launches of some jobs, and what they went on from.
struct Attempts {
  Json lives = Json::array();
  Json restored = Json::array();
  Table table{{"JOB", "ATTEMPT", "STATE", "RANKS", "HOST", "BEGAN", "LASTED", "CONTINUED FROM"},
              {false, true, false, true, false, true, true, false}};

  Status Add(const Catalog& catalog, const std::string& job);
};

// What became of one, and how that is known. Of the newest alone somebody may see its process.
std::pair<std::string, std::string> FateOf(const AttemptLife& life, const std::optional<AttemptState>& newest) {
  if (life.ended_ns != 0) return {"ended", "its rank 0 said so, whatever became of others"};
  if (!newest || newest->record.attempt != life.record.attempt) return {"died", "another attempt has taken over from it"};
  if (newest->life != Life::kLeased) return {newest->life == Life::kLives ? "lives" : "died", newest->why};
  const std::string silent = fmt::format("; silent for {:.0f} s", life.silent_seconds);
  return {life.silent_seconds < life.record.lease_seconds ? "lives" : "silent", newest->why + silent};
}

// How long it was there, for people: since its last sign of life it may have lived until the next one began. A sign that it gave
// in the beginning says no more than that.
std::string LastedText(const std::string& state, int64_t began_ns, int64_t last_sign_ns, int64_t next_ns) {
  const auto text = [&](int64_t until_ns) {
    return FormatDuration(FromSeconds(1e-9 * static_cast<double>(until_ns - began_ns)));
  };
  if (state == "ended") return text(last_sign_ns);
  if (state != "died") return "> " + text(last_sign_ns);
  const bool tells = last_sign_ns - began_ns > (next_ns - began_ns) / 10;
  return tells ? fmt::format("{} to {}", text(last_sign_ns), text(std::max(last_sign_ns, next_ns))) : "< " + text(next_ns);
}

Status Attempts::Add(const Catalog& catalog, const std::string& job) {
  KEDGE_ASSIGN_OR_RETURN(const std::vector<AttemptLife> all, ReadAttempts(catalog, job, std::numeric_limits<uint32_t>::max()));
  KEDGE_ASSIGN_OR_RETURN(const auto newest, NewestAttempt(catalog, RequestOfThisProcess(job, 0, 1)));
  std::map<uint32_t, std::string> origins;
  std::map<uint32_t, int64_t> newest_version_ns;  // signs of life, too: others are a quarter of a lease apart
  KEDGE_ASSIGN_OR_RETURN(const std::vector<std::string> names, catalog.Names(job, nullptr));
  for (const std::string& name : names) {
    KEDGE_ASSIGN_OR_RETURN(const std::vector<VersionInfo> versions, ListVersions(catalog, job, name));
    for (const VersionInfo& info : versions) {
      int64_t& newest_ns = newest_version_ns[info.generation.attempt];
      newest_ns = std::max(newest_ns, info.wall_time_ns);
    }
    KEDGE_ASSIGN_OR_RETURN(const std::vector<RestoredRecord> records, ReadRestored(catalog, job, name));
    for (const RestoredRecord& record : records) {
      const Generation& origin = record.origin;
      restored.push_back({{"job", job},
                          {"name", name},
                          {"attempt", record.attempt},
                          {"take", record.take},
                          {"wall_time_ns", record.wall_time_ns},
                          {"origin", {{"version", origin.version}, {"attempt", origin.attempt}, {"take", origin.take}}}});
      std::string& text = origins[record.attempt];
      text += fmt::format("{}{}@{}.{}", text.empty() ? "" : ", ", name, origin.version, origin.attempt);
    }
  }
  for (size_t i = 0; i < all.size(); ++i) {
    const AttemptLife& life = all[i];
    const AttemptRecord& record = life.record;
    const auto [state, why] = FateOf(life, newest);
    const auto silent_ns = static_cast<int64_t>(1e9 * life.silent_seconds);
    // An agent may complete a version when its attempt has died, and another has begun.
    const int64_t next_ns = i + 1 < all.size() ? all[i + 1].record.wall_time_ns : WallTimeNs();
    const int64_t version_ns = std::min(newest_version_ns[record.attempt], next_ns);
    const bool is_seen = newest && newest->record.attempt == record.attempt && newest->life == Life::kLives;
    const int64_t seen_ns = life.ended_ns != 0 ? life.ended_ns
                            : is_seen          ? WallTimeNs()
                                               : std::max(WallTimeNs() - silent_ns, version_ns);
    const int64_t last_sign_ns = std::max(record.wall_time_ns, seen_ns);
    lives.push_back({{"job", job},
                     {"attempt", record.attempt},
                     {"state", state},
                     {"why", why},
                     {"ranks", record.ranks},
                     {"host", record.host},
                     {"pid", record.pid},
                     {"lease_seconds", record.lease_seconds},
                     {"began_wall_time_ns", record.wall_time_ns},
                     {"ended_wall_time_ns", life.ended_ns},
                     {"last_sign_wall_time_ns", last_sign_ns}});
    table.AddRow({job, fmt::format("{}", record.attempt), state, fmt::format("{}", record.ranks), record.host,
                  FormatAge(record.wall_time_ns), LastedText(state, record.wall_time_ns, last_sign_ns, next_ns),
                  origins[record.attempt]});
  }
  return Status::Ok();
}

Outcome Ls(const LsOptions& options) {
  if (buffer::IsFileName(options.target)) return ListBuffer(options.store.config, options.target, options.json);
  KEDGE_ASSIGN_OR_RETURN(const OpenedStore opened, OpenStore(options.store));
  KEDGE_ASSIGN_OR_RETURN(const std::vector<Target> targets, Select(opened, options));
  Json shown = Json::array();
  Table table({"JOB", "NAME", "VERSION", "STATE", "RANKS", "BYTES", "AGE", "ATTEMPT", ""},
              {false, false, true, false, true, true, true, true, false});
  Attempts attempts;
  std::set<std::string> jobs;
  for (const Target& target : targets) {
    const std::string& job = target.job;
    if (options.attempts && jobs.insert(job).second) {
      KEDGE_RETURN_IF_ERROR(attempts.Add(opened.catalog, job));
    }
    std::vector<std::string> skipped, names = {target.name};
    if (target.name.empty()) {
      KEDGE_ASSIGN_OR_RETURN(names, opened.catalog.Names(job, &skipped));
    }
    for (const std::string& sentence : skipped) std::fprintf(stderr, "kedge: warning: passed over: %s\n", sentence.c_str());
    for (const std::string& name : names) {
      KEDGE_ASSIGN_OR_RETURN(const std::vector<VersionInfo> versions, ListVersions(opened.catalog, job, name));
      WarnOfIncomplete(job, versions);
      for (const VersionInfo& info : versions) {
        if (target.version && !target.version->Means(info.generation)) continue;
        if (!options.all && (!info.complete || info.superseded)) continue;
        shown.push_back(VersionJson(job, name, info));
        table.AddRow({job, name, fmt::format("{}", info.generation.version), StateText(info), fmt::format("{}", info.ranks),
                      FormatByteSize(info.image_bytes), FormatAge(info.wall_time_ns),
                      fmt::format("{}.{}", info.generation.attempt, info.generation.take), info.pinned ? "pinned" : info.reason});
      }
    }
  }
  if (options.json) {
    Json json{{"store", opened.path}, {"store_id", opened.catalog.id().ToHex()}, {"versions", std::move(shown)}};
    if (options.attempts) json.update({{"attempts", std::move(attempts.lives)}, {"restored", std::move(attempts.restored)}});
    PrintJson(json);
    return kExitOk;
  }
  if (!shown.empty()) {
    std::fputs(table.Text().c_str(), stdout);
  } else {
    std::fprintf(stderr, "kedge: no %sversions in %s\n", options.all ? "" : "complete ", opened.path.c_str());
  }
  if (options.attempts) std::printf("%s%s", shown.empty() ? "" : "\n", attempts.table.Text().c_str());
  return kExitOk;
}

}  // namespace

Command LsCommand() {
  return {"ls", "list the store's jobs, checkpoints and versions with sizes and ages; what nodes hold beside it: kedge status",
          [](CLI::App& app) {
            auto options = std::make_shared<LsOptions>();
            options->store.AddTo(app);
            app.add_option("target", options->target,
                           "only this: JOB, NAME, JOB/NAME or JOB/NAME@VERSION; or files of a burst buffer")
                ->type_name("[JOB/]NAME[@VERSION]|bb://SERVER[/PREFIX]");
            app.add_flag("-a,--all", options->all, "also versions that are incomplete, superseded or removed, with the reason");
            app.add_flag("--attempts", options->attempts, "also the newest launches of the job, and what they continued from");
            app.add_flag("--json", options->json, "print JSON");
            app.footer(
                "Examples:\n  kedge ls\n  kedge ls climate/heat --all\n  kedge ls --store /scratch/me/kedge climate\n  kedge ls "
                "bb://fast/run7/");
            return [options] { return Ls(*options); };
          }};
}

}  // namespace kedge::tools
