// kedge gc: removes what no live attempt will finish and no complete version needs. Shows by default, removes with --yes.
#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/byte_size.h"
#include "base/duration.h"
#include "base/json.h"
#include "store/garbage.h"
#include "tools/command.h"
#include "tools/common.h"

namespace kedge::tools {
namespace {

struct GcOptions {
  StoreOptions store;
  bool yes = false;
  double incomplete_age_seconds = GarbageOptions().incomplete_age_seconds;
  double orphan_age_seconds = GarbageOptions().orphan_age_seconds;
  bool json = false;
};

Outcome Gc(const GcOptions& options) {
  KEDGE_ASSIGN_OR_RETURN(const OpenedStore opened, OpenStore(options.store));
  if (!options.store.job.empty()) KEDGE_RETURN_IF_ERROR(SelectJobs(opened, options.store).status());
  GarbageOptions garbage;
  garbage.dry_run = !options.yes;
  garbage.orphan_age_seconds = options.orphan_age_seconds;
  garbage.job = options.store.job;
  garbage.incomplete_age_seconds = options.incomplete_age_seconds;
  std::optional<ProgressLine> line("");
  garbage.watching = [&line](Duration most) {
    line->Wait(fmt::format("waiting up to {} whether anybody still carries on what is incomplete", FormatDuration(most)));
  };
  KEDGE_ASSIGN_OR_RETURN(const GarbageReport report, CollectGarbage(opened.catalog, garbage));
  line.reset();
  uint64_t bytes = 0;
  Json items = Json::array();
  Table table({"KIND", "WHAT", "BYTES", "WHY"}, {false, false, true, false});
  for (const GarbageItem& item : report.items) {
    bytes += item.bytes;
    items.push_back({{"kind", KindName(item.kind)}, {"what", item.what}, {"why", item.why}, {"bytes", item.bytes}});
    table.AddRow({KindName(item.kind), item.what, FormatByteSize(item.bytes), item.why});
  }
  if (options.json) {
    PrintJson({{"store", opened.path},
               {"removed", options.yes},
               {"items", std::move(items)},
               {"problems", report.problems},
               {"young", report.young},
               {"bytes", bytes}});
  } else {
    if (!report.items.empty()) std::fputs(table.Text().c_str(), stdout);
    for (const std::string& problem : report.problems) std::fprintf(stderr, "kedge: problem: %s\n", problem.c_str());
    if (report.items.empty()) {
      std::puts("nothing to remove");
    } else {
      std::printf("%s, %s%s\n", Counted(report.items.size(), "thing").c_str(), FormatByteSize(bytes).c_str(),
                  !options.yes              ? "; nothing was changed: `kedge gc --yes` removes them"
                  : report.problems.empty() ? " removed"
                                            : "");
    }
    if (report.young > 0)
      std::printf("%s may still be carried to the store from nodes: --incomplete-age says for how long they stay\n",
                  Counted(report.young, "incomplete version").c_str());
  }
  return report.problems.empty() ? kExitOk : kExitBad;
}

}  // namespace

Command GcCommand() {
  return {"gc", "show, and with --yes remove, what no attempt will finish and no version needs", [](CLI::App& app) {
            auto options = std::make_shared<GcOptions>();
            options->store.AddTo(app, StoreOptions::JobBy::kPositional);
            app.add_flag("--yes", options->yes, "do it; without, only show");
            app.add_option("--incomplete-age", options->incomplete_age_seconds,
                           "seconds of silence after which an incomplete version newer than the newest complete one goes")
                ->capture_default_str();
            app.add_option("--orphan-age", options->orphan_age_seconds,
                           "seconds after which a tool's temporary file is an orphan")
                ->capture_default_str();
            app.add_flag("--json", options->json, "print JSON");
            app.footer(
                "Versions whose parts are all there are finished first: a whole version is never garbage.\n"
                "Complete versions are never removed here; retention is `keep.versions`.\n"
                "Examples:\n  kedge gc\n  kedge gc climate --yes");
            return [options] { return Gc(*options); };
          }};
}

}  // namespace kedge::tools
