// Which block is the first with its content, so that the others need not be written (reduce.deduplicate): of one image, or of the
// images that the ranks of a node have of one version.
//
// Blocks with equal fingerprints are taken for equal (fingerprint.h), unless their bytes are compared as well (reduce.verify).
// One entry is kept for each different block: some 100 bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "format/block_map.h"
#include "format/wire.h"
#include "reduce/fingerprint.h"

namespace kedge::reduce {

// A block by where it begins in the stream of that rank's image. Where it lies in an object is known later, and may change.
struct ImageBlock {
  uint32_t rank = 0;
  uint64_t stream_offset = 0;

  friend bool operator==(const ImageBlock&, const ImageBlock&) = default;
};

// A piece that may be read again. Thread safe.
class PieceBytes {
 public:
  virtual ~PieceBytes() = default;
  // False also where they cannot be read any more.
  virtual bool Has(uint64_t offset, ByteSpan bytes) const = 0;
};

// A block's bytes, with where they are in their piece. No piece: whoever has equal ones goes by the fingerprint alone.
struct BlockContent {
  ByteSpan bytes;
  std::shared_ptr<const PieceBytes> piece;
  uint64_t offset = 0;
};

// Thread safe.
class FirstBlocks {
 public:
  // The block that came first with this content: `block` itself, where none did.
  ImageBlock FirstOf(const Fingerprint& fingerprint, const BlockContent& content, const ImageBlock& block) {
    const First first = Find(fingerprint, content, block);
    const bool is_equal = first.bytes == content.bytes.size() &&
                          (first.block == block || first.piece == nullptr || first.piece->Has(first.offset, content.bytes));
    return is_equal ? first.block : block;
  }

 private:
  struct First {
    ImageBlock block;
    uint64_t bytes = 0;
    std::shared_ptr<const PieceBytes> piece;
    uint64_t offset = 0;
  };
  First Find(const Fingerprint& fingerprint, const BlockContent& content, const ImageBlock& block) {
    const std::lock_guard lock(mutex_);
    return blocks_.try_emplace(fingerprint, First{block, content.bytes.size(), content.piece, content.offset}).first->second;
  }

  std::mutex mutex_;
  std::unordered_map<Fingerprint, First, HashOfFingerprint> blocks_;
};

}  // namespace kedge::reduce
