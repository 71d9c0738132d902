#include "aggregation/testing/whole_plan.h"

#include <algorithm>

#include "aggregation/scan_tree.h"

namespace kedge::aggregation::testing {

namespace {

class Walk {
 public:
  Walk(const Line& line, uint32_t leaders, const std::vector<NodeSize>& sizes) : line_(line), leaders_(leaders), sizes_(sizes) {}

  // What `node` tells its parent; a child's message is counted by whoever gets it.
  Summary Up(uint32_t node, uint32_t depth) {
    const TreePlace place = PlaceInTree(node, line_.size());
    Summary sum = SummaryOf(line_, node, sizes_[node]);
    left_bytes_[node] = 0;
    for (const auto& child : {place.left, place.right}) {
      if (!child) continue;
      const Summary of_child = Up(*child, depth + 1);
      if (*child < node) left_bytes_[node] = of_child.bytes;
      result_.message_bytes_max = std::max(result_.message_bytes_max, MessageBytes(of_child) + sizeof(uint64_t));
      result_.steps = std::max(result_.steps, 2 * (depth + 1));
      result_.messages += 2;  // up, and the answer down
      sum = Merge(line_, leaders_, sum, of_child);
    }
    return sum;
  }

  void Down(uint32_t node, uint64_t before_run) {
    const TreePlace place = PlaceInTree(node, line_.size());
    result_.before[node] = before_run + left_bytes_[node];
    if (place.left) Down(*place.left, before_run);
    if (place.right) Down(*place.right, result_.before[node] + sizes_[node].bytes);
  }

  ScanResult Run() {
    left_bytes_.resize(line_.size());
    result_.before.resize(line_.size());
    const uint32_t root = line_.size() / 2;
    result_.root = Up(root, 0);
    result_.message_bytes_max = std::max(result_.message_bytes_max, MessageBytes(result_.root) + sizeof(uint64_t));
    Down(root, 0);
    return std::move(result_);
  }

 private:
  const Line& line_;
  const uint32_t leaders_;
  const std::vector<NodeSize>& sizes_;
  std::vector<uint64_t> left_bytes_;  // of each node's left run
  ScanResult result_;
};

}  // namespace

ScanResult Scan(const Line& line, uint32_t leaders, const std::vector<NodeSize>& sizes) {
  return Walk(line, leaders, sizes).Run();
}

}  // namespace kedge::aggregation::testing
