// kedge ls: the jobs of a store, their checkpoint names, versions, levels, sizes and ages.
#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/byte_size.h"
#include "base/json.h"
#include "tools/command.h"
#include "tools/common.h"

namespace kedge::tools {
namespace {

struct LsOptions {
  StoreOptions store;
  std::string target;
  bool all = false;
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
            {"level", info.complete ? "store" : "none"},
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
  if (!options.target.empty()) return SelectTargets(opened, options.store, options.target, TargetForm::kAny);
  KEDGE_ASSIGN_OR_RETURN(const std::vector<std::string> jobs, SelectJobs(opened, options.store));
  std::vector<Target> targets;
  for (const std::string& job : jobs) targets.push_back({job, {}, {}});
  return targets;
}

bool IsMeant(const Target& target, const Generation& generation) {
  if (!target.version) return true;
  return generation.version == target.version->version &&
         (target.version->attempt == 0 || generation.attempt == target.version->attempt);
}

Outcome Ls(const LsOptions& options) {
  KEDGE_ASSIGN_OR_RETURN(const OpenedStore opened, OpenStore(options.store));
  KEDGE_ASSIGN_OR_RETURN(const std::vector<Target> targets, Select(opened, options));
  Json shown = Json::array();
  Table table({"JOB", "NAME", "VERSION", "STATE", "RANKS", "BYTES", "AGE", "ATTEMPT", ""},
              {false, false, true, false, true, true, true, true, false});
  for (const Target& target : targets) {
    const std::string& job = target.job;
    std::vector<std::string> skipped, names = {target.name};
    if (target.name.empty()) {
      KEDGE_ASSIGN_OR_RETURN(names, opened.catalog.Names(job, &skipped));
    }
    for (const std::string& sentence : skipped) std::fprintf(stderr, "kedge: warning: passed over: %s\n", sentence.c_str());
    for (const std::string& name : names) {
      KEDGE_ASSIGN_OR_RETURN(const std::vector<VersionInfo> versions, ListVersions(opened.catalog, job, name));
      WarnOfIncomplete(job, versions);
      for (const VersionInfo& info : versions) {
        if (!IsMeant(target, info.generation)) continue;
        if (!options.all && (!info.complete || info.superseded)) continue;
        shown.push_back(VersionJson(job, name, info));
        table.AddRow({job, name, fmt::format("{}", info.generation.version), StateText(info), fmt::format("{}", info.ranks),
                      FormatByteSize(info.image_bytes), FormatAge(info.wall_time_ns),
                      fmt::format("{}.{}", info.generation.attempt, info.generation.take), info.pinned ? "pinned" : info.reason});
      }
    }
  }
  if (options.json) {
    PrintJson({{"store", opened.path}, {"store_id", opened.catalog.id().ToHex()}, {"versions", std::move(shown)}});
  } else if (!shown.empty()) {
    std::fputs(table.Text().c_str(), stdout);
  } else {
    std::fprintf(stderr, "kedge: no %sversions in %s\n", options.all ? "" : "complete ", opened.path.c_str());
  }
  return kExitOk;
}

}  // namespace

Command LsCommand() {
  return {"ls", "list the store's jobs, checkpoints and versions with sizes and ages; what nodes hold beside it: kedge status",
          [](CLI::App& app) {
            auto options = std::make_shared<LsOptions>();
            options->store.AddTo(app);
            app.add_option("target", options->target, "only this: JOB, NAME, JOB/NAME or JOB/NAME@VERSION")
                ->type_name("[JOB/]NAME[@VERSION]");
            app.add_flag("-a,--all", options->all, "also versions that are incomplete, superseded or removed, with the reason");
            app.add_flag("--json", options->json, "print JSON");
            app.footer("Examples:\n  kedge ls\n  kedge ls climate/heat --all\n  kedge ls --store /scratch/me/kedge climate");
            return [options] { return Ls(*options); };
          }};
}

}  // namespace kedge::tools
