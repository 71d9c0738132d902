// Records that lie on a node: where the chunks of an image are kept there.
//
// The placement table follows the image record in its slot and is written by the client; the local record is the
// agent's, made from it, and says that the image is whole on this node (level LOCAL). Both say place by tier key and
// slot, with the slot's generation counter, so that a slot that has been given to another chunk since is told apart.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "format/identity.h"
#include "format/wire.h"

namespace kedge {

// How a chunk is kept.
enum class PlacementKind : uint8_t {
  kSlot = 0,   // in a slot of a tier
  kStore = 1,  // written through to the store; not on this node. The image record says in which object
  kFile = 2,   // a routed file of its own on a directory tier
};

struct Placement {
  PlacementKind kind = PlacementKind::kSlot;
  uint32_t tier = 0;             // index into the table's tiers; 0 for kStore
  uint32_t slot = 0;             // kSlot: slot number. kFile: index into the table's files. kStore: 0
  uint64_t slot_generation = 0;  // kSlot only
  uint64_t offset = 0;           // within the slot or file
  uint64_t bytes = 0;

  friend bool operator==(const Placement&, const Placement&) = default;
};

struct PlacementTable {
  ImageIdentity identity;
  std::vector<std::string> tiers;  // keys, as configured
  std::vector<std::string> files;  // paths of routed files, relative to their tier's folder
  std::vector<Placement> chunks;   // of the image's chunk table, in its order

  friend bool operator==(const PlacementTable&, const PlacementTable&) = default;
};

struct LocalRecord {
  PlacementTable table;
  Placement image_record;  // where the image record lies; its tier indexes table.tiers
  uint32_t image_record_crc32c = 0;
  std::string store;  // the job's store, as configured: where the image is owed to, for an agent that comes later
  int64_t wall_time_ns = 0;

  friend bool operator==(const LocalRecord&, const LocalRecord&) = default;
};

inline constexpr size_t kTierKeyBytesMax = 255;
inline constexpr size_t kPathBytesMax = 4096;

// Append to `out`. kInternal, with `out` as it was: an index or length is out of bounds, a mistake of the caller.
Status EncodePlacementTable(const PlacementTable& table, Buffer* out);
Status EncodeLocalRecord(const LocalRecord& local, Buffer* out);

// `record` is the whole record and nothing else. Tier and file indices of what is returned are in range; slots, their
// generations, offsets and lengths are the reader's to check against its tiers.
Result<PlacementTable> DecodePlacementTable(ByteSpan record);
Result<LocalRecord> DecodeLocalRecord(ByteSpan record);

}  // namespace kedge
