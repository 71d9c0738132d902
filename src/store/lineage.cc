#include "store/lineage.h"

#include <algorithm>
#include <utility>

namespace kedge {
namespace {

// A restart, or a generation that is complete.
struct Event {
  Moment moment;
  int64_t version = INT64_MAX;
  const Generation* origin = nullptr;  // of a restart
};

// Of one moment: what was taken next after the restart, and then the restart. The lowest version first: more than one only
// where numbers were given by hand.
bool IsLater(const Event& a, const Event& b) {
  if (a.moment != b.moment) return a.moment > b.moment;
  return std::pair(a.origin != nullptr, a.version) < std::pair(b.origin != nullptr, b.version);
}

// Nothing has come of the restart, but of attempts that its own could not know of.
bool IsOutdone(const RestoredRecord& record, const std::vector<Taken>& complete) {
  if (record.beside.first == record.beside.end) return false;
  return std::ranges::any_of(complete, [&](const Taken& taken) { return record.beside.Has(taken.moment.attempt); }) &&
         std::ranges::none_of(complete, [&](const Taken& taken) { return taken.moment.attempt >= record.attempt; });
}

}  // namespace

Lineage::Lineage(const std::vector<RestoredRecord>& restored, const std::vector<Generation>& complete) {
  std::vector<Taken> taken;
  for (const Generation& generation : complete) taken.push_back({MomentOf(generation), generation.version});
  Follow(restored, taken);
}

Lineage Lineage::Of(const std::vector<RestoredRecord>& restored, const std::vector<Taken>& complete) {
  Lineage lineage;
  lineage.Follow(restored, complete);
  return lineage;
}

void Lineage::Follow(const std::vector<RestoredRecord>& restored, const std::vector<Taken>& complete) {
  std::vector<Event> latest_first;
  latest_first.reserve(restored.size() + complete.size());
  for (auto record = restored.rbegin(); record != restored.rend(); ++record) {  // of several at one moment the last one counts
    const Moment moment{record->attempt, record->take};
    // One that leads forwards, which nobody writes, leads nowhere.
    if (MomentOf(record->origin) >= moment || IsOutdone(*record, complete)) continue;
    latest_first.push_back({moment, INT64_MAX, &record->origin});
  }
  const auto restarts_end = static_cast<ptrdiff_t>(latest_first.size());
  for (const Taken& taken : complete) latest_first.push_back({taken.moment, taken.version, nullptr});
  // There may be thousands, in order as a rule, and few restarts.
  const auto middle = latest_first.begin() + restarts_end;
  std::stable_sort(latest_first.begin(), middle, IsLater);
  if (!std::is_sorted(middle, latest_first.end(), IsLater)) std::stable_sort(middle, latest_first.end(), IsLater);
  std::inplace_merge(latest_first.begin(), middle, latest_first.end(), IsLater);

  Stretch stretch{{}, {UINT32_MAX, UINT32_MAX}, INT64_MAX};
  for (const Event& event : latest_first) {
    if (event.moment > stretch.last || (event.origin == nullptr && event.version > stretch.version_max)) continue;
    stretch.first = event.moment;
    newest_first_.push_back(stretch);
    stretch.last = event.origin != nullptr ? MomentOf(*event.origin) : event.moment;
    stretch.version_max = std::min(stretch.version_max, event.origin != nullptr ? event.origin->version : event.version);
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
