// What became of the newest versions' protection: for nodes, and ranks, that ask about one that this node has let go of since.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <utility>

#include "base/status.h"
#include "format/identity.h"
#include "store/lineage.h"

namespace kedge {

class ProtectOutcomes {
 public:
  // Ok: the version is at level NODE. Else kIncomplete, with the node and the reason. `to_store`: it may get there, which is
  // more. The oldest goes when there are too many.
  void Add(const Generation& generation, uint64_t layout, Status outcome, bool to_store = false) {
    const auto [entry, is_new] = outcomes_.insert_or_assign({generation, layout}, Outcome{std::move(outcome), to_store});
    if (is_new) oldest_first_.push_back(entry);
    if (oldest_first_.size() <= kMax) return;
    outcomes_.erase(oldest_first_.front());
    oldest_first_.pop_front();
  }
  // The newest; null: none is known. Valid until the next call of Add.
  const Status* Find(const Generation& generation, uint64_t layout) const {
    const auto found = outcomes_.find({generation, layout});
    return found == outcomes_.end() ? nullptr : &found->second.status;
  }
  // Why the version never gets to level NODE; Ok: nothing is known, or it is there, among some nodes.
  Status FailureOf(const Generation& generation) const {
    Status failure;
    for (auto found = outcomes_.lower_bound({generation, 0}); found != outcomes_.end() && found->first.first == generation;
         ++found) {
      if (found->second.status.ok() || found->second.to_store) return Status::Ok();
      failure = found->second.status;
    }
    return failure;
  }
  // Whether a newer version of the name, of that lineage, was at level NODE.
  bool IsOutlived(const Generation& generation, const Lineage& lineage) const {
    for (auto found = outcomes_.upper_bound({generation, UINT64_MAX}); found != outcomes_.end(); ++found) {
      const Generation& newer = found->first.first;
      if (newer.store_id != generation.store_id || newer.job != generation.job || newer.name != generation.name) return false;
      if (found->second.status.ok() && lineage.Has(newer)) return true;
    }
    return false;
  }

 private:
  static constexpr size_t kMax = 4096;
  struct Outcome {
    Status status;
    bool to_store;
  };
  using Outcomes = std::map<std::pair<Generation, uint64_t>, Outcome>;  // by generation and layout
  Outcomes outcomes_;
  std::deque<Outcomes::iterator> oldest_first_;
};

}  // namespace kedge
