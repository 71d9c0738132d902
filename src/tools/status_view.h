// The agent's status (JSON, see src/agent/daemon/agent_status.cc) as people read it; shared by `kedge status` and `kedge top`.
#pragma once

#include <string>

#include "base/status.h"

namespace kedge::tools {

struct StatusViewOptions {
  bool versions = true;
  size_t versions_max = 10;  // of each job, newest first
};

// kCorrupt when `json` is not what an agent sends.
Result<std::string> StatusText(const std::string& json, const StatusViewOptions& options);

// Which nodes protect each other, for each job. kCorrupt as above.
Result<std::string> GroupsText(const std::string& json);

}  // namespace kedge::tools
