// Retention: which complete versions are kept, and pins. The last complete version of a name is never removed, and a version
// goes only after newer ones are durably complete. Removal is one step per version (Store::RemoveFolder), so that no torn
// version is ever seen. Space is freed by reachability: while a kept version has chunks in an older one's objects, the older
// one loses its records (it is no version any more) but not its objects.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "base/status.h"
#include "store/catalog.h"

namespace kedge {

struct RetentionOptions {
  uint32_t keep = 2;  // newest complete versions of the name to keep, >= 1; pinned ones are kept besides
  // Generations that may not be touched: what is being flushed, read, or built upon by an image under way.
  std::set<Generation> in_use;
};

struct RetentionReport {
  std::vector<Generation> removed;
  std::vector<Generation> emptied;  // records removed, objects kept for a newer version
};

// Applies `options` to one name, oldest first: complete versions beyond `keep`, and complete ones that are superseded. What
// is not complete is not retention's business, but garbage.h's. Stops at the first error; what is in `report` (may be
// null) is done.
Status ApplyRetention(const Catalog& catalog, const std::string& job, const std::string& name,
                      const RetentionOptions& options, RetentionReport* report);

// Removes one generation, whether complete or not, unless it is pinned (kBusy) or the last complete one of its name
// (kFailedPrecondition).
Status RemoveVersion(const Catalog& catalog, const Generation& generation, const RetentionOptions& options);

// Keeps a complete version for ever, or lets go. kFailedPrecondition: not complete.
Status PinVersion(const Catalog& catalog, const Generation& generation);
Status UnpinVersion(const Catalog& catalog, const Generation& generation);

}  // namespace kedge
