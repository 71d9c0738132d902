#include "fmi/handles/type_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace kedge::fmi {
namespace {

Status TooLarge() {
  return Status(Code::kInvalidArgument,
                fmt::format("the type has more than {} pieces at unequal distances, or reaches further than {} bytes",
                            TypeMap::kRunsMax, TypeMap::kSpanMax));
}

// No sum of a few of these overflows.
Result<int64_t> Product(int64_t left, int64_t right) {
  int64_t product = 0;
  if (__builtin_mul_overflow(left, right, &product) || product > TypeMap::kSpanMax || product < -TypeMap::kSpanMax)
    return TooLarge();
  return product;
}

bool IsFar(int64_t offset) {
  return offset > TypeMap::kSpanMax || offset < -TypeMap::kSpanMax;
}

// Pieces of four and eight bytes are numbers, of which there are many.
template <bool kPacks>
std::byte* CopyRun(const TypeMap::Run& run, std::byte* element, std::byte* packed) {
  std::byte* piece = element + run.offset;
  const auto copy = [&](size_t bytes) {
    for (uint64_t i = 0; i < run.count; ++i, piece += run.stride, packed += bytes) {
      std::memcpy(kPacks ? packed : piece, kPacks ? piece : packed, bytes);
    }
  };
  if (run.bytes == 8) {
    copy(8);
  } else if (run.bytes == 4) {
    copy(4);
  } else {
    copy(run.bytes);
  }
  return packed;
}

}  // namespace

TypeMap TypeMap::Basic(size_t bytes, size_t alignment) {
  TypeMap map;
  map.runs_ = {{0, bytes, 1, 0}};
  map.bytes_ = bytes;
  map.upper_ = static_cast<int64_t>(bytes);
  map.alignment_ = alignment;
  return map;
}

void TypeMap::AppendRun(Run run) {
  if (run.bytes == 0 || run.count == 0) return;
  // Pieces that meet are one.
  if (run.count > 1 && run.stride == static_cast<int64_t>(run.bytes)) run = {run.offset, run.bytes * run.count, 1, 0};
  if (run.count == 1) run.stride = 0;
  if (!runs_.empty()) {
    Run& last = runs_.back();
    if (last.count == 1 && run.count == 1 && last.offset + static_cast<int64_t>(last.bytes) == run.offset) {
      last.bytes += run.bytes;
      return;
    }
    // The next one of those before it.
    const bool goes_on = last.count > 1 && run.count == 1 && run.bytes == last.bytes &&
                         run.offset == last.offset + static_cast<int64_t>(last.count) * last.stride;
    if (goes_on) {
      ++last.count;
      return;
    }
  }
  runs_.push_back(run);
}

Status TypeMap::Append(int64_t offset, uint64_t count, int64_t stride, const TypeMap& type) {
  alignment_ = std::max(alignment_, type.alignment_);
  is_resized_ = is_resized_ || type.is_resized_;
  if (count == 0) return Status::Ok();
  if (count > static_cast<uint64_t>(kSpanMax) || IsFar(offset) || IsFar(stride)) return TooLarge();
  KEDGE_ASSIGN_OR_RETURN(const int64_t reach, Product(static_cast<int64_t>(count - 1), stride));
  KEDGE_ASSIGN_OR_RETURN(const int64_t bytes, Product(static_cast<int64_t>(count), static_cast<int64_t>(type.bytes_)));
  const bool is_first = bytes_ == 0 && lower_ == 0 && upper_ == 0;
  const int64_t lower = offset + type.lower_ + std::min<int64_t>(0, reach);
  const int64_t upper = offset + type.upper_ + std::max<int64_t>(0, reach);
  lower_ = is_first ? lower : std::min(lower_, lower);
  upper_ = is_first ? upper : std::max(upper_, upper);
  bytes_ += static_cast<uint64_t>(bytes);
  if (IsFar(lower_) || IsFar(upper_) || IsFar(static_cast<int64_t>(bytes_))) return TooLarge();

  if (type.runs_.size() == 1) {
    const Run& only = type.runs_.front();
    if (IsFar(only.offset + offset)) return TooLarge();
    // One piece of each element; or rows of them that go on in the same steps.
    if (only.count == 1) {
      AppendRun({only.offset + offset, only.bytes, count, stride});
      return Status::Ok();
    }
    if (count == 1 || stride == static_cast<int64_t>(only.count) * only.stride) {
      AppendRun({only.offset + offset, only.bytes, only.count * count, only.stride});
      return Status::Ok();
    }
  }
  for (uint64_t i = 0; i < count && !type.runs_.empty(); ++i) {
    for (const Run& run : type.runs_) {
      const int64_t at = run.offset + offset + static_cast<int64_t>(i) * stride;
      if (IsFar(at)) return TooLarge();
      AppendRun({at, run.bytes, run.count, run.stride});
    }
    if (runs_.size() > kRunsMax) return TooLarge();
  }
  return Status::Ok();
}

Result<TypeMap> TypeMap::Contiguous(uint64_t count, const TypeMap& type) {
  TypeMap map;
  KEDGE_RETURN_IF_ERROR(map.Append(0, count, type.extent(), type));
  return map;
}

Result<TypeMap> TypeMap::Vector(uint64_t count, uint64_t length, int64_t stride, const TypeMap& type) {
  KEDGE_ASSIGN_OR_RETURN(const TypeMap block, Contiguous(length, type));
  TypeMap map;
  KEDGE_RETURN_IF_ERROR(map.Append(0, length == 0 ? 0 : count, stride, block));
  return map;
}

Result<TypeMap> TypeMap::Struct(const std::vector<Part>& parts) {
  TypeMap map;
  for (const Part& part : parts) {
    KEDGE_RETURN_IF_ERROR(map.Append(part.offset, part.count, part.type->extent(), *part.type));
  }
  const auto alignment = static_cast<int64_t>(map.alignment_);
  const int64_t rest = map.extent() % alignment;
  if (!map.is_resized_ && rest > 0) map.upper_ += alignment - rest;
  return map;
}

Result<TypeMap> TypeMap::Subarray(const std::vector<Cut>& cuts, const TypeMap& type) {
  TypeMap part = type;
  int64_t stride = type.extent(), offset = 0;
  for (auto cut = cuts.rbegin(); cut != cuts.rend(); ++cut) {
    if (cut->count == 0 || cut->count > cut->size || cut->begin > cut->size - cut->count) {
      return Status(Code::kInvalidArgument,
                    fmt::format("{} elements from {} on are no part of {}", cut->count, cut->begin, cut->size));
    }
    KEDGE_ASSIGN_OR_RETURN(part, Vector(cut->count, 1, stride, part));
    int64_t place = 0;
    if (__builtin_mul_overflow(stride, static_cast<int64_t>(cut->begin), &place) ||
        __builtin_mul_overflow(stride, static_cast<int64_t>(cut->size), &stride) || IsFar(stride) || IsFar(place)) {
      return TooLarge();
    }
    offset += place;
  }
  KEDGE_ASSIGN_OR_RETURN(part, Struct({{offset, 1, &part}}));
  return Resized(part, 0, stride);
}

std::pair<int64_t, int64_t> TypeMap::Reach() const {
  if (runs_.empty()) return {0, 0};
  int64_t first = INT64_MAX, last = INT64_MIN;
  for (const Run& run : runs_) {
    const int64_t reach = static_cast<int64_t>(run.count - 1) * run.stride;
    first = std::min(first, run.offset + std::min<int64_t>(reach, 0));
    last = std::max(last, run.offset + std::max<int64_t>(reach, 0) + static_cast<int64_t>(run.bytes));
  }
  return {first, last};
}

Result<TypeMap> TypeMap::Resized(const TypeMap& type, int64_t lower, int64_t extent) {
  if (IsFar(lower) || IsFar(extent)) return TooLarge();
  TypeMap map = type;
  map.lower_ = lower;
  map.upper_ = lower + extent;
  map.is_resized_ = true;
  return map;
}

std::optional<int64_t> TypeMap::Place(uint64_t count) const {
  if (runs_.size() != 1 || runs_.front().count != 1) return std::nullopt;
  if (count > 1 && extent() != static_cast<int64_t>(bytes_)) return std::nullopt;
  return runs_.front().offset;
}

void TypeMap::Pack(const void* elements, uint64_t count, std::byte* packed) const {
  auto* element = const_cast<std::byte*>(static_cast<const std::byte*>(elements));
  for (uint64_t i = 0; i < count; ++i, element += extent()) {
    for (const Run& run : runs_) packed = CopyRun<true>(run, element, packed);
  }
}

void TypeMap::Unpack(const std::byte* packed, uint64_t bytes, void* elements) const {
  auto* element = static_cast<std::byte*>(elements);
  auto* next = const_cast<std::byte*>(packed);
  for (; bytes_ > 0 && bytes >= bytes_; bytes -= bytes_, element += extent()) {
    for (const Run& run : runs_) next = CopyRun<false>(run, element, next);
  }
  for (const Run& run : runs_) {
    std::byte* piece = element + run.offset;
    for (uint64_t i = 0; i < run.count && bytes > 0; ++i, piece += run.stride) {
      const size_t part = std::min(bytes, run.bytes);
      std::memcpy(piece, next, part);
      next += part;
      bytes -= part;
    }
  }
}

void TypeMap::Encode(Encoder* encoder) const {
  encoder->Varint(bytes_);
  encoder->SignedVarint(lower_);
  encoder->SignedVarint(upper_);
  encoder->Varint(alignment_);
  encoder->U8(is_resized_ ? 1 : 0);
  encoder->Varint(runs_.size());
  for (const Run& run : runs_) {
    encoder->SignedVarint(run.offset);
    encoder->Varint(run.bytes);
    encoder->Varint(run.count);
    encoder->SignedVarint(run.stride);
  }
}

Result<TypeMap> TypeMap::Decode(Decoder* decoder) {
  TypeMap map;
  map.bytes_ = decoder->Varint();
  map.lower_ = decoder->SignedVarint();
  map.upper_ = decoder->SignedVarint();
  map.alignment_ = decoder->Varint();
  map.is_resized_ = decoder->U8() != 0;
  bool is_far = IsFar(map.lower_) || IsFar(map.upper_);
  uint64_t bytes = 0;
  for (size_t left = decoder->Count(4); left > 0; --left) {
    Run run;
    run.offset = decoder->SignedVarint();
    run.bytes = decoder->Varint();
    run.count = decoder->Varint();
    run.stride = decoder->SignedVarint();
    bytes += run.bytes * run.count;
    is_far = is_far || IsFar(run.offset) || IsFar(run.stride);
    map.runs_.push_back(run);
  }
  decoder->Require(!is_far && bytes == map.bytes_ && map.alignment_ > 0, "a type whose pieces do not make it up");
  KEDGE_RETURN_IF_ERROR(decoder->status("a type"));
  return map;
}

}  // namespace kedge::fmi
