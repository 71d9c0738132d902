// kedge pin, kedge unpin: keep a version for ever, outside retention, or let it go.
#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "store/retention.h"
#include "tools/command.h"
#include "tools/common.h"

namespace kedge::tools {
namespace {

struct PinOptions {
  StoreOptions store;
  std::string spec;
  bool json = false;
};

Outcome SetPin(const PinOptions& options, bool pinned) {
  KEDGE_ASSIGN_OR_RETURN(const OpenedStore opened, OpenStore(options.store));
  KEDGE_ASSIGN_OR_RETURN(const VersionInfo info, SelectVersion(opened, options.store, options.spec));
  KEDGE_RETURN_IF_ERROR(pinned ? PinVersion(opened.catalog, info.generation) : UnpinVersion(opened.catalog, info.generation));
  if (options.json) {
    PrintJson(
        {{"job", info.generation.job}, {"name", info.generation.name}, {"version", info.generation.version}, {"pinned", pinned}});
  } else {
    std::printf("%s is %s\n", info.generation.ToString().c_str(), pinned ? "pinned" : "no longer pinned");
  }
  return kExitOk;
}

std::function<std::function<Outcome()>(CLI::App&)> AddWith(bool pinned) {
  return [pinned](CLI::App& app) {
    auto options = std::make_shared<PinOptions>();
    options->store.AddTo(app);
    app.add_option("version", options->spec, kVersionSpecHelp)->required()->type_name(kVersionSpecForm);
    app.add_flag("--json", options->json, "print JSON");
    app.footer(pinned ? "Example:\n  kedge pin heat@120" : "Example:\n  kedge unpin heat@120");
    return [options, pinned] { return SetPin(*options, pinned); };
  };
}

}  // namespace

Command PinCommand() {
  return {"pin", "keep a version for ever, outside retention", AddWith(true)};
}
Command UnpinCommand() {
  return {"unpin", "let a pinned version go", AddWith(false)};
}

}  // namespace kedge::tools
