// From runs of a node's bytes to images, and to objects and offsets: what the flush of a node is told.
#pragma once

#include <cstdint>
#include <vector>

#include "aggregation/shares.h"

namespace kedge::aggregation {

// A run of an object.
struct ObjectRun {
  uint32_t object = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  friend bool operator==(const ObjectRun&, const ObjectRun&) = default;
};

// Where bytes [from, from + bytes) of a leader lie, in their order; runs that follow each other in one object are one.
std::vector<ObjectRun> RunsOf(const Roles& roles, uint32_t leader, uint64_t from, uint64_t bytes);

// A run of an image, who writes it, and where.
struct ImageRange {
  uint32_t image = 0;   // index into the node's images
  uint64_t offset = 0;  // in the image
  uint32_t writer = 0;  // the node that writes it
  ObjectRun to;         // `to.bytes` long
  friend bool operator==(const ImageRange&, const ImageRange&) = default;
};

// store.layout = leaders. `images` has the bytes of each of the node's images, in their order.
std::vector<ImageRange> RangesOf(const Line& line, const Roles& roles, uint32_t node, uint64_t before,
                                 const std::vector<uint64_t>& images);

// store.layout = posix ([Agg] 2.1): all images one after the other in one object, each written by its own node. The exclusive
// prefix sum over the nodes is `before`.
std::vector<ImageRange> RangesByPrefix(uint32_t node, uint64_t before, const std::vector<uint64_t>& images);

}  // namespace kedge::aggregation
