// See shrinker.h.
#include "tests/histories/shrinker.h"

#include <algorithm>
#include <utility>

namespace kedge::histories {
namespace {

class Shrinker {
 public:
  Shrinker(History history, const std::function<bool(const History&)>& still_breaks, int plays_max)
      : best_(std::move(history)), still_breaks_(still_breaks), plays_left_(plays_max) {}

  History Run() {
    while (plays_left_ > 0 && (RemoveSteps() || SimplifySetup() || SimplifySteps())) {
    }
    return std::move(best_);
  }

 private:
  bool Try(const History& candidate) {
    if (plays_left_ <= 0) return false;
    --plays_left_;
    if (!still_breaks_(candidate)) return false;
    best_ = candidate;
    return true;
  }

  bool RemoveSteps() {
    bool removed = false;
    for (size_t length = std::max<size_t>(best_.steps.size() / 2, 1);; length /= 2) {
      for (size_t begin = 0; begin < best_.steps.size();) {
        History candidate = best_;
        const auto first = candidate.steps.begin() + static_cast<ptrdiff_t>(begin);
        candidate.steps.erase(first, first + static_cast<ptrdiff_t>(std::min(length, candidate.steps.size() - begin)));
        if (Try(candidate)) {
          removed = true;
        } else {
          begin += length;
        }
      }
      if (length <= 1) break;
    }
    return removed;
  }

  bool SimplifySetup() {
    for (size_t key = 0; key < best_.setup.keys.size(); ++key) {
      History candidate = best_;
      // Worlds wait no longer than for a short one.
      if (candidate.setup.keys[key].first == "job.lease") continue;
      candidate.setup.keys.erase(candidate.setup.keys.begin() + static_cast<ptrdiff_t>(key));
      if (Try(candidate)) return true;
    }
    if (best_.setup.divided) {
      History candidate = best_;
      candidate.setup.divided = false;
      if (Try(candidate)) return true;
    }
    if (!best_.setup.tier.empty()) {
      History candidate = best_;
      candidate.setup.tier.clear();
      if (Try(candidate)) return true;
    }
    if (!best_.setup.bucket.empty()) {
      History candidate = best_;
      candidate.setup.bucket.clear();
      if (Try(candidate)) return true;
    }
    if (best_.setup.buffer) {
      History candidate = best_;
      candidate.setup.buffer = candidate.setup.drains = candidate.setup.partner = false;
      if (Try(candidate)) return true;
    }
    if (best_.setup.partner) {
      History candidate = best_;
      candidate.setup.partner = false;
      if (Try(candidate)) return true;
    }
    for (const int fewer : {best_.setup.ranks / 2, best_.setup.ranks - 1}) {
      History candidate = best_;
      candidate.setup.ranks = fewer;
      candidate.setup.nodes = std::min(candidate.setup.nodes, fewer);
      if (fewer >= 1 && Try(candidate)) return true;
    }
    History candidate = best_;
    --candidate.setup.nodes;
    return candidate.setup.nodes >= 1 && Try(candidate);
  }

  bool SimplifySteps() {
    for (size_t step = 0; step < best_.steps.size(); ++step) {
      const std::vector<std::string>& words = best_.steps[step].words;
      for (const char* word : {"parts", "file", "overwrite", "abandon", "drain", "by", "on", "ranks"}) {
        const auto found = std::find(words.begin(), words.end(), word);
        if (found == words.end()) continue;
        History candidate = best_;
        auto& shorter = candidate.steps[step].words;
        const auto at = shorter.begin() + (found - words.begin());
        const bool has_list = std::string(word) == "by" || std::string(word) == "on" || std::string(word) == "ranks";
        shorter.erase(at, at + (has_list ? 2 : 1));
        if (Try(candidate)) return true;
      }
      if (best_.steps[step].verb == "lose-node" || best_.steps[step].late) continue;
      History candidate = best_;
      if (candidate.steps[step].verb == "restart" && !words.empty()) {
        candidate.steps[step].words.clear();
        if (Try(candidate)) return true;
      }
    }
    return false;
  }

  History best_;
  const std::function<bool(const History&)>& still_breaks_;
  int plays_left_;
};

}  // namespace

History Shrink(History history, const std::function<bool(const History&)>& still_breaks, int plays_max) {
  return Shrinker(std::move(history), still_breaks, plays_max).Run();
}

}  // namespace kedge::histories
