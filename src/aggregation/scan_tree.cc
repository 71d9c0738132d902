#include "aggregation/scan_tree.h"

#include <bit>

#include "base/status.h"

namespace kedge::aggregation {

namespace {

uint32_t Middle(uint32_t begin, uint32_t end) {
  return begin + (end - begin) / 2;
}

}  // namespace

TreePlace PlaceInTree(uint32_t node, uint32_t nodes) {
  KEDGE_CHECK(node < nodes);
  TreePlace place;
  place.end = nodes;
  for (uint32_t middle = Middle(0, nodes); middle != node; middle = Middle(place.begin, place.end)) {
    place.parent = middle;
    ++place.depth;
    if (node < middle) {
      place.end = middle;
    } else {
      place.begin = middle + 1;
    }
  }
  if (place.begin < node) place.left = Middle(place.begin, node);
  if (node + 1 < place.end) place.right = Middle(node + 1, place.end);
  return place;
}

uint32_t TreeDepth(uint32_t nodes) {
  KEDGE_CHECK(nodes > 0);
  return static_cast<uint32_t>(std::bit_width(nodes)) - 1;
}

}  // namespace kedge::aggregation
