// See popular_blocks.h.
#include "reduce/popular_blocks.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <iterator>
#include <utility>

#include "base/random.h"

namespace kedge::reduce {

PopularBlocks PopularBlocks::Of(uint32_t member, std::span<const Fingerprint> blocks, size_t most) {
  std::vector<Fingerprint> sorted(blocks.begin(), blocks.end());
  std::sort(sorted.begin(), sorted.end());
  PopularBlocks summary;
  for (const Fingerprint& fingerprint : sorted) {
    if (summary.blocks_.empty() || summary.blocks_.back().fingerprint != fingerprint)
      summary.blocks_.push_back({fingerprint, 0, member});
    ++summary.blocks_.back().count;
  }
  summary.loads_.push_back({member, static_cast<uint32_t>(summary.blocks_.size())});
  summary.KeepMostFrequent(most);
  return summary;
}

PopularBlocks PopularBlocks::Merge(const PopularBlocks& first, const PopularBlocks& second, size_t most) {
  PopularBlocks merged;
  std::merge(first.loads_.begin(), first.loads_.end(), second.loads_.begin(), second.loads_.end(),
             std::back_inserter(merged.loads_), [](const Load& a, const Load& b) { return a.member < b.member; });
  merged.blocks_.reserve(first.blocks_.size() + second.blocks_.size());
  std::vector<std::pair<size_t, const PopularBlock*>> of_both;  // where the one lies now, and the other
  auto one = first.blocks_.begin(), other = second.blocks_.begin();
  while (one != first.blocks_.end() && other != second.blocks_.end()) {
    if (one->fingerprint == other->fingerprint) {
      of_both.emplace_back(merged.blocks_.size(), &*other++);
      merged.blocks_.push_back(*one++);
    } else {
      merged.blocks_.push_back(one->fingerprint < other->fingerprint ? *one++ : *other++);
    }
  }
  merged.blocks_.insert(merged.blocks_.end(), one, first.blocks_.end());
  merged.blocks_.insert(merged.blocks_.end(), other, second.blocks_.end());
  // A member that has everything still is relieved of the first ones, and then takes over from whoever has the others. So their
  // order is another one each time, which scatters them: else the others would be of the member that came right before.
  uint64_t members = 0;
  for (const Load& load : merged.loads_) members ^= MixSeed(load.member, 1);
  Random random(members);
  for (size_t left = of_both.size(); left > 1; --left) std::swap(of_both[left - 1], of_both[random.Below(left)]);
  for (const auto& [place, block] : of_both) merged.blocks_[place] = merged.MergeBlock(merged.blocks_[place], *block);
  merged.KeepMostFrequent(most);
  return merged;
}

Result<PopularBlocks> PopularBlocks::Make(std::vector<PopularBlock> blocks, std::vector<Load> loads) {
  PopularBlocks made;
  made.blocks_ = std::move(blocks);
  made.loads_ = std::move(loads);
  const auto does_not_ascend = std::greater_equal<>();
  const auto has = [&](uint32_t member) { return std::ranges::binary_search(made.loads_, member, {}, &Load::member); };
  const bool is_sound =
      std::ranges::adjacent_find(made.blocks_, does_not_ascend, &PopularBlock::fingerprint) == made.blocks_.end() &&
      std::ranges::adjacent_find(made.loads_, does_not_ascend, &Load::member) == made.loads_.end() &&
      std::ranges::all_of(made.blocks_, [&](const PopularBlock& block) {
        return has(block.owner) && (block.second_owner == PopularBlock::kNobody || has(block.second_owner));
      });
  if (!is_sound) return Status(Code::kCorrupt, "popular blocks out of order, or of no member");
  return made;
}

PopularBlocks PopularBlocks::OfSeveral() const {
  PopularBlocks several = *this;
  std::erase_if(several.blocks_, [](const PopularBlock& block) { return block.second_owner == PopularBlock::kNobody; });
  return several;
}

const PopularBlock* PopularBlocks::Find(const Fingerprint& fingerprint) const {
  const auto found = std::lower_bound(blocks_.begin(), blocks_.end(), fingerprint,
                                      [](const PopularBlock& block, const Fingerprint& of) { return block.fingerprint < of; });
  return found == blocks_.end() || found->fingerprint != fingerprint ? nullptr : &*found;
}

PopularBlocks::Load& PopularBlocks::LoadOf(uint32_t member) {
  return *std::lower_bound(loads_.begin(), loads_.end(), member, [](const Load& load, uint32_t of) { return load.member < of; });
}

PopularBlock PopularBlocks::MergeBlock(const PopularBlock& first, const PopularBlock& second) {
  Load *owner = &LoadOf(first.owner), *relieved = &LoadOf(second.owner);
  // Of equal loads chance decides: if members took turns in the same order everywhere, the same members would meet again and
  // again, and nobody else would relieve them.
  uint64_t block = 0;
  std::memcpy(&block, first.fingerprint.data(), sizeof block);
  const auto preference = [&](const Load& load) { return std::pair(load.blocks, MixSeed(block, load.member)); };
  if (preference(*owner) > preference(*relieved)) std::swap(owner, relieved);
  --relieved->blocks;
  return {first.fingerprint, first.count + second.count, owner->member, relieved->member};
}

void PopularBlocks::KeepMostFrequent(size_t most) {
  if (blocks_.size() <= most) return;
  const auto is_before = [](const PopularBlock& a, const PopularBlock& b) {
    return a.count != b.count ? a.count > b.count : a.fingerprint < b.fingerprint;
  };
  std::vector<PopularBlock> ranked = blocks_;
  const auto first_out = ranked.begin() + static_cast<ptrdiff_t>(most);
  std::nth_element(ranked.begin(), first_out, ranked.end(), is_before);
  std::erase_if(blocks_, [&](const PopularBlock& block) { return !is_before(block, *first_out); });
}

}  // namespace kedge::reduce
