#include "agent/flush/straight_parts.h"

#include <algorithm>

#include "agent/images/image_flusher.h"
#include "agent/images/local_retention.h"
#include "agent/tables/agent_core.h"
#include "base/log.h"
#include "store/versions.h"

namespace kedge {
namespace {

// Ranks that are slower than that are asked for in vain; it grows with each time.
constexpr Duration kPauseMin = std::chrono::seconds(2);
constexpr Duration kPauseMax = std::chrono::seconds(30);

// Something of it is here, and has nowhere else to go.
bool IsStranded(const Version& version) {
  return !version.IsComplete() && !version.IsAtLocal() && !version.undecided && version.scheduled() < Level::kStore &&
         std::any_of(version.images.begin(), version.images.end(),
                     [](const auto& entry) { return entry.second->ended && !entry.second->doomed; });
}

}  // namespace

void StraightParts::Tick() {
  std::erase_if(looks_, [&](const auto& entry) {
    const Version* version = core_.FindVersion(entry.first);
    return !entry.second.is_under_way && (version == nullptr || !IsStranded(*version));
  });
  const int64_t now_ns = core_.clock().NowNs();
  for (const auto& [key, job] : core_.jobs()) {
    for (const auto& [generation, version] : job->versions) {
      if (!IsStranded(*version)) continue;
      const auto [entry, is_new] = looks_.try_emplace(generation);
      Look& look = entry->second;
      if (is_new) look.next_ns = now_ns + kPauseMin.count();
      if (now_ns >= look.next_ns && !look.found_none) Begin(*version, &look);
    }
  }
}

bool StraightParts::MayHave(const Version& version) {
  if (!IsStranded(version)) return false;
  Look& look = looks_[version.generation];
  if (look.found_none) return false;
  if (core_.clock().NowNs() >= look.next_ns || look.pause == Duration{}) Begin(version, &look);
  return true;
}

void StraightParts::Begin(const Version& version, Look* look) {
  if (look->is_under_way) return;
  look->is_under_way = true;
  look->pause = std::clamp<Duration>(2 * look->pause, kPauseMin, kPauseMax);
  look->next_ns = core_.clock().NowNs() + look->pause.count();
  const bool has_ended = !core_.sessions().HasAttempt(*version.job, version.generation.attempt);
  core_.Background(
      [store = version.job->store, generation = version.generation]() -> Result<bool> {
        KEDGE_ASSIGN_OR_RETURN(const Catalog catalog, store->CatalogFor(generation.attempt));
        const auto info = InspectGeneration(catalog, generation);
        if (info.status().code() == Code::kNotFound) return false;
        if (!info.ok()) return info.status();
        return info->ranks > 0;
      },
      [this, generation = version.generation, has_ended](const Result<bool>& has_parts) {
        Look& answered = looks_[generation];
        answered.is_under_way = false;
        Version* found = core_.FindVersion(generation);
        if (found == nullptr || !has_parts.ok() || !IsStranded(*found)) return;
        if (*has_parts) {
          LogInfo("agent", "{}: ranks without an agent have written it to the store, so its images here go there, too",
                  generation.ToString());
          flush_.SendToStore(*found);
        }
        answered.found_none = has_ended && !*has_parts;
        retention_.Reconsider(*found->job, generation.name);
      });
}

}  // namespace kedge
