#include "agent/daemon/recovery.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "agent/daemon/agent.h"
#include "agent/door/sessions.h"
#include "agent/flush/flush.h"
#include "agent/flush/publisher.h"
#include "agent/peers/peers.h"
#include "agent/protect/held_sets.h"
#include "agent/protect/layouts.h"
#include "agent/protect/protect.h"
#include "agent/schedule/turns.h"
#include "agent/space/tiers.h"
#include "agent/tables/record_file.h"
#include "agent/tables/run_folder.h"
#include "base/log.h"
#include "os/files/files.h"

namespace kedge {
namespace {

void RecoverImages(Agent& agent) {
  auto entries = fs().List(agent.core().Path("records"));
  if (!entries.ok()) return;
  for (const auto& entry : *entries) {
    const std::string path = agent.core().Path("records/" + entry.name);
    Status recovered;
    if (!os::IsTemporaryName(entry.name)) {
      auto file = ReadImageFile(path);
      recovered = file.ok() ? agent.found_images().Recover(path, *file) : file.status();
      if (recovered.ok()) continue;
      LogWarning("agent", "local record {} is passed over: {}", path, recovered.ToString());
    }
    (void)os::UnlinkIfPresent(fs(), path);
  }
}

// Who had a way to the former agent believes in it until it has said nothing for too long: what goes there comes to this one,
// which knows nothing of it. Who asks and is asked besides the group's own is the leading node; a staging agent, by all.
void GreetNodes(Agent& agent, const Job& job) {
  const std::string& self = agent.core().settings().node;
  const JobNode* leading = job.LeadingNode();
  if (leading == nullptr || !agent.peers().is_open()) return;
  for (const JobNode& node : job.members.nodes) {
    const bool is_greeted = node.name != self && (leading->name == self || &node == leading || job.is_enlisted);
    if (is_greeted && !node.address.empty()) agent.peers().Connect(job, node.name);
  }
}

// What is owed to other nodes depends on who they are.
void RejoinNetwork(Agent& agent) {
  for (auto& [key, job] : agent.core().jobs()) {
    Status joined = agent.layouts().OnMembers(*job);
    if (!joined.ok()) LogWarning("agent", "job {}: its nodes do not know each other: {}", job->name, joined.ToString());
    GreetNodes(agent, *job);
  }
}

// What a dead agent had begun in the stores is removed first, so that no temporary of ours is taken for one of its.
void FlushAgain(Agent& agent) {
  std::map<std::pair<Job*, uint32_t>, std::vector<uint64_t>> owed;
  for (const auto& [id, image] : agent.images().all()) {
    const Version& version = *image->version;
    if (image->flush != FlushState::kWaiting) continue;
    // The note of it had not reached this image's record.
    if (version.in_store()) {
      agent.flush().SetState(*image, FlushState::kStored);
      agent.images().Save(*image);
    } else if (version.skipped) {
      agent.flush().SetState(*image, FlushState::kNone);
    } else {
      owed[{version.job, version.generation.attempt}].push_back(id);
    }
  }
  for (auto& [key, ids] : owed) {
    agent.publisher().RemoveLeftovers(*key.first, key.second, [&agent, ids = std::move(ids)] {
      for (uint64_t id : ids) {
        Image* image = agent.images().Find(id);
        if (image != nullptr && !image->doomed && image->flush == FlushState::kWaiting) agent.flush().Start(*image);
      }
    });
  }
}

}  // namespace

void RecoverState(Agent& agent) {
  agent.sessions().RecoverJobs();
  RecoverImages(agent);
  agent.held_sets().Recover();
  RejoinNetwork(agent);
  agent.sessions().RecoverSessions();
  FlushAgain(agent);
  agent.routed_publisher().PublishOwed();
  // Only now that all sessions are known: what one rank left is of use as long as another's mailbox may hold the rest.
  agent.sessions().EndDeadSessions();
  agent.turns().Recover();
  uint32_t freed = 0;
  for (TierUnit* unit : agent.tiers().units()) freed += unit->space->FreeUnreferenced();
  for (auto& [key, job] : agent.core().jobs()) {
    agent.retention().ReconsiderAll(*job);
    // A version may have become complete, and the former agent died before the older ones went.
    for (const std::string& name : job->Names()) agent.publisher().Retain(*job, name);
    std::vector<Generation> generations;
    for (const auto& [generation, version] : job->versions) generations.push_back(generation);
    for (const Generation& generation : generations) {
      if (Version* version = agent.core().FindVersion(generation)) agent.protect().Consider(*version);
    }
  }
  agent.sessions().ForgetIdleJobs();
  if (agent.core().counters().images_recovered > 0 || freed > 0) {
    LogInfo("agent", "taken over from a former agent: {} images; {} slots of it were of no more use",
            agent.core().counters().images_recovered, freed);
  }
}

}  // namespace kedge
