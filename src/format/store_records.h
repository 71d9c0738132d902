// Records that lie in a store and carry its commit rule (docs/format.md; src/store/catalog.h says when each is
// written). All are small; encoders append to `out` and cannot fail on a valid record, whose bounds stand with the
// fields. Decoders take a whole record and nothing else.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "format/identity.h"
#include "format/wire.h"

namespace kedge {

inline constexpr size_t kHostBytesMax = 255;
inline constexpr size_t kBootIdBytesMax = 64;
inline constexpr size_t kMachineIdBytesMax = 64;

// "kedge-store" in the store's root: the store's identity.
struct StoreRecord {
  StoreId id;
  int64_t wall_time_ns = 0;
  std::string host;  // who made it; <= kHostBytesMax
  friend bool operator==(const StoreRecord&, const StoreRecord&) = default;
};

// "job": the real name of the job whose folder this is.
struct JobRecord {
  StoreId store_id;
  std::string job;
  int64_t wall_time_ns = 0;
  friend bool operator==(const JobRecord&, const JobRecord&) = default;
};

// "name": the real checkpoint name.
struct NameRecord {
  StoreId store_id;
  std::string job;
  std::string name;
  int64_t wall_time_ns = 0;
  friend bool operator==(const NameRecord&, const NameRecord&) = default;
};

// The attempts from `first` on that are before `end`; none when they are equal.
struct AttemptRange {
  uint32_t first = 0;
  uint32_t end = 0;
  bool Has(uint32_t attempt) const { return attempt >= first && attempt < end; }
  friend bool operator==(const AttemptRange&, const AttemptRange&) = default;
};

// One launch of a job: who holds it. The file's modification time is its lease: a holder that lives changes it again and again.
struct AttemptRecord {
  StoreId store_id;
  std::string job;
  uint32_t attempt = 0;             // >= 1
  std::string host;                 // of rank 0; <= kHostBytesMax
  std::string boot_id;              // <= kBootIdBytesMax
  std::string machine_id;           // <= kMachineIdBytesMax
  uint64_t pid_namespace = 0;       // in which `pid` means something; 0: not known
  int64_t pid = 0;                  // of rank 0
  uint64_t process_start_time = 0;  // as in /proc/PID/stat: tells a reused pid
  double lease_seconds = 0;         // > 0
  int64_t wall_time_ns = 0;
  uint32_t ranks = 0;     // 1 to kRanksMax
  AttemptRange beside{};  // it began without the store, and cannot have known of these; before itself
  friend bool operator==(const AttemptRecord&, const AttemptRecord&) = default;
};

// "ATTEMPT.ended": the attempt finished; its lease is free.
struct AttemptEndRecord {
  StoreId store_id;
  std::string job;
  uint32_t attempt = 0;
  int64_t wall_time_ns = 0;
  friend bool operator==(const AttemptEndRecord&, const AttemptEndRecord&) = default;
};

// "ATTEMPT.draining": agents still carry images of this attempt to the store; its modification time is their sign of
// life.
struct AttemptDrainRecord {
  StoreId store_id;
  std::string job;
  uint32_t attempt = 0;
  int64_t wall_time_ns = 0;
  friend bool operator==(const AttemptDrainRecord&, const AttemptDrainRecord&) = default;
};

// "restored-ATTEMPT-TAKE" beside a name's generations: what the ranks went on from in the attempt, from that taking on.
struct RestoredRecord {
  Generation origin;
  uint32_t attempt = 0;  // (attempt, take) > (origin.attempt, origin.take)
  uint32_t take = 0;
  int64_t wall_time_ns = 0;
  AttemptRange beside{};  // of the attempt
  friend bool operator==(const RestoredRecord&, const RestoredRecord&) = default;
};

// One rank's image in a part record.
struct ImageEntry {
  uint32_t rank = 0;
  std::string object;          // key relative to the generation's folder: "data/r3"
  uint64_t record_offset = 0;  // of the image record in it
  uint64_t record_bytes = 0;
  uint32_t record_crc32c = 0;  // of the whole image record, envelope included
  uint64_t image_bytes = 0;    // the sum of its regions, for people
  // Of the block map (block_map.h) behind the image record; 0: the chunks lie in the object where the image record says.
  uint64_t map_bytes = 0;
  uint32_t map_crc32c = 0;  // of the whole block map, envelope included
  friend bool operator==(const ImageEntry&, const ImageEntry&) = default;
};

// Images that one node, or one client on its own, has published; each is durable before this record is.
struct PartRecord {
  Generation generation;
  uint32_t ranks = 0;              // of the whole version
  std::vector<ImageEntry> images;  // at least one, ranks strictly increasing and below `ranks`
  // Folders, relative to the job's ("names/NAME/12-3-1"), of other generations in whose objects chunks of these images
  // lie, strictly increasing: what keeps those objects from being removed.
  std::vector<std::string> references;
  friend bool operator==(const PartRecord&, const PartRecord&) = default;
};

// first, first + stride, ..., `count` ranks in all: how launchers spread ranks over nodes, block-wise or round robin.
struct RankRun {
  uint32_t first = 0;
  uint32_t stride = 1;  // >= 1
  uint32_t count = 0;   // >= 1
  friend bool operator==(const RankRun&, const RankRun&) = default;
};
// `ranks` is strictly increasing.
std::vector<RankRun> RunsOf(const std::vector<uint32_t>& ranks);
bool Contains(const std::vector<RankRun>& runs, uint32_t rank);

// A part that the version is made of, so that a reader of one rank reads one part record.
struct PartEntry {
  uint32_t first_rank = 0;  // of the part record, and the number of its images: its key
  uint32_t images = 0;
  uint32_t record_crc32c = 0;  // of the whole part record
  std::vector<RankRun> ranks;  // whose images are taken from it
  friend bool operator==(const PartEntry&, const PartEntry&) = default;
};

// The version is complete: each rank has an image in exactly one of these parts.
struct VersionRecord {
  Generation generation;
  uint32_t ranks = 0;
  std::vector<PartEntry> parts;  // each rank below `ranks` is in exactly one
  uint64_t image_bytes = 0;      // over all ranks
  int64_t wall_time_ns = 0;
  std::vector<std::string> references;  // those of all parts, strictly increasing
  // Not empty: the bytes of the only part's record, which covers all ranks and has no record of its own.
  Buffer part_inside{};
  friend bool operator==(const VersionRecord&, const VersionRecord&) = default;
};

// The version is kept for ever, outside `keep`.
struct PinRecord {
  Generation generation;
  int64_t wall_time_ns = 0;
  friend bool operator==(const PinRecord&, const PinRecord&) = default;
};

// "removed": the generation is no version any more and never will be again; its objects stay while others refer to
// them.
struct RemovedRecord {
  Generation generation;
  int64_t wall_time_ns = 0;
  friend bool operator==(const RemovedRecord&, const RemovedRecord&) = default;
};

// "reached" beside a name's generations: this was the first version of the name that all ranks were told to be as safe as its
// level says. Where nothing can be restored, it tells what is lost from what never was.
struct ReachedRecord {
  Generation generation;
  int64_t wall_time_ns = 0;
  friend bool operator==(const ReachedRecord&, const ReachedRecord&) = default;
};

// "bases/VERSION-ATTEMPT-TAKE" in a generation, named after another one of its name: images of the generation that are under way
// may come to lie partly in the objects of the other one, and of those that it refers to.
struct BaseRecord {
  Generation generation;
  int64_t wall_time_ns = 0;
  std::vector<std::string> references;  // as in a part record: the base's folder, and its own references
  friend bool operator==(const BaseRecord&, const BaseRecord&) = default;
};

void Encode(const StoreRecord& record, Buffer* out);
void Encode(const JobRecord& record, Buffer* out);
void Encode(const NameRecord& record, Buffer* out);
void Encode(const AttemptRecord& record, Buffer* out);
void Encode(const AttemptEndRecord& record, Buffer* out);
void Encode(const PartRecord& record, Buffer* out);
void Encode(const VersionRecord& record, Buffer* out);
void Encode(const PinRecord& record, Buffer* out);
void Encode(const AttemptDrainRecord& record, Buffer* out);
void Encode(const RemovedRecord& record, Buffer* out);
void Encode(const RestoredRecord& record, Buffer* out);
void Encode(const ReachedRecord& record, Buffer* out);
void Encode(const BaseRecord& record, Buffer* out);

Result<StoreRecord> DecodeStoreRecord(ByteSpan record);
Result<JobRecord> DecodeJobRecord(ByteSpan record);
Result<NameRecord> DecodeNameRecord(ByteSpan record);
Result<AttemptRecord> DecodeAttemptRecord(ByteSpan record);
Result<AttemptEndRecord> DecodeAttemptEndRecord(ByteSpan record);
Result<PartRecord> DecodePartRecord(ByteSpan record);
Result<VersionRecord> DecodeVersionRecord(ByteSpan record);
Result<PinRecord> DecodePinRecord(ByteSpan record);
Result<AttemptDrainRecord> DecodeAttemptDrainRecord(ByteSpan record);
Result<RemovedRecord> DecodeRemovedRecord(ByteSpan record);
Result<RestoredRecord> DecodeRestoredRecord(ByteSpan record);
Result<ReachedRecord> DecodeReachedRecord(ByteSpan record);
Result<BaseRecord> DecodeBaseRecord(ByteSpan record);

}  // namespace kedge
