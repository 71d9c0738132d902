// The memory that a network lets others read: leases by number, each with a registration and an end.
//
// A lease ends once: by its owner, by a reader's word, with its job, or by time. Then its registration is closed, so that a
// read that still comes is refused by the provider, and the owner is told. Thread safe; ends are told by the caller of the
// functions that return them, after the lock is let go.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "net/fabric.h"

namespace kedge::net {

class LeaseTable {
 public:
  explicit LeaseTable(size_t leases_max) : leases_max_(leases_max) {}

  struct Ended {
    std::function<void()> callback;
  };

  // kNoSpace when there are too many.
  Result<uint64_t> Add(const std::string& job, Registration registration, int64_t end_ns, std::function<void()> ended);
  // `job`: only if it is of that job; empty: of any.
  std::optional<Ended> End(uint64_t lease, const std::string& job);
  std::vector<Ended> EndJob(const std::string& job);
  std::vector<Ended> EndExpired(int64_t now_ns);
  // INT64_MAX: none.
  int64_t NextEndNs() const;
  size_t size() const;

 private:
  struct Lease {
    std::string job;
    Registration registration;
    int64_t end_ns = 0;
    std::function<void()> ended;
  };
  const size_t leases_max_;
  mutable std::mutex mutex_;  // guards what follows
  uint64_t next_ = 1;
  std::map<uint64_t, Lease> leases_;
  std::multimap<int64_t, uint64_t> by_end_;

  Ended Remove(std::map<uint64_t, Lease>::iterator lease);
};

}  // namespace kedge::net
