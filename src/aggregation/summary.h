// What a scan along the tree of agents carries: what some nodes write, and who of them may lead.
//
// Merge() is associative and commutative, so any tree gives the same root, bit for bit. A summary is bounded whatever the number
// of nodes is: it keeps a node only while that is among the best of at least one ranking. A node that is among the best of all
// nodes is among the best of every part that it belongs to, so no merge loses it.
//
// Rankings ([Agg] 3: size, load, topology):
//   - `leaders` nodes by bytes: with them, the least bytes move.
//   - 2 x `leaders` nodes by bytes x (256 - load).
//   - in each district, twice its part of the leaders by the same product: some may lead near what they gather.
#pragma once

#include <cstdint>
#include <vector>

#include "aggregation/line.h"

namespace kedge::aggregation {

// What one node says of itself for a version.
struct NodeSize {
  uint64_t bytes = 0;  // of all its images
  uint8_t load = 0;    // 0: idle, 255: busy (LoadOf)
};

// The worst of three pressures, each a share of what the node has, in [0, 1].
uint8_t LoadOf(double cpu, double memory, double network);

struct Candidate {
  uint32_t node = 0;
  uint64_t bytes = 0;
  uint8_t load = 0;
  friend bool operator==(const Candidate&, const Candidate&) = default;
};

struct Summary {
  uint64_t bytes = 0;
  std::vector<uint64_t> district_bytes;  // by district
  std::vector<Candidate> candidates;     // by node
  friend bool operator==(const Summary&, const Summary&) = default;
};

// Of one node. REQUIRES: node < line.size().
Summary SummaryOf(const Line& line, uint32_t node, const NodeSize& size);
// Of the nodes of both, which have none in common. `leaders` is the same in all calls of a scan.
Summary Merge(const Line& line, uint32_t leaders, const Summary& a, const Summary& b);

// A summary as a message: fixed fields, 13 bytes for a candidate and 8 for a district.
uint64_t MessageBytes(const Summary& summary);
// No summary of any number of nodes needs more.
uint64_t MessageBytesMax(const Line& line, uint32_t leaders);

}  // namespace kedge::aggregation
