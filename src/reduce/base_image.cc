#include "reduce/base_image.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

namespace kedge::reduce {

namespace {

// An object that blocks of the base lie in, by what BlockRun::object calls it there.
struct Candidate {
  uint32_t object = kOwnBlocks;
  uint64_t live_bytes = 0;
};

uint64_t RoomOf(uint32_t block_bytes, const BlockPlace& place) {
  return place.stored_bytes > 0 ? place.stored_bytes : AlignChunkOffset(block_bytes);
}

}  // namespace

Result<BaseImage> BaseImage::Make(const ImageRecord& record, const BlockMap& map, const std::string& own_object,
                                  const SharingLimits& limits) {
  BaseImage base;
  base.layout_ = BlockLayout(record, map.block_bytes);
  uint64_t blocks = 0;
  for (const BlockRun& run : map.runs) blocks += run.blocks;  // counted before room is made for so many
  if (blocks != base.layout_.blocks() || map.identity != record.identity || blocks > UINT32_MAX) {
    return Status(Code::kCorrupt, fmt::format("{}: its block map has {} blocks, its chunks {}", record.identity.ToString(),
                                              blocks, base.layout_.blocks()));
  }
  std::vector<uint64_t> live_bytes(kSharedBlocks + map.objects.size());
  base.blocks_.resize(blocks);
  std::set<std::pair<uint32_t, uint64_t>> counted;
  const std::vector<BlockPlace> places = PlacesOf(map);
  auto fingerprint = map.fingerprints.begin();
  for (size_t i = 0; i < blocks; ++i) {
    Block& block = base.blocks_[i];
    block.bytes = base.layout_.At(i).bytes;
    block.place = places[i];
    if (block.place.object == kZeroBlocks) continue;
    block.fingerprint = *fingerprint++;
    const bool is_first = counted.emplace(block.place.object, block.place.offset).second;
    if (is_first) live_bytes[block.place.object] += RoomOf(block.bytes, block.place);
  }
  std::vector<Candidate> candidates;
  for (uint32_t object = kOwnBlocks; object < live_bytes.size(); ++object) {
    // What it has written itself is all there is in its own object.
    const uint64_t all = object == kOwnBlocks ? live_bytes[object] : map.objects[object - kSharedBlocks].bytes;
    const bool is_used = live_bytes[object] > 0;
    if (is_used && static_cast<double>(live_bytes[object]) >= limits.live_min * static_cast<double>(all)) {
      candidates.push_back({object, live_bytes[object]});
    }
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.live_bytes > b.live_bytes; });
  candidates.resize(std::min(candidates.size(), limits.objects_max));
  std::vector<uint32_t> renamed(live_bytes.size(), kZeroBlocks);
  for (const Candidate& candidate : candidates) {
    renamed[candidate.object] = static_cast<uint32_t>(kSharedBlocks + base.objects_.size());
    base.objects_.push_back(candidate.object == kOwnBlocks ? SharedObject{own_object, candidate.live_bytes}
                                                           : map.objects[candidate.object - kSharedBlocks]);
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
