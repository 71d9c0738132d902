// What the store has promised, and whether it keeps it: a ledger that a simulated run writes while it takes, pins and
// removes versions, and that is held against the store after every fault.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "base/status.h"
#include "format/identity.h"
#include "store/catalog.h"
#include "store/retention.h"

namespace kedge::testing {

class Ledger {
 public:
  // Reported complete, and so durable.
  void Acknowledge(const Generation& generation) { acknowledged_.insert(generation); }
  void Pin(const Generation& generation) { pinned_.insert(generation); }
  // Takes back a permission to be removed: it was pinned after all.
  void Require(const Generation& generation) { may_go_.erase(generation); }
  // To be called before ApplyRetention(keep): from now on those that it removes may be missing. It may have seen others complete
  // than were acknowledged: then so many newer ones are there.
  void AllowRemoval(const std::string& name, uint32_t keep);

  // Looks at the store as a restart would. Ok when
  // - every version reported complete restores bit-exact, and
  // - every version that was acknowledged, and that retention was not told to remove, is complete, or a later taking of
  // it.
  Status Check(const Catalog& catalog) const;

  // Of all names; -1 when there is none.
  int64_t GreatestVersion() const;

 private:
  std::set<Generation> acknowledged_;
  std::set<Generation> pinned_;
  std::set<Generation> may_go_;
  std::map<std::string, uint32_t> keep_;       // by name
  std::map<std::string, int64_t> least_kept_;  // by name: what is older may go, also when it is acknowledged only later
};

}  // namespace kedge::testing
