// Where reads of other nodes wait while an application communicates: that of this node, or of the node that is read.
//
// Only reads that no rank waits for go by them: those that carry images to the store, and those that protect them. A gate opens
// by itself when its time is over, so that nothing waits for a word that does not come. Thread safe.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "base/duration.h"

namespace kedge {

class ReadGates {
 public:
  // A node of a job, as the network names it. Both empty: this one, whatever is read.
  using Node = std::pair<std::string, std::string>;
  // At most, whatever is said.
  static constexpr Duration kClosedMax = std::chrono::seconds(1);

  // From now on, for so long; zero or less: it is open.
  void Close(const Node& node, Duration time);
  // Until this node's gate and that one's are open.
  void WaitFor(const Node& node);

  // Somebody reads by them, for as long as one of these is there.
  class User {
   public:
    explicit User(std::shared_ptr<ReadGates> gates) : gates_(std::move(gates)) { ++gates_->users_; }
    ~User() { --gates_->users_; }
    User(const User&) = delete;
    User& operator=(const User&) = delete;
    ReadGates& gates() const { return *gates_; }

   private:
    const std::shared_ptr<ReadGates> gates_;
  };
  bool HasUsers() const { return users_ > 0; }

 private:
  int64_t OpenNs(const Node& node, int64_t now_ns);

  std::atomic<uint32_t> users_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Node, int64_t> closed_until_ns_;
};

}  // namespace kedge
