// kedge copy: a version to another store, verified on the way.
#include "store/copy.h"

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "tools/command.h"
#include "tools/common.h"

namespace kedge::tools {
namespace {

struct CopyToolOptions {
  StoreOptions store;
  std::string spec;
  std::string target;
  bool json = false;
};

Outcome Copy(const CopyToolOptions& options) {
  KEDGE_ASSIGN_OR_RETURN(const OpenedStore opened, OpenStore(options.store));
  KEDGE_ASSIGN_OR_RETURN(const VersionInfo info, SelectVersion(opened, options.store, options.spec));
  KEDGE_ASSIGN_OR_RETURN(const std::string target_path, StorePath(options.target, options.store.config));
  KEDGE_ASSIGN_OR_RETURN(const OpenedStore target, OpenOrCreateStoreAt(target_path));
  CopyOptions copy;
  {
    ProgressLine line("copying " + info.generation.ToString());
    copy.progress = [&line](const VerifyProgress& progress) {
      line.Update(progress.bytes_done, progress.bytes_total);
      return true;
    };
    KEDGE_RETURN_IF_ERROR(CopyVersion(opened.catalog, info.generation, target.catalog, copy));
  }
  if (options.json) {
    PrintJson({{"job", info.generation.job},
               {"name", info.generation.name},
               {"version", info.generation.version},
               {"target", options.target},
               {"target_store_id", target.catalog.id().ToHex()},
               {"bytes", info.image_bytes}});
  } else {
    std::printf("copied %s to %s\n", info.generation.ToString().c_str(), options.target.c_str());
  }
  return kExitOk;
}

}  // namespace

Command CopyCommand() {
  return {"copy", "copy a version to another store, verified on the way", [](CLI::App& app) {
            auto options = std::make_shared<CopyToolOptions>();
            options->store.AddTo(app);
            app.add_option("version", options->spec, kVersionSpecHelp)->required()->type_name(kVersionSpecForm);
            app.add_option("target", options->target,
                           "the other store: a folder, s3://BUCKET/PREFIX or bb://SERVER/PREFIX; made when it is not there")
                ->required()
                ->type_name("FOLDER");
            app.add_flag("--json", options->json, "print JSON");
            app.footer("Example:\n  kedge copy heat@120 /archive/kedge");
            return [options] { return Copy(*options); };
          }};
}

}  // namespace kedge::tools
