// Blocks that several nodes of a job have (reduce.deduplicate = job), once the nodes have agreed on them: who writes each, and
// where in that node's object it lies.
//
// All nodes make the same of the same PopularBlocks. So nobody needs to be told where a block lies: an image refers to a place in
// an object that another node is still writing, and is published when that object stands. The objects' names tell what was agreed
// on: of two agreements none is taken for the other.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "format/block_map.h"
#include "reduce/popular_blocks.h"

namespace kedge::reduce {

// Immutable: threads share it.
class CommonBlocks {
 public:
  // The key of the object that a member writes, relative to the job's folder; `agreed` is a fingerprint of all that is agreed on.
  using ObjectKey = std::function<std::string(uint32_t member, const Fingerprint& agreed)>;
  // Of `popular`, what at least two members have. All blocks have `block_bytes`.
  CommonBlocks(const PopularBlocks& popular, uint32_t block_bytes, const ObjectKey& key_of);

  uint32_t block_bytes() const { return block_bytes_; }
  // Of all members that write blocks for others.
  const std::vector<SharedObject>& objects() const { return objects_; }
  // `object` of the place is an index into these.
  std::optional<BlockPlace> Find(const Fingerprint& fingerprint) const;

  // What one member writes: its object, and the blocks from its beginning on, one behind the other. Nothing: it writes none.
  struct Share {
    SharedObject object;
    std::vector<Fingerprint> blocks;
  };
  std::optional<Share> ShareOf(uint32_t member) const;

 private:
  struct Block {
    Fingerprint fingerprint;
    uint32_t object = 0;
    uint32_t number = 0;  // in the object
  };

  const uint32_t block_bytes_;
  std::vector<Block> blocks_;          // by fingerprint
  std::vector<uint32_t> members_;      // that write, ascending
  std::vector<SharedObject> objects_;  // theirs
};

// An image on its way that leaves out what others write. Thread safe.
class CommonBorrower {
 public:
  // A restart opens so many objects more.
  static constexpr size_t kObjectsMax = 64;

  explicit CommonBorrower(std::shared_ptr<const CommonBlocks> blocks) : blocks_(std::move(blocks)) {}

  // Where a block of `bytes` lies, that need not be written then.
  std::optional<BlockPlace> Find(const Fingerprint& fingerprint, size_t bytes);
  // Those in which blocks lie that were found.
  std::set<std::string> ObjectsInUse() const;

 private:
  const std::shared_ptr<const CommonBlocks> blocks_;
  mutable std::mutex mutex_;
  std::set<uint32_t> objects_;
};

}  // namespace kedge::reduce
