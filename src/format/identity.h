// Who a piece of data belongs to: store, job, name, version, attempt, take, rank.
//
// A generation is one taking of a version. `attempt` is agreed by all ranks at init and greater at every launch. `take`
// counts, from 1, the checkpoints of that name that the attempt has called for: so (attempt, take) says in which order a
// name's versions were taken. Of several generations of one version that are complete, the greatest
// (attempt, take) of the job's lineage (store/lineage.h) is the version. Parts of different generations are never counted
// together, and what carries another store's id does not exist for this job.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/random.h"
#include "base/status.h"
#include "format/wire.h"

namespace kedge {

// Random, written into the store's root at first use. Zero: none.
using StoreId = Id128;

inline constexpr size_t kNameBytesMax = 1023;  // job names, checkpoint names
inline constexpr uint32_t kRanksMax = 1u << 24;

// Ordered by store, job, name, version, attempt, take: for one (store, job, name), newer compares greater.
struct Generation {
  StoreId store_id;
  std::string job;       // 1 to kNameBytesMax bytes, any but NUL
  std::string name;      // the same
  int64_t version = 0;   // >= 0
  uint32_t attempt = 0;  // >= 1
  uint32_t take = 0;     // >= 1: the how manieth call for a checkpoint of the name in the attempt took it

  friend auto operator<=>(const Generation&, const Generation&) = default;
  // "job/name version 12 (attempt 3, take 1)", for people.
  std::string ToString() const;
};

// One rank's image of a generation.
struct ImageIdentity {
  Generation generation;
  uint32_t rank = 0;   // < ranks
  uint32_t ranks = 0;  // 1 to kRanksMax

  friend auto operator<=>(const ImageIdentity&, const ImageIdentity&) = default;
  // "job/name version 12 (attempt 3, take 1) rank 2 of 8"
  std::string ToString() const;
};

// Whether `name` may name a job or a checkpoint; the error says why not. `what` is "job name" or "checkpoint name".
Status ValidateName(std::string_view name, const char* what);
// Whether the fields are within the bounds given above; what EncodeX requires and DecodeX guarantees.
Status Validate(const Generation& generation);
Status Validate(const ImageIdentity& identity);

// The fields inside a record's payload. The store id is not among them: it stands in the envelope.
void EncodeFields(Encoder& encoder, const Generation& generation);
void EncodeFields(Encoder& encoder, const ImageIdentity& identity);
void DecodeFields(Decoder& decoder, const StoreId& store_id, Generation* generation);
void DecodeFields(Decoder& decoder, const StoreId& store_id, ImageIdentity* identity);
// A string of 1 to kNameBytesMax bytes without NUL; fails the decoder otherwise.
std::string DecodeName(Decoder& decoder);

// A record of its own (kind kImageIdentity), for the announcement of an image. Identity must be valid.
void EncodeImageIdentity(const ImageIdentity& identity, Buffer* out);
Result<ImageIdentity> DecodeImageIdentity(ByteSpan record);

}  // namespace kedge
