// The base of a version under way: the version before it, in whose objects equal blocks of its images may lie.
//
// A base must not vanish between the look into it and the part record that refers to it, whoever removes versions meanwhile. As
// with pins (retention.h), each side puts its mark first and then looks for the other's:
// - Who wants a base puts a base record into the own generation, and then looks whether the base is complete and unmarked.
// - Who removes puts the mark "removed" there, and then looks who refers to it; a base record refers, too.
// One of the two sees the other. A base record names also what the base refers to, since those objects hold blocks of the base.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "store/catalog.h"

namespace kedge {

// Finds a base for the generation, and keeps what it needs from being removed as long as the generation is there. Nothing: there
// is no complete version of its lineage before it, or one after it is complete already. REQUIRES: PrepareGeneration.
Result<std::optional<Generation>> ClaimBase(const Catalog& catalog, const Generation& generation);

}  // namespace kedge
