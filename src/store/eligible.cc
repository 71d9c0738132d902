#include "store/eligible.h"

namespace kedge {

Eligible::Eligible(const Lineage& lineage, const AskedVersion& asked, const std::vector<RestoredRecord>& restored,
                   const std::vector<Generation>& there)
    : lineage_(lineage), asked_(asked) {
  if (!asked.is_set()) return;
  bool is_there = false, is_of_lineage = false;
  for (const Generation& generation : there) {
    if (!asked.Is(generation)) continue;
    is_there = true;
    is_of_lineage = is_of_lineage || lineage.Has(generation);
  }
  // What the job has gone on from may have gone since.
  for (const RestoredRecord& record : restored) {
    is_of_lineage = is_of_lineage || (asked.Is(record.origin) && lineage.Has(record.origin));
  }
  goes_back_ = is_there && !is_of_lineage;
  misses_asked_ = !is_there && !is_of_lineage;
}

bool Eligible::Has(const Generation& generation) const {
  return goes_back_ ? asked_.Is(generation) : lineage_.Has(generation);
}

}  // namespace kedge
