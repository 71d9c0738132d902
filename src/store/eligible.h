// Which versions of a name a restart may choose: those of the job's lineage, or the one that it was asked for. Pure.
//
// A version that the job has abandoned comes back when restart.version and restart.attempt name it. From then on it is of the
// lineage, which later restarts follow whatever the configuration still says: a relaunch does not go back once more.
#pragma once

#include <cstdint>
#include <vector>

#include "format/store_records.h"
#include "store/lineage.h"

namespace kedge {

struct AskedVersion {
  int64_t version = -1;
  uint32_t attempt = 0;  // 0: none is asked for

  bool is_set() const { return attempt > 0; }
  bool Is(const Generation& generation) const { return generation.version == version && generation.attempt == attempt; }
};

class Eligible {
 public:
  // `restored`: as for `lineage`; `there`: every generation of which there is something. `lineage` and `asked` outlive this.
  Eligible(const Lineage& lineage, const AskedVersion& asked, const std::vector<RestoredRecord>& restored,
           const std::vector<Generation>& there);

  bool Has(const Generation& generation) const;
  // Only what was asked for may be chosen: it is there, and abandoned.
  bool goes_back() const { return goes_back_; }
  // Of what was asked for there is nothing, nor has the job gone on from it.
  bool misses_asked() const { return misses_asked_; }

 private:
  const Lineage& lineage_;
  const AskedVersion& asked_;
  bool goes_back_ = false;
  bool misses_asked_ = false;
};

}  // namespace kedge
