// See region_table.h.
#include "client/regions/region_table.h"
#include "client/regions/sized_struct.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

namespace kedge::client {
namespace {

// What stands in a caller's enum: a program in C may put any number there, which C++ must not read as the enum.
template <typename Enum>
int NumberIn(const Enum& given) {
  int number = 0;
  static_assert(sizeof number == sizeof given);
  std::memcpy(&number, &given, sizeof number);
  return number;
}

bool AnyNonZero(const int64_t* values, int count) {
  return std::any_of(values, values + count, [](int64_t value) { return value != 0; });
}

Status ApplyInfo(int id, size_t count, const kedge_region_info& info, Region* region) {
  const int memory = NumberIn(info.memory), type = NumberIn(info.type);
  if (memory == KEDGE_MEMORY_DEVICE) {
    return Status(Code::kUnsupported, fmt::format("region {}: device memory is not supported; copy it to host memory first", id));
  }
  if (memory != KEDGE_MEMORY_HOST || type < KEDGE_TYPE_BYTES || type > KEDGE_TYPE_BOOL) {
    return Status(Code::kInvalidArgument, fmt::format("region {}: unknown memory kind {} or element type {}", id, memory, type));
  }
  if (info.dimensions < 0 || info.dimensions > KEDGE_MAX_DIMENSIONS) {
    return Status(Code::kInvalidArgument,
                  fmt::format("region {}: {} dimensions; allowed are 0 to {}", id, info.dimensions, KEDGE_MAX_DIMENSIONS));
  }
  if (info.name != nullptr) region->name = info.name;
  region->type = static_cast<ElementType>(type);
  region->column_major = info.column_major != 0;
  region->shape.assign(info.shape, info.shape + info.dimensions);
  if (AnyNonZero(info.global_shape, info.dimensions)) {
    region->global_shape.assign(info.global_shape, info.global_shape + info.dimensions);
    region->global_offset.assign(info.global_offset, info.global_offset + info.dimensions);
  }
  if (AnyNonZero(info.halo, info.dimensions)) region->halo.assign(info.halo, info.halo + info.dimensions);
  if (info.replicated != 0) {
    if (region->shape.empty()) region->shape = {static_cast<int64_t>(count)};
    const bool is_part = !region->global_shape.empty() && region->global_shape != region->shape;
    if (is_part) {
      return Status(Code::kInvalidArgument, fmt::format("region {}: a part of a global array is not what all ranks have", id));
    }
    region->global_shape = region->shape;
    region->global_offset.assign(region->shape.size(), 0);
  }
  return Status::Ok();
}

}  // namespace

Result<DeclaredRegion*> RegionGroup::Place(const Region& region) {
  KEDGE_RETURN_IF_ERROR(ValidateRegion(region));
  const auto same_name = id_by_name_.find(region.name);
  if (same_name != id_by_name_.end() && same_name->second != region.id) {
    return Status(Code::kInvalidArgument, fmt::format("region {}: region {} is called '{}' already: give each a name of its own",
                                                      region.id, same_name->second, region.name));
  }
  const auto found = by_id_.find(region.id);
  if (found != by_id_.end() && found->second->is_block) {
    return Status(Code::kInvalidArgument,
                  fmt::format("region {}: kedge_alloc has given this id to a block: use one above {}", region.id, kBlockIdMax));
  }
  if (found == by_id_.end()) {
    regions_.emplace_back();
    by_id_[region.id] = std::prev(regions_.end());
  } else {
    ForgetName(found->second->description);
  }
  if (!region.name.empty()) id_by_name_[region.name] = region.id;
  return &*by_id_[region.id];
}

void RegionGroup::ForgetName(const Region& region) {
  if (!region.name.empty()) id_by_name_.erase(region.name);
}

uint64_t RegionGroup::bytes() const {
  uint64_t bytes = 0;
  for (const DeclaredRegion& region : regions_) {
    if (region.description.kind == RegionKind::kMemory) bytes += region.description.bytes;
  }
  return bytes;
}

Status DeclaredRegion::Locate() {
  if (!moves()) return Status::Ok();
  void* now = nullptr;
  size_t count = 0, bytes = 0;
  if (int code = moving.locate(moving.user, &now, &count)) {
    return Status(Code::kFailedPrecondition, fmt::format("region {}: its locate call-back returned {}", description.id, code));
  }
  if (__builtin_mul_overflow(count, description.element_bytes, &bytes) || (now == nullptr && bytes > 0)) {
    return Status(Code::kInvalidArgument, fmt::format("region {}: its locate call-back says {} elements of {} bytes at {}",
                                                      description.id, count, description.element_bytes, fmt::ptr(now)));
  }
  address = now;
  description.bytes = bytes;
  description.shape.assign(1, static_cast<int64_t>(count));
  return Status::Ok();
}

Status DeclaredRegion::Resize(uint64_t bytes) {
  if (moving.resize == nullptr || bytes == description.bytes) return Status::Ok();
  const size_t count = bytes / description.element_bytes;
  if (int code = moving.resize(moving.user, count)) {
    return Status(Code::kFailedPrecondition,
                  fmt::format("region {}: its resize call-back returned {} for {} elements", description.id, code, count));
  }
  KEDGE_RETURN_IF_ERROR(Locate());
  if (description.bytes == bytes) return Status::Ok();
  return Status(Code::kFailedPrecondition, fmt::format("region {}: its resize call-back left it at {} bytes instead of {}",
                                                       description.id, description.bytes, bytes));
}

Result<kedge_region_info> KnownInfo(const kedge_region_info* info) {
  return info != nullptr ? CopySized(*info, "kedge_region_info") : kedge_region_info{};
}

Result<Region> DescribeMemory(int id, size_t count, size_t element_bytes, const kedge_region_info& known) {
  size_t bytes = 0;
  if (element_bytes == 0 || __builtin_mul_overflow(count, element_bytes, &bytes)) {
    return Status(Code::kInvalidArgument, fmt::format("region {}: {} elements of {} bytes: expected elements of at least 1 byte "
                                                      "that fit the address space",
                                                      id, count, element_bytes));
  }
  Region region;
  region.id = id;
  region.element_bytes = element_bytes;
  region.bytes = bytes;
  KEDGE_RETURN_IF_ERROR(ApplyInfo(id, count, known, &region));
  return region;
}

Status RegionGroup::Protect(int id, void* address, size_t count, size_t element_bytes, const kedge_region_info* info) {
  KEDGE_ASSIGN_OR_RETURN(const kedge_region_info known, KnownInfo(info));
  const MovingMemory moving{known.locate, known.resize, known.user};
  if (moving.locate == nullptr && moving.resize != nullptr) {
    return Status(Code::kInvalidArgument, fmt::format("region {}: resize without locate", id));
  }
  if (moving.locate != nullptr) {
    if (known.dimensions > 1 || AnyNonZero(known.global_shape, KEDGE_MAX_DIMENSIONS) ||
        AnyNonZero(known.halo, KEDGE_MAX_DIMENSIONS) || known.replicated != 0) {
      return Status(Code::kInvalidArgument, fmt::format("region {}: memory that moves has one dimension, of its own", id));
    }
    address = nullptr, count = 0;
  }
  KEDGE_ASSIGN_OR_RETURN(Region region, DescribeMemory(id, count, element_bytes, known));
  if (address == nullptr && region.bytes > 0) {
    return Status(Code::kInvalidArgument, fmt::format("region {}: the address is null, yet it has {} bytes", id, region.bytes));
  }
  if (moving.locate != nullptr) {
    DeclaredRegion probe;
    probe.description = region;
    probe.moving = moving;
    KEDGE_RETURN_IF_ERROR(probe.Locate());
    region = probe.description;
    address = probe.address;
  }
  KEDGE_ASSIGN_OR_RETURN(DeclaredRegion* const declared, Place(region));
  declared->description = std::move(region);
  declared->address = address;
  declared->object = kedge_object{};
  declared->reinterpret = known.reinterpret != 0;
  declared->device_written = known.device_written != 0;
  declared->moving = moving;
  return Status::Ok();
}

Status RegionGroup::ProtectObject(int id, const char* name, const kedge_object& object) {
  KEDGE_ASSIGN_OR_RETURN(const kedge_object copy, CopySized(object, "kedge_object"));
  if (copy.size == nullptr || copy.serialize == nullptr || copy.deserialize == nullptr) {
    return Status(Code::kInvalidArgument, fmt::format("object {}: size, serialize and deserialize must all be set", id));
  }
  Region region;
  region.id = id;
  region.kind = RegionKind::kObject;
  if (name != nullptr) region.name = name;
  KEDGE_ASSIGN_OR_RETURN(DeclaredRegion* const declared, Place(region));
  declared->description = std::move(region);
  declared->address = nullptr;
  declared->object = copy;
  declared->moving = MovingMemory{};
  return Status::Ok();
}

Status RegionGroup::Unprotect(int id) {
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return Status(Code::kNotFound, fmt::format("region {} is not protected in this group", id));
  if (found->second->is_block) {
    return Status(Code::kInvalidArgument, fmt::format("region {} is a block of kedge_alloc, which kedge_free frees", id));
  }
  Remove(found->second);
  return Status::Ok();
}

void RegionGroup::Remove(std::list<DeclaredRegion>::iterator region) {
  ForgetName(region->description);
  by_id_.erase(region->description.id);
  regions_.erase(region);
}

void RegionGroup::Clear() {
  for (auto region = regions_.begin(); region != regions_.end();) {
    const auto next = std::next(region);
    if (!region->is_block) Remove(region);
    region = next;
  }
}

Status RegionGroup::DeclareBlock(Region description, void* address) {
  if (Find(description.id) != nullptr) {
    return Status(Code::kInvalidArgument, fmt::format("region {} is protected, and kedge_alloc needs ids up to {} for its blocks",
                                                      description.id, kBlockIdMax));
  }
  KEDGE_ASSIGN_OR_RETURN(DeclaredRegion* const declared, Place(description));
  declared->description = std::move(description);
  declared->address = address;
  declared->is_block = true;
  return Status::Ok();
}

void RegionGroup::RemoveBlock(int id) {
  const auto found = by_id_.find(id);
  if (found != by_id_.end() && found->second->is_block) Remove(found->second);
}

DeclaredRegion* RegionGroup::FindByName(const std::string& name) {
  const auto found = id_by_name_.find(name);
  return found == id_by_name_.end() ? nullptr : Find(found->second);
}

DeclaredRegion* RegionGroup::Find(int id) {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &*found->second;
}

Status RegionGroup::ForEachSelected(kedge_selection selection, const int* ids, size_t count, uint64_t number,
                                    const std::function<Status(DeclaredRegion*)>& take) {
  for (size_t i = 0; selection == KEDGE_SOME && i < count; ++i) {
    DeclaredRegion* declared = Find(ids[i]);
    if (declared == nullptr) return Status(Code::kNotFound, fmt::format("region {} is not protected in this group", ids[i]));
    KEDGE_RETURN_IF_ERROR(take(declared));
  }
  if (selection == KEDGE_SOME) return Status::Ok();
  for (DeclaredRegion& declared : regions_) {
    if (selection == KEDGE_REST && declared.taken_by == number) continue;
    KEDGE_RETURN_IF_ERROR(take(&declared));
  }
  return Status::Ok();
}

void RegionTable::Select(const std::string& name) {
  current_ = &groups_[name];
  current_name_ = name;
}

bool MeansTheSame(const Region& saved, const Region& wanted) {
  const bool types_known = saved.type != ElementType::kBytes && wanted.type != ElementType::kBytes;
  if (types_known && saved.type != wanted.type) return false;
  if (saved.shape.empty() || wanted.shape.empty()) return true;
  if (saved.shape != wanted.shape) return false;
  // With one dimension there is no order.
  const auto long_dimensions = std::count_if(saved.shape.begin(), saved.shape.end(), [](int64_t extent) { return extent > 1; });
  return long_dimensions < 2 || saved.column_major == wanted.column_major;
}

std::string Meaning(const Region& region) {
  std::string text = ElementTypeName(region.type);
  if (!region.shape.empty()) text += fmt::format(" of shape {}", fmt::join(region.shape, " x "));
  if (region.shape.size() > 1) text += region.column_major ? ", column-major" : ", row-major";
  return text;
}

void FillRegionInfo(const Region& region, kedge_region_info* info) {
  kedge_region_info full{};
  full.struct_size = info->struct_size;
  full.name = region.name.empty() ? nullptr : region.name.c_str();
  full.type = static_cast<kedge_type>(region.type);
  full.memory = static_cast<kedge_memory>(region.memory);
  full.column_major = region.column_major ? 1 : 0;
  full.dimensions = static_cast<int>(region.shape.size());
  std::copy(region.shape.begin(), region.shape.end(), full.shape);
  std::copy(region.global_shape.begin(), region.global_shape.end(), full.global_shape);
  std::copy(region.global_offset.begin(), region.global_offset.end(), full.global_offset);
  std::copy(region.halo.begin(), region.halo.end(), full.halo);
  full.replicated = !region.global_shape.empty() && region.global_shape == region.shape ? 1 : 0;
  std::memcpy(static_cast<void*>(info), &full, std::min(info->struct_size, sizeof full));
}

}  // namespace kedge::client
