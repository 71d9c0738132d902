// Images of other nodes that wait for a writer: who has waited longest is next, but of a name always the oldest version first,
// for that is what a restart would miss. Plain data.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <tuple>
#include <utility>

#include "format/identity.h"

namespace kedge {

template <typename Order>
class CarryQueue {
 public:
  void Add(const Generation& generation, Order order) { entries_.push_back({generation, std::move(order)}); }
  // Nothing: there is none.
  std::optional<Order> Take() {
    if (entries_.empty()) return std::nullopt;
    const Generation& first = entries_.front().generation;
    auto next = entries_.begin();
    for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
      const bool is_same = std::tie(entry->generation.store_id, entry->generation.job, entry->generation.name) ==
                           std::tie(first.store_id, first.job, first.name);
      if (is_same && IsOlder(entry->generation, next->generation)) next = entry;
    }
    Order order = std::move(next->order);
    entries_.erase(next);
    return order;
  }
  bool empty() const { return entries_.empty(); }
  size_t size() const { return entries_.size(); }
  void Clear() { entries_.clear(); }

 private:
  struct Entry {
    Generation generation;
    Order order;
  };
  static bool IsOlder(const Generation& one, const Generation& other) {
    return std::tie(one.version, one.attempt) < std::tie(other.version, other.attempt);
  }
  std::deque<Entry> entries_;
};

}  // namespace kedge
