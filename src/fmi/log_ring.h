// The log-ring: who is connected with whom, so that all ranks learn of a failure in few hops (K. Sato's thesis, 5.4.3).
//
// Rank r connects to the ranks r + b^k (b^k < n), around the ring. Whose process ends breaks its connections; a rank that sees
// one of its connections end closes all of its own. With base 2 every rank knows after ceil(log2(n) / 2) hops. Further failures
// on the way only hasten it: they close connections, too. A larger base takes fewer connections, and more hops.
//
// Ranks of one node need none of it: there fmirun sees each death, and one word in shared memory tells all. It is for ranks on
// several nodes, which this version does not have.
#pragma once

#include <cstdint>
#include <vector>

namespace kedge::fmi {

// The ranks that `rank` connects to or is connected from, in ascending order, without itself. `base` >= 2, rank < ranks.
std::vector<uint32_t> RingNeighbours(uint32_t rank, uint32_t ranks, uint32_t base);

// After how many hops each rank knows that those in `failed`, at least one, have failed; 0 for themselves.
std::vector<uint32_t> NotificationHops(uint32_t ranks, uint32_t base, const std::vector<uint32_t>& failed);

}  // namespace kedge::fmi
