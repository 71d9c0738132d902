#include "striped/plan_cost.h"

#include <algorithm>

#include "aggregation/scan_tree.h"
#include "aggregation/shares.h"
#include "aggregation/testing/whole_plan.h"
#include "base/clock.h"
#include "base/random.h"

namespace kedge::bench {

namespace {

constexpr int kRepetitions = 50;

// Of the nodes [begin, end), in their order.
aggregation::Summary SummaryOfRun(const aggregation::Line& line, uint32_t leaders,
                                  const std::vector<aggregation::NodeSize>& sizes, uint32_t begin, uint32_t end) {
  aggregation::Summary sum;
  for (uint32_t i = begin; i < end; ++i) {
    aggregation::Summary of_node = aggregation::SummaryOf(line, i, sizes[i]);
    sum = i == begin ? std::move(of_node) : aggregation::Merge(line, leaders, sum, of_node);
  }
  return sum;
}

uint64_t BytesOf(const aggregation::Summary& summary) {
  return sizeof(summary) + summary.district_bytes.capacity() * sizeof(uint64_t) +
         summary.candidates.capacity() * sizeof(aggregation::Candidate);
}

uint64_t BytesOf(const aggregation::Roles& roles) {
  return sizeof(roles) + roles.leaders.capacity() * sizeof(aggregation::Leader) +
         roles.by_node.capacity() * sizeof(aggregation::Roles::AlongLine) +
         roles.districts.capacity() * sizeof(aggregation::Roles::District);
}

}  // namespace

PlanCost MeasurePlan(const Study& study) {
  const aggregation::Line line = LineOf(study);
  const aggregation::Counts counts = *CountsOf(study);
  Random random(study.seed);
  std::vector<aggregation::NodeSize> sizes;
  for (uint32_t i = 0; i < study.nodes; ++i) {  // sizes and loads of all kinds, so that no ranking is the other
    const uint64_t bytes = study.bytes_per_rank * study.ranks_per_node;
    sizes.push_back({bytes / 2 + random.Below(bytes), static_cast<uint8_t>(random.Below(256))});
  }
  const auto scan = aggregation::testing::Scan(line, counts.leaders, sizes);
  PlanCost cost;
  cost.nodes = study.nodes;
  cost.leaders = counts.leaders;
  cost.steps = scan.steps;
  cost.message_bytes_max = scan.message_bytes_max;
  cost.message_bytes_bound = aggregation::MessageBytesMax(line, counts.leaders) + sizeof(uint64_t);

  const uint32_t root = study.nodes / 2;
  const aggregation::TreePlace place = aggregation::PlaceInTree(root, study.nodes);
  const aggregation::Summary left = SummaryOfRun(line, counts.leaders, sizes, 0, root);
  const aggregation::Summary right = SummaryOfRun(line, counts.leaders, sizes, root + 1, study.nodes);
  std::vector<int64_t> taken;
  for (int i = 0; i < kRepetitions; ++i) {
    const int64_t begin = SystemClock().NowNs();
    aggregation::Summary sum = aggregation::SummaryOf(line, root, sizes[root]);
    if (place.left) sum = aggregation::Merge(line, counts.leaders, sum, left);
    if (place.right) sum = aggregation::Merge(line, counts.leaders, sum, right);
    const aggregation::Roles roles = aggregation::Elect(line, sum, {counts, study.machine.stripe_bytes});
    const auto share = aggregation::ShareOf(line, roles, root, scan.before[root], sizes[root].bytes);
    taken.push_back(SystemClock().NowNs() - begin);
    KEDGE_CHECK(!share.empty());
    cost.agent_bytes = BytesOf(left) + BytesOf(right) + BytesOf(sum) + BytesOf(roles);
  }
  cost.agent_seconds = static_cast<double>(*std::min_element(taken.begin(), taken.end())) * 1e-9;
  return cost;
}

}  // namespace kedge::bench
