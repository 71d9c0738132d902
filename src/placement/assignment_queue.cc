#include "placement/assignment_queue.h"

#include <algorithm>

namespace kedge {
namespace {

void Count(const AssignmentQueue::Request& request, NodeLoad* load) {
  ++load->waiting;
  load->waiting_bytes += request.bytes;
  load->waiting_bytes_to_come += request.bytes_to_come;
}

}  // namespace

void AssignmentQueue::Add(Request request) {
  request.since_ns = clock_.NowNs();
  requests_.push_back(request);
}

void AssignmentQueue::Drop(uint64_t writer) {
  std::erase_if(requests_, [&](const Request& request) { return request.writer == writer; });
}

void AssignmentQueue::AddWaiting(NodeLoad* load) const {
  for (const Request& request : requests_) Count(request, load);
}

size_t AssignmentQueue::CountOf(uint64_t writer) const {
  return static_cast<size_t>(
      std::count_if(requests_.begin(), requests_.end(), [&](const Request& request) { return request.writer == writer; }));
}

bool AssignmentQueue::HasWaited() const {
  return std::any_of(requests_.begin(), requests_.end(), [](const Request& request) { return request.waited; });
}

void AssignmentQueue::Pump(PlacementPolicy& policy) {
  // Serving may free slots (the agent drops cached images), which asks to pump.
  pump_again_ = true;
  if (pumping_) return;
  pumping_ = true;
  while (pump_again_) {
    pump_again_ = false;
    Turn(policy);
  }
  pumping_ = false;
}

void AssignmentQueue::Turn(PlacementPolicy& policy) {
  std::erase_if(requests_, [&](const Request& request) { return !host_.IsThere(request.writer); });
  struct Group {
    uint64_t writer;
    NodeLoad waiting;
    bool blocked;
  };
  std::vector<Group> groups;  // by tiers; as a rule there is one
  auto group_of = [&](uint64_t writer) {
    return std::find_if(groups.begin(), groups.end(), [&](const Group& group) { return host_.SameTiers(group.writer, writer); });
  };
  for (const Request& request : requests_) {
    auto group = group_of(request.writer);
    if (group == groups.end()) group = groups.insert(groups.end(), {request.writer, NodeLoad{}, false});
    Count(request, &group->waiting);
  }
  size_t open = groups.size();
  for (size_t i = 0; i < requests_.size() && open > 0;) {
    const auto group = group_of(requests_[i].writer);
    if (group == groups.end() || group->blocked) {  // not there: its writer has just gone
      ++i;
    } else if (!Serve(requests_[i], group->waiting, policy)) {
      group->blocked = true;
      --open;
      ++i;
    } else {
      --group->waiting.waiting;
      group->waiting.waiting_bytes -= requests_[i].bytes;
      group->waiting.waiting_bytes_to_come -= requests_[i].bytes_to_come;
      requests_.erase(requests_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
}

bool AssignmentQueue::Serve(Request& request, const NodeLoad& waiting, PlacementPolicy& policy) {
  if (request.head_since_ns == 0) request.head_since_ns = clock_.NowNs();
  std::vector<bool> without_space;
  for (;;) {
    loads_.clear();
    NodeLoad load = host_.LoadFor(request, &loads_);
    without_space.resize(loads_.size());
    for (size_t i = 0; i < loads_.size(); ++i) loads_[i].present = loads_[i].present && !without_space[i];
    load.tiers = loads_;
    load.waiting = waiting.waiting;
    load.waiting_bytes = waiting.waiting_bytes;
    load.waiting_bytes_to_come = waiting.waiting_bytes_to_come;
    load.head_bytes_to_come = request.bytes_to_come;
    load.head_since_ns = request.head_since_ns;
    const PlaceDecision decision = policy.Place(load, request.bytes);
    if (decision.kind != PlaceDecision::Kind::kTier) {
      const Refusal refusal = host_.NotPlaced(request, decision);
      if (refusal == Refusal::kAskNow) continue;
      if (refusal == Refusal::kAnswered) return true;
      if (decision.ask_again > Duration::zero()) host_.AskAgain(decision.ask_again);
      return false;
    }
    switch (host_.Assign(request, decision.tier)) {
      case Outcome::kAssigned: return true;
      case Outcome::kLater: return false;
      case Outcome::kNoSpace: without_space[decision.tier] = true;
    }
  }
}

}  // namespace kedge
