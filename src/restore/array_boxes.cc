// See array_boxes.h.
#include "restore/array_boxes.h"

#include <algorithm>

namespace kedge {

uint64_t ArrayBox::Elements() const {
  uint64_t elements = 1;
  for (const int64_t extent : shape) elements *= static_cast<uint64_t>(extent);
  return elements;
}

std::optional<ArrayBox> PartOf(const Region& region) {
  if (region.global_shape.empty()) return std::nullopt;
  ArrayBox box = MemoryOf(region);
  for (size_t i = 0; i < region.halo.size(); ++i) {
    const int64_t halo = region.halo[region.column_major ? region.halo.size() - 1 - i : i];
    box.offset[i] += halo;
    box.shape[i] -= 2 * halo;
  }
  return box;
}

ArrayBox MemoryOf(const Region& region) {
  ArrayBox box{region.global_offset, region.shape};
  for (size_t i = 0; i < region.halo.size(); ++i) box.offset[i] -= region.halo[i];
  if (region.column_major) {
    std::ranges::reverse(box.offset);
    std::ranges::reverse(box.shape);
  }
  return box;
}

std::optional<ArrayBox> Intersection(const ArrayBox& a, const ArrayBox& b) {
  ArrayBox common = a;
  for (size_t i = 0; i < a.shape.size(); ++i) {
    common.offset[i] = std::max(a.offset[i], b.offset[i]);
    common.shape[i] = std::min(a.offset[i] + a.shape[i], b.offset[i] + b.shape[i]) - common.offset[i];
    if (common.shape[i] <= 0) return std::nullopt;
  }
  return common;
}

std::vector<ArrayBox> Without(const ArrayBox& box, const ArrayBox& taken) {
  const auto common = Intersection(box, taken);
  if (!common) return {box};
  // Below and above what is taken, one dimension after the other; what is left has the common extent in those done.
  std::vector<ArrayBox> rest;
  ArrayBox left = box;
  for (size_t i = 0; i < box.shape.size(); ++i) {
    const int64_t begin = left.offset[i], end = begin + left.shape[i];
    const int64_t common_begin = common->offset[i], common_end = common_begin + common->shape[i];
    const auto add = [&](int64_t from, int64_t to) {
      if (from == to) return;
      rest.push_back(left);
      rest.back().offset[i] = from;
      rest.back().shape[i] = to - from;
    };
    add(begin, common_begin);
    add(common_end, end);
    left.offset[i] = common_begin;
    left.shape[i] = common->shape[i];
  }
  return rest;
}

CommonRuns::CommonRuns(const ArrayBox& common, const ArrayBox& from, const ArrayBox& to, uint64_t element_bytes) {
  first_.bytes = element_bytes;
  uint64_t from_stride = element_bytes, to_stride = element_bytes;
  bool is_within_run = true;
  for (size_t i = common.shape.size(); i-- > 0;) {
    const auto extent = static_cast<uint64_t>(common.shape[i]);
    first_.from += static_cast<uint64_t>(common.offset[i] - from.offset[i]) * from_stride;
    first_.to += static_cast<uint64_t>(common.offset[i] - to.offset[i]) * to_stride;
    if (is_within_run) {
      first_.bytes *= extent;
    } else {
      outer_.push_back({extent, from_stride, to_stride, 0});
    }
    // The next slower one goes on where this ends, in both.
    is_within_run = is_within_run && common.shape[i] == from.shape[i] && common.shape[i] == to.shape[i];
    from_stride *= static_cast<uint64_t>(from.shape[i]);
    to_stride *= static_cast<uint64_t>(to.shape[i]);
  }
  std::ranges::reverse(outer_);
  next_ = first_;
}

void CommonRuns::Forward() {
  for (size_t i = outer_.size(); i-- > 0;) {
    Dimension& dimension = outer_[i];
    next_.from += dimension.from_stride;
    next_.to += dimension.to_stride;
    if (++dimension.at < dimension.extent) return;
    next_.from -= dimension.extent * dimension.from_stride;
    next_.to -= dimension.extent * dimension.to_stride;
    dimension.at = 0;
  }
  is_done_ = true;
}

std::optional<ByteRun> CommonRuns::Next() {
  if (is_done_) return std::nullopt;
  const ByteRun run = next_;
  Forward();
  return run;
}

void CommonRuns::SkipTo(uint64_t from) {
  // To the last run that begins at or before it: a slower dimension's step is longer than all that the faster ones make.
  next_ = first_;
  is_done_ = false;
  uint64_t left = from < first_.from ? 0 : from - first_.from;
  for (Dimension& dimension : outer_) {
    dimension.at = std::min(left / dimension.from_stride, dimension.extent - 1);
    left -= dimension.at * dimension.from_stride;
    next_.from += dimension.at * dimension.from_stride;
    next_.to += dimension.at * dimension.to_stride;
  }
  if (next_.from + next_.bytes <= from) Forward();
}

}  // namespace kedge
