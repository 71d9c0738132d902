// See small_blocks.h.
#include "client/heap/small_blocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>

namespace kedge::client {
namespace {

// A run of descriptors, and the runs that they describe.
constexpr uint32_t kRunsInGroup = 128;
constexpr size_t kFineBytesMax = 128;  // up to here slots differ by 16 bytes, from there on by a quarter of a power of two
constexpr uint32_t kRunsAdded = 8;     // at least

bool IsDescriptors(uint32_t run) {
  return run % kRunsInGroup == 0;
}

Status Overwritten(const std::string& what) {
  return Status(Code::kCorrupt, "the heap's own notes were overwritten by the program: " + what);
}

}  // namespace

size_t SlotBytes(size_t bytes) {
  constexpr size_t kFine = 16, kMin = 32;
  const size_t step = bytes <= kFineBytesMax ? kFine : std::bit_floor(bytes - 1) / 4;
  return std::max(kMin, (bytes + step - 1) / step * step);
}

SmallBlocks::Run* SmallBlocks::At(uint32_t run) const {
  static_assert(kRunsInGroup * sizeof(Run) <= kRunBytes);
  std::byte* const group = area_ + uint64_t{run / kRunsInGroup * kRunsInGroup} * kRunBytes;
  return reinterpret_cast<Run*>(group) + run % kRunsInGroup;
}

Status SmallBlocks::CheckRun(const Run& run) {
  if (run.slot_bytes == 0) return run.used == 0 ? Status::Ok() : Overwritten("blocks in a run without slots");
  const bool is_size =
      run.slot_bytes >= kSlotBytesMin && run.slot_bytes <= kSmallBytesMax && SlotBytes(run.slot_bytes) == run.slot_bytes;
  if (!is_size || run.used > Slots(run)) return Overwritten(fmt::format("{} slots of {} bytes", run.used, run.slot_bytes));
  uint32_t used = 0;
  for (const uint64_t word : run.taken) used += static_cast<uint32_t>(std::popcount(word));
  return used == run.used ? Status::Ok() : Overwritten(fmt::format("{} blocks where {} are in use", run.used, used));
}

Status SmallBlocks::Adopt(uint64_t bytes) {
  Forget();
  if (bytes % kRunBytes != 0 || bytes / kRunBytes > std::numeric_limits<uint32_t>::max()) {
    return Status(Code::kCorrupt,
                  fmt::format("the heap's small blocks take {} bytes: expected a multiple of {}", bytes, kRunBytes));
  }
  runs_ = static_cast<uint32_t>(bytes / kRunBytes);
  for (uint32_t number = 0; number < runs_; ++number) {
    if (IsDescriptors(number)) continue;
    const Run& run = *At(number);
    const Status status = CheckRun(run);
    if (!status.ok()) {
      Forget();
      return status;
    }
    blocks_ += run.used;
    if (run.slot_bytes == 0)
      free_.insert(number);
    else if (run.used < Slots(run))
      open_[run.slot_bytes].insert(number);
  }
  return Status::Ok();
}

void SmallBlocks::Forget() {
  runs_ = 0;
  blocks_ = 0;
  open_.clear();
  free_.clear();
}

Result<void*> SmallBlocks::Allocate(size_t bytes) {
  const auto slot_bytes = static_cast<uint32_t>(SlotBytes(bytes));
  std::set<uint32_t>& open = open_[slot_bytes];
  uint32_t number = 0;
  if (open.empty()) {
    KEDGE_ASSIGN_OR_RETURN(number, Open(slot_bytes));
  } else {
    number = *open.begin();
  }
  Run& run = *At(number);
  if (run.slot_bytes != slot_bytes) return Overwritten(fmt::format("slots of {} bytes, not {}", run.slot_bytes, slot_bytes));
  for (uint32_t slot = 0; slot < Slots(run);) {
    uint64_t& word = run.taken[slot / 64];
    if (word == std::numeric_limits<uint64_t>::max()) {
      slot += 64;
      continue;
    }
    slot += static_cast<uint32_t>(std::countr_one(word));
    if (slot >= Slots(run)) break;
    word |= uint64_t{1} << slot % 64;
    if (++run.used >= Slots(run)) open.erase(number);
    ++blocks_;
    return static_cast<void*>(area_ + uint64_t{number} * kRunBytes + uint64_t{slot} * slot_bytes);
  }
  return Overwritten("no slot is free in a run that has one");
}

Result<uint32_t> SmallBlocks::Open(uint32_t slot_bytes) {
  if (free_.empty()) KEDGE_RETURN_IF_ERROR(Grow());
  const uint32_t number = *free_.begin();
  free_.erase(free_.begin());
  *At(number) = Run{};
  At(number)->slot_bytes = slot_bytes;
  open_[slot_bytes].insert(number);
  return number;
}

Status SmallBlocks::Grow() {
  const auto grow_by = [this](uint32_t added) {
    // One behind the descriptors, too.
    const uint32_t runs = runs_ + added + (IsDescriptors(runs_ + added - 1) ? 1 : 0);
    KEDGE_RETURN_IF_ERROR(memory_.resize(uint64_t{runs} * kRunBytes));
    for (uint32_t number = runs_; number < runs; ++number) {
      if (!IsDescriptors(number)) free_.insert(number);
    }
    runs_ = runs;
    return Status::Ok();
  };
  // In proportion, so that the area does not grow at each checkpoint of a program that goes on allocating.
  const Status status = grow_by(std::max(kRunsAdded, runs_ / 4));
  return status.code() == Code::kNoSpace ? grow_by(1) : status;
}

Result<SmallBlocks::Place> SmallBlocks::Find(const void* block) const {
  const auto none = [&] {
    return Status(Code::kInvalidArgument, fmt::format("no block of the heap begins at {}", fmt::ptr(block)));
  };
  const uint64_t offset = reinterpret_cast<uintptr_t>(block) - reinterpret_cast<uintptr_t>(area_);
  if (offset >= area_bytes()) return none();
  const auto number = static_cast<uint32_t>(offset / kRunBytes);
  if (IsDescriptors(number)) return none();
  const Run& run = *At(number);
  if (run.slot_bytes == 0) return none();
  if (run.slot_bytes < kSlotBytesMin || run.slot_bytes > kSmallBytesMax)
    return Overwritten(fmt::format("slots of {} bytes", run.slot_bytes));
  const auto slot = static_cast<uint32_t>(offset % kRunBytes / run.slot_bytes);
  const bool is_taken = slot < Slots(run) && ((run.taken[slot / 64] >> slot % 64) & 1) != 0;
  if (offset % kRunBytes % run.slot_bytes != 0 || !is_taken) return none();
  return Place{number, slot};
}

Result<size_t> SmallBlocks::BytesOf(const void* block) const {
  KEDGE_ASSIGN_OR_RETURN(const Place place, Find(block));
  return size_t{At(place.run)->slot_bytes};
}

Status SmallBlocks::Free(void* block) {
  KEDGE_ASSIGN_OR_RETURN(const Place place, Find(block));
  Run& run = *At(place.run);
  if (run.used == 0) return Overwritten("a block in a run without any");
  run.taken[place.slot / 64] &= ~(uint64_t{1} << place.slot % 64);
  --run.used;
  --blocks_;
  std::set<uint32_t>& open = open_[run.slot_bytes];
  open.insert(place.run);
  // The last one stays cut: whoever allocates and frees one block again and again pays for no new run.
  if (run.used == 0 && open.size() > 1) Release(place.run);
  return Status::Ok();
}

void SmallBlocks::Release(uint32_t run) {
  open_[At(run)->slot_bytes].erase(run);
  *At(run) = Run{};
  free_.insert(run);
  memory_.clear(uint64_t{run} * kRunBytes, kRunBytes);
  Trim();
}

void SmallBlocks::Trim() {
  uint32_t runs = runs_;
  while (runs > 0 && (IsDescriptors(runs - 1) || free_.contains(runs - 1))) --runs;
  // As much as Grow would add may stay.
  if (runs_ - runs <= 2 * std::max(kRunsAdded, runs / 4)) return;
  runs += std::max(kRunsAdded, runs / 4);
  if (!memory_.resize(uint64_t{runs} * kRunBytes).ok()) return;
  free_.erase(free_.lower_bound(runs), free_.end());
  runs_ = runs;
}

}  // namespace kedge::client
