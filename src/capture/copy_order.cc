// See copy_order.h.
#include "capture/copy_order.h"

#include <algorithm>
#include <utility>

namespace kedge {

std::vector<uint32_t> CopyOrder::Of(std::span<const uint64_t> units) const {
  std::vector<std::pair<int64_t, uint32_t>> first;
  std::vector<uint32_t> order, rest;
  order.reserve(units.size());
  for (uint32_t i = 0; i < units.size(); ++i) {
    const auto known = written_after_ns_.find(units[i]);
    if (known == written_after_ns_.end()) {
      rest.push_back(i);
    } else {
      first.emplace_back(known->second, i);
    }
  }
  std::sort(first.begin(), first.end());
  for (const auto& [after_ns, unit] : first) order.push_back(unit);
  order.insert(order.end(), rest.begin(), rest.end());
  return order;
}

void CopyOrder::Learn(std::span<const uint64_t> units, std::span<const Waited> waited) {
  std::erase_if(written_after_ns_,
                [&](const auto& known) { return !std::binary_search(units.begin(), units.end(), known.first); });
  for (const Waited& unit : waited) written_after_ns_[unit.unit] = unit.after_ns;
}

}  // namespace kedge
