#include "reduce/common_blocks.h"

#include <algorithm>
#include <map>

#include "reduce/fingerprint.h"

namespace kedge::reduce {

CommonBlocks::CommonBlocks(const PopularBlocks& popular, uint32_t block_bytes, const ObjectKey& key_of)
    : block_bytes_(block_bytes) {
  Buffer agreed;
  Encoder encoder(agreed);
  std::map<uint32_t, uint32_t> counts;  // by member
  encoder.U32(block_bytes);
  for (const PopularBlock& block : popular.blocks()) {
    if (block.second_owner == PopularBlock::kNobody) continue;
    encoder.Raw(block.fingerprint), encoder.U32(block.owner);
    blocks_.push_back({block.fingerprint, block.owner, counts[block.owner]++});
  }
  encoder.Finish();
  std::map<uint32_t, uint32_t> indexes;
  const Fingerprint all = FingerprintOf(agreed);
  for (const auto& [member, count] : counts) {
    indexes[member] = static_cast<uint32_t>(members_.size());
    members_.push_back(member);
    objects_.push_back({key_of(member, all), uint64_t{count} * block_bytes});
  }
  for (Block& block : blocks_) block.object = indexes.at(block.object);
}

std::optional<BlockPlace> CommonBlocks::Find(const Fingerprint& fingerprint) const {
  const auto found = std::ranges::lower_bound(blocks_, fingerprint, {}, &Block::fingerprint);
  if (found == blocks_.end() || found->fingerprint != fingerprint) return std::nullopt;
  return BlockPlace{found->object, uint64_t{found->number} * block_bytes_};
}

std::optional<CommonBlocks::Share> CommonBlocks::ShareOf(uint32_t member) const {
  const auto found = std::ranges::lower_bound(members_, member);
  if (found == members_.end() || *found != member) return std::nullopt;
  const auto index = static_cast<uint32_t>(found - members_.begin());
  Share share{objects_[index], {}};
  for (const Block& block : blocks_) {
    if (block.object == index) share.blocks.push_back(block.fingerprint);
  }
  return share;
}

std::optional<BlockPlace> CommonBorrower::Find(const Fingerprint& fingerprint, size_t bytes) {
  const auto place = bytes == blocks_->block_bytes() ? blocks_->Find(fingerprint) : std::nullopt;
  if (!place) return place;
  const std::lock_guard lock(mutex_);
  if (objects_.size() >= kObjectsMax && !objects_.contains(place->object)) return std::nullopt;
  objects_.insert(place->object);
  return place;
}

std::set<std::string> CommonBorrower::ObjectsInUse() const {
  std::set<std::string> keys;
  const std::lock_guard lock(mutex_);
  for (const uint32_t object : objects_) keys.insert(blocks_->objects()[object].key);
  return keys;
}

}  // namespace kedge::reduce
