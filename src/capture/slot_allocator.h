// The client's slots: asks the agent for them ahead of need, packs small chunks into an open one, gives back what is unused.
//
// A slot assigned to this process stays its own until it returns it. One open slot takes chunks below
// a piece, going forward. It is backed a little at first; while there is still room in it, the agent is asked to back it further,
// or for its successor, so that a small checkpoint waits for nobody. Slots for whole chunks are asked for one ahead. Guarded by
// the context's lock.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "capture/agent_channel.h"
#include "capture/chunking.h"
#include "session/messages.h"

namespace kedge {

struct AssignedPlace {
  bool through = false;  // no tier has room: the chunk goes to the store as an object of its own
  SlotRange range{};
};

// A chunk that is to have a slot of its own.
struct FullChunk {
  uint64_t bytes = 0;
  uint64_t bytes_to_come = 0;  // of its image that will be asked for after it, as far as is known
};

class SlotAllocator {
 public:
  // `pump` handles every message that has come, with OnAssigned and ReturnUnused where it is about slots; the channel is its
  // source.
  SlotAllocator(AgentChannel* channel, LayoutLimits limits, std::function<void()> pump)
      : channel_(channel), limits_(limits), pump_(std::move(pump)) {}

  // A place for `bytes` (at most a slot) in the open slot; waits for the next one when it is full.
  Result<AssignedPlace> TakeOpen(uint64_t bytes, const Deadline& deadline);
  // A slot for one chunk.
  Result<AssignedPlace> TakeFull(const FullChunk& chunk, const Deadline& deadline);
  // Asks for the slot that the next TakeFull will want, once.
  void ExpectFull(const FullChunk& chunk);
  // Asks for the open slot that the next TakeOpen will want when the present one gets short, once. `last_bytes`: of the last one.
  void ExpectOpen(uint64_t last_bytes = 0);
  // Whether the place that TakeOpen returned last may become `extra_bytes` longer; if so, *place is.
  bool GrowOpen(SlotRange* place, uint64_t extra_bytes);

  // Puts a message into the mailbox: waits for room there, and for the successor of an agent that died.
  Status Send(const ClientMessage& message, const Deadline& deadline);

  // The image under way has ended or was given up: full open slots that it may have chunks in go back only now, because the
  // agent learns of those chunks with the image's end.
  void ReturnFilled();

  // The agent has assigned a place.
  void OnAssigned(const AssignPlace& assigned);
  // Gives back what is assigned and unused; the agent may ask for it.
  void ReturnUnused();

  // The slots of this session that a new agent must know of: open, assigned ahead. Requests that nobody answered are
  // forgotten, to be asked again.
  std::vector<HeldSlot> HeldAfterAgentLoss();
  // The part of a slot that was assigned last and has not been used, for populating the mapping ahead.
  std::optional<SlotRange> Unused() const;
  // Time spent waiting for slots since the last call of this.
  Duration TakeWaited() { return std::exchange(waited_, Duration{}); }

 private:
  struct Slot {
    SlotRange range{};          // offset 0, bytes: as far as it is backed
    uint64_t cursor = 0;        // bytes used
    int64_t used_since_ns = 0;  // or since it was backed further
  };
  // One kind of request: at most one is out, and at most one answer lies ready.
  struct Ahead {
    PlaceKind kind;
    uint64_t requested = 0;  // its number; 0: none is out
    SlotRange grows{};       // the open slot that it names, to be backed further
    std::optional<AssignPlace> answer;
  };

  void Request(Ahead* ahead, const FullChunk& wanted);
  bool HasOpen(uint64_t bytes) const { return open_ && open_->range.bytes - open_->cursor >= bytes; }
  // Waits for the answer; nothing: the open slot has grown instead, to hold as much.
  Result<std::optional<AssignPlace>> TakeAnswer(Ahead* ahead, const FullChunk& wanted, const Deadline& deadline);
  void Return(const SlotRange& range);
  // A moment passes in which the successor of a lost agent may come; false when it has had its time since *until was set, or
  // has come and gave the client another session.
  bool AwaitAgent(std::optional<Deadline>* until) const;

  AgentChannel* channel_;
  const LayoutLimits limits_;
  std::function<void()> pump_;
  std::optional<Slot> open_;
  std::vector<SlotRange> filled_;  // for ReturnFilled
  Ahead open_ahead_{PlaceKind::kOpenSlot, 0, {}, {}};
  Ahead full_ahead_{PlaceKind::kFullChunk, 0, {}, {}};
  uint64_t last_number_ = 0;
  Duration waited_{};
};

}  // namespace kedge
