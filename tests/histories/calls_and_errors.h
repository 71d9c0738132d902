// The words with which histories name calls on the file system, errors, and states of a store.
#pragma once

#include <optional>
#include <string>

#include "os/testing/fault_plan.h"

namespace kedge::histories {

// "list", "pwrite", ..., or "any".
std::optional<os::testing::CallSet> CallNamed(const std::string& name);
// "EIO", "ENOSPC", ...
std::optional<int> ErrorNamed(const std::string& name);

struct StoreFault {
  os::testing::CallSet calls;
  int errno_value;
};
// "full", "broken", "read-only".
std::optional<StoreFault> StoreFaultNamed(const std::string& name);

}  // namespace kedge::histories
