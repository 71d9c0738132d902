// Records of protection across nodes: what one set of images holds, and where one node's parity of it lies.
//
// A set is the images with the same node-local index on the nodes of one group. An image is protected as its stream: its
// chunks at their object offsets, gaps as zeros, then the image record. The set record is the same bytes on every member:
// it carries each image's record and the checksums of its stream, block by block, so that any survivor knows what is
// complete and can tell a right block from a wrong one, and which of its blocks other members have as well. The parity record
// is its holder's own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "format/block_map.h"
#include "format/identity.h"
#include "format/wire.h"

namespace kedge {

inline constexpr uint32_t kBlockBytesMin = 4u << 10;
inline constexpr uint32_t kBlockBytesMax = 1u << 20;
// Columns of a code over GF(2^8): more do not exist.
inline constexpr uint32_t kSetMembersMax = 255;
inline constexpr size_t kNodeNameBytesMax = 255;  // also of a failure domain

// The numbers are part of the format.
enum class Scheme : uint8_t {
  kNone = 0,
  kPartner = 1,      // copies on the next members of the group
  kXor = 2,          // one parity row: survives one loss a group
  kReedSolomon = 3,  // k parity rows: survives k losses a group
};
// "partner", "xor", "rs", "none": as in the configuration.
const char* SchemeName(Scheme scheme);

// The checksums of some bytes, block by block; the last block may be short.
struct BlockTable {
  uint64_t bytes = 0;
  uint32_t block_bytes = kBlockBytesMin;  // a power of two, kBlockBytesMin to kBlockBytesMax
  std::vector<uint32_t> crc32c;           // one for each of BlockCount()

  uint64_t BlockCount() const { return bytes / block_bytes + (bytes % block_bytes != 0); }
  friend bool operator==(const BlockTable&, const BlockTable&) = default;
};

// Blocks of an image's stream that need no redundancy, since so many other members of its set have them as well
// (redundancy/natural.h): who has a block with that fingerprint has that block.
struct NaturalBlocks {
  struct Block {
    uint64_t offset = 0;  // in the stream, a multiple of the table's block size
    Fingerprint fingerprint = {};
    friend bool operator==(const Block&, const Block&) = default;
  };
  uint32_t block_bytes = 0;   // of each: a multiple of the table's block size; 0 where there are none
  std::vector<Block> blocks;  // in order, disjoint, none in the image record

  uint64_t bytes() const { return uint64_t{block_bytes} * blocks.size(); }
  friend bool operator==(const NaturalBlocks&, const NaturalBlocks&) = default;
};

struct SetIdentity {
  Generation generation;
  uint32_t ranks = 0;   // of the generation
  uint64_t layout = 0;  // Layout::id: a version that is protected again on other nodes is another layout's
  uint32_t group = 0;
  uint32_t index = 0;  // node-local index of its images

  friend auto operator<=>(const SetIdentity&, const SetIdentity&) = default;
  // "job/name version 12 (attempt 3, take 1) set 2 of group 0"
  std::string ToString() const;
};

struct SetMember {
  std::string node;
  std::string domain;
  std::optional<uint32_t> rank;  // none: this node has fewer ranks; its image is empty
  BlockTable blocks;             // of the image's stream
  Buffer image_record;           // encoded: the last bytes of the stream
  NaturalBlocks natural = {};

  // Of its thin stream (redundancy/natural.h).
  uint64_t thin_bytes() const { return blocks.bytes - natural.bytes(); }
  friend bool operator==(const SetMember&, const SetMember&) = default;
};

struct SetRecord {
  SetIdentity identity;
  Scheme scheme = Scheme::kNone;  // never kNone in a record
  // Copies of each image (partner), or parity rows: 1 for XOR, k for Reed-Solomon. At least 1, less than members.
  uint32_t parity = 0;
  std::vector<SetMember> members;  // in the group's order; distinct nodes, distinct ranks

  friend bool operator==(const SetRecord&, const SetRecord&) = default;
};

struct ParitySlot {
  uint32_t tier = 0;  // index into ParityRecord::tiers
  uint32_t slot = 0;
  uint64_t slot_generation = 0;
  uint64_t offset = 0;  // within the slot
  uint64_t bytes = 0;   // > 0

  friend bool operator==(const ParitySlot&, const ParitySlot&) = default;
};

// The parity object of one member, whole on its node: this record is written after its bytes.
struct ParityRecord {
  SetIdentity identity;
  uint32_t member = 0;             // index into SetRecord::members
  uint32_t set_record_crc32c = 0;  // of the encoded set record that it belongs to
  BlockTable blocks;
  std::vector<std::string> tiers;  // keys, as configured
  std::vector<ParitySlot> slots;   // one after the other they hold blocks.bytes

  friend bool operator==(const ParityRecord&, const ParityRecord&) = default;
};

// Whether the fields are within the bounds given above; what encoding requires and decoding guarantees.
Status Validate(const SetRecord& set);
Status Validate(const ParityRecord& parity);

// The fields of a table, a set's identity, a member inside another payload: a record's or a message's. Decoding
// guarantees the bounds given above; the store id of an identity is the envelope's.
void EncodeFields(Encoder& encoder, const BlockTable& table);
void EncodeFields(Encoder& encoder, const SetIdentity& identity);
void EncodeFields(Encoder& encoder, const SetMember& member);  // but for its natural blocks
void EncodeFields(Encoder& encoder, const NaturalBlocks& natural, const BlockTable& table);
void DecodeFields(Decoder& decoder, BlockTable* table);
void DecodeFields(Decoder& decoder, const StoreId& store_id, SetIdentity* identity);
void DecodeFields(Decoder& decoder, uint32_t ranks, SetMember* member);
// Of the member whose other fields are known.
void DecodeFields(Decoder& decoder, const SetMember& member, NaturalBlocks* natural);

// Append to `out`. kInternal, with `out` as it was: a field is out of bounds, a mistake of the caller.
Status EncodeSetRecord(const SetRecord& set, Buffer* out);
Status EncodeParityRecord(const ParityRecord& parity, Buffer* out);

// `record` is the whole record and nothing else. The image records in a set are the reader's to decode, as are the slots
// of a parity record to check against its tiers.
Result<SetRecord> DecodeSetRecord(ByteSpan record);
Result<ParityRecord> DecodeParityRecord(ByteSpan record);

}  // namespace kedge
