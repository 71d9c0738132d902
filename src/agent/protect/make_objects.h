// What a worker makes of a set: the objects that this node holds of it, its parity or copies of other members' thin
// streams (redundancy/natural.h).
//
// The worker pulls blocks, holds each against its table before it is used, and writes run by run. It notes how far it is, and
// whose blocks did not fit.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include "agent/images/held_stream.h"
#include "agent/protect/set_source.h"
#include "agent/tables/protection.h"

namespace kedge {

// What becomes of the making of one set's redundancy, beside the tables.
struct MakeNotes {
  std::weak_ptr<Making> making;
  std::set<uint32_t> doubted;  // members with a block that does not fit its table
};

// Makes the parity of each of `members` (scheme partner: a copy of its thin stream) into one of `objects`; the tables of what was
// written, in the same order. Blocking. kUnavailable: a node does not answer, or nobody wants it any more.
Result<std::vector<BlockTable>> MakeObjects(const SetRecord& set, const std::vector<uint32_t>& members,
                                            const std::vector<HeldStream>& objects, SetSource& source, MakeNotes* notes);

}  // namespace kedge
