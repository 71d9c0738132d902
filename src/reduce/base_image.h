// The image of the same rank in the version before, as what a new image may share with it.
//
// A block of the new image that is equal to one of the base lies where that one lies: in the base's own object, or in one that
// the base refers to itself. So whatever an image refers to holds the bytes, and no chain is ever followed. Which objects may be
// referred to is decided once, before the first block is looked up:
// - Of no object that is mostly unused by now: its blocks are written anew, so that it can go. What is kept for the sake of a
//   version is thereby at most twice what the version has. Where images lie in each other's objects, all of them use it.
// - Of at most so many objects, those that hold most: a restart opens few, and few are lost with one that is damaged.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "format/block_map.h"
#include "format/image_record.h"
#include "reduce/common_blocks.h"

namespace kedge::reduce {

struct SharingLimits {
  size_t objects_max = 8;
  double live_min = 0.5;  // the part of an object's blocks that the base still has
  // Objects of blocks that several nodes have, which are more, and smaller: of these, only this node's use is known. Null: none.
  bool (*is_common)(std::string_view object) = nullptr;
  size_t common_max = CommonBorrower::kObjectsMax;
  double common_live_min = 0.125;
};

// How much of each object is used by a version's images, which lie in each other's objects.
class LiveBytes {
 public:
  struct StoredMap {
    const ImageRecord* record = nullptr;
    const BlockMap* map = nullptr;  // of that image
    std::string own_object;         // as BaseImage has it
  };
  explicit LiveBytes(const std::vector<StoredMap>& images);

  uint64_t Of(const std::string& object) const;

 private:
  std::map<std::string, uint64_t> bytes_;
};

// Immutable: threads share it.
class BaseImage {
 public:
  // `own_object`: the key of the image's own object, relative to the job's folder. `all_live`: of all images that may lie in its
  // objects, itself among them; null: no other does. kCorrupt: the map is not of that image, or has no fingerprints.
  static Result<BaseImage> Make(const ImageRecord& record, const BlockMap& map, const std::string& own_object,
                                const SharingLimits& limits, const LiveBytes* all_live = nullptr);

  uint32_t block_bytes() const { return layout_.block_bytes(); }
  // Those that may be referred to. `object` of what Find returns is kSharedBlocks + index into them.
  const std::vector<SharedObject>& objects() const { return objects_; }
  // An equal block that may be referred to: the one at the same place of the stream, else any.
  std::optional<BlockPlace> Find(const BlockLayout::Block& block, const Fingerprint& fingerprint) const;

 private:
  struct Block {
    Fingerprint fingerprint;
    uint32_t bytes = 0;
    BlockPlace place;
  };

  BlockLayout layout_;
  std::vector<SharedObject> objects_;
  std::vector<Block> blocks_;             // all; those that may not be referred to lie in object kZeroBlocks
  std::vector<uint32_t> by_fingerprint_;  // the others, sorted
};

}  // namespace kedge::reduce
