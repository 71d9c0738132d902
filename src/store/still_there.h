// What was in the store, looked up again: what lies at its path by now may be an older copy of it, with the same id.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "store/catalog.h"

namespace kedge {

// What somebody has seen in the store of a generation.
struct Seen {
  Generation generation;
  bool complete = false;        // the version
  std::vector<uint32_t> ranks;  // the images of these, in parts
};

// What is not there any more, as a part of what was given: `complete`, the version is not; `ranks`, nor are the parts of these.
// Nothing is missing of a version that was removed, or that a complete one of the lineage displaces that was taken later. A few
// small reads for each that is complete. Fails where it cannot tell.
Result<std::vector<Seen>> FindMissing(const Catalog& catalog, const std::vector<Seen>& seen);

}  // namespace kedge
