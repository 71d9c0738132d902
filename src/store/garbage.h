// Garbage: what no attempt will finish any more and no complete version needs. Temporaries of silent attempts,
// incomplete generations of silent attempts, complete ones that are superseded, emptied ones that nothing refers to.
// What is whole is never garbage: generations whose parts are all there are finished first.
//
// An attempt is silent when neither its rank 0 lives nor an agent has given a sign of life for its lease (SilenceOf): agents
// that still carry the images of an ended or killed run to the store are not disturbed. Leases are watched for their whole
// length, so that a collection takes as long where they must tell.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "base/duration.h"
#include "base/status.h"
#include "store/attempts.h"
#include "store/catalog.h"

namespace kedge {

struct GarbageOptions {
  bool dry_run = false;
  std::string job;  // empty: all jobs
  // An incomplete generation newer than the newest complete version of its name may still be carried to the store from
  // the nodes' tiers; it goes only when its attempt has been silent for so long.
  double incomplete_age_seconds = 86400;
  // How long leases are watched, at most; what must be watched for longer stays. `watch`: what was seen of them before.
  Duration patience = Duration::max();
  LeaseWatch* watch = nullptr;
  // Called while leases are watched, with how long that may take in all.
  std::function<void(Duration)> watching = {};
  // Temporaries outside of any attempt (of tools) go when older than this.
  double orphan_age_seconds = 3600;
};

struct GarbageItem {
  enum class Kind { kTemporary, kIncomplete, kSuperseded, kEmptied, kFinished };
  Kind kind = Kind::kTemporary;
  std::string what;  // key or generation, for people
  std::string why;
  uint64_t bytes = 0;  // where known
};
// "temporary", "incomplete", ...
const char* KindName(GarbageItem::Kind kind);

struct GarbageReport {
  std::vector<GarbageItem> items;     // removed, or with dry_run: would be. kFinished: completed, not removed
  std::vector<std::string> problems;  // what could not be looked at or removed
  size_t young = 0;                   // incomplete versions that incomplete_age_seconds keeps
};

// Goes on after errors, which are in the report; fails only when the store cannot be read at all.
Result<GarbageReport> CollectGarbage(const Catalog& catalog, const GarbageOptions& options);

// For an agent that starts in place of a dead one: removes the temporaries of exactly this owner (catalog.owner()) in
// the job, but for those with a handle in `keep`, which it goes on with (Store::AdoptObject).
Status RemoveOwnTemporaries(const Catalog& catalog, const std::string& job, const std::set<std::string>& keep);

}  // namespace kedge
