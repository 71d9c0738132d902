// Ranks in a Cartesian grid: which has which coordinates, the last of which counts fastest.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/status.h"
#include "fmi/handles/group.h"

namespace kedge::fmi {

struct Grid {
  std::vector<int> sizes;   // at least 1 each
  std::vector<char> wraps;  // 1: the last one's next is the first one

  // kInvalidArgument where there are none in a dimension, or more than `ranks` places in all.
  static Result<Grid> Checked(std::vector<int> sizes, std::vector<char> wraps, uint32_t ranks);

  uint32_t places() const;
  std::vector<int> CoordinatesOf(uint32_t rank) const;
  // Nothing where a coordinate lies outside, in a dimension that does not wrap.
  std::optional<uint32_t> RankOf(const std::vector<int>& coordinates) const;
  // Who is so many places further.
  std::optional<uint32_t> Shifted(uint32_t rank, uint32_t dimension, int64_t by) const;

  // The grid without the dimensions that are not kept. In it are those that are equal in the others.
  Grid Kept(const std::vector<char>& keeps) const;
  Wish WishForKept(uint32_t rank, const std::vector<char>& keeps) const;

  friend bool operator==(const Grid&, const Grid&) = default;
};

// Sets those that are 0 to numbers as near to each other as can be, in falling order, so that the product is `ranks`.
// kInvalidArgument where there are none such.
Status FillSizes(int ranks, std::vector<int>* sizes);

}  // namespace kedge::fmi
