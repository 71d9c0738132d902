#include "reduce/base_image.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

namespace kedge::reduce {

namespace {

// An object that blocks of the base lie in, by what BlockRun::object calls it there.
struct Candidate {
  uint32_t object = kOwnBlocks;
  bool is_common = false;
  uint64_t live_bytes = 0;  // of the base itself
  SharedObject known_as;
};

const std::string& KeyOf(uint32_t object, const BlockMap& map, const std::string& own_object) {
  return object == kOwnBlocks ? own_object : map.objects[object - kSharedBlocks].key;
}

}  // namespace

LiveBytes::LiveBytes(const std::vector<StoredMap>& images) {
  struct Counted {
    std::set<uint64_t> offsets;  // several blocks may lie in one place
    uint64_t bytes = 0;
  };
  std::map<std::string, Counted> counted;
  for (const StoredMap& image : images) {
    std::vector<Counted*> objects = {nullptr};
    for (uint32_t object = kOwnBlocks; object < kSharedBlocks + image.map->objects.size(); ++object) {
      objects.push_back(&counted[KeyOf(object, *image.map, image.own_object)]);
    }
    const BlockLayout layout(*image.record, image.map->block_bytes);
    uint64_t number = 0;
    for (const BlockPlace& place : PlacesOf(*image.map)) {
      const uint32_t block_bytes = layout.At(number++).bytes;
      Counted* const object = objects[place.object];
      if (object != nullptr && object->offsets.insert(place.offset).second) object->bytes += RoomOf(block_bytes, place);
    }
  }
  for (const auto& [key, object] : counted) bytes_[key] = object.bytes;
}

uint64_t LiveBytes::Of(const std::string& object) const {
  const auto found = bytes_.find(object);
  return found == bytes_.end() ? 0 : found->second;
}

Result<BaseImage> BaseImage::Make(const ImageRecord& record, const BlockMap& map, const std::string& own_object,
                                  const SharingLimits& limits, const LiveBytes* all_live) {
  BaseImage base;
  base.layout_ = BlockLayout(record, map.block_bytes);
  uint64_t blocks = 0;
  for (const BlockRun& run : map.runs) blocks += run.blocks;  // counted before room is made for so many
  if (!map.has_fingerprints) {
    return Status(Code::kCorrupt, record.identity.ToString() + ": its block map has no fingerprints");
  }
  if (blocks != base.layout_.blocks() || map.identity != record.identity || blocks > UINT32_MAX) {
    return Status(Code::kCorrupt, fmt::format("{}: its block map has {} blocks, its chunks {}", record.identity.ToString(),
                                              blocks, base.layout_.blocks()));
  }
  base.blocks_.resize(blocks);
  const std::vector<BlockPlace> places = PlacesOf(map);
  auto fingerprint = map.fingerprints.begin();
  for (size_t i = 0; i < blocks; ++i) {
    Block& block = base.blocks_[i];
    block.bytes = base.layout_.At(i).bytes;
    block.place = places[i];
    if (block.place.object != kZeroBlocks) block.fingerprint = *fingerprint++;
  }
  const LiveBytes own_live({{&record, &map, own_object}});
  std::vector<Candidate> candidates;
  const auto objects = static_cast<uint32_t>(kSharedBlocks + map.objects.size());
  std::map<std::string_view, uint32_t> first_names;  // its own object may be that of other ranks, whose blocks it has as well
  for (uint32_t object = kOwnBlocks; object < objects; ++object) {
    const std::string& key = KeyOf(object, map, own_object);
    if (!first_names.emplace(key, object).second) continue;
    const uint64_t own = own_live.Of(key), live = all_live == nullptr ? own : all_live->Of(key);
    // What its version has written is all there is in its own object.
    const uint64_t all = object == kOwnBlocks ? std::max(own, live) : map.objects[object - kSharedBlocks].bytes;
    const bool is_common = limits.is_common != nullptr && limits.is_common(key);
    const double live_min = is_common ? limits.common_live_min : limits.live_min;
    if (own == 0 || static_cast<double>(live) < live_min * static_cast<double>(all)) continue;
    candidates.push_back({object, is_common, own, {key, all}});
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.live_bytes > b.live_bytes; });
  size_t left = limits.objects_max, common_left = limits.common_max;
  std::erase_if(candidates, [&](const Candidate& candidate) {
    size_t& of_kind = candidate.is_common ? common_left : left;
    return of_kind == 0 || of_kind-- == 0;
  });
  std::vector<uint32_t> renamed(objects, kZeroBlocks);
  for (const Candidate& candidate : candidates) {
    renamed[candidate.object] = static_cast<uint32_t>(kSharedBlocks + base.objects_.size());
    base.objects_.push_back(candidate.known_as);
  }
  for (uint32_t object = kOwnBlocks; object < objects; ++object) {
    renamed[object] = renamed[first_names.at(KeyOf(object, map, own_object))];
  }
  for (uint32_t i = 0; i < base.blocks_.size(); ++i) {
    Block& block = base.blocks_[i];
    block.place.object = renamed[block.place.object];
    if (block.place.object != kZeroBlocks) base.by_fingerprint_.push_back(i);
  }
  std::stable_sort(base.by_fingerprint_.begin(), base.by_fingerprint_.end(),
                   [&](uint32_t a, uint32_t b) { return base.blocks_[a].fingerprint < base.blocks_[b].fingerprint; });
  return base;
}

std::optional<BlockPlace> BaseImage::Find(const BlockLayout::Block& block, const Fingerprint& fingerprint) const {
  const auto is_equal = [&](const Block& other) {
    return other.place.object != kZeroBlocks && other.bytes == block.bytes && other.fingerprint == fingerprint;
  };
  const BlockLayout::Place same = layout_.Find(block.stream_offset);
  if (same.block && same.within == 0 && is_equal(blocks_[*same.block])) return blocks_[*same.block].place;
  const auto found = std::lower_bound(by_fingerprint_.begin(), by_fingerprint_.end(), fingerprint,
                                      [&](uint32_t i, const Fingerprint& wanted) { return blocks_[i].fingerprint < wanted; });
  if (found == by_fingerprint_.end() || !is_equal(blocks_[*found])) return std::nullopt;
  return blocks_[*found].place;
}

}  // namespace kedge::reduce
