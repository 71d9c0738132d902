#include "striped/collective.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "base/random.h"
#include "striped/events.h"

namespace kedge::bench {

double RunCollective(const Machine& machine, const CollectiveWrite& write, uint64_t seed, double start) {
  Random random(seed);
  const uint32_t aggregators = std::min(write.nodes, machine.targets);
  const double sync = machine.sync_hop_seconds * std::bit_width(write.processes - 1) +
                      (write.processes > 1 ? machine.sync_process_seconds * write.processes : 0);
  const double far = 1 - 1.0 / write.nodes;  // of an aggregator's bytes
  std::vector<Server> targets(machine.targets);
  double now = start;
  uint64_t left = write.bytes;
  for (uint64_t round = 0; left > 0; ++round) {
    now += sync * write.spread;
    double end = now;
    for (uint32_t i = 0; i < aggregators && left > 0; ++i) {
      const uint64_t bytes = std::min(left, machine.stripe_bytes);
      left -= bytes;
      const auto amount = static_cast<double>(bytes);
      const double gathered = now + far * amount / machine.exchange_bytes_per_second;
      const double copied = gathered + amount / machine.stream_bytes_per_second;
      const double noise = 1 + machine.service_noise * (2 * random.Unit() - 1);
      Server& target = targets[(i + round * aggregators) % machine.targets];
      end = std::max(end, target.Serve(copied, noise * amount / machine.target_bytes_per_second()));
    }
    now = end;
  }
  return now;
}

}  // namespace kedge::bench
