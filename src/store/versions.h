// What versions there are, which are complete, and where their images lie. Reading only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "format/image_record.h"
#include "format/store_records.h"
#include "store/catalog.h"

namespace kedge {

// One generation in the store.
struct VersionInfo {
  Generation generation;
  bool complete = false;    // a valid version record, and every part that it names is there
  bool superseded = false;  // complete, but a greater (attempt, take) of the same version is, too
  bool finishable = false;  // not complete, but the parts cover all ranks: FinishVersion makes it so
  bool pinned = false;
  uint32_t ranks = 0;  // 0: unknown, no part yet
  uint64_t image_bytes = 0;
  int64_t wall_time_ns = 0;             // of completion; 0 when not complete
  std::vector<uint32_t> missing_ranks;  // not complete: the first few without an image
  uint32_t missing_count = 0;
  std::string reason;  // not complete: why, for people
};

// All generations of a name, newest first (version, attempt, take).
Result<std::vector<VersionInfo>> ListVersions(const Catalog& catalog, const std::string& job, const std::string& name);

// The one generation.
Result<VersionInfo> InspectGeneration(const Catalog& catalog, const Generation& generation);

// The complete versions at or below `at_most` (negative: no limit), newest first, superseded ones left out.
Result<std::vector<VersionInfo>> CompleteVersions(const Catalog& catalog, const std::string& job,
                                                  const std::string& name, int64_t at_most);

// The newest of them. kNotFound: none.
Result<VersionInfo> NewestAtOrBelow(const Catalog& catalog, const std::string& job, const std::string& name,
                                    int64_t at_most);

// All part records of a generation that is there, valid and its own, sorted by first rank.
Result<std::vector<PartRecord>> ReadParts(const Catalog& catalog, const Generation& generation);

// Where a rank's image lies, and what is in it.
struct StoredImage {
  std::string object_key;  // whole key: for Store::OpenObject
  ImageEntry entry;
  ImageRecord record;
};

// Reads it through the part records and checks it: checksum, identity, and that its chunks of its own object lie in front
// of it. kNotFound: no part holds that rank, or the object is gone.
Result<StoredImage> ReadImage(const Catalog& catalog, const Generation& generation, uint32_t rank);
// The same when the part is at hand (a reader of many ranks).
Result<StoredImage> ReadImage(const Catalog& catalog, const PartRecord& part, const ImageEntry& entry);

// The whole key of a chunk's object.
std::string ChunkObjectKey(const StoredImage& image, const Chunk& chunk);

}  // namespace kedge
