// Blocks of a set from where they are: this node's slots, or other nodes, for encoding and rebuilding (redundancy/assemble.h).
//
// Reads of other nodes go out together and are waited for together; the same members' next blocks are asked for ahead, so that
// the network works while this thread sums. Memory: two blocks for each member. One thread at a time.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agent/held_stream.h"
#include "agent/peers.h"
#include "redundancy/assemble.h"

namespace kedge {

class SetSource final : public redundancy::BlockSource {
 public:
  // Where a member's stream, or object, can be read.
  struct Place {
    std::optional<HeldStream> here;
    std::string node;  // else there; empty: nowhere
  };
  SetSource(PeerLink link, SetRecord set, Duration timeout);
  ~SetSource() override;

  void SetStream(uint32_t member, Place place) { streams_[member] = std::move(place); }
  void SetObject(uint32_t member, Place place) { objects_[member] = std::move(place); }
  // Nodes that have failed to answer are asked no more.
  bool Has(uint32_t member, bool parity) override;
  void ReadBlocks(std::span<Read> reads) override;
  // Bytes of a member's stream as they are, unverified.
  Status ReadStream(uint32_t member, uint64_t offset, std::span<std::byte> to);

 private:
  struct Ahead {
    uint64_t offset = 0;
    uint32_t bytes = 0;
    PendingAnswer answer;
  };
  struct Leased {
    std::string node;
    std::vector<LeasedPart> parts;
  };
  // Where the member's bytes can be read without its node's attention; asked once.
  const Leased& LeaseOf(const redundancy::BlockRef& block, const std::string& node);
  void DropLease(const redundancy::BlockRef& block);
  ReadRequest RequestFor(const redundancy::BlockRef& block) const;
  Place& PlaceOf(const redundancy::BlockRef& block);
  PendingAnswer Ask(const redundancy::BlockRef& block, uint64_t bytes, const std::string& node);
  uint64_t EndOf(const redundancy::BlockRef& block) const;

  const PeerLink link_;
  const SetRecord set_;
  const Duration timeout_;
  std::vector<Place> streams_;
  std::vector<Place> objects_;
  std::map<std::pair<uint32_t, bool>, Ahead> ahead_;
  std::map<std::pair<uint32_t, bool>, Leased> leases_;
};

// Makes a member's parity object into `object`, block by block; the table of what was written. Blocking.
Result<BlockTable> MakeParity(const SetRecord& set, uint32_t member, SetSource& source, const HeldStream& object);
// Copies a member's stream into `object`, each block held against the set's table. Blocking.
Result<BlockTable> MakeCopy(const SetRecord& set, uint32_t member, SetSource& source, const HeldStream& object);

}  // namespace kedge
