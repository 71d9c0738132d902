#include "store/lineage.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>

namespace kedge {
namespace {

struct Known {
  const RestoredRecord* restored = nullptr;
  std::vector<int64_t> complete;  // one, unless numbers were given by hand
};

// The least of them that is not above `version_max`.
std::optional<int64_t> LeastWithin(const std::vector<int64_t>& versions, int64_t version_max) {
  std::optional<int64_t> least;
  for (const int64_t version : versions) {
    if (version <= version_max) least = std::min(least.value_or(version), version);
  }
  return least;
}

// Of the first moment of all itself.
Moment JustBefore(const Moment& moment) {
  if (moment.take > 0) return {moment.attempt, moment.take - 1};
  return moment.attempt > 0 ? Moment{moment.attempt - 1, UINT32_MAX} : moment;
}

}  // namespace

Lineage::Lineage(const std::vector<RestoredRecord>& restored, const std::vector<Generation>& complete) {
  std::map<Moment, Known, std::greater<>> latest_first;
  for (const RestoredRecord& record : restored) {
    const Moment moment{record.attempt, record.take};
    // One that leads forwards, which nobody writes, leads nowhere.
    if (MomentOf(record.origin) < moment) latest_first[moment].restored = &record;
  }
  for (const Generation& generation : complete) latest_first[MomentOf(generation)].complete.push_back(generation.version);

  Stretch stretch{{}, {UINT32_MAX, UINT32_MAX}, INT64_MAX};
  for (const auto& [moment, known] : latest_first) {
    if (moment > stretch.last) continue;
    const std::optional<int64_t> least = LeastWithin(known.complete, stretch.version_max);
    if (known.restored == nullptr && !least) continue;
    stretch.first = moment;
    newest_first_.push_back(stretch);
    if (known.restored != nullptr) {
      stretch.last = MomentOf(known.restored->origin);
      stretch.version_max = std::min(stretch.version_max, known.restored->origin.version);
    } else {
      stretch.last = JustBefore(moment);
      stretch.version_max = *least;
    }
  }
  stretch.first = Moment{};
  newest_first_.push_back(stretch);
}

bool Lineage::Has(const Generation& generation) const {
  const Moment moment = MomentOf(generation);
  const auto stretch = std::partition_point(newest_first_.begin(), newest_first_.end(),
                                            [&](const Stretch& newer) { return newer.first > moment; });
  return moment <= stretch->last && generation.version <= stretch->version_max;
}

}  // namespace kedge
