// Global arrays, whose regions come back on another number of ranks: which image has what of them, and where it goes in memory.
//
// A region is part of a global array when it has a global shape. Its array is named by the region's name as far as a bracket, or
// by its id where it has no name: so the blocks of a rank that has several are called field[0], field[1], ... Parts may overlap;
// then any of them will do. A replicated array is one whose part is all of it on each rank.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "format/image_record.h"
#include "restore/array_boxes.h"
#include "restore/region_target.h"

namespace kedge {

// A region, or object, of one image.
struct SavedPart {
  uint32_t rank = 0;
  Region region;  // `file_mode` is left out

  friend bool operator==(const SavedPart&, const SavedPart&) = default;
};

// With the CRC32C of its bytes.
struct PartContent {
  SavedPart part;
  uint32_t crc32c = 0;
};

// Of each array of which images have the same part with other bytes: a sentence. Parts with a halo are left out.
std::vector<std::string> UnequalCopies(const std::vector<PartContent>& contents);

// For other ranks.
std::string EncodeParts(const std::vector<SavedPart>& parts);
// kInternal: not what EncodeParts made.
Result<std::vector<SavedPart>> DecodeParts(const std::string& text);

// "field" of field[3], "#7" of the region 7 without a name.
std::string ArrayNameOf(const Region& region);
// The whole array as one region, without a halo. REQUIRES: `part` is part of an array.
Region WholeArrayOf(const Region& part);

// What is taken from one region of one image.
struct TakenBoxes {
  uint32_t rank = 0;
  int32_t id = 0;
  std::vector<ArrayBox> boxes;  // that do not overlap
};

// All parts of a version. Immutable.
class SavedArrays {
 public:
  explicit SavedArrays(std::vector<SavedPart> parts);

  // Each element of `wanted` once, from the images in their order, that of `first_rank` before all. kMismatch: the version does
  // not have all of it, or has it of another type, shape or order.
  Result<std::vector<TakenBoxes>> Plan(const Region& wanted, uint32_t first_rank) const;
  // Of each array whose parts do not make it up, or overlap though neither is a replica of the other, or all of it: a sentence.
  std::vector<std::string> Doubts() const;
  const std::map<std::string, std::vector<SavedPart>>& by_name() const { return by_name_; }

 private:
  std::map<std::string, std::vector<SavedPart>> by_name_;  // each in the order of ranks
};

// What of the region `saved`, with this index in its image, goes where in `memory`, where all of `wanted` goes. kInternal: they
// are no parts of one array.
Result<RegionTarget> TargetOf(const Region& saved, uint32_t index, const std::vector<ArrayBox>& boxes, const Region& wanted,
                              std::byte* memory);

}  // namespace kedge
