#include "net/lease_table.h"

#include <fmt/format.h>

namespace kedge::net {

Result<uint64_t> LeaseTable::Add(const std::string& job, Registration registration, int64_t end_ns, std::function<void()> ended) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (leases_.size() >= leases_max_) {
    return Status(Code::kNoSpace, fmt::format("{} leases of memory are out, which is the most", leases_.size()));
  }
  const uint64_t number = next_++;
  leases_.emplace(number, Lease{job, std::move(registration), end_ns, std::move(ended)});
  by_end_.emplace(end_ns, number);
  return number;
}

LeaseTable::Ended LeaseTable::Remove(std::map<uint64_t, Lease>::iterator lease) {
  const auto [begin, end] = by_end_.equal_range(lease->second.end_ns);
  for (auto entry = begin; entry != end; ++entry) {
    if (entry->second != lease->first) continue;
    by_end_.erase(entry);
    break;
  }
  Ended ended{std::move(lease->second.ended)};
  leases_.erase(lease);
  return ended;
}

std::optional<LeaseTable::Ended> LeaseTable::End(uint64_t lease, const std::string& job) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = leases_.find(lease);
  if (found == leases_.end() || (!job.empty() && found->second.job != job)) return std::nullopt;
  return Remove(found);
}

std::vector<LeaseTable::Ended> LeaseTable::EndJob(const std::string& job) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<Ended> ended;
  for (auto lease = leases_.begin(); lease != leases_.end();) {
    const auto next = std::next(lease);
    if (lease->second.job == job) ended.push_back(Remove(lease));
    lease = next;
  }
  return ended;
}

std::vector<LeaseTable::Ended> LeaseTable::EndExpired(int64_t now_ns) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<Ended> ended;
  while (!by_end_.empty() && by_end_.begin()->first <= now_ns) ended.push_back(Remove(leases_.find(by_end_.begin()->second)));
  return ended;
}

int64_t LeaseTable::NextEndNs() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return by_end_.empty() ? INT64_MAX : by_end_.begin()->first;
}

size_t LeaseTable::size() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return leases_.size();
}

}  // namespace kedge::net
