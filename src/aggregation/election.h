// Who leads, and which stripes are whose: the decision that every agent takes alone, from the root's summary.
//
// All bytes of a version, B, fill E = ceil(B / S) stripes of S bytes. There are M leaders and O objects, and one of M and O
// divides the other. Stripe g belongs to leader g mod M, and lies in object g mod O at offset (g div O) S. So a stripe has one
// writer, leaders differ by one stripe at most, and so do objects.
//
// Election ([Agg] 3). A leader keeps its own bytes as far as its stripes take them; all others move. Fewest bytes move with the
// M largest nodes, the larger ones with the more stripes. Of the sets that move at most `slack_percent` more than that, those are
// wanted whose leaders are idle, and near what they gather. The objective is
//
//   kept bytes - weight x (load x stripes of the leader + bytes that leave their district)
//
// The bytes that leave a district depend only on how many leaders it has, and fall ever slower with them. So the objective is a
// sum of concave functions, one of each district, and taking the leader with the greatest gain M times is exact for a weight.
// The greatest weight whose set is within the slack wins. All arithmetic is on integers: every machine decides alike.
#pragma once

#include <cstdint>
#include <vector>

#include "aggregation/counts.h"
#include "aggregation/summary.h"

namespace kedge::aggregation {

struct ElectionOptions {
  Counts counts;              // the most; a version of few stripes has fewer
  uint64_t stripe_bytes = 0;  // > 0
  uint32_t slack_percent = 10;
};

struct Leader {
  uint32_t node = 0;
  uint64_t bytes = 0;     // its own images'
  uint64_t capacity = 0;  // of its stripes
  uint64_t kept() const { return bytes < capacity ? bytes : capacity; }
};

// Immutable once made: threads share it.
struct Roles {
  uint64_t bytes = 0;
  uint64_t stripe_bytes = 0;
  uint64_t stripes = 0;
  uint32_t objects = 0;
  std::vector<Leader> leaders;  // by position: stripe g belongs to leaders[g mod M]; empty without bytes

  // For shares (shares.h): leaders along the line, and what districts have too much of or room for.
  struct District {
    uint64_t before = 0;          // bytes of the districts before it
    uint64_t surplus = 0;         // bytes of its nodes that they do not keep
    uint64_t room = 0;            // of its leaders, beside what they keep
    uint64_t surplus_left = 0;    // of the districts before it: surplus that found no room at home
    uint64_t room_left = 0;       // of the districts before it: room that nobody at home fills
    uint32_t leaders_before = 0;  // index into by_node of its first leader
  };
  struct AlongLine {
    uint32_t node = 0;
    uint32_t position = 0;
    uint64_t room_before = 0;  // of the leaders before it in its district
    uint64_t kept_before = 0;  // the same
  };
  std::vector<AlongLine> by_node;
  std::vector<District> districts;

  uint64_t moved_bytes() const;
  uint64_t far_bytes = 0;  // that leave their district
};

// `root` is the summary of all nodes of the line, merged with counts.leaders.
Roles Elect(const Line& line, const Summary& root, const ElectionOptions& options);

}  // namespace kedge::aggregation
