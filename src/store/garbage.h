// Garbage: what no live attempt will finish and no complete version needs. Temporaries of dead attempts, incomplete
// generations of dead attempts, complete ones that are superseded, emptied ones that nothing refers to any more. Before
// anything goes, generations whose parts are all there are finished: what is whole is never garbage.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "store/attempts.h"
#include "store/catalog.h"

namespace kedge {

struct GarbageOptions {
  bool dry_run = false;
  // Who asks: host, boot id and is_alive serve to tell whether an attempt is live. `job` empty: all jobs.
  AttemptRequest self;
  // Temporaries outside of any attempt (of tools), and those in the root, go when older than this.
  double orphan_age_seconds = 3600;
};

struct GarbageItem {
  enum class Kind { kTemporary, kIncomplete, kSuperseded, kEmptied, kFinished };
  Kind kind;
  std::string what;  // key or generation, for people
  std::string why;
  uint64_t bytes = 0;  // where known
};

struct GarbageReport {
  std::vector<GarbageItem> items;  // removed, or with dry_run: would be. kFinished: completed, not removed
  std::vector<std::string> problems;  // what could not be looked at or removed
};

// Goes on after errors, which are in the report; fails only when the store cannot be read at all.
Result<GarbageReport> CollectGarbage(const Catalog& catalog, const GarbageOptions& options);

// For an agent that starts in place of a dead one: removes the temporaries of exactly this owner in the job.
Status RemoveOwnTemporaries(const Catalog& catalog, const std::string& job);

}  // namespace kedge
