// The nodes of a job in one order, in which near ones follow each other, and the districts that this order is cut into.
//
// All that is here follows from the membership, which every agent knows before any version: it costs no message. A district is
// a run of nodes of one place (a failure domain, or SLURM's switches, outermost first). More places than kDistrictsMax are
// joined with their neighbours in the order, so that what a scan carries stays bounded.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace kedge::aggregation {

inline constexpr uint32_t kDistrictsMax = 64;

struct Member {
  std::string name;
  std::string place;  // "switch1.switch7", or a failure domain; empty where nothing is known
};

struct Line {
  std::vector<Member> nodes;        // by place, then by name; a node's number is its index here
  std::vector<uint32_t> districts;  // the first node of each, ascending; then nodes.size()

  uint32_t size() const { return static_cast<uint32_t>(nodes.size()); }
  uint32_t district_count() const { return static_cast<uint32_t>(districts.size()) - 1; }
  uint32_t DistrictOf(uint32_t node) const;
};

// `members` in any order. kInvalidArgument: there is none, a name is empty, or two have the same.
Result<Line> MakeLine(std::vector<Member> members);

}  // namespace kedge::aggregation
