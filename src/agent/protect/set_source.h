// Blocks of a set from where they are: this node's slots, or other nodes, for encoding and rebuilding (redundancy/assemble.h).
//
// Reads of other nodes go out together and are waited for together; blocks that are expected are on their way meanwhile, as many
// as buffers allow (read_plan.h). Blocks are used where they arrive, in the network's buffers, of which a source has at most
// kBuffersMax at a time: there are as many for every worker, so that none waits for another's. One thread at a time.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/images/held_stream.h"
#include "agent/peers/peers.h"
#include "agent/peers/read_plan.h"
#include "agent/peers/remote_object.h"
#include "redundancy/assemble.h"
#include "redundancy/natural.h"

namespace kedge {

class SetSource final : public redundancy::BlockSource {
 public:
  static constexpr size_t kBuffersMax = 24;
  // Where a member's stream, or object, can be read.
  struct Place {
    std::optional<HeldStream> here;
    std::string node;  // else there; empty: nowhere
  };
  SetSource(PeerLink link, SetRecord set, Duration timeout);

  void SetStream(uint32_t member, Place place) { streams_[member] = std::move(place); }
  void SetObject(uint32_t member, Place place) { objects_[member] = std::move(place); }
  // Nodes that have failed to answer are asked no more.
  bool Has(uint32_t member, bool parity) override;
  void ReadBlocks(std::span<Read> reads) override;
  void Expect(const redundancy::BlockRef& block, uint32_t bytes) override;
  // Of a member's stream, where it lies there: at most kBlockBytesMax.
  Status ReadStream(uint32_t member, uint64_t offset, std::span<std::byte> to);
  // Gives leases and buffers back, and expects nothing any more.
  void LetGo();
  // How far ahead is best expected what comes: the reads for it go out as buffers allow.
  static constexpr uint64_t kAheadBytes = 3 * kBlockBytesMax;

 private:
  using Key = std::pair<uint32_t, bool>;  // member, of its parity object
  Place& PlaceOf(const redundancy::BlockRef& block);
  // Of blocks of a thin stream (redundancy/natural.h): where they lie in the stream, one or several entries.
  std::vector<ReadPlan::Entry> InStream(const redundancy::BlockRef& block, uint32_t bytes) const;
  std::unique_ptr<RemoteObject> MakeRemote(uint32_t member, bool of_object, const std::string& node) const;
  // REQUIRES: its place is a node.
  RemoteObject& RemoteOf(const redundancy::BlockRef& block);
  static Status ReadHere(const HeldStream& held, uint64_t offset, std::span<std::byte> to);
  // Waits for what another node has; the bytes stay where they arrive where `view` is not null, and are copied to `to` else.
  Status Arrive(const ReadPlan::Entry& entry, std::span<std::byte> to, ByteSpan* view);
  // What a node has just answered: one that is silent is waited for no more.
  Status GiveUpWhereSilent(const std::string& node, Status status);
  // Sends what is expected as far as there are buffers.
  void BeginPlanned();
  void GiveUp(const std::string& node);

  const PeerLink link_;
  const SetRecord set_;
  const Duration timeout_;
  std::vector<redundancy::ThinStream> thin_;  // by member
  std::vector<Place> streams_;
  std::vector<Place> objects_;
  std::map<Key, std::unique_ptr<RemoteObject>> remote_;
  std::map<uint32_t, std::unique_ptr<RemoteObject>> replicas_;  // by member: streams that are read by ReadStream
  std::vector<ArrivedBytes> arrived_;                           // what the last reads' views are of
  ReadPlan plan_{kBuffersMax};
};

}  // namespace kedge
