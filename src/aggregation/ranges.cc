#include "aggregation/ranges.h"

#include <algorithm>
#include <numeric>

namespace kedge::aggregation {

std::vector<ObjectRun> RunsOf(const Roles& roles, uint32_t leader, uint64_t from, uint64_t bytes) {
  std::vector<ObjectRun> runs;
  const uint64_t leaders = roles.leaders.size();
  const uint64_t stripe_bytes = roles.stripe_bytes;
  if (bytes > 0 && leaders == roles.objects) return {{leader, from, bytes}};
  while (bytes > 0) {
    const uint64_t stripe = leader + from / stripe_bytes * leaders;
    const uint64_t inside = from % stripe_bytes;
    const ObjectRun run{static_cast<uint32_t>(stripe % roles.objects), stripe / roles.objects * stripe_bytes + inside,
                        std::min(bytes, stripe_bytes - inside)};
    if (!runs.empty() && runs.back().object == run.object && runs.back().offset + runs.back().bytes == run.offset) {
      runs.back().bytes += run.bytes;
    } else {
      runs.push_back(run);
    }
    from += run.bytes;
    bytes -= run.bytes;
  }
  return runs;
}

std::vector<ImageRange> RangesOf(const Line& line, const Roles& roles, uint32_t node, uint64_t before,
                                 const std::vector<uint64_t>& images) {
  std::vector<ImageRange> ranges;
  uint32_t image = 0;
  uint64_t image_begin = 0;
  const uint64_t total = std::accumulate(images.begin(), images.end(), uint64_t{0});
  for (const Transfer& transfer : ShareOf(line, roles, node, before, total)) {
    uint64_t from = transfer.from;
    for (ObjectRun run : RunsOf(roles, transfer.leader, transfer.to, transfer.bytes)) {
      while (run.bytes > 0) {
        for (; from - image_begin >= images[image]; ++image) image_begin += images[image];
        const uint64_t offset = from - image_begin;
        const uint64_t bytes = std::min(run.bytes, images[image] - offset);
        ranges.push_back({image, offset, roles.leaders[transfer.leader].node, {run.object, run.offset, bytes}});
        run.offset += bytes;
        run.bytes -= bytes;
        from += bytes;
      }
    }
  }
  return ranges;
}

std::vector<ImageRange> RangesByPrefix(uint32_t node, uint64_t before, const std::vector<uint64_t>& images) {
  std::vector<ImageRange> ranges;
  for (uint32_t i = 0; i < images.size(); ++i) {
    if (images[i] > 0) ranges.push_back({i, 0, node, {0, before, images[i]}});
    before += images[i];
  }
  return ranges;
}

}  // namespace kedge::aggregation
