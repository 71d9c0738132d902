// Who protects whom: the nodes of a job cut into groups that span failure domains.
//
// Everything here is a pure function of (members, options), so that all agents that know the same members agree without
// a word. A group never holds two nodes of one failure domain: then the loss of a whole domain costs a group one member.
// Groups are of as equal size as the number of nodes allows; the j-th rank of each node of a group belongs to the group's
// j-th set, which is what is encoded together ([Sato 5.5], [VeloC IV-D]). Nodes have a place, `member`, in their group;
// partners are those that follow in it, cyclically.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "format/set_records.h"

namespace kedge::redundancy {

struct Node {
  std::string name;
  std::string domain;           // what fails together with it; its own name when nothing is known
  std::vector<uint32_t> ranks;  // ascending; may be empty
};

struct LayoutOptions {
  Scheme scheme = Scheme::kXor;
  uint32_t group_size = 0;  // nodes a group, if their number and the domains allow; 0: chosen by the scheme
  uint32_t losses = 2;      // Reed-Solomon: losses a group that are survived
  uint32_t copies = 1;      // partner: copies beside the own one
};

// The group size that is taken for 0: 1 + copies for partner; 8 for XOR; losses + 8 for Reed-Solomon. [Sato 5.5.3] finds
// that cost falls little beyond 16; smaller groups survive more.
uint32_t DefaultGroupSize(const LayoutOptions& options);

struct Position {
  uint32_t group = 0;
  uint32_t member = 0;
  friend bool operator==(const Position&, const Position&) = default;
};

// A rank's place: its set, and which member of it.
struct RankPosition {
  uint32_t group = 0;
  uint32_t member = 0;
  uint32_t index = 0;
  friend bool operator==(const RankPosition&, const RankPosition&) = default;
};

struct Layout {
  // A hash of everything below: agents with the same id have the same layout.
  uint64_t id = 0;
  Scheme scheme = Scheme::kNone;
  uint32_t parity = 0;  // as SetRecord::parity
  // By group and member. Sizes differ by one at most.
  std::vector<std::vector<Node>> groups;

  std::optional<Position> Find(std::string_view node) const;
  std::optional<RankPosition> FindRank(uint32_t rank) const;
  // How many sets a group has: the most ranks on one of its nodes.
  uint32_t SetCount(uint32_t group) const;
  // The rank whose image is `member`'s in a set; none where the node has fewer ranks.
  std::optional<uint32_t> RankAt(uint32_t group, uint32_t member, uint32_t index) const;
  // The members that hold copies of `member`'s images (scheme partner), nearest first.
  std::vector<uint32_t> Holders(uint32_t group, uint32_t member) const;
  // The members whose images `member` holds copies of (scheme partner).
  std::vector<uint32_t> HeldBy(uint32_t group, uint32_t member) const;
};

// `nodes` in any order. kInvalidArgument: a name is there twice or empty, a rank is on two nodes, an option is out of
// bounds. kFailedPrecondition: these nodes and domains cannot protect (one node, one domain, too many nodes of one domain
// for groups of the least size that the scheme allows); the message says why and what would help.
Result<Layout> MakeLayout(std::vector<Node> nodes, const LayoutOptions& options);

// One line a group, for people: "group 0 (xor): node1 [rack1] ranks 0-3, node5 [rack2] ranks 4-7".
std::string Describe(const Layout& layout);

}  // namespace kedge::redundancy
