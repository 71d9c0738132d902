// What became of the newest versions' protection: for nodes that ask about one that this node has let go of since.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>

#include "base/status.h"
#include "format/identity.h"

namespace kedge {

class ProtectOutcomes {
 public:
  // Ok: the version is at level NODE. Else kIncomplete, with the node and the reason. The oldest goes when there are too many.
  void Add(const Generation& generation, uint64_t layout, Status outcome) {
    outcomes_.push_back({generation, layout, std::move(outcome)});
    if (outcomes_.size() > kMax) outcomes_.pop_front();
  }
  // The newest; null: none is known. Valid until the next call of Add.
  const Status* Find(const Generation& generation, uint64_t layout) const {
    const auto found = std::find_if(outcomes_.rbegin(), outcomes_.rend(), [&](const Outcome& outcome) {
      return outcome.generation == generation && outcome.layout == layout;
    });
    return found == outcomes_.rend() ? nullptr : &found->status;
  }

 private:
  static constexpr size_t kMax = 4096;
  struct Outcome {
    Generation generation;
    uint64_t layout = 0;
    Status status;
  };
  std::deque<Outcome> outcomes_;  // the oldest first
};

}  // namespace kedge
