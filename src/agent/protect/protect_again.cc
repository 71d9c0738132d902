#include "agent/protect/protect_again.h"

#include <fmt/format.h>

#include <vector>

#include "agent/protect/node_level.h"
#include "agent/protect/protect.h"
#include "agent/tables/agent_core.h"
#include "base/log.h"
#include "redundancy/layout.h"

namespace kedge {

ProtectAgain::Restored& ProtectAgain::RestoredOf(const Job& job, const Generation& generation) {
  Restored& restored = restored_[generation];
  if (restored.attempt == job.members.attempt) return restored;
  restored = {job.members.attempt, core_.clock().NowNs(), Status::Ok()};
  std::erase_if(restored_, [&](const auto& entry) {
    return entry.first.store_id == job.store_id && entry.first.job == job.name && entry.second.attempt != restored.attempt;
  });
  return restored;
}

// Whether another number of ranks has taken it than the job has now. Its images are not those that the job's layout is of.
bool ProtectAgain::IsOfOtherRanks(const Job& job, const Generation& generation) const {
  const Version* version = core_.FindVersion(generation);
  return version != nullptr && version->ranks != job.hello.ranks;
}

void ProtectAgain::OnRestored(Job& job, const Generation& generation, uint32_t rank) {
  if (job.layout == nullptr || job.hello.keys.schedule_node == 0 || IsOfOtherRanks(job, generation)) return;
  BringOptions options;
  options.from_store = true;
  core_.events().image_missed(job, generation, rank, options,
                              [this, generation, rank](const Status& brought) { OnBrought(generation, rank, brought); });
}

void ProtectAgain::OnBrought(const Generation& generation, uint32_t rank, const Status& brought) {
  if (brought.code() == Code::kInvalidArgument) return;  // the version has no such rank
  Version* version = core_.FindVersion(generation);
  if (version != nullptr && version->FindWhole(rank) != nullptr) return Begin(*version);
  LogWarning("agent", "{}, which rank {} has restarted from, is not protected again: {}", generation.ToString(), rank,
             brought.ToString());
  // The images of the node's other ranks do not wait for it.
  const Status why(Code::kIncomplete,
                   fmt::format("rank {}'s image does not come to node {}: {}", rank, core_.settings().node, brought.message()));
  if (version != nullptr && version->restored) return node_level_.FailSoon(generation, why);
  if (const Job* job = core_.FindJobOf(generation)) RestoredOf(*job, generation).failure = why;
}

void ProtectAgain::Begin(Version& version) {
  if (version.job->layout == nullptr || IsOfOtherRanks(*version.job, version.generation)) return;
  if (version.restored) return protect_.Consider(version);  // another rank's image has come
  version.restored = version.to_node = true;
  for (const JobNode& node : version.job->members.nodes) {
    if (node.name == core_.settings().node) version.node_ranks = static_cast<uint32_t>(node.ranks.size());
  }
  version.AlsoTo(Level::kNode);
  version.at_node = false;
  version.protection = nullptr;
  const Status& failure = RestoredOf(*version.job, version.generation).failure;
  version.node_failure = failure.ok() ? failure : NodeLevel::NotReached(version.generation, failure);
  protect_.Consider(version);
}

void ProtectAgain::OnFailed(const Version& version, Level level) {
  const auto& layout = version.job->layout;
  if (level != Level::kNode || !version.restored || layout == nullptr) return;
  const Status* told = node_level_.OutcomeOf(version.generation, layout->id);
  if (told != nullptr) RestoredOf(*version.job, version.generation).failure = *told;
}

void ProtectAgain::Tick() {
  const int64_t now_ns = core_.clock().NowNs();
  std::vector<Generation> overdue;
  for (const auto& [key, job] : core_.jobs()) {
    for (const auto& [generation, version] : job->versions) {
      if (!version->restored || version->protection != nullptr || !version->IsOwedToNodes()) continue;
      const int64_t waited_ns = now_ns - RestoredOf(*job, generation).since_ns;
      if (waited_ns > job->hello.keys.protect_timeout.count()) overdue.push_back(generation);
    }
  }
  for (const Generation& generation : overdue) {
    Version* version = core_.FindVersion(generation);
    if (version == nullptr || version->protection != nullptr || !version->IsOwedToNodes()) continue;
    node_level_.Fail(*version, Status(Code::kUnavailable, "its images are not here again"));
  }
}

}  // namespace kedge
