// See heap.h.
#include "client/heap/heap.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>
#include <utility>

namespace kedge::client {
namespace {

// The area of small blocks begins at a large page; the units between the first and it are nobody's.
constexpr uint64_t kSmallUnit = 32;
constexpr uint64_t kLargePageUnits = 32;
constexpr uint64_t kUnitsMax = uint64_t{1} << 30;  // that ids of blocks can tell apart
// Ranges end here, below where x86-64 and arm64 load a program, in what sanitizers leave to the application.
constexpr uint64_t kLastAddress = 0x554000000000;
constexpr uint64_t kRangesTried = 8;
// 16 MiB: what allocators of C libraries keep. Larger blocks are as fast with new memory.
constexpr uint64_t kKeptUnitsMax = 256;
constexpr uint64_t kKeptUnitsOfBlockMax = 64;

// What is described no more fits another size.
void SetBytes(uint64_t bytes, Region* region) {
  region->bytes = bytes;
  const bool are_elements = bytes % region->element_bytes == 0;
  const bool is_vector = region->shape.size() == 1 && are_elements;
  if (!are_elements) {
    region->element_bytes = 1;
    region->type = ElementType::kBytes;
  }
  region->shape.clear();
  region->global_shape.clear();
  region->global_offset.clear();
  region->halo.clear();
  if (is_vector) region->shape = {static_cast<int64_t>(bytes / region->element_bytes)};
}

const std::string* FindNote(const ImageRecord& image) {
  for (const Annotation& annotation : image.annotations) {
    if (annotation.key == kHeapKey) return &annotation.value;
  }
  return nullptr;
}

uint64_t UnitsOf(const Region& region) {
  return std::max<uint64_t>(1, UnitsFor(region.bytes));
}

std::string NameOf(const Region& region) {
  return region.name.empty() ? "without a name" : fmt::format("'{}'", region.name);
}

}  // namespace

bool Heap::Saved::Overlaps(uint64_t unit, uint64_t count) const {
  const auto behind = regions.lower_bound(unit + count);
  if (behind == regions.begin()) return false;
  const auto& [first, region] = *std::prev(behind);
  return first + UnitsOf(*region) > unit;
}

int Heap::IdOf(uint64_t unit) {
  static_assert(std::numeric_limits<int>::min() + static_cast<int64_t>(kUnitsMax) - 1 < kBlockIdMax);
  return static_cast<int>(std::numeric_limits<int>::min() + static_cast<int64_t>(unit));
}

Heap::~Heap() {
  for (Header* header : former_headers_) header->owner = nullptr;
  if (range_.valid()) Leave();
}

void Heap::Leave() {
  std::map<uint64_t, uint64_t> left = detached_;
  const bool has_blocks = !blocks_.empty() || (small_ && small_->blocks() > 0);
  if (is_linked_ && has_blocks) {
    header()->owner = nullptr;
    left[0] = 1;
    left[kSmallUnit] = small_units_;
    for (const auto& [unit, block] : blocks_) left[unit] = block.units;
  }
  std::vector<os::ReservedRange::Piece> pieces;
  for (const auto& [unit, units] : left) pieces.push_back({unit * kUnitBytes, units * kUnitBytes});
  range_.Leave(pieces);
  kept_.clear(), kept_units_ = 0;
}

void Heap::SetOwner(kedge_context* owner) {
  owner_ = owner;
  for (Header* header : former_headers_) header->owner = owner;
  if (range_.valid()) header()->owner = owner;
}

// ---- The range ----

Status Heap::Reserve() {
  if (range_.valid()) return Status::Ok();
  if (keys_.address != 0) {
    auto range = os::ReservedRange::At(keys_.address, keys_.bytes);
    if (!range.ok()) return Status(Code::kFailedPrecondition, "heap.address: " + range.status().message());
    return Use(std::move(*range));
  }
  Status first;
  for (uint64_t tried = 1; tried <= kRangesTried && tried * keys_.bytes < kLastAddress; ++tried) {
    auto range = os::ReservedRange::At(kLastAddress - tried * keys_.bytes, keys_.bytes);
    if (range.ok()) return Use(std::move(*range));
    if (first.ok()) first = range.status();
  }
  return Status(Code::kFailedPrecondition,
                "the heap of kedge_alloc finds no place: " + first.message() + "; set heap.address, or heap.size to less");
}

Status Heap::Use(os::ReservedRange range) {
  KEDGE_RETURN_IF_ERROR(range.Commit(0, kUnitBytes));
  if (range_.valid() && is_linked_) {
    former_headers_.push_back(header());
    detached_[0] = 1;
  }
  if (range_.valid()) Leave();
  detached_.clear();
  is_linked_ = false;
  range_ = std::move(range);
  units_ = Units(range_.bytes() / kUnitBytes);
  units_.TakeAt(0, kSmallUnit);
  small_.emplace(
      range_.data() + kSmallUnit * kUnitBytes,
      SmallBlocks::Memory{[this](uint64_t bytes) { return ResizeSmallArea(bytes); },
                          [this](uint64_t offset, uint64_t bytes) { range_.Clear(kSmallUnit * kUnitBytes + offset, bytes); }});
  header()->owner = owner_;
  return Status::Ok();
}

Result<kedge_context* const*> Heap::Link() {
  KEDGE_RETURN_IF_ERROR(Reserve());
  is_linked_ = true;
  return &header()->owner;
}

Status Heap::TakeAt(uint64_t first, uint64_t units) {
  bool are_free = units_.TakeAt(first, units);
  if (!are_free && !kept_.empty()) GiveBackKept(0), are_free = units_.TakeAt(first, units);
  if (!are_free) {
    return Status(Code::kNoSpace, fmt::format("the heap has no room for {} bytes at {}: set heap.size to more than {}",
                                              units * kUnitBytes, fmt::ptr(AddressOf(first)), range_.bytes()));
  }
  const Status status = range_.Commit(first * kUnitBytes, units * kUnitBytes);
  if (!status.ok()) units_.Free(first, units);
  return status;
}

void Heap::GiveBack(uint64_t first, uint64_t units) {
  // Where that fails the addresses are not used again: what lies there is not known to be zero.
  if (range_.GiveBack(first * kUnitBytes, units * kUnitBytes).ok()) units_.Free(first, units);
}

Status Heap::ResizeSmallArea(uint64_t bytes) {
  const uint64_t units = bytes / kUnitBytes, end = kSmallUnit + small_units_;
  const int id = IdOf(kSmallUnit);
  if (units > small_units_) {
    KEDGE_RETURN_IF_ERROR(TakeAt(end, units - small_units_));
    if (small_units_ == 0) {
      Region region;
      region.id = id;
      const Status status = group_->DeclareBlock(region, AddressOf(kSmallUnit));
      if (!status.ok()) {
        GiveBack(kSmallUnit, units);
        return status;
      }
    }
  } else if (units < small_units_) {
    GiveBack(kSmallUnit + units, small_units_ - units);
    if (units == 0) group_->RemoveBlock(id);
  }
  small_units_ = units;
  if (units > 0) group_->Find(id)->description.bytes = units * kUnitBytes;
  return Status::Ok();
}

// ---- Blocks ----

Status Heap::CheckUsable() const {
  if (!is_undefined_) return Status::Ok();
  return Status(Code::kFailedPrecondition, "the last restart has failed, and the heap is undefined until one succeeds");
}

bool Heap::IsSmall(const void* block) const {
  const uint64_t offset = reinterpret_cast<uintptr_t>(block) - range_.address();
  return offset >= kSmallUnit * kUnitBytes && offset < (kSmallUnit + small_units_) * kUnitBytes;
}

Result<uint64_t> Heap::UnitOf(const void* block) const {
  const uint64_t offset = reinterpret_cast<uintptr_t>(block) - range_.address();
  const uint64_t unit = offset / kUnitBytes;
  if (range_.valid() && offset % kUnitBytes == 0 && blocks_.contains(unit)) return unit;
  return Status(Code::kInvalidArgument, fmt::format("no block of the heap begins at {}", fmt::ptr(block)));
}

Result<void*> Heap::Allocate(const char* name, size_t count, size_t element_bytes, const kedge_region_info* info) {
  KEDGE_RETURN_IF_ERROR(CheckUsable());
  KEDGE_RETURN_IF_ERROR(Reserve());
  KEDGE_ASSIGN_OR_RETURN(const kedge_region_info known, KnownInfo(info));
  auto described = DescribeMemory(0, count, element_bytes, known);
  if (!described.ok()) return described.status().WithContext("kedge_alloc");
  if (known.device_written != 0) {
    return Status(Code::kUnsupported,
                  "kedge_alloc: a version does not say that devices write to a block; protect memory of your own for that");
  }
  Region region = std::move(*described);
  region.name = name == nullptr ? "" : name;
  if (name == nullptr && region.bytes <= kSmallBytesMax) return small_->Allocate(region.bytes);
  const DeclaredRegion* const same = group_->FindByName(region.name);
  if (same != nullptr) {
    return Status(Code::kAlreadyExists,
                  fmt::format("{} '{}' is there already: kedge_find gives it", same->is_block ? "block" : "region", region.name));
  }
  return AllocateUnits(std::move(region), {.is_known = name != nullptr});
}

Result<void*> Heap::Take(size_t bytes, bool zeroed) {
  KEDGE_RETURN_IF_ERROR(CheckUsable());
  KEDGE_RETURN_IF_ERROR(Reserve());
  KEDGE_ASSIGN_OR_RETURN(const kedge_region_info plain, KnownInfo(nullptr));
  auto region = DescribeMemory(0, bytes, 1, plain);
  if (!region.ok()) return region.status().WithContext("kedge_heap_take");
  const auto kept = kept_.find(UnitsOf(*region));
  if (kept == kept_.end()) return AllocateUnits(*std::move(region), {.is_known = true, .is_taken = true});
  const auto [units, first] = *kept;
  region->id = IdOf(first);
  KEDGE_RETURN_IF_ERROR(group_->DeclareBlock(*std::move(region), AddressOf(first)));
  kept_.erase(kept);
  kept_units_ -= units;
  blocks_[first] = {units, true, true};
  if (zeroed) std::memset(AddressOf(first), 0, bytes);
  return AddressOf(first);
}

Result<void*> Heap::AllocateUnits(Region region, Block block) {
  block.units = UnitsOf(region);
  const uint64_t alignment = block.units >= kLargePageUnits ? kLargePageUnits : 1;
  auto first = units_.Take(block.units, alignment);
  if (!first && !kept_.empty()) GiveBackKept(0), first = units_.Take(block.units, alignment);
  if (!first) {
    return Status(Code::kNoSpace,
                  fmt::format("the heap has no room for {} bytes: set heap.size to more than {}", region.bytes, range_.bytes()));
  }
  region.id = IdOf(*first);
  Status status = range_.Commit(*first * kUnitBytes, block.units * kUnitBytes);
  if (status.ok()) status = group_->DeclareBlock(std::move(region), AddressOf(*first));
  if (!status.ok()) {
    GiveBack(*first, block.units);
    return status;
  }
  UseLargePages(*first, block.units);
  blocks_[*first] = block;
  return AddressOf(*first);
}

void Heap::UseLargePages(uint64_t first, uint64_t units) {
  if (units >= kLargePageUnits) range_.PreferLargePages(first * kUnitBytes, units * kUnitBytes);
}

void Heap::FreeUnits(uint64_t unit) {
  const Block block = blocks_[unit];
  group_->RemoveBlock(IdOf(unit));
  blocks_.erase(unit);
  block.is_taken ? Keep(unit, block.units) : GiveBack(unit, block.units);
}

void Heap::Keep(uint64_t first, uint64_t units) {
  if (units > kKeptUnitsOfBlockMax) return GiveBack(first, units);
  GiveBackKept(kKeptUnitsMax - units);
  kept_.emplace(units, first);
  kept_units_ += units;
}

void Heap::GiveBackKept(uint64_t units_most) {
  while (kept_units_ > units_most) {
    const auto largest = std::prev(kept_.end());
    kept_units_ -= largest->first;
    GiveBack(largest->second, largest->first);
    kept_.erase(largest);
  }
}

Status Heap::Free(void* block) {
  if (block == nullptr) return Status::Ok();
  KEDGE_RETURN_IF_ERROR(CheckUsable());
  if (IsSmall(block)) return small_->Free(block);
  KEDGE_ASSIGN_OR_RETURN(const uint64_t unit, UnitOf(block));
  FreeUnits(unit);
  return Status::Ok();
}

Status Heap::Detach(void* block) {
  KEDGE_ASSIGN_OR_RETURN(const uint64_t unit, UnitOf(block));
  group_->RemoveBlock(IdOf(unit));
  detached_[unit] = blocks_[unit].units;
  blocks_.erase(unit);
  return Status::Ok();
}

Result<void*> Heap::Reallocate(void* block, size_t bytes) {
  if (block == nullptr) return Allocate(nullptr, bytes, 1, nullptr);
  KEDGE_RETURN_IF_ERROR(CheckUsable());
  if (IsSmall(block)) return ReallocateSmall(block, bytes);
  KEDGE_ASSIGN_OR_RETURN(const uint64_t unit, UnitOf(block));
  return ReallocateUnits(unit, bytes);
}

Result<void*> Heap::ReallocateSmall(void* block, size_t bytes) {
  KEDGE_ASSIGN_OR_RETURN(const size_t before, small_->BytesOf(block));
  if (bytes <= kSmallBytesMax && SlotBytes(bytes) == before) return block;
  KEDGE_ASSIGN_OR_RETURN(void* const moved, Allocate(nullptr, bytes, 1, nullptr));
  std::memcpy(moved, block, std::min(before, bytes));
  KEDGE_RETURN_IF_ERROR(small_->Free(block));
  return moved;
}

Result<bool> Heap::ResizeUnits(uint64_t unit, uint64_t units) {
  uint64_t& before = blocks_[unit].units;
  if (units > before) {
    const Status status = TakeAt(unit + before, units - before);
    if (status.code() == Code::kNoSpace) return false;
    KEDGE_RETURN_IF_ERROR(status);
    UseLargePages(unit, units);
  } else if (units < before) {
    GiveBack(unit + units, before - units);
  }
  before = units;
  return true;
}

Result<void*> Heap::ReallocateUnits(uint64_t unit, size_t bytes) {
  Region region = group_->Find(IdOf(unit))->description;
  const uint64_t before = region.bytes;
  SetBytes(bytes, &region);
  KEDGE_ASSIGN_OR_RETURN(const bool stays, ResizeUnits(unit, UnitsOf(region)));
  if (stays) {
    group_->Find(IdOf(unit))->description = std::move(region);
    return AddressOf(unit);
  }
  // Two blocks of one name are none, so it changes its owner.
  const std::string name = region.name;
  region.name.clear();
  const Block block = blocks_[unit];
  KEDGE_ASSIGN_OR_RETURN(void* const moved, AllocateUnits(std::move(region), block));
  std::memcpy(moved, AddressOf(unit), std::min<uint64_t>(before, bytes));
  FreeUnits(unit);
  KEDGE_ASSIGN_OR_RETURN(const uint64_t to, UnitOf(moved));
  Region named = group_->Find(IdOf(to))->description;
  named.name = name;
  group_->RemoveBlock(named.id);
  KEDGE_RETURN_IF_ERROR(group_->DeclareBlock(std::move(named), moved));
  return moved;
}

Result<const DeclaredRegion*> Heap::Find(const std::string& name) {
  KEDGE_RETURN_IF_ERROR(CheckUsable());
  const DeclaredRegion* const found = name.empty() ? nullptr : group_->FindByName(name);
  if (found == nullptr || !found->is_block) return Status(Code::kNotFound, fmt::format("the heap has no block '{}'", name));
  KEDGE_ASSIGN_OR_RETURN(const uint64_t unit, UnitOf(found->address));
  blocks_[unit].is_known = true;
  return found;
}

Result<uint64_t> Heap::Hold(const void* block) {
  KEDGE_RETURN_IF_ERROR(CheckUsable());
  KEDGE_ASSIGN_OR_RETURN(const uint64_t unit, UnitOf(block));
  blocks_[unit].is_known = true;
  return group_->Find(IdOf(unit))->description.bytes;
}

// ---- Versions ----

std::optional<std::string> Heap::Note() const {
  if (!range_.valid()) return std::nullopt;
  return fmt::format("{:#x}", range_.address());
}

Result<Heap::Saved> Heap::ReadSaved(const ImageRecord& image) {
  Saved saved;
  const std::string* const note = FindNote(image);
  if (note == nullptr || !image.group.empty()) return saved;
  const auto corrupt = [](const std::string& what) { return Status(Code::kCorrupt, "the version's heap: " + what); };
  const char* const end = note->data() + note->size();
  const bool is_hexadecimal = note->starts_with("0x");
  const auto read = std::from_chars(note->data() + (is_hexadecimal ? 2 : 0), end, saved.address, 16);
  const bool is_address = is_hexadecimal && read.ec == std::errc() && read.ptr == end && saved.address > 0 &&
                          saved.address % (kLargePageUnits * kUnitBytes) == 0 && saved.address < uint64_t{1} << 56;
  if (!is_address) return corrupt(fmt::format("'{}' is no address", *note));
  for (const Region& region : image.regions) {
    if (IsHeapBlock(region)) {
      saved.regions[static_cast<uint64_t>(int64_t{region.id} - std::numeric_limits<int>::min())] = &region;
    }
  }
  for (const auto& [unit, region] : saved.regions) {
    const uint64_t units = UnitsOf(*region);
    const bool fits = unit >= std::max(saved.units, kSmallUnit) && units <= kUnitsMax && unit + units <= kUnitsMax;
    if (!fits) return corrupt(fmt::format("{} bytes cannot lie at {} units", region->bytes, unit));
    saved.units = unit + units;
  }
  return saved;
}

Status Heap::CheckKnown(const Saved& saved) const {
  for (const auto& [unit, block] : blocks_) {
    if (!block.is_known) continue;
    const Region& mine = group_->Find(IdOf(unit))->description;
    const auto at_its_place = saved.regions.find(unit);
    const bool is_same = saved.address == range_.address() && at_its_place != saved.regions.end() &&
                         at_its_place->second->name == mine.name && at_its_place->second->bytes == mine.bytes &&
                         MeansTheSame(*at_its_place->second, mine);
    const bool is_beside = saved.address == 0 || (saved.address == range_.address() && !saved.Overlaps(unit, block.units));
    if (is_same || (mine.name.empty() && is_beside)) continue;
    if (mine.name.empty()) {
      return Status(
          Code::kMismatch,
          fmt::format("the program holds a block of {} bytes at {}, where the version has others: allocate in the order "
                      "of the run that took it, or call kedge_restart before",
                      mine.bytes, fmt::ptr(AddressOf(unit))));
    }
    std::string other = "has none";
    for (const auto& [place, region] : saved.regions) {
      if (region->name == mine.name) {
        other =
            fmt::format("has one of {} bytes at {:#x} ({})", region->bytes, saved.address + place * kUnitBytes, Meaning(*region));
      }
    }
    return Status(Code::kMismatch,
                  fmt::format("block '{}' of {} bytes is at {} ({}), and the version {}: free it first, or call kedge_restart "
                              "before kedge_alloc",
                              mine.name, mine.bytes, fmt::ptr(AddressOf(unit)), Meaning(mine), other));
  }
  return Status::Ok();
}

Status Heap::CheckDetached(const Saved& saved) const {
  for (const auto& [unit, region] : saved.regions) {
    auto detached = detached_.lower_bound(unit + UnitsOf(*region));
    if (detached == detached_.begin()) continue;
    --detached;
    if (detached->first + detached->second <= unit) continue;
    return Status(Code::kMismatch, fmt::format("the version's block {} lies at {}, where the program still has one that it has "
                                               "detached",
                                               NameOf(*region), fmt::ptr(AddressOf(unit))));
  }
  return Status::Ok();
}

Status Heap::Check(const ImageRecord& image) {
  next_ = os::ReservedRange();
  KEDGE_ASSIGN_OR_RETURN(const Saved saved, ReadSaved(image));
  KEDGE_RETURN_IF_ERROR(CheckKnown(saved));
  if (saved.address == 0) return Status::Ok();
  for (const auto& [unit, region] : saved.regions) {
    const DeclaredRegion* same = group_->Find(region->id);
    if ((same == nullptr || same->is_block) && !region->name.empty()) same = group_->FindByName(region->name);
    if (same == nullptr || same->is_block) continue;
    return Status(Code::kMismatch, fmt::format("region {} is protected, and the version has a block {} of that id or name",
                                               same->description.id, NameOf(*region)));
  }
  const auto refused = [](const Status& status) {
    return Status(Code::kMismatch, "the heap of the version cannot come back where it was: " + status.message());
  };
  const uint64_t bytes = saved.units * kUnitBytes;
  if (range_.valid() && range_.address() == saved.address) {
    KEDGE_RETURN_IF_ERROR(CheckDetached(saved));
    const Status status = range_.Extend(bytes);
    if (status.ok()) units_.Extend(range_.bytes() / kUnitBytes);
    return status.ok() ? status : refused(status);
  }
  // Ranges of two sizes may overlap.
  if (range_.valid() && blocks_.empty() && small_units_ == 0 && !is_linked_) Leave();
  auto range = os::ReservedRange::At(saved.address, std::max(bytes, keys_.bytes));
  if (!range.ok()) range = os::ReservedRange::At(saved.address, bytes);
  if (!range.ok()) return refused(range.status());
  next_ = std::move(*range);
  return Status::Ok();
}

void Heap::RemoveAllBut(const Saved& saved) {
  for (auto block = blocks_.begin(); block != blocks_.end();) {
    const uint64_t unit = block->first;
    const auto same = saved.regions.find(unit);
    ++block;
    const bool is_held = blocks_[unit].is_known && group_->Find(IdOf(unit))->description.name.empty();
    const bool stays = is_held || (saved.address == range_.address() && same != saved.regions.end() && unit != kSmallUnit &&
                                   UnitsOf(*same->second) == blocks_[unit].units);
    if (!stays) FreeUnits(unit);
  }
  if (small_) small_->Forget();
}

Status Heap::Make(const ImageRecord& image) {
  KEDGE_ASSIGN_OR_RETURN(const Saved saved, ReadSaved(image));
  if (!range_.valid() && saved.address == 0) return Status::Ok();
  is_undefined_ = true;
  RemoveAllBut(saved);
  GiveBackKept(0);
  const auto small = saved.regions.find(kSmallUnit);
  const uint64_t small_bytes = small == saved.regions.end() ? 0 : small->second->bytes;
  if (next_.valid()) {
    KEDGE_RETURN_IF_ERROR(ResizeSmallArea(0));
    KEDGE_RETURN_IF_ERROR(Use(std::move(next_)));
  }
  // What shrinks first: another block may lie there.
  KEDGE_RETURN_IF_ERROR(ResizeSmallArea(std::min(small_bytes / kUnitBytes, small_units_) * kUnitBytes));
  KEDGE_RETURN_IF_ERROR(ResizeSmallArea(small_bytes / kUnitBytes * kUnitBytes));
  // A name may have gone from one block to another. What is held, and not in the version, is as it was.
  for (const auto& [unit, block] : blocks_) {
    if (saved.regions.contains(unit)) group_->RemoveBlock(IdOf(unit));
  }
  for (const auto& [unit, region] : saved.regions) {
    if (unit == kSmallUnit) continue;
    const uint64_t units = UnitsOf(*region);
    if (!blocks_.contains(unit)) {
      KEDGE_RETURN_IF_ERROR(TakeAt(unit, units));
      UseLargePages(unit, units);
    }
    blocks_[unit].units = units;
    KEDGE_RETURN_IF_ERROR(group_->DeclareBlock(*region, AddressOf(unit)));
  }
  return Status::Ok();
}

Status Heap::Adopt() {
  if (!std::exchange(is_undefined_, false)) return Status::Ok();
  return small_->Adopt(small_units_ * kUnitBytes);
}

}  // namespace kedge::client
