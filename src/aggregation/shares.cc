#include "aggregation/shares.h"

#include <algorithm>

namespace kedge::aggregation {

namespace {

class Sharing {
 public:
  Sharing(const Line& line, const Roles& roles) : line_(line), roles_(roles) {}

  std::vector<Transfer> Of(uint32_t node, uint64_t before, uint64_t bytes) {
    if (bytes == 0) return {};
    const uint32_t district = line_.DistrictOf(node);
    const Roles::District& home = roles_.districts[district];
    const size_t at = FirstFrom(node);
    uint64_t kept = 0;
    if (at < roles_.by_node.size() && roles_.by_node[at].node == node) {
      kept = roles_.leaders[roles_.by_node[at].position].kept();
      Add(0, roles_.by_node[at].position, 0, kept);
    }
    // The node's surplus as a run of the district's.
    const uint64_t begin = before - home.before - KeptBefore(home, district, at);
    const uint64_t end = begin + bytes - kept;
    const uint64_t at_home = std::min(home.surplus, home.room);
    if (begin < at_home) FillRoom(district, begin, std::min(end, at_home), kept);
    if (end > at_home) {
      const uint64_t first = std::max(begin, at_home);
      const uint64_t left = home.surplus_left + first - at_home;
      FillFar(left, left + end - first, kept + first - begin);
    }
    return std::move(transfers_);
  }

 private:
  // The first leader along the line that is not before `node`.
  size_t FirstFrom(uint32_t node) const {
    const auto found = std::lower_bound(roles_.by_node.begin(), roles_.by_node.end(), node,
                                        [](const Roles::AlongLine& entry, uint32_t value) { return entry.node < value; });
    return static_cast<size_t>(found - roles_.by_node.begin());
  }

  // What the leaders of the district before leader `at` keep.
  uint64_t KeptBefore(const Roles::District& home, uint32_t district, size_t at) const {
    if (at < EndOf(district)) return roles_.by_node[at].kept_before;
    if (at == home.leaders_before) return 0;
    const Roles::AlongLine& last = roles_.by_node[at - 1];
    return last.kept_before + roles_.leaders[last.position].kept();
  }

  size_t EndOf(uint32_t district) const {
    return district + 1 < roles_.districts.size() ? roles_.districts[district + 1].leaders_before : roles_.by_node.size();
  }

  // Room [begin, end) of a district's leaders takes the node's bytes from `from` on.
  void FillRoom(uint32_t district, uint64_t begin, uint64_t end, uint64_t from) {
    const auto first = roles_.by_node.begin() + roles_.districts[district].leaders_before;
    const auto last = roles_.by_node.begin() + static_cast<ptrdiff_t>(EndOf(district));
    auto entry = std::upper_bound(first, last, begin,
                                  [](uint64_t value, const Roles::AlongLine& other) { return value < other.room_before; });
    for (--entry; begin < end; ++entry) {
      const Leader& leader = roles_.leaders[entry->position];
      const uint64_t room = leader.capacity - leader.kept();
      const uint64_t skipped = begin - entry->room_before;
      if (skipped >= room) continue;
      const uint64_t bytes = std::min(end - begin, room - skipped);
      Add(from, entry->position, leader.kept() + skipped, bytes);
      begin += bytes;
      from += bytes;
    }
  }

  // Room [begin, end) of what districts have left.
  void FillFar(uint64_t begin, uint64_t end, uint64_t from) {
    auto district = std::upper_bound(roles_.districts.begin(), roles_.districts.end(), begin,
                                     [](uint64_t value, const Roles::District& other) { return value < other.room_left; });
    for (--district; begin < end; ++district) {
      const uint64_t left = district->room > district->surplus ? district->room - district->surplus : 0;
      const uint64_t skipped = begin - district->room_left;
      if (skipped >= left) continue;
      const uint64_t bytes = std::min(end - begin, left - skipped);
      const uint64_t room = district->surplus + skipped;
      FillRoom(static_cast<uint32_t>(district - roles_.districts.begin()), room, room + bytes, from);
      begin += bytes;
      from += bytes;
    }
  }

  void Add(uint64_t from, uint32_t leader, uint64_t to, uint64_t bytes) {
    if (bytes > 0) transfers_.push_back({from, leader, to, bytes});
  }

  const Line& line_;
  const Roles& roles_;
  std::vector<Transfer> transfers_;
};

}  // namespace

std::vector<Transfer> ShareOf(const Line& line, const Roles& roles, uint32_t node, uint64_t before, uint64_t bytes) {
  return Sharing(line, roles).Of(node, before, bytes);
}

}  // namespace kedge::aggregation
