// Which reads of other nodes' blocks go out next: in the order in which they are wanted, as far as there are buffers for them.
//
// A block is made of one of each of several members, more of them than half of the buffers in large groups. What is expected is
// therefore kept here until there is a buffer, and goes out one by one, so that as many reads are under way as memory allows,
// however many members a group has.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>

#include "redundancy/geometry.h"

namespace kedge {

class ReadPlan {
 public:
  struct Entry {
    redundancy::BlockRef block;
    uint32_t bytes = 0;
    friend bool operator==(const Entry&, const Entry&) = default;
  };
  explicit ReadPlan(size_t buffers_max) : buffers_max_(buffers_max) {}

  // Wanted after all that was added before.
  void Add(const Entry& entry) { entries_.push_back(entry); }
  // These are wanted now, before all others, but for those that are under way already. What was to come before the last of them
  // is wanted no more.
  template <typename IsUnderWay>
  void Want(std::span<const Entry> now, IsUnderWay is_under_way) {
    const auto is_wanted = [&](const Entry& entry) { return std::find(now.begin(), now.end(), entry) != now.end(); };
    const auto last = std::find_if(entries_.rbegin(), entries_.rend(), is_wanted);
    entries_.erase(entries_.begin(), last.base());
    std::deque<Entry> first;
    for (const Entry& entry : now) {
      if (!is_under_way(entry)) first.push_back(entry);
    }
    entries_.insert(entries_.begin(), first.begin(), first.end());
  }
  // It is being read without having gone out.
  void Remove(const Entry& entry) { std::erase(entries_, entry); }
  // Nothing is wanted any more.
  void Clear() { entries_.clear(); }
  // The next to go out, with so many buffers in use; nothing when there is none, or no buffer.
  std::optional<Entry> Next(size_t buffers_used) {
    if (entries_.empty() || buffers_used >= buffers_max_) return std::nullopt;
    const Entry entry = entries_.front();
    entries_.pop_front();
    return entry;
  }

 private:
  const size_t buffers_max_;
  std::deque<Entry> entries_;
};

}  // namespace kedge
