// One image of another node, pulled from there and written to an object of the store, piece by piece: a buffer of a piece and the
// network's own are all the memory that it takes. What came is held against the checksums of capture before it counts.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "agent/peers/peer_messages.h"
#include "agent/peers/peers.h"
#include "agent/tables/byte_rate.h"
#include "agent/tables/flush_object.h"
#include "base/status.h"

namespace kedge {

struct CarryOrder {
  PeerLink link;
  std::string node;  // that has it
  std::string self;
  Generation generation;
  CarryRequest::Item image;
  std::shared_ptr<FlushObject> object;
  uint64_t piece_bytes = 0;
  ByteRate* rate = nullptr;             // outlives it
  std::shared_ptr<ByteRate> node_rate;  // of all that is read from the node
  // Shared with the loop's thread: bytes written so far, and whether the image is wanted no more.
  struct Progress {
    std::atomic<uint64_t> bytes{0};
    std::atomic<uint64_t> written_bytes{0};  // that the store has taken
    std::atomic<bool> is_withdrawn{false};
    bool is_waiting = false;  // for a writer; of the loop's thread
  };
  std::shared_ptr<Progress> progress;
  std::shared_ptr<std::atomic<uint64_t>> pulled_bytes;  // of all images
};

// Blocking; one thread. The encoded image record, once all of its chunks are in the object. kCorrupt: they are not those of its
// record, or the record is another's. kFailedPrecondition: the object is being published, or the image is withdrawn.
Result<Buffer> CarryImage(const CarryOrder& order);

}  // namespace kedge
