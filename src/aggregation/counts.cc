#include "aggregation/counts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace kedge::aggregation {

namespace {

constexpr double kRatioMax = 64;  // objects on a target, and of a leader

uint32_t Ratio(double numerator, double denominator) {
  if (!(numerator > 0) || !(denominator > 0)) return 1;
  return static_cast<uint32_t>(std::clamp(std::ceil(numerator / denominator), 1.0, kRatioMax));
}

bool Divides(uint32_t a, uint32_t b) {
  return a % b == 0 || b % a == 0;
}

}  // namespace

Result<Counts> ChooseCounts(uint32_t nodes, const FileSystem& file_system, const Asked& asked) {
  KEDGE_CHECK(nodes > 0);
  if (asked.leaders > nodes) {
    return Status(Code::kInvalidArgument, fmt::format("{} leaders are asked for, of {} nodes", asked.leaders, nodes));
  }
  if (asked.leaders != 0 && asked.objects != 0) {
    if (Divides(asked.leaders, asked.objects)) return Counts{asked.leaders, asked.objects};
    return Status(Code::kInvalidArgument, fmt::format("{} leaders and {} objects are asked for: neither divides the other",
                                                      asked.leaders, asked.objects));
  }
  const uint32_t of_target = Ratio(file_system.target_bytes_per_second, file_system.object_bytes_per_second);
  const uint64_t wanted = file_system.targets == 0 ? nodes : uint64_t{file_system.targets} * of_target;
  if (asked.objects != 0) {  // as many leaders as objects, or, with few objects, as divide evenly over them
    if (asked.objects >= nodes) {
      uint32_t leaders = nodes;
      while (asked.objects % leaders != 0) --leaders;
      return Counts{leaders, asked.objects};
    }
    const auto most = static_cast<uint32_t>(std::min<uint64_t>(wanted, nodes));
    return Counts{std::max(asked.objects, most - most % asked.objects), asked.objects};
  }
  const auto leaders = asked.leaders != 0 ? asked.leaders : static_cast<uint32_t>(std::min<uint64_t>(wanted, nodes));
  const auto of_leader = static_cast<uint32_t>(std::min<uint64_t>(
      Ratio(file_system.node_bytes_per_second, file_system.object_bytes_per_second), (wanted + leaders - 1) / leaders));
  return Counts{leaders, leaders * of_leader};
}

}  // namespace kedge::aggregation
