#include "agent/protect/set_maker.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "agent/peers/peers.h"
#include "agent/protect/held_sets.h"
#include "agent/protect/make_objects.h"
#include "agent/protect/node_level.h"
#include "agent/protect/set_proofs.h"
#include "agent/protect/set_under_way.h"
#include "agent/space/assignment.h"
#include "agent/space/redundancy_room.h"
#include "base/log.h"
#include "os/process/kill_point.h"
#include "redundancy/geometry.h"
#include "redundancy/layout.h"
#include "redundancy/natural.h"

namespace kedge {
namespace {

// Of the version before: this one will have about as much.
uint64_t NaturalBytesBefore(const Version& version, const SetProgress& set) {
  const auto& versions = version.job->versions;
  const auto is_it = [&](const auto& entry) {
    return entry.first.name == version.generation.name && entry.first < version.generation && !entry.second->sets.empty();
  };
  const auto before = std::find_if(std::make_reverse_iterator(versions.find(version.generation)), versions.rend(), is_it);
  if (before == versions.rend()) return 0;
  SetIdentity identity = set.identity;
  identity.generation = before->first;
  const auto held = before->second->sets.find(identity);
  return held == before->second->sets.end() ? 0 : held->second->record.members[version.protection->member].natural.bytes();
}

}  // namespace

SetMaker::SetMaker(AgentCore& core, Assignment& assignment, HeldSets& held_sets, NodeLevel& node_level, Peers& peers,
                   RedundancyRoom& room, SetProofs& proofs)
    : core_(core),
      assignment_(assignment),
      held_sets_(held_sets),
      node_level_(node_level),
      peers_(peers),
      room_(room),
      proofs_(proofs),
      workers_(std::make_unique<Workers>(kThreads)) {}

SetMaker::Objects SetMaker::MissingObjects(const Protection& protection, const HeldSet& held) {
  const bool copies = held.record.scheme == Scheme::kPartner;
  Objects missing;
  for (const uint32_t member :
       copies ? protection.layout->HeldBy(protection.group, protection.member) : std::vector<uint32_t>{protection.member}) {
    const uint64_t bytes = copies ? held.record.members[member].thin_bytes() : redundancy::Geometry(held.record).parity_bytes();
    if (bytes == 0 || held.objects.contains(member)) continue;
    missing.members.push_back(member);
    missing.lengths.push_back(bytes);
  }
  return missing;
}

void SetMaker::TakeKept(const Version& version, SetProgress& set) {
  const auto kept = version.sets.find(set.identity);
  if (kept == version.sets.end()) return;
  const HeldSet& held = *kept->second;
  if (held.record.members.size() != set.members.size()) return;
  for (size_t i = 0; i < set.members.size(); ++i) set.members[i] = held.record.members[i];
  set.done[version.protection->member] = MissingObjects(*version.protection, held).members.empty();
}

// As if the other members' images were as long as ours.
uint64_t SetMaker::EstimateRoom(const Version& version, const SetProgress& set) {
  const Protection& protection = *version.protection;
  const redundancy::Layout& layout = *protection.layout;
  const auto rank = layout.RankAt(protection.group, protection.member, set.identity.index);
  const auto own = rank.has_value() ? version.images.find(*rank) : version.images.end();
  if (own == version.images.end()) return 0;
  uint64_t bytes = own->second->record_object_offset + own->second->record_bytes;
  bytes -= std::min(bytes, NaturalBytesBefore(version, set));
  if (layout.scheme == Scheme::kPartner) return bytes * layout.HeldBy(protection.group, protection.member).size();
  return redundancy::Geometry(static_cast<uint32_t>(set.members.size()), layout.parity, bytes).parity_bytes();
}

void SetMaker::OnBegun(Version& version) {
  for (SetProgress& set : version.protection->sets) {
    TakeKept(version, set);
    if (!set.done[version.protection->member]) set.room_bytes = EstimateRoom(version, set);
  }
  room_.OnBegun(version);
}

void SetMaker::Make(Version& version, SetProgress& set) {
  const bool is_made = set.done[version.protection->member] || set.making != nullptr;
  if (set.IsKnown() && !is_made && core_.clock().NowNs() >= set.next_try_ns) Begin(version, set);
}

SetRecord SetMaker::RecordOf(const redundancy::Layout& layout, SetProgress& set) {
  SetRecord record;
  record.identity = set.identity;
  record.scheme = layout.scheme;
  record.parity = layout.parity;
  for (const auto& member : set.members) record.members.push_back(*member);
  redundancy::KeepNatural(record.scheme, record.parity, &record.members);
  for (size_t i = 0; i < set.members.size(); ++i) set.members[i]->natural = record.members[i].natural;
  return record;
}

Result<std::shared_ptr<SetSource>> SetMaker::SourceOf(const Version& version, const SetRecord& record) const {
  auto source = std::make_shared<SetSource>(peers_.LinkInBackground(*version.job), record, kReadTimeout);
  for (uint32_t member = 0; member < record.members.size(); ++member) {
    const auto& rank = record.members[member].rank;
    if (!rank.has_value()) continue;
    SetSource::Place place{std::nullopt, record.members[member].node};
    if (member == version.protection->member) {
      const Image* own = version.FindWhole(*rank);
      if (own == nullptr) return Status(Code::kIncomplete, "an image of this node is gone");
      place = {HeldStream::Of(*own), ""};
    }
    source->SetStream(member, std::move(place));
  }
  return source;
}

void SetMaker::Begin(Version& version, SetProgress& set) {
  const Protection& protection = *version.protection;
  SetRecord record = RecordOf(*protection.layout, set);
  auto kept = held_sets_.Keep(version, record);
  if (!kept.ok()) return node_level_.FailSoon(version.generation, kept.status());
  Objects missing = MissingObjects(protection, **kept);
  set.room_bytes = std::accumulate(missing.lengths.begin(), missing.lengths.end(), uint64_t{0});
  auto objects = room_.Take(version, missing.lengths);
  set.wants_room = !objects.has_value();
  if (set.wants_room) {
    // It is tried again when room comes free; what does not come in time is overdue.
    set.next_try_ns = core_.clock().NowNs() + kRetryPause.count();
    set.contacts[protection.member].error =
        Status(Code::kNoSpace, fmt::format("no room for {} bytes of redundancy", set.room_bytes));
    return;
  }
  auto source = SourceOf(version, record);
  if (!source.ok()) {
    room_.Release(*objects);
    return node_level_.FailSoon(version.generation, source.status());
  }
  std::vector<HeldStream> streams;
  for (const auto& object : *objects) streams.push_back(HeldStream::Of(object));
  set.making = std::make_shared<Making>();
  set.room_bytes = 0;
  LogDebug("agent", "{} is made", set.identity.ToString());
  workers_->Submit([this, record = std::move(record), members = std::move(missing.members), streams = std::move(streams),
                    objects = std::move(*objects), source = *source, notes = MakeNotes{set.making, {}}]() mutable {
    auto tables = MakeObjects(record, members, streams, *source, &notes);
    core_.loop().Post(
        [this, identity = record.identity, members, objects, notes = std::move(notes), tables = std::move(tables)]() mutable {
          OnMade(identity, members, std::move(objects), std::move(tables), notes);
        });
  });
}

void SetMaker::OnRoom() {
  if (!room_.TakeWant() || workers_ == nullptr) return;
  std::vector<SetIdentity> waiting;  // in order of age
  for (const auto& [key, job] : core_.jobs()) {
    for (const auto& [generation, version] : job->versions) {
      if (version->protection == nullptr || !version->IsOwedToNodes()) continue;
      for (const SetProgress& set : version->protection->sets) {
        if (set.wants_room) waiting.push_back(set.identity);
      }
    }
  }
  for (const SetIdentity& identity : waiting) {
    const auto [version, set] = SetUnderWay::Find(core_, identity);
    if (set != nullptr && set->wants_room && !set->making) Begin(*version, *set);
  }
}

Status SetMaker::Keep(HeldSet& held, const std::vector<uint32_t>& members, std::vector<std::vector<OwnRange>> objects,
                      std::vector<BlockTable> tables) {
  for (size_t i = 0; i < members.size(); ++i) {
    const uint64_t bytes = tables[i].bytes;
    Status kept = held_sets_.KeepObject(held, members[i], std::move(tables[i]), std::move(objects[i]));
    if (kept.ok()) {
      core_.counters().bytes_redundancy += bytes;
      continue;
    }
    objects.erase(objects.begin(), objects.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    room_.Release(objects);
    return kept;
  }
  return Status::Ok();
}

void SetMaker::OnMade(const SetIdentity& identity, const std::vector<uint32_t>& members,
                      std::vector<std::vector<OwnRange>> objects, Result<std::vector<BlockTable>> tables,
                      const MakeNotes& notes) {
  auto [version, set] = SetUnderWay::Find(core_, identity);
  if (set != nullptr && (set->making == nullptr || set->making != notes.making.lock())) set = nullptr;  // it was begun anew
  HeldSet* held = held_sets_.Find(identity);
  Status made = tables.status();
  if (set != nullptr && held != nullptr && made.ok()) {
    made = Keep(*held, members, std::move(objects), std::move(*tables));
  } else {
    room_.Release(objects);
  }
  assignment_.PumpSoon();
  if (set == nullptr) return;
  (void)set->GetsOn();
  set->making = nullptr;
  if (!made.ok()) return TryAgain(*version, *set, made, notes);
  if (node_level_.HasJustLost(*version)) return;
  os::KillPoint("protect-kept");
  LogDebug("agent", "{} is made and kept", identity.ToString());
  const uint32_t self = version->protection->member;
  if (const uint64_t natural = set->members[self]->natural.bytes(); natural > 0) {
    core_.counters().bytes_natural += natural;
    LogInfo("agent", "{}: {} bytes of this node's image lie on enough nodes anyway", identity.ToString(), natural);
  }
  version->protection->OnStep(core_.clock().NowNs());
  set->done[self] = true;
  for (SetProgress::Contact& contact : set->contacts) contact.next_ns = 0;
  core_.events().set_changed(*version);
}

void SetMaker::TryAgain(Version& version, SetProgress& set, const Status& why, const MakeNotes& notes) {
  set.contacts[version.protection->member].error = why;
  set.room_bytes = EstimateRoom(version, set);
  // What hindered it may pass; if not, it is overdue some time.
  const Duration pause = std::min<Duration>(kRetryPause * (1 << std::min(set.failures++, 4u)), kRetryPauseMax);
  set.next_try_ns = core_.clock().NowNs() + pause.count();
  LogWarning("agent", "redundancy of {}: {}. It is tried again", set.identity.ToString(), why.ToString());
  for (const uint32_t member : notes.doubted) proofs_.Ask(version, set.identity, member);
}

}  // namespace kedge
