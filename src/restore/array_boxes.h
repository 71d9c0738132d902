// Where a region lies in a global array, and what two of them have in common: pure arithmetic.
//
// A box counts elements, its slowest dimension first, whatever the order in memory. Boxes of one array have as many dimensions.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "format/image_record.h"

namespace kedge {

struct ArrayBox {
  std::vector<int64_t> offset;
  std::vector<int64_t> shape;

  uint64_t Elements() const;
  friend bool operator==(const ArrayBox&, const ArrayBox&) = default;
};

// What the region has of its array; nothing: it is part of none.
std::optional<ArrayBox> PartOf(const Region& region);
// The same with its halo, as it lies in memory. REQUIRES: it is part of an array.
ArrayBox MemoryOf(const Region& region);
// Nothing: they have no element in common.
std::optional<ArrayBox> Intersection(const ArrayBox& a, const ArrayBox& b);
// `box` without `taken`: boxes that do not overlap.
std::vector<ArrayBox> Without(const ArrayBox& box, const ArrayBox& taken);

// Bytes that lie one behind the other in both boxes.
struct ByteRun {
  uint64_t from = 0;  // of the first one, from the begin of each
  uint64_t to = 0;
  uint64_t bytes = 0;
};

// What is to be copied from one box to another, in the order in which it lies in `from`: as few runs as there are.
class CommonRuns {
 public:
  // `from` and `to` as they lie in memory. REQUIRES: `common` lies in both, and has elements.
  CommonRuns(const ArrayBox& common, const ArrayBox& from, const ArrayBox& to, uint64_t element_bytes);
  // Nothing: there are no more.
  std::optional<ByteRun> Next();
  // Next() goes on with the first run that ends behind this byte of `from`, wherever it was.
  void SkipTo(uint64_t from);

 private:
  struct Dimension {
    uint64_t extent = 0;
    uint64_t from_stride = 0;
    uint64_t to_stride = 0;
    uint64_t at = 0;
  };
  void Forward();

  std::vector<Dimension> outer_;  // slowest first; those within a run are left out
  ByteRun first_;
  ByteRun next_;
  bool is_done_ = false;
};

}  // namespace kedge
