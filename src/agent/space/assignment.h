// Assignment: which slot the next chunk of a client gets. [VeloC] algorithm 1 asks, the placement policy (algorithm 2)
// answers; here is what a place is in the agent, and how it is claimed.
//
// First in, first out among sessions that use the same tiers (placement/assignment_queue.h): jobs with a scratch of their own
// have a queue of their own. An open slot is backed a little at first, and grows as it is used. Room that comes free is offered
// to redundancy that waits for it first, and captures leave it some (redundancy_room.h), though none for longer than a moment.
// When no tier has room, the others are asked once to return what they hold unused, and only then does a chunk go through to the
// store.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "agent/tables/session.h"
#include "placement/assignment_queue.h"

namespace kedge {

class AgentCore;
class FlushLoad;
class MemoryLedger;
class RedundancyRoom;
class RoomGiver;
class Throughput;
class Tiers;

class Assignment final : private AssignmentQueue::Host {
 public:
  Assignment(AgentCore& core, FlushLoad& flush, RoomGiver& giver, MemoryLedger& memory, RedundancyRoom& room,
             Throughput& throughput, Tiers& tiers);

  // kInvalidArgument: the session has more requests waiting than any client makes.
  Status Add(Session& session, const RequestPlace& asked);
  void Drop(const Session& session);
  // The tier is closed: nobody asks for a place in it any more.
  void ForgetTier(const TierUnit* unit);
  // Serves what can be served now. To be called when a slot may have become free.
  void Pump();
  // The same in the loop's next turn: serving may let go of cached images, which nobody may do who walks over images.
  void PumpSoon();
  size_t waiting() const { return queue_.size(); }
  // One that waits found no room, while no memory was being made.
  bool WantsRoom() const { return queue_.HasWaited(); }
  // That part of a NodeLoad which is about all requests that wait.
  void AddWaiting(NodeLoad* load) const { queue_.AddWaiting(load); }

 private:
  using Request = AssignmentQueue::Request;

  // AssignmentQueue::Host; a writer is a session's id.
  bool IsThere(uint64_t writer) override;
  bool SameTiers(uint64_t writer, uint64_t other) override;
  NodeLoad LoadFor(const Request& request, std::vector<TierLoad>* tiers) override;
  AssignmentQueue::Outcome Assign(const Request& request, size_t tier) override;
  AssignmentQueue::Refusal NotPlaced(Request& request, const PlaceDecision& decision) override;
  void AskAgain(Duration after) override;

  Session* Find(uint64_t writer) const;
  // Whether the room that is left is redundancy's, and the request has not waited for it too long.
  bool IsKeptFrom(const Session& session, const Request& request) const;
  // Redundancy may make room, or leave it: nothing when it is not to be waited for any longer.
  std::optional<AssignmentQueue::Refusal> WaitForRedundancy(const Session& session, const Request& request);
  AssignmentQueue::Outcome AssignIn(Session& session, const Request& request, TierUnit* unit);
  // The session's open slot, named by `range`, is backed as far as that instead of its getting another; false: it is not, and
  // the other is to be as large, where there is plenty.
  bool GrowOpen(Session& session, const SlotRange& range, Request& request);
  // Asks the users of these tiers to return unused slots; false when that was done a moment ago and has had its time.
  bool Recall(const Session& for_whom);
  void Answer(Session& session, const Request& request, AssignOutcome outcome, const SlotRange& range);

  AgentCore& core_;
  FlushLoad& flush_;
  RoomGiver& giver_;
  MemoryLedger& memory_;
  RedundancyRoom& room_;
  Throughput& throughput_;
  Tiers& tiers_;
  AssignmentQueue queue_;
  bool pump_posted_ = false;
  int64_t ask_again_ns_ = 0;                               // when it is to be asked again anyway; 0: not
  std::optional<std::pair<uint64_t, uint64_t>> favoured_;  // writer and number of a request that takes what is kept, too
  // By tier list: when its users were last asked to return slots.
  std::map<std::vector<TierUnit*>, int64_t> recalled_ns_;
};

}  // namespace kedge
