// The lineage of a name: which of its generations the job has come from, and which it has abandoned. Pure.
//
// A launch that goes back to version 40 and takes 42 leaves a 50 behind that is greater than all that follows, and that an
// agent may even complete afterwards. So versions are ordered by what the ranks went on from. A name's generations were taken
// one after the other, in the order of (attempt, take), and a restart between two of them has a record of its origin. Back
// from the last one, over the origins of restarts, and where there was none to the one before with a lower version, lies the
// lineage. All else is abandoned: never the newest, never counted, restored only when it is asked for (store/eligible.h).
//
// - The record of a restart counts at once. A taking that is not above those before it (it overwrites), be it the first after a
//   restart, leaves these behind once it is complete: a launch that begins anew and dies takes nothing away.
// - What comes late, from before a restart that went elsewhere, is abandoned already.
// - A restart of an attempt that began without the store abandons nothing of those that it could not know of
//   (AttemptRecord::beside), unless something of it, or of one after it, is complete: then the numbers decide.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "format/store_records.h"

namespace kedge {

// Of one name: when it was taken.
struct Moment {
  uint32_t attempt = 0;
  uint32_t take = 0;
  friend auto operator<=>(const Moment&, const Moment&) = default;
};
inline Moment MomentOf(const Generation& generation) {
  return {generation.attempt, generation.take};
}

// Of one name: what was taken when.
struct Taken {
  Moment moment;
  int64_t version = 0;
};

class Lineage {
 public:
  // Of one name: its restarts, and the generations that are complete, both in any order.
  Lineage(const std::vector<RestoredRecord>& restored, const std::vector<Generation>& complete);
  // The same; the latest first costs least.
  static Lineage Of(const std::vector<RestoredRecord>& restored, const std::vector<Taken>& complete);
  // Also of one that is not complete, or was not there.
  bool Has(const Generation& generation) const;

 private:
  Lineage() = default;
  void Follow(const std::vector<RestoredRecord>& restored, const std::vector<Taken>& complete);

  // What was taken from `first` to `last` belongs to the lineage, up to that version.
  struct Stretch {
    Moment first;
    Moment last;
    int64_t version_max = INT64_MAX;
  };
  std::vector<Stretch> newest_first_;  // apart from each other; the last one begins with the first moment of all
};

}  // namespace kedge
