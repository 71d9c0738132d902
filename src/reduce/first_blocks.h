// Which of an image's blocks is the first with its content, so that the others need not be written (reduce.deduplicate).
//
// Blocks with equal fingerprints are taken for equal (fingerprint.h). One entry is kept for each different block: some 60 bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <unordered_map>

#include "format/block_map.h"

namespace kedge::reduce {

// Thread safe. Blocks are named by where they begin in the image's stream.
class FirstBlocks {
 public:
  // The block that came first with this content: `block` itself, where none did.
  uint64_t FirstOf(const Fingerprint& fingerprint, const BlockLayout::Block& block) {
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.try_emplace(fingerprint, block).first;
    return found->second.bytes == block.bytes ? found->second.stream_offset : block.stream_offset;
  }

 private:
  struct Hash {
    size_t operator()(const Fingerprint& fingerprint) const {
      size_t hash = 0;
      std::memcpy(&hash, fingerprint.data(), sizeof hash);
      return hash;
    }
  };

  std::mutex mutex_;
  std::unordered_map<Fingerprint, BlockLayout::Block, Hash> blocks_;
};

}  // namespace kedge::reduce
