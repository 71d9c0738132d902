#include "agent/flush/drain_watch.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "agent/images/images.h"
#include "agent/tables/agent_core.h"
#include "base/log.h"
#include "store/keys.h"

namespace kedge {
namespace {

constexpr Duration kPauseFirst = std::chrono::milliseconds(200);
constexpr Duration kPauseMax = std::chrono::seconds(2);
constexpr size_t kAskedMax = 16;  // at a time, the oldest

std::vector<Generation> WaitingOf(const Job& job) {
  std::vector<Generation> waiting;
  if (!job.store->store().has_buffer()) return waiting;
  for (const auto& [generation, version] : job.versions) {
    if (version->IsOnBufferOnly()) waiting.push_back(generation);
  }
  return waiting;
}

// Those of them that lie in the store. What cannot be told is asked again.
std::vector<Generation> DrainedOf(StoreContext& store, const std::vector<Generation>& waiting) {
  std::vector<Generation> drained;
  for (const Generation& generation : waiting) {
    const auto is_drained = store.store().IsDrained(keys::VersionKey(generation));
    if (is_drained.ok() && *is_drained) drained.push_back(generation);
  }
  return drained;
}

}  // namespace

void DrainWatch::Tick() {
  const int64_t now_ns = core_.clock().NowNs();
  std::erase_if(looks_, [&](const auto& entry) { return !entry.second.is_under_way && core_.FindJob(entry.first) == nullptr; });
  for (const auto& [key, job] : core_.jobs()) {
    std::vector<Generation> waiting = WaitingOf(*job);
    if (waiting.empty()) continue;
    Look& look = looks_[key];
    if (std::exchange(look.waiting, waiting.size()) != waiting.size())
      look.due_ns = std::min(look.due_ns, now_ns + (look.pause = kPauseFirst).count());
    if (look.is_under_way || now_ns < look.due_ns) continue;
    look.is_under_way = true;
    if (waiting.size() > kAskedMax) waiting.resize(kAskedMax);
    core_.Background([store = job->store, waiting = std::move(waiting)] { return DrainedOf(*store, waiting); },
                     [this, key = key](const std::vector<Generation>& drained) { OnAnswer(key, drained); });
  }
}

void DrainWatch::OnAnswer(const JobKey& key, const std::vector<Generation>& drained) {
  Look& look = looks_[key];
  look.is_under_way = false;
  look.pause = drained.empty() ? std::clamp(look.pause * 2, kPauseFirst, kPauseMax) : kPauseFirst;
  look.due_ns = core_.clock().NowNs() + look.pause.count();
  for (const Generation& generation : drained) {
    Version* const version = images_.FindVersion(generation);
    if (version == nullptr || !version->IsOnBufferOnly()) continue;
    version->drained = true;
    LogInfo("agent", "{} has come from the burst buffer to the store", generation.ToString());
    images_.Reconsider(*version->job, generation.name);
    core_.events().version_changed(generation);
  }
}

}  // namespace kedge
