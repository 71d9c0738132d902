#include "agent/protect/measure_member.h"

#include <fmt/format.h>

#include <utility>

#include "agent/protect/node_level.h"
#include "agent/protect/set_member.h"
#include "agent/protect/set_under_way.h"
#include "base/log.h"
#include "os/process/kill_point.h"
#include "redundancy/layout.h"

namespace kedge {

void MeasureMember::Measure(Version& version, SetProgress& set) {
  const Protection& protection = *version.protection;
  if (set.measuring || set.members[protection.member].has_value() || core_.clock().NowNs() < set.next_try_ns) return;
  const redundancy::Node& node = protection.NodeOf(protection.member);
  SetMember member;
  member.node = node.name;
  member.domain = node.domain;
  member.rank = protection.layout->RankAt(protection.group, protection.member, set.identity.index);
  if (!member.rank.has_value()) {
    set.members[protection.member] = std::move(member);
    return;
  }
  auto found = version.images.find(*member.rank);
  if (found == version.images.end() || !found->second->ended || found->second->doomed) {
    return node_level_.FailSoon(version.generation, Status(Code::kIncomplete, fmt::format("rank {}'s image is gone from node {}",
                                                                                          *member.rank, node.name)));
  }
  const Image& image = *found->second;
  set.measuring = true;
  workers_->Submit([this, stream = HeldStream::Of(image), offset = image.record_object_offset, bytes = image.record_bytes,
                    natural = NaturalBlockBytes(version.job->hello.keys), member = std::move(member), identity = set.identity,
                    id = image.id] {
    auto made = MakeMember(stream, offset, bytes, natural, member);
    os::KillPoint("protect-measured");
    core_.loop().Post([this, identity, id, made = std::move(made)]() mutable { OnMeasured(identity, id, std::move(made)); });
  });
}

void MeasureMember::OnMeasured(const SetIdentity& identity, uint64_t image_id, Result<SetMember> made) {
  if (!made.ok()) node_level_.NoteIfDamaged(image_id, made.status());
  const auto [version, set] = SetUnderWay::Find(core_, identity);
  if (set == nullptr) return;
  set->measuring = false;
  if (!made.ok()) return node_level_.Fail(*version, made.status());
  version->protection->OnStep(core_.clock().NowNs());
  LogDebug("agent", "{} is measured", identity.ToString());
  set->members[version->protection->member] = std::move(*made);
  core_.events().set_changed(*version);
}

}  // namespace kedge
