#include "fmi/log_ring.h"

#include <deque>
#include <set>

#include "base/status.h"

namespace kedge::fmi {

std::vector<uint32_t> RingNeighbours(uint32_t rank, uint32_t ranks, uint32_t base) {
  KEDGE_CHECK(base >= 2 && rank < ranks);
  std::set<uint32_t> neighbours;
  for (uint64_t distance = 1; distance < ranks; distance *= base) {
    neighbours.insert(static_cast<uint32_t>((rank + distance) % ranks));
    neighbours.insert(static_cast<uint32_t>((rank + ranks - distance) % ranks));
  }
  return {neighbours.begin(), neighbours.end()};
}

std::vector<uint32_t> NotificationHops(uint32_t ranks, uint32_t base, const std::vector<uint32_t>& failed) {
  constexpr uint32_t kNotTold = UINT32_MAX;
  KEDGE_CHECK(!failed.empty());
  std::vector<uint32_t> hops(ranks, kNotTold);
  std::deque<uint32_t> telling;
  for (const uint32_t rank : failed) {
    hops[rank] = 0;
    telling.push_back(rank);
  }
  for (; !telling.empty(); telling.pop_front()) {
    for (const uint32_t neighbour : RingNeighbours(telling.front(), ranks, base)) {
      if (hops[neighbour] != kNotTold) continue;
      hops[neighbour] = hops[telling.front()] + 1;
      telling.push_back(neighbour);
    }
  }
  return hops;
}

}  // namespace kedge::fmi
