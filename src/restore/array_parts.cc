// See array_parts.h.
#include "restore/array_parts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "format/wire.h"

namespace kedge {
namespace {

void EncodeNumbers(Encoder& encoder, const std::vector<int64_t>& numbers) {
  encoder.Varint(numbers.size());
  for (const int64_t number : numbers) encoder.SignedVarint(number);
}

std::vector<int64_t> DecodeNumbers(Decoder& decoder) {
  std::vector<int64_t> numbers(decoder.Count(1));
  for (int64_t& number : numbers) number = decoder.SignedVarint();
  return numbers;
}

std::string Joined(const std::vector<int64_t>& numbers, const char* by) {
  return fmt::to_string(fmt::join(numbers, by));
}

// Why a part is none of the array that is wanted; empty: it is.
std::string WhyNot(const Region& saved, const Region& wanted) {
  const auto differs = [](const char* what, const auto& was, const auto& is) {
    return fmt::format("it was saved with {} {}, and {} is protected", what, was, is);
  };
  if (saved.kind != wanted.kind) return "it was saved as an object";
  if (saved.global_shape.empty()) return "it was saved without a global shape";
  const bool types_known = saved.type != ElementType::kBytes && wanted.type != ElementType::kBytes;
  if (types_known && saved.type != wanted.type) return differs("type", ElementTypeName(saved.type), ElementTypeName(wanted.type));
  if (saved.element_bytes != wanted.element_bytes)
    return differs("bytes of an element:", saved.element_bytes, wanted.element_bytes);
  if (saved.global_shape != wanted.global_shape) {
    return differs("global shape", Joined(saved.global_shape, " x "), Joined(wanted.global_shape, " x "));
  }
  const bool has_order = std::ranges::count_if(wanted.global_shape, [](int64_t extent) { return extent > 1; }) > 1;
  if (has_order && saved.column_major != wanted.column_major) return "the order of its elements is another";
  return "";
}

}  // namespace

std::string EncodeParts(const std::vector<SavedPart>& parts) {
  Buffer buffer;
  Encoder encoder(buffer);
  encoder.Varint(parts.size());
  for (const auto& [rank, region] : parts) {
    encoder.Varint(rank);
    encoder.SignedVarint(region.id);
    encoder.U8(static_cast<uint8_t>(region.kind));
    encoder.U8(static_cast<uint8_t>(region.type));
    encoder.U8(region.column_major ? 1 : 0);
    encoder.Varint(region.element_bytes);
    encoder.Varint(region.bytes);
    encoder.String(region.name);
    EncodeNumbers(encoder, region.shape);
    EncodeNumbers(encoder, region.global_shape);
    EncodeNumbers(encoder, region.global_offset);
    EncodeNumbers(encoder, region.halo);
  }
  encoder.Finish();
  return std::string(AsText(buffer));
}

Result<std::vector<SavedPart>> DecodeParts(const std::string& text) {
  Decoder decoder(AsBytes(text));
  std::vector<SavedPart> parts(decoder.Count(12));
  for (auto& [rank, region] : parts) {
    rank = decoder.Varint32();
    region.id = static_cast<int32_t>(decoder.SignedVarint());
    region.kind = static_cast<RegionKind>(decoder.U8());
    region.type = static_cast<ElementType>(decoder.U8());
    region.column_major = decoder.U8() != 0;
    region.element_bytes = decoder.Varint();
    region.bytes = decoder.Varint();
    region.name = decoder.String(kRegionNameBytesMax);
    region.shape = DecodeNumbers(decoder);
    region.global_shape = DecodeNumbers(decoder);
    region.global_offset = DecodeNumbers(decoder);
    region.halo = DecodeNumbers(decoder);
  }
  const Status status = decoder.Finish("what a rank has read of images");
  if (!status.ok()) return Status(Code::kInternal, status.message());
  for (const SavedPart& part : parts) {
    const Status valid = ValidateRegion(part.region);
    if (!valid.ok()) return Status(Code::kInternal, valid.message());
  }
  return parts;
}

std::string ArrayNameOf(const Region& region) {
  return region.name.empty() ? fmt::format("#{}", region.id) : region.name.substr(0, region.name.find('['));
}

Region WholeArrayOf(const Region& part) {
  Region whole = part;
  whole.shape = part.global_shape;
  whole.global_offset.assign(whole.shape.size(), 0);
  whole.halo.clear();
  whole.bytes = PartOf(whole)->Elements() * whole.element_bytes;
  return whole;
}

SavedArrays::SavedArrays(std::vector<SavedPart> parts) {
  std::ranges::stable_sort(parts, {}, &SavedPart::rank);
  for (SavedPart& part : parts) by_name_[ArrayNameOf(part.region)].push_back(std::move(part));
}

Result<std::vector<TakenBoxes>> SavedArrays::Plan(const Region& wanted, uint32_t first_rank) const {
  const auto mismatch = [&](const std::string& why) {
    return Status(Code::kMismatch, fmt::format("region {} (array '{}'): {}", wanted.id, ArrayNameOf(wanted), why));
  };
  const auto box = PartOf(wanted);
  const auto found = by_name_.find(ArrayNameOf(wanted));
  // The global shape of an array without elements says nothing: all 0 is none, too.
  const auto is_empty = [](const SavedPart& part) { return part.region.bytes == 0; };
  if (wanted.bytes == 0 && found != by_name_.end() && std::ranges::all_of(found->second, is_empty))
    return std::vector<TakenBoxes>{};
  if (!box) return mismatch("it has no global shape, which says what of it comes back on another number of ranks");
  if (found == by_name_.end()) return mismatch("it is not in the checkpoint");
  const std::vector<SavedPart>& parts = found->second;
  const auto first = std::ranges::lower_bound(parts, first_rank, {}, &SavedPart::rank);
  std::vector<TakenBoxes> taken;
  std::vector<ArrayBox> missing;
  if (box->Elements() > 0) missing.push_back(*box);
  for (size_t i = 0; i < parts.size() && !missing.empty(); ++i) {
    const SavedPart& part = parts[(static_cast<size_t>(first - parts.begin()) + i) % parts.size()];
    if (const std::string why = WhyNot(part.region, wanted); !why.empty()) {
      return mismatch(fmt::format("{} (rank {})", why, part.rank));
    }
    const ArrayBox here = *PartOf(part.region);
    TakenBoxes boxes{part.rank, part.region.id, {}};
    std::vector<ArrayBox> left;
    for (const ArrayBox& one : missing) {
      if (const auto common = Intersection(one, here)) boxes.boxes.push_back(*common);
      std::ranges::move(Without(one, here), std::back_inserter(left));
    }
    missing = std::move(left);
    if (!boxes.boxes.empty()) taken.push_back(std::move(boxes));
  }
  if (missing.empty()) return taken;
  ArrayBox hole = missing.front();
  if (wanted.column_major) {
    std::ranges::reverse(hole.offset);
    std::ranges::reverse(hole.shape);
  }
  return mismatch(fmt::format("no image has its {} elements at {}", Joined(hole.shape, " x "), Joined(hole.offset, ", ")));
}

std::vector<std::string> SavedArrays::Doubts() const {
  std::vector<std::string> doubts;
  std::vector<std::string> overlapping;  // shared edges are common, and no fault: one sentence for all
  for (const auto& [name, parts] : by_name_) {
    const auto first = std::ranges::find_if(parts, [](const SavedPart& part) { return PartOf(part.region).has_value(); });
    if (first == parts.end()) continue;
    const Region whole = WholeArrayOf(first->region);
    const auto plan = Plan(whole, 0);
    if (!plan.ok()) {
      doubts.push_back(plan.status().message());
      continue;
    }
    std::map<std::pair<uint32_t, int32_t>, uint64_t> taken;  // elements, by rank and region
    for (const TakenBoxes& boxes : *plan) {
      for (const ArrayBox& box : boxes.boxes) taken[{boxes.rank, boxes.id}] += box.Elements();
    }
    for (const auto& [rank, region] : parts) {
      std::string why = WhyNot(region, whole);
      const auto part = PartOf(region);
      const uint64_t elements_taken = taken[{rank, region.id}];
      // None of it, because another has just the same: a replica.
      const bool is_replica = elements_taken == 0 && std::ranges::count_if(parts, [&](const SavedPart& other) {
                                                       return PartOf(other.region) == part;
                                                     }) > 1;
      if (part && part != PartOf(whole) && part->Elements() != elements_taken && !is_replica) {
        overlapping.push_back(fmt::format("'{}'", name));
        break;
      }
      if (why.empty()) continue;
      doubts.push_back(fmt::format("array '{}': {} (rank {})", name, why, rank));
      break;
    }
  }
  if (!overlapping.empty()) {
    const bool is_one = overlapping.size() == 1;
    doubts.push_back(fmt::format("array{} {}: {} parts overlap: of what two of them have, either comes back", is_one ? "" : "s",
                                 fmt::join(overlapping, ", "), is_one ? "its" : "their"));
  }
  return doubts;
}

std::vector<std::string> UnequalCopies(const std::vector<PartContent>& contents) {
  // By array, offset and shape.
  std::map<std::tuple<std::string, std::vector<int64_t>, std::vector<int64_t>>, const PartContent*> first;
  std::map<std::string, std::string> sentences;  // one of each array will do
  for (const PartContent& content : contents) {
    const Region& region = content.part.region;
    if (!PartOf(region) || !region.halo.empty()) continue;
    const std::string name = ArrayNameOf(region);
    const PartContent*& other = first[{name, region.global_offset, region.shape}];
    if (other == nullptr) {
      other = &content;
    } else if (other->crc32c != content.crc32c) {
      const char* const what = region.global_shape == region.shape ? "is replicated" : "has a part twice";
      sentences.try_emplace(name, fmt::format("array '{}' {}, but ranks {} and {} have other bytes of it: either comes back",
                                              name, what, other->part.rank, content.part.rank));
    }
  }
  std::vector<std::string> all;
  for (auto& [name, sentence] : sentences) all.push_back(std::move(sentence));
  return all;
}

Result<RegionTarget> TargetOf(const Region& saved, uint32_t index, const std::vector<ArrayBox>& boxes, const Region& wanted,
                              std::byte* memory) {
  if (saved.global_shape.size() != wanted.global_shape.size()) return Status(Code::kInternal, "not parts of one global array");
  RegionTarget target{index, memory};
  for (const ArrayBox& box : boxes) target.boxes.emplace_back(box, MemoryOf(saved), MemoryOf(wanted), wanted.element_bytes);
  return target;
}

}  // namespace kedge
