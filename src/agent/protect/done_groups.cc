#include "agent/protect/done_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "agent/peers/peers.h"
#include "agent/protect/node_level.h"
#include "agent/tables/agent_core.h"
#include "agent/tables/protection.h"
#include "base/log.h"
#include "os/process/kill_point.h"
#include "redundancy/layout.h"

namespace kedge {
namespace {

// Null: the node itself hears for all.
const std::string* ParentOf(const Protection& protection) {
  const auto& groups = protection.layout->groups;
  if (protection.member > 0) return &groups[protection.group][0].name;
  return protection.group > 0 ? &groups[0][0].name : nullptr;
}

void InsertChildren(const Protection& protection, std::set<std::string>* nodes) {
  if (protection.member > 0) return;
  const auto& groups = protection.layout->groups;
  for (size_t member = 1; member < groups[protection.group].size(); ++member)
    nodes->insert(groups[protection.group][member].name);
  for (size_t group = 1; protection.group == 0 && group < groups.size(); ++group) nodes->insert(groups[group][0].name);
}

uint64_t MarkOf(const Protection& protection, bool with_others) {
  uint64_t mark = 0;
  for (const SetProgress& set : protection.sets) {
    mark += set.Mark();
    for (const SetProgress::Contact& contact : set.contacts) mark += contact.mark;
  }
  // Only for a child: marks that went around in a circle would grow without anything getting on.
  for (const auto& [node, told] : protection.marks) mark += with_others ? told : 0;
  return mark;
}

// As far as this node's files tell: level NODE may have been reached among the nodes of an earlier layout.
bool IsProtectedIn(const Version& version, uint64_t layout) {
  return version.at_node && version.node_failure.ok() &&
         std::any_of(version.sets.begin(), version.sets.end(), [&](const auto& set) { return set.first.layout == layout; });
}

}  // namespace

DoneGroups::DoneGroups(AgentCore& core, NodeLevel& node_level, Peers& peers)
    : core_(core), node_level_(node_level), peers_(peers) {
  peers.service().On(PeerKind::kGroups, DecodeGroupsNotice, std::bind_front(&DoneGroups::OnTold, this));
}

void DoneGroups::OnOwnSetsDone(Version& version) {
  const Protection& protection = *version.protection;
  protection.groups_done.contains(protection.group) ? AskAboutOthers(version) : OnOwnGroupDone(version);
}

void DoneGroups::OnOwnGroupDone(Version& version) {
  Protection& protection = *version.protection;
  const int64_t now_ns = core_.clock().NowNs();
  LogDebug("agent", "{}: all nodes of group {} are done", version.generation.ToString(), protection.group);
  protection.groups_done.insert(protection.group);
  protection.OnStep(now_ns);
  if (const std::string* parent = ParentOf(protection)) {
    if (protection.member == 0) protection.to_tell.insert(*parent);
    protection.next_ask_ns = now_ns + kAskPause.count();  // it is told before, as a rule
  }
  OnChanged(version);
}

void DoneGroups::TellNodes(Version& version) {
  constexpr size_t kAtOnce = 16;
  Protection& protection = *version.protection;
  while (!protection.to_tell.empty() && protection.asking.size() < kAtOnce) {
    const std::string node = *protection.to_tell.begin();
    protection.to_tell.erase(protection.to_tell.begin());
    Ask(version, node);
  }
}

void DoneGroups::AskAboutOthers(Version& version) {
  constexpr int kAtOnce = 8;
  Protection& protection = *version.protection;
  const int64_t now_ns = core_.clock().NowNs();
  if (now_ns < protection.next_ask_ns) return;
  protection.next_ask_ns = now_ns + kAskPause.count();
  if (const std::string* parent = ParentOf(protection)) {
    const bool is_silent = !protection.parent_answers || protection.asking.contains(*parent);
    Ask(version, *parent);
    if (!is_silent) return;
  }
  const auto& groups = protection.layout->groups;
  int asked = 0;
  for (uint32_t group = 0; group < groups.size() && asked < kAtOnce; ++group) {
    if (protection.groups_done.contains(group)) continue;
    ++asked;
    Ask(version, groups[group][protection.times_asked % groups[group].size()].name);
  }
  ++protection.times_asked;
}

void DoneGroups::Ask(Version& version, const std::string& node) {
  Protection& protection = *version.protection;
  if (!protection.asking.insert(node).second) return;
  const std::string* parent = ParentOf(protection);
  const bool is_parent = parent != nullptr && *parent == node;
  GroupsNotice notice{version.generation, protection.layout->id, is_parent, {}, {}};
  notice.done.assign(protection.groups_done.begin(), protection.groups_done.end());
  peers_.Call(*version.job, node, PeerKind::kGroups, Encode(notice), kCallTimeout,
              [this, generation = version.generation, layout = notice.layout, node, is_parent](Result<Buffer> answer) {
                Version* found = core_.FindVersion(generation);
                if (found == nullptr || found->protection == nullptr || found->protection->layout->id != layout) return;
                Protection& asked = *found->protection;
                asked.asking.erase(node);
                auto reply = answer.ok() ? DecodeGroupsReply(*answer) : Result<GroupsReply>(answer.status());
                if (is_parent) asked.parent_answers = reply.ok();
                TellNodes(*found);
                if (!reply.ok()) return node_level_.OnRefusal(*found, reply.status());
                if (uint64_t& mark = asked.marks[node]; reply->mark > mark) {
                  mark = reply->mark;
                  asked.progress_ns = core_.clock().NowNs();
                }
                Add(*found, reply->done);
              });
}

void DoneGroups::OnTierLost() {
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
        node_level_.Weaken(*version, why);
      } else if (version->IsOwedToNodes()) {
        node_level_.Fail(*version, why);
      }
    }
  });
}

// Who hears for all groups refuses whoever asks it afterwards.
void DoneGroups::TellGivenUp(const Version& version, const Status& why) {
  const auto layout = version.protection != nullptr ? version.protection->layout : version.job->layout;
  const auto self = layout->Find(core_.settings().node);
  std::set<std::string> nodes{layout->groups[0][0].name};
  for (uint32_t group = 0; group < layout->groups.size(); ++group) {
    if (!version.at_node && !(self.has_value() && self->group == group)) continue;
    for (const redundancy::Node& node : layout->groups[group]) nodes.insert(node.name);
  }
  nodes.erase(core_.settings().node);
  const GroupsNotice notice{version.generation, layout->id, false, {}, why.message().substr(0, kReasonBytesMax)};
  for (const std::string& node : nodes) {
    peers_.Call(*version.job, node, PeerKind::kGroups, Encode(notice), kCallTimeout, [](const Result<Buffer>&) {});
  }
}

Result<GroupsReply> DoneGroups::OnTold(Job& job, const GroupsNotice& notice) {
  GroupsReply reply;
  if (job.layout == nullptr || job.layout->id != notice.layout) return reply;
  if (!notice.given_up.empty()) {
    const Status why(Code::kIncomplete, notice.given_up);
    const auto version = job.versions.find(notice.generation);
    const bool is_there = version != job.versions.end() && version->second->at_node;
    is_there ? node_level_.Weaken(*version->second, why) : node_level_.FailSoon(notice.generation, why);
    return reply;
  }
  auto found = job.versions.find(notice.generation);
  if (found == job.versions.end() || found->second->protection == nullptr) {
    const Status* outcome = node_level_.OutcomeOf(notice.generation, notice.layout);
    if (outcome != nullptr && !outcome->ok()) return *outcome;
    if (outcome == nullptr && (found == job.versions.end() || !IsProtectedIn(*found->second, notice.layout))) return reply;
    reply.done.resize(job.layout->groups.size());
    std::iota(reply.done.begin(), reply.done.end(), 0);
    return reply;
  }
  Version& version = *found->second;
  const Protection& protection = *version.protection;
  if (protection.layout->id != notice.layout) return reply;
  reply.done.assign(protection.groups_done.begin(), protection.groups_done.end());
  reply.mark = MarkOf(protection, notice.from_child);
  Add(version, notice.done);
  return reply;
}

void DoneGroups::Add(Version& version, const std::vector<uint32_t>& done) {
  Protection& protection = *version.protection;
  const size_t known = protection.groups_done.size();
  for (const uint32_t group : done) {
    // Of its own group it is told by its members.
    if (group < protection.layout->groups.size() && group != protection.group) protection.groups_done.insert(group);
  }
  if (protection.groups_done.size() == known) return;
  protection.OnStep(core_.clock().NowNs());
  OnChanged(version);
}

void DoneGroups::OnChanged(Version& version) {
  Protection& protection = *version.protection;
  const bool are_all = protection.groups_done.size() == protection.layout->groups.size();
  if (are_all && node_level_.HasJustLost(version)) return;
  if (are_all) {
    os::KillPoint("protect-groups-done");
    InsertChildren(protection, &protection.to_tell);
  }
  TellNodes(version);
  if (!are_all) {
    if (protection.groups_done.contains(protection.group)) AskAboutOthers(version);
    return;
  }
  node_level_.Reach(version);
}

}  // namespace kedge
