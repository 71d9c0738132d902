// Parts of the model: what happens next, and servers that serve in the order of arrival.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <queue>
#include <vector>

namespace kedge::bench {

// Things to do for numbered actors at a time; equal times in the order in which they were noted.
template <typename Step>
class Events {
 public:
  struct Event {
    double second = 0;
    uint64_t sequence = 0;
    uint32_t actor = 0;
    Step step{};
    bool operator>(const Event& other) const {
      return second != other.second ? second > other.second : sequence > other.sequence;
    }
  };
  void Add(double second, uint32_t actor, Step step) { queue_.push({second, ++last_, actor, step}); }
  bool empty() const { return queue_.empty(); }
  Event Take() {
    Event event = queue_.top();
    queue_.pop();
    return event;
  }

 private:
  std::priority_queue<Event, std::vector<Event>, std::greater<>> queue_;
  uint64_t last_ = 0;
};

// Calls come in the order of time, so that the end of each is known at once.
class Server {
 public:
  // Returns when it ends.
  double Serve(double now, double seconds) {
    free_ = std::max(free_, now) + seconds;
    return free_;
  }
  double free() const { return free_; }

 private:
  double free_ = 0;
};

// The lock of a file's part on one target. Its holder keeps it until another node asks; then it is handed over.
class Lock {
 public:
  // True: `actor` of `node` has it now, *handed_over tells whether another node had it. False: it waits in the queue.
  bool Acquire(uint32_t actor, uint32_t node, bool* handed_over) {
    if (in_use_) {
      waiting_.push_back({actor, node});
      return false;
    }
    *handed_over = Give(node);
    return true;
  }
  // False: nobody waits. Else *actor has it next.
  bool Release(uint32_t* actor, bool* handed_over) {
    in_use_ = false;
    if (waiting_.empty()) return false;
    const Waiting next = waiting_.front();
    waiting_.pop_front();
    *actor = next.actor;
    *handed_over = Give(next.node);
    return true;
  }

 private:
  struct Waiting {
    uint32_t actor = 0;
    uint32_t node = 0;
  };
  bool Give(uint32_t node) {
    const bool from_another = holder_ != kNobody && holder_ != node;
    holder_ = node;
    in_use_ = true;
    return from_another;
  }
  static constexpr uint32_t kNobody = UINT32_MAX;
  uint32_t holder_ = kNobody;
  bool in_use_ = false;
  std::deque<Waiting> waiting_;
};

}  // namespace kedge::bench
