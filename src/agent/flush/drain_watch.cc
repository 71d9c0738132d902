#include "agent/flush/drain_watch.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "agent/flush/still_stored.h"
#include "agent/images/local_retention.h"
#include "agent/tables/agent_core.h"
#include "base/log.h"
#include "store/keys.h"

namespace kedge {
namespace {

constexpr Duration kDrainPauseFirst = std::chrono::milliseconds(200);
constexpr Duration kDrainPauseMax = std::chrono::seconds(2);
constexpr size_t kDrainAskedMax = 16;  // at a time, the oldest
constexpr Duration kDrainMissingPatience = std::chrono::seconds(20);

std::vector<Generation> UndrainedOf(const Job& job) {
  std::vector<Generation> waiting;
  if (!job.store->store().has_buffer()) return waiting;
  for (const auto& [generation, version] : job.versions) {
    if (version->IsOnBufferOnly()) waiting.push_back(generation);
  }
  return waiting;
}

}  // namespace

// What cannot be told is asked again.
DrainWatch::Answer DrainWatch::Ask(Store& store, const std::vector<Generation>& waiting) {
  Answer answer;
  for (const Generation& generation : waiting) {
    const std::string key = keys::VersionKey(generation);
    const auto is_drained = store.IsDrained(key);
    if (is_drained.ok() && *is_drained) answer.drained.push_back(generation);
    if (is_drained.ok() && !*is_drained && store.Stamp(key).status().code() == Code::kNotFound) answer.any_missing = true;
  }
  return answer;
}

void DrainWatch::Tick() {
  const int64_t now_ns = core_.clock().NowNs();
  std::erase_if(looks_, [&](const auto& entry) { return !entry.second.is_under_way && core_.FindJob(entry.first) == nullptr; });
  for (const auto& [key, job] : core_.jobs()) {
    std::vector<Generation> waiting = UndrainedOf(*job);
    if (waiting.empty()) continue;
    Look& look = looks_[key];
    if (std::exchange(look.waiting, waiting.size()) != waiting.size())
      look.due_ns = std::min(look.due_ns, now_ns + (look.pause = kDrainPauseFirst).count());
    if (look.is_under_way || now_ns < look.due_ns) continue;
    look.is_under_way = true;
    if (waiting.size() > kDrainAskedMax) waiting.resize(kDrainAskedMax);
    core_.Background([store = job->store, waiting = std::move(waiting)] { return Ask(store->store(), waiting); },
                     [this, key = key](const Answer& answer) { OnAnswer(key, answer); });
  }
}

void DrainWatch::OnAnswer(const JobKey& key, const Answer& answer) {
  const int64_t now_ns = core_.clock().NowNs();
  Look& look = looks_[key];
  look.is_under_way = false;
  look.pause = answer.drained.empty() ? std::clamp(look.pause * 2, kDrainPauseFirst, kDrainPauseMax) : kDrainPauseFirst;
  look.due_ns = now_ns + look.pause.count();
  if (!answer.any_missing || look.missing_ns == 0) look.missing_ns = answer.any_missing ? now_ns : 0;
  const Job* const job = core_.FindJob(key);
  if (job != nullptr && look.missing_ns != 0 && now_ns - look.missing_ns > kDrainMissingPatience.count()) {
    look.missing_ns = 0;
    still_stored_.Doubt(*job);
  }
  for (const Generation& generation : answer.drained) {
    Version* const version = core_.FindVersion(generation);
    if (version == nullptr || !version->IsOnBufferOnly()) continue;
    version->drained = true;
    LogInfo("agent", "{} has come from the burst buffer to the store", generation.ToString());
    retention_.Reconsider(*version->job, generation.name);
    core_.events().version_changed(generation);
  }
}

}  // namespace kedge
