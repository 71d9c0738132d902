// See region_target.h.
#include "restore/region_target.h"

#include <algorithm>
#include <utility>

#include "base/staged_copy.h"

namespace kedge {

bool RegionTarget::Wants(uint64_t begin, uint64_t end) const {
  return boxes.empty() || WantedRuns(*this, begin, end).Next();
}

std::span<std::byte> RegionTarget::Whole(uint64_t begin, uint64_t end) const {
  const auto run = WantedRuns(*this, begin, end).Next();
  if (!run || run->from > begin) return {};
  return {memory + run->to, run->bytes};
}

uint64_t RegionTarget::Take(uint64_t begin, ByteSpan part) const {
  uint64_t taken = 0;
  WantedRuns runs(*this, begin, begin + part.size());
  for (auto run = runs.Next(); run; run = runs.Next()) {
    crc32c::CopyPastCache(memory + run->to, part.data() + (run->from - begin), run->bytes);
    taken += run->bytes;
  }
  return taken;
}

WantedRuns::WantedRuns(const RegionTarget& target, uint64_t begin, uint64_t end) : begin_(begin), end_(end) {
  if (target.boxes.empty() && begin < end) whole_ = {begin, begin - target.first, end - begin};
  for (const CommonRuns& box : target.boxes) {
    CommonRuns runs = box;
    runs.SkipTo(begin);
    const auto next = runs.Next();
    if (next && next->from < end) boxes_.push_back({std::move(runs), next});
  }
}

std::optional<ByteRun> WantedRuns::Next() {
  Box* first = nullptr;
  for (Box& box : boxes_) {
    if (box.next && (first == nullptr || box.next->from < first->next->from)) first = &box;
  }
  if (first == nullptr) return std::exchange(whole_, std::nullopt);
  const ByteRun run = *first->next;
  if (run.from >= end_) return std::nullopt;
  first->next = first->runs.Next();
  const uint64_t from = std::max(run.from, begin_);
  return ByteRun{from, run.to + (from - run.from), std::min(run.from + run.bytes, end_) - from};
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
