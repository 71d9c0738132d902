// Which blocks occur most often over all members of a job, and which member stores each: the reduction of collective
// deduplication [Dedup], without I/O. A member is a rank, or a node with all its ranks.
//
// Each member summarizes what it has (Of). Two summaries become one (Merge), up a tree, and the last one goes to all. It names at
// most `most` blocks; each has an owner, who stores it, and who else has it refers to the owner. A block that it does not name is
// stored by all who have it.
//
// Owners are chosen on the way up: where both sides have a block, the owner whose load is higher is relieved of it, and is its
// second owner from then on, for the case that the first is lost. A load is how many blocks a member would store: all that it
// has, less those that it was relieved of. A block that is dropped later for a more frequent one counts as relieved all the same,
// so loads of summaries that are full are a little low.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/status.h"
#include "format/block_map.h"

namespace kedge::reduce {

struct PopularBlock {
  static constexpr uint32_t kNobody = std::numeric_limits<uint32_t>::max();

  Fingerprint fingerprint{};
  uint32_t count = 0;  // how often it occurs, where no summary on the way was full; else at most that
  uint32_t owner = kNobody;
  uint32_t second_owner = kNobody;  // another member that has it, where there is one

  friend bool operator==(const PopularBlock&, const PopularBlock&) = default;
};

class PopularBlocks {
 public:
  struct Load {
    uint32_t member = 0;
    uint32_t blocks = 0;

    friend bool operator==(const Load&, const Load&) = default;
  };

  // Of one member, which has a block as often as it is in `blocks`. Where there are more than `most`, the less frequent ones are
  // dropped, and of these the ones with greater fingerprints: all members keep the same.
  static PopularBlocks Of(uint32_t member, std::span<const Fingerprint> blocks, size_t most);
  // Of the members of both, who are different ones. Which of them is first does not matter.
  static PopularBlocks Merge(const PopularBlocks& first, const PopularBlocks& second, size_t most);

  // As another member has told them. kCorrupt: they are out of order, or a block's owner has no load.
  static Result<PopularBlocks> Make(std::vector<PopularBlock> blocks, std::vector<Load> loads);
  // Without those that only one member has.
  PopularBlocks OfSeveral() const;

  // By fingerprint.
  const std::vector<PopularBlock>& blocks() const { return blocks_; }
  // By member.
  const std::vector<Load>& loads() const { return loads_; }
  // Null: all who have it store it.
  const PopularBlock* Find(const Fingerprint& fingerprint) const;
  // What it takes on its way to another member.
  uint64_t Bytes() const { return blocks_.size() * sizeof(PopularBlock) + loads_.size() * sizeof(Load); }

  friend bool operator==(const PopularBlocks&, const PopularBlocks&) = default;

 private:
  Load& LoadOf(uint32_t member);
  PopularBlock MergeBlock(const PopularBlock& first, const PopularBlock& second);
  void KeepMostFrequent(size_t most);

  std::vector<PopularBlock> blocks_;
  std::vector<Load> loads_;
};

}  // namespace kedge::reduce
