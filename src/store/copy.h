// Copy: a complete version to another store (or out of a failing one), as a version of its own there: verified on the
// way, with the other store's identity, and with all chunks that lie in other versions' objects brought along.
#pragma once

#include "base/status.h"
#include "store/catalog.h"
#include "store/verify.h"

namespace kedge {

struct CopyOptions {
  uint64_t buffer_bytes = 8 << 20;
  std::function<bool(const VerifyProgress&)> progress;  // false stops: kTimeout, and what was written is removed
};

// Job, name, version, attempt and take stay the same. kAlreadyExists: the version is complete there. kCorrupt: a byte
// of the source is bad, named; nothing becomes visible in the target then. kBusy: it was removed from the target, and its objects
// are there still.
Status CopyVersion(const Catalog& source, const Generation& generation, const Catalog& target, const CopyOptions& options);

}  // namespace kedge
