// A ring of messages in shared memory: one process writes it, one reads it, and each may be killed at any instruction.
//
// A record is whole when `tail` says so, and read when `head` says so: one store each, so that a successor of either process goes
// on from there. A successor of the reader may find records again that its predecessor had read; they are of a former epoch, and
// are dropped. Nothing is ever reset. Records begin at multiples of a cache line; a small message takes one.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace kedge::fmi {

constexpr size_t kRingBytes = size_t{256} << 10;
constexpr size_t kEagerBytesMax = size_t{32} << 10;

enum class MessageKind : uint16_t {
  kSkip,   // nothing: the ring begins anew behind it
  kEager,  // the bytes follow
  kOffer,  // the bytes are to be read from the sender's memory, at `address`
  kTaken,  // they have been: `request` is complete
  // Between nodes, where no memory is read:
  kWanted,  // the bytes that were offered are to be sent, to the receiver's request `address`
  kData,    // these, for `request`
  kLeft,    // the sender has called FMI_Finalize
};

struct MessageHead {
  uint32_t bytes_in_ring = 0;  // behind this head
  uint32_t epoch = 0;
  int32_t tag = 0;
  uint32_t context = 0;
  uint32_t request = 0;  // of the sender
  MessageKind kind = MessageKind::kSkip;
  uint16_t unused = 0;
  uint64_t bytes = 0;  // of the message
  uint64_t address = 0;
};

// Lies in the shared memory; all zeros is an empty one.
struct RingMemory {
  alignas(64) std::atomic<uint64_t> tail;
  std::atomic<uint32_t> writer_waits;  // for room
  alignas(64) std::atomic<uint64_t> head;
  alignas(64) std::byte data[kRingBytes];
};

class RingWriter {
 public:
  explicit RingWriter(RingMemory* memory);
  // False when there is no room now; the reader then finds writer_waits set.
  bool Write(const MessageHead& head, const void* data);

 private:
  RingMemory* memory_;
  uint64_t tail_;
  uint64_t head_;  // as last seen
};

class RingReader {
 public:
  explicit RingReader(RingMemory* memory);
  // The next record, valid until Pop; null when there is none. What is there is checked for its lengths, and a ring in which they
  // make no sense (*broken) is not to be read any more.
  const MessageHead* Front(const std::byte** data, bool* broken);
  void Pop();
  // Whether the writer has waited for room, once for each time.
  bool TakeWriterWaits();

 private:
  RingMemory* memory_;
  uint64_t head_;
  uint64_t tail_;  // as last seen
  uint64_t next_ = 0;
};

}  // namespace kedge::fmi
