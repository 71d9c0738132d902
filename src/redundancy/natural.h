// Natural replicas: blocks that so many members of a set have that none of them needs redundancy of it ([Dedup], "natural
// duplicates").
//
// Ranks of one program have data in common. A block that more members have than a set may lose survives anyway. It is left out of
// what is encoded, or copied to partners: parity is made of *thin streams*, and copies are of these, each a member's stream
// without its natural blocks. So parity is shorter, copies are smaller, and fewer bytes are read for them. A lost image is its
// thin stream, rebuilt or as a partner has it, and its natural blocks as other members have them. Where there are none, thin
// stream and stream are the same.
//
// A member tells the others, with the table of its stream, the fingerprints of its blocks. Each member keeps of all of them,
// alone and with the same result, those that are natural (KeepNatural). So the set record says in whose streams a block lies: in
// those that list its fingerprint. Pure functions, and immutable.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "format/set_records.h"

namespace kedge::redundancy {

// Keeps of the members' blocks those that more than `parity` of them have, and none at all where parity would be hardly shorter,
// or the copies of all members together (scheme partner) hardly smaller. What another member has kept already may be given in
// place of all its blocks: the result is the same.
void KeepNatural(Scheme scheme, uint32_t parity, std::vector<SetMember>* members);

// The rest of a member's stream.
class ThinStream {
 public:
  ThinStream() = default;
  // Of a valid member; which need not live longer.
  explicit ThinStream(const SetMember& member);

  uint64_t bytes() const { return bytes_; }
  uint64_t stream_bytes() const { return stream_bytes_; }

  struct Piece {
    uint64_t stream_offset = 0;
    uint64_t bytes = 0;
    // Where it begins in the thin stream; none: it is one natural block, or the part of one that begins at `within`.
    std::optional<uint64_t> thin_offset;
    uint64_t within = 0;
    Fingerprint fingerprint = {};
  };
  // How much of the thin stream lies before that place of the stream.
  uint64_t ThinBefore(uint64_t stream_offset) const;
  // What these bytes of the thin stream are, in the stream. Within it.
  std::vector<Piece> OfThin(uint64_t offset, uint64_t bytes) const;
  // What these bytes of the stream are made of, in order. Within it.
  std::vector<Piece> OfStream(uint64_t offset, uint64_t bytes) const;

 private:
  struct Hole {
    uint64_t offset = 0;       // in the stream
    uint64_t thin_offset = 0;  // of what follows it
    Fingerprint fingerprint = {};
  };
  // The first that ends behind that place of the stream.
  std::vector<Hole>::const_iterator HoleFrom(uint64_t stream_offset) const;

  uint64_t hole_bytes_ = 0;
  uint64_t bytes_ = 0;
  uint64_t stream_bytes_ = 0;
  std::vector<Hole> holes_;
};

// The block table of the thin stream, from that of the stream.
BlockTable ThinTable(const SetMember& member);

// Where the natural blocks of one member lie in the streams of others.
class NaturalReplicas {
 public:
  // REQUIRES: a valid record, which outlives it.
  NaturalReplicas(const SetRecord& set, uint32_t member);

  // Reads from a member's stream, at most kBlockBytesMax.
  using Read = std::function<Status(uint32_t member, uint64_t stream_offset, std::span<std::byte> to)>;
  // The natural blocks among `pieces` (ThinStream::OfStream of the bytes from `offset` on), into `to`, which is of all these
  // bytes. Each is held against its fingerprint, and taken from the next member that has it where it is wrong. kIncomplete: none
  // has it. REQUIRES: at most kBlockBytesMax.
  Status Fill(std::span<const ThinStream::Piece> pieces, uint64_t offset, std::span<std::byte> to, const Read& read) const;

 private:
  struct Place {
    uint32_t member = 0;
    uint64_t offset = 0;
  };
  // How many of the pieces, from the first on, follow each other in another member as they do here: they come at once.
  size_t RunAt(std::span<const ThinStream::Piece> pieces) const;
  Status FillBlock(const ThinStream::Piece& piece, std::span<std::byte> to, const Read& read) const;

  const SetRecord& set_;
  const uint32_t block_bytes_;
  std::map<Fingerprint, std::vector<Place>> places_;  // one of each member that has it, the next member's first
};

}  // namespace kedge::redundancy
