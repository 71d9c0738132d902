// Files of burst buffers, where a command takes bb://SERVER/PATH.
#pragma once

#include <memory>
#include <string>

#include "burst/settings.h"
#include "tools/command.h"
#include "tools/common.h"

namespace kedge::tools {

// Connected at the first use.
Result<std::shared_ptr<buffer::Client>> OpenBuffer(const ConfigOptions& config, const std::string& server);

// kedge ls bb://SERVER[/PREFIX]: the files, and what room there is.
Outcome ListBuffer(const ConfigOptions& config, const std::string& name, bool json);

struct BufferRemoval {
  std::string name;
  bool yes = false;
  bool dry_run = false;
  bool json = false;
};
// kedge rm bb://SERVER/PATH: one file, or, where PATH ends with a slash, all below it.
Outcome RemoveFromBuffer(const ConfigOptions& config, const BufferRemoval& removal);

}  // namespace kedge::tools
