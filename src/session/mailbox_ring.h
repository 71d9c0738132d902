// The two ends of a mailbox ring, with the ordering and the checks that mailbox.h promises.
//
// Single producer, single consumer, in shared memory that the other side may scribble over. Each end keeps its own index
// privately: what it once wrote is never read back, so a hostile peer can at worst make the ring look broken. An entry is
// copied out before it is looked at; whoever uses it checks every field. Nothing here waits, locks or calls the system.
#pragma once

#include <cstdint>

#include "session/mailbox.h"

namespace kedge {

template <typename Message, uint32_t kEntries>
class RingProducer {
 public:
  RingProducer() = default;
  // Continues where the ring stands: a producer that attaches again, or a successor.
  explicit RingProducer(Ring<Message, kEntries>* ring) : ring_(ring), produced_(ring->produced.load(std::memory_order_relaxed)) {}

  // Entries that fit now; 0 also when the consumer's index makes no sense (ahead of ours, or too far behind).
  uint32_t Room() const {
    uint64_t waiting = produced_ - ring_->consumed.load(std::memory_order_acquire);
    return waiting <= kEntries ? static_cast<uint32_t>(kEntries - waiting) : 0;
  }
  // Entries that the consumer has not taken yet; above kEntries when its index makes no sense.
  uint64_t Waiting() const { return produced_ - ring_->consumed.load(std::memory_order_acquire); }

  // False when there is no room; then nothing happened. The message is visible to the consumer on return.
  bool TryPush(const Message& message) {
    if (Room() == 0) return false;
    ring_->entries[produced_ % kEntries] = message;
    // Sequentially consistent: the caller looks next whether the consumer sleeps, and the consumer declares its sleep
    // before it looks here for the last time.
    ring_->produced.store(++produced_, std::memory_order_seq_cst);
    return true;
  }

 private:
  Ring<Message, kEntries>* ring_ = nullptr;
  uint64_t produced_ = 0;
};

enum class RingPeek {
  kEmpty,
  kMessage,
  kBroken,  // the producer's index went back or ran more than a ring ahead: end the session
};

template <typename Message, uint32_t kEntries>
class RingConsumer {
 public:
  RingConsumer() = default;
  explicit RingConsumer(Ring<Message, kEntries>* ring)
      : ring_(ring), consumed_(ring->consumed.load(std::memory_order_relaxed)), seen_(consumed_) {}

  // Copies the oldest entry to `message` and leaves it in the ring.
  RingPeek Peek(Message* message) {
    uint64_t produced = ring_->produced.load(std::memory_order_seq_cst);
    if (produced - consumed_ > kEntries || produced - consumed_ < seen_ - consumed_) return RingPeek::kBroken;
    seen_ = produced;
    if (produced == consumed_) return RingPeek::kEmpty;
    *message = ring_->entries[consumed_ % kEntries];
    return RingPeek::kMessage;
  }

  // Gives the entry that Peek showed back to the producer. REQUIRES: Peek returned kMessage since the last Advance.
  void Advance() { ring_->consumed.store(++consumed_, std::memory_order_release); }

 private:
  Ring<Message, kEntries>* ring_ = nullptr;
  uint64_t consumed_ = 0;
  uint64_t seen_ = 0;  // the greatest produced index seen
};

using ClientRingProducer = RingProducer<ClientMessage, kClientRingEntries>;
using ClientRingConsumer = RingConsumer<ClientMessage, kClientRingEntries>;
using AgentRingProducer = RingProducer<AgentMessage, kAgentRingEntries>;
using AgentRingConsumer = RingConsumer<AgentMessage, kAgentRingEntries>;

}  // namespace kedge
