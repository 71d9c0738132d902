// What the groups of a version tell each other: that all their sets are done. See protect.h.
//
// The first member of a group tells every other node once. Nothing is repeated to a node that missed it: whoever waits for groups
// asks their members, each time another one. Once all groups are done the version is at level NODE.
#include <string>
#include <utility>
#include <vector>

#include "agent/agent.h"
#include "agent/held_sets.h"
#include "agent/images.h"
#include "agent/peers.h"
#include "agent/protect.h"
#include "agent/tuning.h"
#include "agent/waiters.h"
#include "base/log.h"
#include "redundancy/layout.h"

namespace kedge {

// The first member of a group tells all others; they need not be many at once.
void Protect::Notify(Version& version) {
  constexpr size_t kAtOnce = 16;
  Protection& protection = *version.protection;
  const GroupNotice notice{version.generation, protection.layout->id, protection.group};
  while (!protection.to_notify.empty() && protection.notifying.size() < kAtOnce) {
    const std::string node = *protection.to_notify.begin();
    protection.to_notify.erase(protection.to_notify.begin());
    protection.notifying.insert(node);
    // Whoever misses it asks.
    agent_.peers().Call(*version.job, node, PeerKind::kGroupDone, Encode(notice), kCallTimeout,
                        [this, generation = version.generation, node](Result<Buffer>) {
                          Version* found = agent_.images().FindVersion(generation);
                          if (found == nullptr || found->protection == nullptr) return;
                          found->protection->notifying.erase(node);
                          Notify(*found);
                        });
  }
}

void Protect::AskGroups(Version& version) {
  Protection& protection = *version.protection;
  const int64_t now_ns = agent_.clock().NowNs();
  if (now_ns < protection.next_ask_ns) return;
  protection.next_ask_ns = now_ns + kRetryPause.count();
  constexpr int kAtOnce = 8;
  int asked = 0;
  const auto& groups = protection.layout->groups;
  ++protection.asked;
  for (uint32_t group = 0; group < groups.size() && asked < kAtOnce; ++group) {
    if (protection.groups_done.contains(group)) continue;
    ++asked;
    const GroupNotice notice{version.generation, protection.layout->id, group};
    agent_.peers().Call(*version.job, groups[group][protection.asked % groups[group].size()].name, PeerKind::kGroupState,
                        Encode(notice), kCallTimeout, [this, notice, job = version.job->name](Result<Buffer> answer) {
                          auto reply = answer.ok() ? DecodeGroupStateReply(*answer) : Result<GroupStateReply>(answer.status());
                          Job* owner = agent_.FindJob(notice.generation.store_id, job);
                          if (owner == nullptr || !reply.ok()) return;
                          reply->done ? OnGroupDone(*owner, notice) : OnGroupMark(*owner, notice, reply->mark);
                        });
  }
}

void Protect::OnGroupDone(Job& job, const GroupNotice& notice) {
  auto found = job.versions.find(notice.generation);
  if (found == job.versions.end() || found->second->protection == nullptr) return;
  Version& version = *found->second;
  Protection& protection = *version.protection;
  if (protection.layout->id != notice.layout || notice.group >= protection.layout->groups.size()) return;
  // Of its own group it is told by its members.
  if (notice.group == protection.group || !protection.groups_done.insert(notice.group).second) return;
  protection.OnStep(agent_.clock().NowNs());
  OnGroupsChanged(version);
}

void Protect::OnGroupMark(Job& job, const GroupNotice& notice, uint64_t mark) {
  auto found = job.versions.find(notice.generation);
  if (found == job.versions.end() || found->second->protection == nullptr) return;
  Protection& protection = *found->second->protection;
  if (protection.layout->id != notice.layout || mark <= protection.group_marks[notice.group]) return;
  protection.group_marks[notice.group] = mark;
  protection.progress_ns = agent_.clock().NowNs();
}

GroupStateReply Protect::StateOfGroup(const Job& job, const GroupNotice& notice) const {
  GroupStateReply reply;
  auto found = job.versions.find(notice.generation);
  if (found == job.versions.end()) return reply;
  const Version& version = *found->second;
  if (version.protection == nullptr) {
    reply.done = version.at_node && job.layout != nullptr && job.layout->id == notice.layout;
    return reply;
  }
  const Protection& protection = *version.protection;
  if (protection.layout->id != notice.layout) return reply;
  reply.done = protection.groups_done.contains(notice.group);
  if (notice.group != protection.group) return reply;
  for (const SetProgress& set : protection.sets) {
    reply.mark += set.Mark();
    for (const SetProgress::Contact& contact : set.contacts) reply.mark += contact.mark;
  }
  return reply;
}

void Protect::OnGroupsChanged(Version& version) {
  Protection& protection = *version.protection;
  Notify(version);
  if (protection.groups_done.size() < protection.layout->groups.size()) {
    AskGroups(version);
    return;
  }
  version.at_node = true;
  agent_.tuning().OnProtected(version);
  protection.sets.clear();
  ++agent_.counters().versions_protected;
  LogInfo("agent", "{} survives the loss of a node: protected in {:.3f} s", version.generation.ToString(),
          1e-9 * static_cast<double>(agent_.clock().NowNs() - protection.began_ns));
  // What an earlier layout's nodes held of it is of no more use.
  std::vector<SetIdentity> former;
  for (const auto& [identity, set] : version.sets) {
    if (identity.layout != protection.layout->id) former.push_back(identity);
  }
  for (const SetIdentity& identity : former) agent_.held_sets().Drop(version, identity);
  const Generation generation = version.generation;
  Job& job = *version.job;
  agent_.images().OnProtected(version);
  agent_.images().Reconsider(job, generation.name);
  agent_.waiters().Check(generation);
}

}  // namespace kedge
