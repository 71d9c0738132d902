// Where things lie in a store (docs/format.md): keys from identities, and back.
//
//   kedge-store
//   buffers/SERVER.buffer (burst/settings.h, kFolderInStore): no key of ours
//   jobs/JOB/job
//   jobs/JOB/attempts/ATTEMPT, ATTEMPT.ended, ATTEMPT.draining
//   jobs/JOB/names/NAME/name, reached, restored-ATTEMPT-TAKE, withdrawn-VERSION-ATTEMPT-TAKE
//   jobs/JOB/names/NAME/VERSION-ATTEMPT-TAKE/{data/rRANK, data/rRANK.cCHUNK, data/rRANK.bHEX, data/nHEX, parts/RANK-COUNT,
//                                             bases/VERSION-ATTEMPT-TAKE, version, pinned, removed}
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "format/identity.h"

namespace kedge::keys {

inline constexpr char kStoreKey[] = "kedge-store";
inline constexpr char kJobsFolder[] = "jobs";

std::string JobFolder(std::string_view job);
std::string JobKey(std::string_view job);
std::string AttemptsFolder(std::string_view job);
std::string AttemptKey(std::string_view job, uint32_t attempt);
std::string AttemptEndKey(std::string_view job, uint32_t attempt);
std::string AttemptDrainKey(std::string_view job, uint32_t attempt);
std::string NamesFolder(std::string_view job);
std::string NameFolder(std::string_view job, std::string_view name);
std::string NameKey(std::string_view job, std::string_view name);
std::string RestoredKey(std::string_view job, std::string_view name, uint32_t attempt, uint32_t take);
// Beside the generations, so that a listing tells of it.
std::string WithdrawnKey(const Generation& generation);
std::string ReachedKey(std::string_view job, std::string_view name);
std::string GenerationFolder(const Generation& generation);
std::string ObjectsFolder(const Generation& generation);
std::string PartsFolder(const Generation& generation);
// Named by the first rank in it and the number of its images.
std::string PartName(uint32_t first_rank, size_t images);
std::string PartKey(const Generation& generation, uint32_t first_rank, size_t images);
std::string VersionKey(const Generation& generation);
std::string PinKey(const Generation& generation);
std::string RemovedKey(const Generation& generation);
// Whether it is the last component of one of these two.
bool IsMark(std::string_view component);
std::string BasesFolder(const Generation& generation);
// Named after the base, which is of the same name.
std::string BaseKey(const Generation& generation, const Generation& base);
// The image object of a rank; in part records it is named relative to the generation's folder.
std::string ImageObject(uint32_t rank);  // "data/r3"
std::string ImageKey(const Generation& generation, uint32_t rank);
// That of an image with a block map, which comes out otherwise each time that it is written: another name each time, so that
// nobody replaces what a part record says by something else.
std::string ReducedImageObject(uint32_t rank);  // "data/r3.b0123456789abcdef"
// That of the images of a node that are written together: several, each with a block map. Another name each time, as above.
std::string NodeObject();  // "data/n0123456789abcdef"
// Whether an object is named so; by any kind of key.
bool IsNodeObject(std::string_view key);
// That with the blocks that a node writes for others of the job as well (reduce/common_blocks.h): its place among the nodes, and
// what all of them have agreed on. It has no records, and parts refer to it by its key relative to the job's folder.
std::string CommonObject(uint32_t node, uint64_t agreed);  // "data/s2.0123456789abcdef"
bool IsCommonObject(std::string_view key);
// A chunk of it that was written through as an object of its own.
std::string ChunkKey(const Generation& generation, uint32_t rank, uint32_t chunk);
// `key` without JobFolder(job) and the slash: how image records name objects of other generations, or chunk objects.
std::string RelativeToJob(std::string_view job, std::string_view key);
// The generation's folder, relative to the job's, in which an object so named lies; nothing when it lies in none.
std::optional<std::string> GenerationOfObject(std::string_view relative_key);

// The version, attempt and take that a folder's name gives; store id, job and name stay as they are.
bool ParseGenerationFolder(std::string_view component, Generation* generation);
// The same for the name of such a mark.
bool ParseWithdrawnName(std::string_view component, Generation* generation);
// Whether it names a restored record.
bool IsRestoredName(std::string_view component);
struct PartNumbers {
  uint32_t first_rank;
  uint32_t images;
};
std::optional<PartNumbers> ParsePartName(std::string_view component);
std::optional<uint32_t> ParseNumber(std::string_view text);

}  // namespace kedge::keys
