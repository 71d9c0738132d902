// kedge verify: reads every byte of versions in the store and compares every checksum.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/byte_size.h"
#include "base/json.h"
#include "restore/array_parts.h"
#include "store/verify.h"
#include "tools/command.h"
#include "tools/common.h"

namespace kedge::tools {
namespace {

struct VerifyToolOptions {
  StoreOptions store;
  std::string spec;
  bool json = false;
};

// All complete versions of the jobs that are meant, or the one that is named.
Result<std::vector<Generation>> Select(const OpenedStore& opened, const VerifyToolOptions& options) {
  std::vector<Generation> selected;
  std::vector<std::string> jobs;
  if (!options.spec.empty()) {
    KEDGE_ASSIGN_OR_RETURN(const Target target, SelectTarget(opened, options.store, options.spec, TargetForm::kAny));
    if (!target.name.empty()) {
      KEDGE_ASSIGN_OR_RETURN(const VersionInfo info, ResolveVersion(opened, target));
      selected.push_back(info.generation);
      return selected;
    }
    jobs = {target.job};
  } else {
    KEDGE_ASSIGN_OR_RETURN(jobs, SelectJobs(opened, options.store));
  }
  for (const std::string& job : jobs) {
    KEDGE_ASSIGN_OR_RETURN(const std::vector<std::string> names, opened.catalog.Names(job, nullptr));
    for (const std::string& name : names) {
      KEDGE_ASSIGN_OR_RETURN(const std::vector<VersionInfo> versions, CompleteVersions(opened.catalog, job, name, -1));
      for (const VersionInfo& info : versions) selected.push_back(info.generation);
    }
  }
  return selected;
}

// What would not come back on another number of ranks as it was, though every byte is good.
std::vector<std::string> DoubtsOf(const std::vector<PartContent>& contents) {
  std::vector<SavedPart> parts;
  for (const PartContent& content : contents) parts.push_back(content.part);
  std::vector<std::string> doubts = SavedArrays(std::move(parts)).Doubts();
  std::ranges::move(UnequalCopies(contents), std::back_inserter(doubts));
  return doubts;
}

Outcome Verify(const VerifyToolOptions& options) {
  KEDGE_ASSIGN_OR_RETURN(const OpenedStore opened, OpenStore(options.store));
  KEDGE_ASSIGN_OR_RETURN(const std::vector<Generation> selected, Select(opened, options));
  Json versions = Json::array();
  size_t bad = 0;
  uint64_t bytes = 0;
  for (const Generation& generation : selected) {
    VerifyOptions verify;
    ProgressLine line("verifying " + generation.ToString());
    verify.progress = [&line](const VerifyProgress& progress) {
      line.Update(progress.bytes_done, progress.bytes_total);
      return true;
    };
    std::vector<PartContent> parts;
    verify.image = [&parts](const ImageRecord& record) {
      const std::vector<uint32_t> checksums = record.RegionChecksums();
      for (size_t i = 0; i < record.regions.size(); ++i) {
        const Region& region = record.regions[i];
        if (region.kind == RegionKind::kMemory) parts.push_back({{record.identity.rank, region}, checksums[i]});
      }
    };
    const auto report = VerifyVersion(opened.catalog, generation, verify);
    const bool good = report.ok() && report->problems.empty();
    // Of images that cannot be read the problems tell.
    const std::vector<std::string> doubts = good ? DoubtsOf(parts) : std::vector<std::string>();
    bad += good ? 0 : 1;
    bytes += report.ok() ? report->bytes : 0;
    Json problems = Json::array();
    if (!report.ok()) problems.push_back(Json{{"what", report.status().ToString()}});
    if (!options.json)
      std::printf("%-4s %s%s\n", good ? "ok" : "BAD", generation.ToString().c_str(),
                  report.ok() ? "" : (": " + report.status().ToString()).c_str());
    if (report.ok()) {
      for (const VerifyProblem& problem : report->problems) {
        problems.push_back({{"rank", problem.rank}, {"what", problem.what}});
        if (!options.json) std::printf("     rank %u: %s\n", problem.rank, problem.what.c_str());
      }
    }
    if (!options.json) {
      for (const std::string& doubt : doubts)
        std::fprintf(stderr, "kedge: warning: %s: %s\n", generation.ToString().c_str(), doubt.c_str());
    }
    versions.push_back({{"job", generation.job},
                        {"name", generation.name},
                        {"version", generation.version},
                        {"good", good},
                        {"bytes", report.ok() ? report->bytes : 0},
                        {"problems", std::move(problems)},
                        {"warnings", doubts}});
  }
  if (options.json) {
    PrintJson({{"store", opened.path},
               {"versions", std::move(versions)},
               {"verified", selected.size()},
               {"bad", bad},
               {"bytes", bytes}});
  } else {
    std::printf("%s read, %s, %zu bad\n", Counted(selected.size(), "version").c_str(), FormatByteSize(bytes).c_str(), bad);
  }
  return bad == 0 ? kExitOk : kExitBad;
}

}  // namespace

Command VerifyCommand() {
  return {"verify", "read every byte of one version, or of all, and compare every checksum", [](CLI::App& app) {
            auto options = std::make_shared<VerifyToolOptions>();
            options->store.AddTo(app);
            app.add_option("version", options->spec,
                           std::string(kVersionSpecHelp) + "; of a JOB, or by default: all complete ones")
                ->type_name(kVersionSpecForm);
            app.add_flag("--json", options->json, "print JSON");
            app.footer(
                "Exit code 1 when anything is bad. Parts that do not make up their global array, or differ where they are the "
                "same part, are a warning.\nExamples:\n  "
                "kedge verify\n  kedge verify climate/heat@120 --json");
            return [options] { return Verify(*options); };
          }};
}

}  // namespace kedge::tools
