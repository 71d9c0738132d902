// What counts as getting on with a version's protection, and what becomes of one that does not. See protect.h.
//
// Bytes that a worker writes count, beyond those that an earlier try had written; the first wait for a worker's turn; the marks
// of members and groups that are asked; steps; and the progress of an older version of the name, which has the workers and the
// room that this one waits for. Each is finite, so that every wait ends: with the names of those that are missing.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "agent/images/image_table.h"
#include "agent/images/local_retention.h"
#include "agent/protect/protect.h"
#include "agent/protect/set_source.h"
#include "agent/tables/agent_core.h"
#include "base/log.h"
#include "redundancy/layout.h"

namespace kedge {
namespace {

constexpr size_t kNodesNamedMax = 16;
constexpr size_t kGroupsNamedMax = 4;

}  // namespace

bool SetProgress::GetsOn() {
  if (making == nullptr) return false;
  if (!making->begun) {
    // Once: what fails again and again is not to count as getting on between its tries.
    turns_waited += failures == 0 ? 1 : 0;
    return failures == 0;
  }
  const uint64_t bytes = making->bytes;
  if (bytes <= made_bytes) return false;
  made_bytes = bytes;
  return true;
}

// Failing lets go of versions: not while somebody walks over them.
void Protect::FailSoon(const Generation& generation, const Status& why) {
  core_.loop().Post([this, generation, why] {
    Version* version = core_.FindVersion(generation);
    if (version != nullptr && version->IsOwedToNodes()) Fail(*version, why);
  });
}

void Protect::OnRefusal(const Version& version, const Status& why) {
  if (why.code() != Code::kIncomplete || version.protection == nullptr) return;
  if (core_.clock().NowNs() - version.protection->began_ns < kRefusalPause.count()) return;
  FailSoon(version.generation, why);
}

void Protect::OnTierLost() {
  std::vector<Generation> lost;
  for (const auto& [key, job] : core_.jobs()) {
    for (const auto& [generation, version] : job->versions) {
      if (job->layout != nullptr && version->HasLost()) lost.push_back(generation);
    }
  }
  core_.loop().Post([this, lost] {
    for (const Generation& generation : lost) {
      Version* version = core_.FindVersion(generation);
      if (version == nullptr || version->job->layout == nullptr) continue;
      const Status why(Code::kIncomplete, fmt::format("node {} has lost the tier that its part was in", core_.settings().node));
      if (version->protection != nullptr || version->at_node) TellGivenUp(*version, why);
      if (version->at_node) {
        Weaken(*version, why);
      } else if (version->IsOwedToNodes()) {
        Fail(*version, why);
      }
    }
  });
}

bool Protect::HasJustLost(const Version& version) {
  core_.events().places_doubted();
  return version.HasLost();
}

void Protect::Weaken(Version& version, const Status& why) {
  if (!version.node_failure.ok()) return;
  version.Weaken(why.message());
  for (const auto& [rank, image] : version.images) {
    if (image->ended && !image->doomed) images_.Save(*image);
  }
  if (version.job->layout != nullptr)
    outcomes_.Add(version.generation, version.job->layout->id, why, version.scheduled() >= Level::kStore);
  LogWarning("agent", "{}", version.node_failure.ToString());
  core_.events().version_changed(version.generation);
}

void Protect::OnDrained(const Job& job) {
  if (core_.sessions().HasAttempt(job, job.members.attempt)) return;
  std::vector<Generation> owed;
  for (const auto& [generation, version] : job.versions) {
    if (version->IsOwedToNodes()) owed.push_back(generation);
  }
  for (const Generation& generation : owed) {
    Version* version = core_.FindVersion(generation);
    if (version != nullptr && version->IsOwedToNodes())
      Fail(*version, Status(Code::kUnavailable, "its job has ended and is drained"));
  }
}

void Protect::Fail(Version& version, const Status& why) {
  const Generation generation = version.generation;
  Job& job = *version.job;
  ++core_.counters().protect_failures;
  // What is incomplete says where, and is passed on as it is.
  const bool names_node = why.code() == Code::kIncomplete;
  const Status told =
      names_node ? why : Status(Code::kIncomplete, fmt::format("node {}: {}", core_.settings().node, why.message()));
  version.node_failure = NodeFailure(generation, names_node ? Status(Code::kUnavailable, why.message()) : why);
  if (version.restored) AgainOf(job, generation).failure = told;
  // It may have begun among the nodes of a former layout.
  const auto& layout = version.protection != nullptr ? version.protection->layout : job.layout;
  if (layout != nullptr) outcomes_.Add(generation, layout->id, told, version.scheduled() >= Level::kStore);
  version.protection = nullptr;
  LogError("agent", "{}", version.node_failure.ToString());
  images_.OnProtected(version);
  core_.events().version_failed(version, Level::kNode, version.node_failure);
  core_.events().version_changed(generation);
  retention_.Reconsider(job, generation.name);  // which may let go of it
}

Status Protect::NodeFailure(const Generation& generation, const Status& why) {
  return why.WithContext(generation.ToString() + " has not reached level node");
}

Status Protect::FormerFailure(const Generation& generation) const {
  const Status why = outcomes_.FailureOf(generation);
  return why.ok() ? why : NodeFailure(generation, Status(Code::kUnavailable, why.message()));
}

Status Protect::Missing(const Version& version) const {
  const Protection& protection = *version.protection;
  const auto& nodes = protection.layout->groups[protection.group];
  std::set<std::string> missing;
  std::string reason;
  for (const SetProgress& set : protection.sets) {
    for (uint32_t member = 0; member < set.members.size() && missing.size() < kNodesNamedMax; ++member) {
      if (set.members[member].has_value() && set.done[member]) continue;
      missing.insert(nodes[member].name);
      if (reason.empty() && !set.contacts[member].error.ok()) reason = "; " + set.contacts[member].error.message();
    }
  }
  if (!missing.empty()) return Status(Code::kTimeout, fmt::format("still missing: nodes {}{}", fmt::join(missing, ", "), reason));
  std::vector<std::string> groups;
  for (uint32_t group = 0; group < protection.layout->groups.size() && groups.size() < kGroupsNamedMax; ++group) {
    if (protection.groups_done.contains(group)) continue;
    std::vector<std::string> names;
    for (const redundancy::Node& node : protection.layout->groups[group]) {
      if (names.size() < kNodesNamedMax) names.push_back(node.name);
    }
    groups.push_back(fmt::format("group {} (nodes {})", group, fmt::join(names, ", ")));
  }
  return Status(Code::kTimeout, fmt::format("still missing: {}", fmt::join(groups, ", ")));
}

void Protect::Tick() {
  const int64_t now_ns = core_.clock().NowNs();
  for (auto& [key, job] : core_.jobs()) {
    const int64_t timeout_ns = job->hello.keys.protect_timeout.count();
    std::vector<Generation> overdue;
    // Of versions of a name that come first: the others wait for workers, and for room, that these have.
    int64_t older_ns = 0;
    std::string name;
    for (auto& [generation, version] : job->versions) {
      if (!version->IsOwedToNodes()) continue;
      if (version->protection == nullptr) {
        const bool waits = version->restored;  // for images that come here again
        if (waits && now_ns - AgainOf(*job, generation).since_ns > timeout_ns) overdue.push_back(generation);
        continue;
      }
      Protection& protection = *version->protection;
      for (SetProgress& set : protection.sets) {
        if (set.GetsOn()) protection.progress_ns = now_ns;
      }
      if (generation.name != name) older_ns = 0;
      name = generation.name;
      older_ns = std::max(older_ns, protection.progress_ns);
      if (now_ns - older_ns > timeout_ns) {
        overdue.push_back(generation);
      } else {
        AdvanceSoon(generation);
      }
    }
    for (const Generation& generation : overdue) {
      Version* version = core_.FindVersion(generation);
      if (version == nullptr || !version->IsOwedToNodes()) continue;
      Fail(*version, Status(Code::kUnavailable,
                            version->protection == nullptr ? "its images are not here again" : Missing(*version).message()));
    }
  }
}

}  // namespace kedge
