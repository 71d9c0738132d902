// An image on its way that looks for its blocks among those of the other ranks of the node (reduce.deduplicate = node).
//
// All images of a version that one agent writes share a FirstBlocks. Whoever is the first with a block writes it, and lends it to
// the others. The lender may be written anew, under another name and in another order, or be given up: so what is borrowed is a
// block of the lender's image, and where it lies is asked when the block maps are made (ImageReduction::Finish). An image that
// finds its lender gone then writes its blocks itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "reduce/first_blocks.h"

namespace kedge::reduce {

// Thread safe.
class Borrower {
 public:
  // A restart opens few objects, and few images are lost with one that is damaged.
  static constexpr size_t kLendersMax = 8;

  Borrower(std::shared_ptr<FirstBlocks> node, uint32_t rank) : node_(std::move(node)), rank_(rank) {}

  // The equal block of another image, for one of this image that is nowhere else. Nothing: this image writes it, and lends it
  // where it is the first. `may_borrow`: else it does so in any case.
  std::optional<ImageBlock> Find(const Fingerprint& fingerprint, const BlockContent& content, uint64_t stream_offset,
                                 bool may_borrow) {
    const ImageBlock first = node_->FirstOf(fingerprint, content, {rank_, stream_offset});
    if (first.rank == rank_ || !may_borrow) return std::nullopt;
    const std::lock_guard lock(mutex_);
    if (lenders_.size() >= kLendersMax && !lenders_.contains(first.rank)) return std::nullopt;
    lenders_.insert(first.rank);
    return first;
  }

 private:
  const std::shared_ptr<FirstBlocks> node_;
  const uint32_t rank_;
  std::mutex mutex_;
  std::set<uint32_t> lenders_;
};

}  // namespace kedge::reduce
