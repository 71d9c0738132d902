// Assignment: which slot the next chunk of a client gets. [VeloC] algorithm 1 asks, the placement policy (algorithm 2)
// answers; here is the queue between them.
//
// First in, first out among sessions that use the same tiers: the head is asked about until it has a place, and nobody is
// served before it; jobs with a scratch of their own have a queue of their own. When no tier has room, the others are asked
// once to return what they hold unused, and only then does a chunk go through to the store.
#pragma once

#include <cstdint>
#include <deque>
#include <set>
#include <vector>

#include "agent/model.h"

namespace kedge {

class Agent;

class Assignment {
 public:
  explicit Assignment(Agent& agent) : agent_(agent) {}

  // kInvalidArgument: the session has more requests waiting than any client makes.
  Status Add(Session& session, const ClientMessage& message);
  void Drop(const Session& session);
  // Serves what can be served now. To be called when a slot may have become free.
  void Pump();
  // The same in the loop's next turn: serving may let go of cached images, which nobody may do who walks over images.
  void PumpSoon();
  size_t waiting() const { return queue_.size(); }
  uint64_t waiting_bytes() const;

 private:
  struct Request {
    uint32_t session_id;
    uint64_t number;
    PlaceKind kind;
    uint64_t bytes;
    int64_t since_ns;
    bool waited = false;
  };
  // Whether the request was answered; otherwise it waits.
  bool Serve(Session& session, Request& request);
  bool AssignIn(Session& session, const Request& request, TierUnit* unit);
  // Asks the users of these tiers to return unused slots; false when that was done a moment ago and has had its time.
  bool Recall(const Session& for_whom);
  // Pumps after that time at the latest; zero: only when something changes.
  void AskAgain(Duration after);
  void Answer(Session& session, const Request& request, AssignOutcome outcome, const SlotRange& range, const Status& why);

  Agent& agent_;
  std::deque<Request> queue_;
  bool pumping_ = false;
  bool pump_again_ = false;
  bool pump_posted_ = false;
  bool asking_again_ = false;
  // By tier list: when its users were last asked to return slots.
  std::map<std::vector<TierUnit*>, int64_t> recalled_ns_;
};

}  // namespace kedge
