#include "aggregation/line.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <tuple>

namespace kedge::aggregation {

uint32_t Line::DistrictOf(uint32_t node) const {
  return static_cast<uint32_t>(std::upper_bound(districts.begin(), districts.end(), node) - districts.begin()) - 1;
}

Result<Line> MakeLine(std::vector<Member> members) {
  if (members.empty()) return Status(Code::kInvalidArgument, "a plan of aggregation needs at least one node");
  std::set<std::string_view> names;
  for (const Member& member : members) {
    if (member.name.empty()) return Status(Code::kInvalidArgument, "a node without a name");
    if (!names.insert(member.name).second) {
      return Status(Code::kInvalidArgument, fmt::format("two nodes have the name \"{}\"", member.name));
    }
  }
  std::sort(members.begin(), members.end(),
            [](const Member& a, const Member& b) { return std::tie(a.place, a.name) < std::tie(b.place, b.name); });
  std::vector<uint32_t> places;  // where each begins
  for (uint32_t i = 0; i < members.size(); ++i) {
    if (i == 0 || members[i].place != members[i - 1].place) places.push_back(i);
  }
  Line line;
  const auto nodes = static_cast<uint32_t>(members.size());
  if (places.size() <= kDistrictsMax) {
    line.districts = std::move(places);
  } else {  // each place goes to the district that its first node falls into when the nodes are cut evenly
    uint64_t last = kDistrictsMax;
    for (const uint32_t begin : places) {
      const uint64_t district = uint64_t{begin} * kDistrictsMax / nodes;
      if (district != last) line.districts.push_back(begin);
      last = district;
    }
  }
  line.districts.push_back(nodes);
  line.nodes = std::move(members);
  return line;
}

}  // namespace kedge::aggregation
