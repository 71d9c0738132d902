// What versions there are, which are complete, and where their images lie. Reading only.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "format/block_map.h"
#include "format/image_record.h"
#include "format/store_records.h"
#include "store/catalog.h"

namespace kedge {

// One generation in the store.
struct VersionInfo {
  Generation generation;
  bool complete = false;    // a valid version record, every part that it names is there, and it is not marked removed
                            // (but see `reprieved`)
  bool abandoned = false;   // not of the job's lineage (lineage.h), whether complete or not
  bool superseded = false;  // complete and not abandoned, but a greater (attempt, take) of the same version is, too
  bool finishable = false;  // not complete, but the parts cover all ranks: FinishVersion makes it so
  bool pinned = false;
  bool drained = true;   // complete: it lies in the store itself, not only on a burst buffer before it (Store::IsDrained)
  bool removed = false;  // marked so and not pinned: no version any more; its objects stay while other generations refer to them
  bool doomed = false;   // removed, and yet whole: whoever marked it is about to look for another, or has died
  bool reprieved = false;   // the newest doomed one while no other version is complete: it counts as complete, not as removed
  bool unknown = false;     // a record could not be read, or is from another store or a newer format: leave it alone
  bool foreign = false;     // unknown, because it is another store's: it does not exist for this one
  Status unreadable;        // unknown, because of this error
  uint32_t ranks = 0;       // 0: unknown, no part yet
  uint32_t first_rank = 0;  // not complete, `ranks` not 0: that has an image
  uint64_t image_bytes = 0;
  int64_t wall_time_ns = 0;             // of completion; 0 when not whole
  std::vector<uint32_t> missing_ranks;  // not complete: the first few without an image
  uint32_t missing_count = 0;
  std::string reason;  // not complete: why, for people
  // Generation folders, relative to the job's, that its images need; not complete: or may come to need (base_version.h).
  std::vector<std::string> references;
};

// All generations of a name, newest first (version, attempt, take); of some: what is not wanted costs nothing, and is not
// compared with the others.
Result<std::vector<VersionInfo>> ListVersions(const Catalog& catalog, const std::string& job, const std::string& name,
                                              const std::function<bool(const Generation&)>& is_wanted = {});

// Whether one of the name's `versions` that was taken later is complete, and of the lineage.
bool IsDisplaced(const VersionInfo& info, const std::vector<VersionInfo>& versions);
// Whether its mark is all that tells that it was removed (retention.h, WithdrawVersion). Nodes may still hold copies of it.
bool IsWithdrawn(const VersionInfo& info, const std::vector<VersionInfo>& versions);

// The generations of a name that have a folder, oldest first. None when there is no such name.
Result<std::vector<Generation>> ListGenerations(const Catalog& catalog, const std::string& job, const std::string& name);

// What attempts went on from, of a name. None when there is no such name.
Result<std::vector<RestoredRecord>> ReadRestored(const Catalog& catalog, const std::string& job, const std::string& name);

// The one generation; whether it is abandoned or superseded its own folder does not tell. kNotFound: nothing of it is there.
Result<VersionInfo> InspectGeneration(const Catalog& catalog, const Generation& generation);

// Two ranks took different versions as their checkpoint of the same number (Generation::take) of the same attempt: kMismatch,
// which names both.
Status Disagreement(const Generation& one, uint32_t rank, const Generation& other, uint32_t other_rank);
// Whether that happened to any of a name's versions (as ListVersions has them) that were taken after its newest complete one: the
// latest is named.
Status DisagreementAmong(const std::vector<VersionInfo>& versions);
// Whether that happened to a generation that is not complete. Costs one listing while it did not.
Status FindDisagreement(const Catalog& catalog, const Generation& generation);

// The complete versions of the lineage at or below `at_most` (negative: no limit), newest first, superseded ones left out.
Result<std::vector<VersionInfo>> CompleteVersions(const Catalog& catalog, const std::string& job, const std::string& name,
                                                  int64_t at_most);

// The newest of them. kNotFound: none. Looks into the latest takings of the lineage alone, until one is complete. `restored`
// (may be null) gets what attempts went on from, as ReadRestored has it, whether there is a version or not.
Result<VersionInfo> NewestAtOrBelow(const Catalog& catalog, const std::string& job, const std::string& name, int64_t at_most,
                                    std::vector<RestoredRecord>* restored = nullptr);

// The parts of a generation: the one inside its version record, or else all that have a record of their own.
Result<std::vector<PartRecord>> ReadParts(const Catalog& catalog, const Generation& generation,
                                          std::vector<std::string>* problems);
// All part records of a generation that are valid and its own, sorted by first rank. Damaged ones are left out, each
// with a sentence in `problems` (may be null). Fails when one cannot be read at all, or is from a newer format.
Result<std::vector<PartRecord>> ReadPartRecords(const Catalog& catalog, const Generation& generation,
                                                std::vector<std::string>* problems);

// Whose images they have.
std::vector<RankRun> RanksIn(const std::vector<PartRecord>& parts);

// The version record. kNotFound: not complete.
Result<VersionRecord> ReadVersionRecord(const Catalog& catalog, const Generation& generation);
// One of the parts that it names, or has inside.
Result<PartRecord> ReadPart(const Catalog& catalog, const VersionRecord& version, const PartEntry& entry);

// Which ranks no part covers.
struct Coverage {
  uint32_t ranks = 0;                   // as the parts say; 0 when there is none
  std::vector<uint32_t> missing_ranks;  // the first few
  uint32_t missing_count = 0;
  bool Complete() const { return ranks > 0 && missing_count == 0; }
};
// kMismatch: the parts disagree about the number of ranks.
Result<Coverage> CoverageOf(const std::vector<PartRecord>& parts);

// The one that the version record names for the rank, which has its image. kNotFound: as ReadImage.
Result<PartRecord> ReadPartWith(const Catalog& catalog, const Generation& generation, uint32_t rank);
// Null: the part has none of that rank.
const ImageEntry* EntryOf(const PartRecord& part, uint32_t rank);

// Where a rank's image lies, and what is in it.
struct StoredImage {
  std::string object_key;  // whole key: for Store::OpenObject
  ImageEntry entry;
  ImageRecord record;
  std::optional<BlockMap> map;  // nothing: its own chunks lie whole in its object
};

// Reads it through the version and part records and checks it: checksum, identity, and that its chunks or blocks lie inside
// its object. image_object.h reads them. kNotFound: the version is not complete or has no such rank, or the object is gone.
Result<StoredImage> ReadImage(const Catalog& catalog, const Generation& generation, uint32_t rank);
// The same from whichever part has it, be the version complete or not. kNotFound: none.
Result<StoredImage> ReadPublishedImage(const Catalog& catalog, const Generation& generation, uint32_t rank);
// The same when the part is at hand (a reader of many ranks). `entry` is one of part.images.
Result<StoredImage> ReadImage(const Catalog& catalog, const PartRecord& part, const ImageEntry& entry);

// The whole key of a chunk's object.
std::string ChunkObjectKey(const StoredImage& image, const Chunk& chunk);

}  // namespace kedge
