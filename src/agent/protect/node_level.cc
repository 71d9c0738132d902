#include "agent/protect/node_level.h"

#include <fmt/format.h>

#include <vector>

#include "agent/images/image_table.h"
#include "agent/images/local_retention.h"
#include "agent/protect/held_sets.h"
#include "agent/tables/agent_core.h"
#include "agent/tables/protection.h"
#include "base/log.h"
#include "redundancy/layout.h"

namespace kedge {

void NodeLevel::Reach(Version& version) {
  Protection& protection = *version.protection;
  version.at_node = true;
  outcomes_.Add(version.generation, protection.layout->id, Status::Ok());
  core_.events().level_reached(version, Level::kNode);
  protection.sets.clear();
  ++core_.counters().versions_protected;
  LogInfo("agent", "{} survives the loss of a node: protected in {:.3f} s", version.generation.ToString(),
          1e-9 * static_cast<double>(core_.clock().NowNs() - protection.began_ns));
  // What an earlier layout's nodes held of it is of no more use.
  std::vector<SetIdentity> former;
  for (const auto& [identity, set] : version.sets) {
    if (identity.layout != protection.layout->id) former.push_back(identity);
  }
  for (const SetIdentity& identity : former) held_sets_.Drop(version, identity);
  const Generation generation = version.generation;
  Job& job = *version.job;
  images_.OnProtected(version);
  retention_.Reconsider(job, generation.name);
  core_.events().version_changed(generation);
}

void NodeLevel::Fail(Version& version, const Status& why) {
  const Generation generation = version.generation;
  Job& job = *version.job;
  ++core_.counters().protect_failures;
  // What is incomplete says where, and is passed on as it is.
  const bool names_node = why.code() == Code::kIncomplete;
  const Status told =
      names_node ? why : Status(Code::kIncomplete, fmt::format("node {}: {}", core_.settings().node, why.message()));
  version.node_failure = NotReached(generation, names_node ? Status(Code::kUnavailable, why.message()) : why);
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

void NodeLevel::FailSoon(const Generation& generation, const Status& why) {
  core_.loop().Post([this, generation, why] {
    Version* version = core_.FindVersion(generation);
    if (version != nullptr && version->IsOwedToNodes()) Fail(*version, why);
  });
}

void NodeLevel::OnRefusal(const Version& version, const Status& why) {
  if (why.code() != Code::kIncomplete || version.protection == nullptr) return;
  if (core_.clock().NowNs() - version.protection->began_ns < kRefusalPause.count()) return;
  FailSoon(version.generation, why);
}

void NodeLevel::Weaken(Version& version, const Status& why) {
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

void NodeLevel::NoteIfDamaged(uint64_t image_id, const Status& read) {
  Image* image = images_.Find(image_id);
  if (image == nullptr || image->doomed || read.code() != Code::kCorrupt) return;
  retention_.OnDamaged(*image->version, image->rank, read);
}

void NodeLevel::OnDrained(const Job& job) {
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

bool NodeLevel::HasJustLost(const Version& version) {
  core_.events().places_doubted();
  return version.HasLost();
}

Status NodeLevel::FormerFailure(const Generation& generation) const {
  const Status why = outcomes_.FailureOf(generation);
  return why.ok() ? why : NotReached(generation, Status(Code::kUnavailable, why.message()));
}

Status NodeLevel::NotReached(const Generation& generation, const Status& why) {
  return why.WithContext(generation.ToString() + " has not reached level node");
}

}  // namespace kedge
