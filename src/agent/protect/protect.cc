#include "agent/protect/protect.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "agent/protect/done_groups.h"
#include "agent/protect/measure_member.h"
#include "agent/protect/node_level.h"
#include "agent/protect/set_exchange.h"
#include "agent/protect/set_maker.h"
#include "agent/tables/agent_core.h"
#include "redundancy/layout.h"

namespace kedge {

std::optional<uint32_t> Protect::MissingRank(const Version& version) const {
  const redundancy::Layout& layout = *version.job->layout;
  const auto position = layout.Find(core_.settings().node);
  for (uint32_t index = 0; position && index < layout.SetCount(position->group); ++index) {
    const auto rank = layout.RankAt(position->group, position->member, index);
    if (!rank) continue;
    const auto image = version.images.find(*rank);
    if (image == version.images.end() || !image->second->ended || image->second->doomed) return rank;
  }
  return std::nullopt;
}

void Protect::Consider(Version& version) {
  if (!version.IsOwedToNodes()) return;
  for (const auto& [rank, image] : version.images) {
    if (image->damaged && !image->doomed) return node_level_.FailSoon(version.generation, image->DamagedHere());
  }
  // What the job has gone on from comes here image by image, and others of the version may lie here from before.
  if (version.restored ? MissingRank(version).has_value() : !version.IsWhole()) return;
  if (version.protection != nullptr && version.protection->layout->id != version.job->layout->id) version.protection = nullptr;
  if (version.protection == nullptr) {
    Status begun = Begin(version);
    if (!begun.ok()) return node_level_.FailSoon(version.generation, begun);
  }
  AdvanceSoon(version);
}

Status Protect::Begin(Version& version) {
  const auto layout = version.job->layout;
  const auto position = layout->Find(core_.settings().node);
  if (!position.has_value()) return Status(Code::kFailedPrecondition, "this node is in no group");
  if (const auto missing = MissingRank(version)) {
    return Status(Code::kIncomplete, fmt::format("rank {}'s image is not on node {}", *missing, core_.settings().node));
  }
  auto protection = std::make_shared<Protection>();
  protection->layout = layout;
  protection->group = position->group;
  protection->member = position->member;
  protection->began_ns = core_.clock().NowNs();
  protection->OnStep(protection->began_ns);
  const size_t members = layout->groups[position->group].size();
  for (uint32_t index = 0; index < layout->SetCount(position->group); ++index) {
    SetProgress set;
    set.identity = SetIdentity{version.generation, version.ranks, layout->id, position->group, index};
    set.members.resize(members);
    set.done.resize(members, false);
    set.contacts.resize(members);
    protection->sets.push_back(std::move(set));
  }
  version.protection = std::move(protection);
  set_maker_.OnBegun(version);
  set_exchange_.OnBegun(version);
  return Status::Ok();
}

void Protect::AdvanceSoon(const Version& version) {
  if (!posted_.insert(version.generation).second) return;
  core_.loop().Post([this, generation = version.generation] {
    posted_.erase(generation);
    Version* found = core_.FindVersion(generation);
    if (found != nullptr && found->protection != nullptr && found->IsOwedToNodes()) Advance(*found);
  });
}

void Protect::Advance(Version& version) {
  bool are_done = true;
  for (SetProgress& set : version.protection->sets) {
    measure_member_.Measure(version, set);
    const bool is_measured = set.members[version.protection->member].has_value();
    if (is_measured) {
      set_maker_.Make(version, set);
      set_exchange_.AskMembers(version, set);
    }
    are_done = are_done && is_measured && set.IsDone();
  }
  if (are_done) done_groups_.OnOwnSetsDone(version);
}

void Protect::Tick() {
  const int64_t now_ns = core_.clock().NowNs();
  for (auto& [key, job] : core_.jobs()) {
    std::vector<Generation> overdue;
    // Of versions of a name that come first: the others wait for workers, and for room, that these have.
    int64_t older_ns = 0;
    std::string name;
    for (auto& [generation, version] : job->versions) {
      if (!version->IsOwedToNodes() || version->protection == nullptr) continue;
      Protection& protection = *version->protection;
      for (SetProgress& set : protection.sets) {
        if (set.GetsOn()) protection.progress_ns = now_ns;
      }
      if (generation.name != name) older_ns = 0;
      name = generation.name;
      older_ns = std::max(older_ns, protection.progress_ns);
      if (now_ns - older_ns > job->hello.keys.protect_timeout.count()) {
        overdue.push_back(generation);
      } else {
        AdvanceSoon(*version);
      }
    }
    for (const Generation& generation : overdue) {
      Version* version = core_.FindVersion(generation);
      if (version == nullptr || !version->IsOwedToNodes() || version->protection == nullptr) continue;
      node_level_.Fail(*version, Status(Code::kUnavailable, version->protection->Missing().message()));
    }
  }
}

}  // namespace kedge
