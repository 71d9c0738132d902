// See region_target.h.
#include "restore/region_target.h"

#include <algorithm>
#include <utility>

#include "base/staged_copy.h"

namespace kedge {

bool RegionTarget::Wants(uint64_t begin, uint64_t end) const {
  return boxes.empty() || std::ranges::any_of(boxes, [&](CommonRuns box) {
           box.SkipTo(begin);
           const auto run = box.Next();
           return run && run->from < end;
         });
}

std::span<std::byte> RegionTarget::Whole(uint64_t begin, uint64_t end) const {
  if (boxes.empty()) return {memory + (begin - first), end - begin};
  for (CommonRuns box : boxes) {
    box.SkipTo(begin);
    const auto run = box.Next();
    if (run && run->from <= begin) {
      return {memory + run->to + (begin - run->from), std::min(end, run->from + run->bytes) - begin};
    }
  }
  return {};
}

uint64_t RegionTarget::Take(uint64_t begin, ByteSpan part) const {
  const uint64_t end = begin + part.size();
  uint64_t taken = 0;
  for (CommonRuns box : boxes) {
    box.SkipTo(begin);
    for (auto run = box.Next(); run && run->from < end; run = box.Next()) {
      const uint64_t from = std::max(run->from, begin), bytes = std::min(run->from + run->bytes, end) - from;
      crc32c::CopyPastCache(memory + run->to + (from - run->from), part.data() + (from - begin), bytes);
      taken += bytes;
    }
  }
  return taken;
}

PartBuffers::Buffer::~Buffer() {
  if (!memory_) return;
  const std::lock_guard lock(owner_->mutex_);
  owner_->free_.push_back(std::move(memory_));
}

std::byte* PartBuffers::Buffer::data() {
  if (memory_) return memory_.get();
  {
    const std::lock_guard lock(owner_->mutex_);
    if (!owner_->free_.empty()) {
      memory_ = std::move(owner_->free_.back());
      owner_->free_.pop_back();
    }
  }
  if (!memory_) memory_ = std::make_unique_for_overwrite<std::byte[]>(kBytes);
  return memory_.get();
}

}  // namespace kedge
