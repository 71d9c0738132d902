// The queue between writers that ask for a place and the policy that gives it: [VeloC] algorithm 2, lines 2 and 3 and the
// loop around it.
//
// First in, first out among writers that use the same tiers: the head is asked about until it has a place, and nobody is
// served before it. Writers with other tiers have a queue of their own in effect. What a slot is, and how it is claimed, is
// the host's: the agent (src/agent/space/assignment.h), or a simulated node.
//
// Threads: one queue, its host and its policy belong to one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "base/clock.h"
#include "placement/policy.h"

namespace kedge {

class AssignmentQueue {
 public:
  struct Request {
    uint64_t writer = 0;
    uint64_t number = 0;  // the writer's own, for the answer
    uint32_t kind = 0;    // the host's
    uint64_t bytes = 0;
    uint64_t bytes_to_come = 0;  // that the same writer is known to ask for after this
    int64_t since_ns = 0;
    int64_t head_since_ns = 0;  // 0: never was the head
    bool waited = false;        // the host's: it found no room
  };
  enum class Outcome {
    kAssigned,
    kNoSpace,  // its device has no space after all: the policy is asked again without that tier
    kLater,    // something better is being made ready
  };

  enum class Refusal {
    kStays,     // the head, until something changes
    kAnswered,  // otherwise: through to the store, or with an error
    kAskNow,    // something has changed by this: the policy is asked again at once
  };

  class Host {
   public:
    virtual ~Host() = default;
    // False: the writer is gone, and its requests with it.
    virtual bool IsThere(uint64_t writer) = 0;
    virtual bool SameTiers(uint64_t writer, uint64_t other) = 0;
    // The tiers of the request's writer go into `tiers`; what is said of requests is filled in by the queue.
    virtual NodeLoad LoadFor(const Request& request, std::vector<TierLoad>* tiers) = 0;
    virtual Outcome Assign(const Request& request, size_t tier) = 0;
    // The policy has no tier for the head: it says wait, or through to the store.
    virtual Refusal NotPlaced(Request& request, const PlaceDecision& decision) = 0;
    // Pump is to be called after this time, whatever happens.
    virtual void AskAgain(Duration after) = 0;
  };

  AssignmentQueue(Host& host, const Clock& clock) : host_(host), clock_(clock) {}

  void Add(Request request);
  void Drop(uint64_t writer);
  // Serves what can be served now. To be called when anything changed: a slot, a writer, a flush. May be called from inside
  // the host's functions: it then takes effect at the end of the present turn.
  void Pump(PlacementPolicy& policy);
  size_t size() const { return requests_.size(); }
  // That part of a NodeLoad which is about all requests that wait.
  void AddWaiting(NodeLoad* load) const;
  size_t CountOf(uint64_t writer) const;
  // Of those that wait, some found no room. Others wait behind them, or for memory that is being made.
  bool HasWaited() const;

 private:
  bool Serve(Request& request, const NodeLoad& waiting, PlacementPolicy& policy);
  void Turn(PlacementPolicy& policy);

  Host& host_;
  const Clock& clock_;
  std::deque<Request> requests_;
  std::vector<TierLoad> loads_;
  bool pumping_ = false;
  bool pump_again_ = false;
};

}  // namespace kedge
