#include "agent/protect/protect.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "agent/images/image_table.h"
#include "agent/images/local_retention.h"
#include "agent/peers/peers.h"
#include "agent/protect/held_sets.h"
#include "agent/protect/set_member.h"
#include "agent/protect/set_source.h"
#include "agent/space/assignment.h"
#include "agent/space/own_slots.h"
#include "agent/space/tiers.h"
#include "agent/tables/agent_core.h"
#include "base/log.h"
#include "os/process/kill_point.h"
#include "redundancy/geometry.h"
#include "redundancy/layout.h"
#include "redundancy/natural.h"

namespace kedge {
namespace {

constexpr Duration kReadTimeout = std::chrono::seconds(20);
// What a member is asked again after: an answer that left something open, and none.
constexpr Duration kAskPauseMin = std::chrono::milliseconds(100);
constexpr Duration kAskPauseMax = std::chrono::seconds(2);
constexpr Duration kRetryPauseMax = std::chrono::seconds(5);
constexpr size_t kEarlyMax = 4096;
constexpr uint32_t kMeasurers = 1;
constexpr uint32_t kMakers = 2;

Scheme SchemeOf(ProtectScheme scheme) {
  return static_cast<Scheme>(scheme);
}

// What a worker makes of one set: the tables of what it wrote, in the order of `members`.
Result<std::vector<BlockTable>> MakeObjects(const SetRecord& set, uint32_t self, const std::vector<uint32_t>& members,
                                            const std::vector<HeldStream>& objects, SetSource& source, MakeNotes* notes) {
  if (const auto making = notes->making.lock()) making->begun = true;
  std::vector<BlockTable> tables;
  for (size_t i = 0; i < members.size(); ++i) {
    auto table = set.scheme == Scheme::kPartner ? MakeCopy(set, members[i], source, objects[i], notes)
                                                : MakeParity(set, self, source, objects[i], notes);
    if (!table.ok()) return table.status();
    tables.push_back(std::move(*table));
  }
  os::KillPoint("protect-made");
  return tables;
}

}  // namespace

Protect::Protect(AgentCore& core, Assignment& assignment, HeldSets& held_sets, ImageTable& images, OwnSlots& own_slots,
                 Peers& peers, LocalRetention& retention, RedundancyRoom& room, Tiers& tiers)
    : core_(core),
      assignment_(assignment),
      held_sets_(held_sets),
      images_(images),
      own_slots_(own_slots),
      peers_(peers),
      retention_(retention),
      room_(room),
      tiers_(tiers),
      measuring_(std::make_unique<Workers>(kMeasurers)),
      making_(std::make_unique<Workers>(kMakers)) {}

Protect::~Protect() {
  Stop();
}

void Protect::Stop() {
  measuring_.reset();
  making_.reset();
}

std::vector<TierUnit*> Protect::TiersOf(const Job& job) const {
  auto tiers = tiers_.ForJob(job.hello.keys);
  return tiers.ok() ? *tiers : std::vector<TierUnit*>{};
}

Status Protect::OnMembers(Job& job) {
  const JobKeys& keys = job.hello.keys;
  job.layout = nullptr;
  core_.events().members_changed(job);
  if (job.members.nodes.empty()) return Status::Ok();
  KEDGE_RETURN_IF_ERROR(peers_.Join(job));
  std::vector<redundancy::Node> nodes;
  for (const JobNode& node : job.members.nodes) {
    if (node.address.empty()) {
      return Status(Code::kUnavailable, fmt::format("node {} had no agent that others could reach", node.name));
    }
    nodes.push_back({node.name, node.failure_domain, node.ranks});
  }
  if (!keys.Protects()) return Status::Ok();
  redundancy::LayoutOptions options;
  options.scheme = SchemeOf(keys.protect_scheme);
  options.group_size = keys.protect_group;
  options.losses = keys.protect_losses;
  options.copies = keys.protect_copies;
  KEDGE_ASSIGN_OR_RETURN(redundancy::Layout layout, redundancy::MakeLayout(std::move(nodes), options));
  job.layout = std::make_shared<const redundancy::Layout>(std::move(layout));
  // Whom this node will talk to first, at a restart and for every version.
  const auto position = job.layout->Find(core_.settings().node);
  if (!position.has_value()) return Status::Ok();
  for (const redundancy::Node& node : job.layout->groups[position->group]) {
    if (node.name != core_.settings().node) peers_.Connect(job, node.name);
  }
  return Status::Ok();
}

std::string Protect::DescribeGroups(const Job& job) const {
  return job.layout == nullptr ? std::string() : redundancy::Describe(*job.layout);
}

SetProgress* Protect::FindSet(const SetIdentity& identity, Version** version) const {
  *version = core_.FindVersion(identity.generation);
  if (*version == nullptr || (*version)->protection == nullptr) return nullptr;
  for (SetProgress& set : (*version)->protection->sets) {
    if (set.identity == identity) return &set;
  }
  return nullptr;
}

// What is known already: from files of a former agent, and from members that were faster.
bool Protect::TakeKept(Version& version, SetProgress& set) {
  const uint32_t self = version.protection->member;
  auto kept = version.sets.find(set.identity);
  if (kept == version.sets.end()) return false;
  const HeldSet& held = *kept->second;
  if (held.record.members.size() != set.members.size()) return false;
  for (size_t i = 0; i < set.members.size(); ++i) set.members[i] = held.record.members[i];
  std::vector<uint32_t> wanted{self};
  if (held.record.scheme == Scheme::kPartner) wanted = version.protection->layout->HeldBy(version.protection->group, self);
  set.done[self] = std::all_of(wanted.begin(), wanted.end(), [&](uint32_t member) {
    const bool nothing = held.record.scheme == Scheme::kPartner ? held.record.members[member].blocks.bytes == 0
                                                                : redundancy::Geometry(held.record).parity_bytes() == 0;
    return nothing || held.objects.contains(member);
  });
  return true;
}

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
  for (SetProgress& set : version.protection->sets) {
    (void)TakeKept(version, set);
    for (auto early = early_.begin(); early != early_.end();) {
      if (early->set != set.identity || early->from >= members) {
        ++early;
        continue;
      }
      set.members[early->from] = std::move(early->member);
      set.done[early->from] = early->done;
      early = early_.erase(early);
    }
    if (!set.done[position->member]) set.room_bytes = EstimateRoom(version, set);
  }
  room_.OnBegun(version);
  return Status::Ok();
}

// Of the version before: this one will have about as much.
uint64_t Protect::NaturalBytesBefore(const Version& version, const SetProgress& set) const {
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

// As if the other members' images were as long as ours.
uint64_t Protect::EstimateRoom(const Version& version, const SetProgress& set) const {
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

void Protect::Consider(Version& version) {
  if (!version.IsOwedToNodes()) return;
  for (const auto& [rank, image] : version.images) {
    if (image->damaged && !image->doomed) return FailSoon(version.generation, image->DamagedHere());
  }
  // What the job has gone on from comes here image by image, and others of the version may lie here from before.
  if (version.restored ? MissingRank(version).has_value() : !version.IsWhole()) return;
  if (version.protection != nullptr && version.protection->layout->id != version.job->layout->id) version.protection = nullptr;
  if (version.protection == nullptr) {
    Status begun = Begin(version);
    if (!begun.ok()) return FailSoon(version.generation, begun);
  }
  AdvanceSoon(version.generation);
}

void Protect::OnRestored(Job& job, const Generation& generation, uint32_t rank) {
  if (job.layout == nullptr || job.hello.keys.schedule_node == 0 || IsOfOtherRanks(job, generation)) return;
  BringOptions options;
  options.from_store = true;
  core_.events().image_missed(job, generation, rank, options, [this, generation, rank](const Status& brought) {
    Version* version = core_.FindVersion(generation);
    if (brought.code() == Code::kInvalidArgument) return;  // the version has no such rank
    if (core_.FindWhole(generation, rank) != nullptr) return ProtectAgain(*version);
    LogWarning("agent", "{}, which rank {} has restarted from, is not protected again: {}", generation.ToString(), rank,
               brought.ToString());
    // The images of the node's other ranks do not wait for it.
    const Status why(Code::kIncomplete,
                     fmt::format("rank {}'s image does not come to node {}: {}", rank, core_.settings().node, brought.message()));
    if (version != nullptr && version->restored) return FailSoon(generation, why);
    if (const Job* found = core_.FindJobOf(generation)) AgainOf(*found, generation).failure = why;
  });
}

Protect::Again& Protect::AgainOf(const Job& job, const Generation& generation) {
  Again& again = again_[generation];
  if (again.attempt == job.members.attempt) return again;
  again = {job.members.attempt, core_.clock().NowNs(), Status::Ok()};
  std::erase_if(again_, [&](const auto& entry) {
    return entry.first.store_id == job.store_id && entry.first.job == job.name && entry.second.attempt != again.attempt;
  });
  return again;
}

// Whether another number of ranks has taken it than the job has now. Its images are not those that the job's layout is of.
bool Protect::IsOfOtherRanks(const Job& job, const Generation& generation) const {
  const Version* version = core_.FindVersion(generation);
  return version != nullptr && version->ranks != job.hello.ranks;
}

void Protect::ProtectAgain(Version& version) {
  if (version.job->layout == nullptr || IsOfOtherRanks(*version.job, version.generation)) return;
  if (version.restored) return Consider(version);  // another rank's image has come
  version.restored = version.to_node = true;
  for (const JobNode& node : version.job->members.nodes) {
    if (node.name == core_.settings().node) version.node_ranks = static_cast<uint32_t>(node.ranks.size());
  }
  version.AlsoTo(Level::kNode);
  version.at_node = false;
  version.protection = nullptr;
  const Status& failure = AgainOf(*version.job, version.generation).failure;
  version.node_failure = failure.ok() ? failure : NodeFailure(version.generation, failure);
  Consider(version);
}

void Protect::OnVersionGone(const Version& version) {
  std::erase_if(early_, [&](const Early& early) { return early.set.generation == version.generation; });
}

void Protect::AdvanceSoon(const Generation& generation) {
  if (!posted_.insert(generation).second) return;
  core_.loop().Post([this, generation] {
    posted_.erase(generation);
    Version* version = core_.FindVersion(generation);
    if (version != nullptr && version->protection != nullptr && version->IsOwedToNodes()) Advance(*version);
  });
}

void Protect::Advance(Version& version) {
  Protection& protection = *version.protection;
  const uint32_t self = protection.member;
  const int64_t now_ns = core_.clock().NowNs();
  bool all_done = true;
  for (SetProgress& set : protection.sets) {
    if (!set.members[self].has_value()) Measure(version, set);
    if (!set.members[self].has_value()) {
      all_done = false;
      continue;
    }
    if (set.IsKnown() && !set.done[self] && !set.making && now_ns >= set.next_try_ns) Make(version, set);
    for (uint32_t member = 0; member < set.members.size(); ++member) {
      if (set.IsToAsk(self, member, now_ns)) Exchange(version, set, member);
    }
    all_done = all_done && set.IsDone();
  }
  if (!all_done) return;
  protection.groups_done.contains(protection.group) ? AskAboutGroups(version) : OnOwnGroupDone(version);
}

// Our image's stream, measured once.
void Protect::Measure(Version& version, SetProgress& set) {
  if (set.measuring || core_.clock().NowNs() < set.next_try_ns) return;
  const Protection& protection = *version.protection;
  const redundancy::Node& node = protection.layout->groups[protection.group][protection.member];
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
    return FailSoon(version.generation,
                    Status(Code::kIncomplete, fmt::format("rank {}'s image is gone from node {}", *member.rank, node.name)));
  }
  const Image& image = *found->second;
  set.measuring = true;
  measuring_->Submit([this, stream = HeldStream::Of(image), offset = image.record_object_offset, bytes = image.record_bytes,
                      natural = NaturalBlockBytes(version.job->hello.keys), member = std::move(member), identity = set.identity,
                      id = image.id] {
    auto made = MakeMember(stream, offset, bytes, natural, member);
    os::KillPoint("protect-measured");
    core_.loop().Post([this, identity, id, made = std::move(made)] {
      if (!made.ok()) NoteIfDamaged(id, made.status());
      Version* owner = nullptr;
      SetProgress* found_set = FindSet(identity, &owner);
      if (found_set == nullptr) return;
      found_set->measuring = false;
      if (!made.ok()) return Fail(*owner, made.status());
      owner->protection->OnStep(core_.clock().NowNs());
      LogDebug("agent", "{} is measured", identity.ToString());
      found_set->members[owner->protection->member] = *made;
      AdvanceSoon(owner->generation);
    });
  });
}

void Protect::NoteIfDamaged(uint64_t image_id, const Status& read) {
  Image* image = images_.Find(image_id);
  if (image == nullptr || image->doomed || read.code() != Code::kCorrupt) return;
  retention_.OnDamaged(*image->version, image->rank, read);
}

void Protect::Exchange(Version& version, SetProgress& set, uint32_t member) {
  const Protection& protection = *version.protection;
  SetProgress::Contact& contact = set.contacts[member];
  contact.asking = true;
  contact.telling_done = set.done[protection.member];
  ExchangeRequest request{set.identity, protection.member, set.done[protection.member], *set.members[protection.member]};
  peers_.Call(*version.job, protection.layout->groups[protection.group][member].name, PeerKind::kExchange, Encode(request),
              kCallTimeout, [this, identity = set.identity, member, told_done = request.done](Result<Buffer> answer) {
                Version* owner = nullptr;
                SetProgress* found = FindSet(identity, &owner);
                if (found == nullptr || member >= found->contacts.size()) return;
                SetProgress::Contact& asked = found->contacts[member];
                asked.asking = false;
                auto reply = answer.ok() ? DecodeExchangeReply(*answer, identity.ranks) : Result<ExchangeReply>(answer.status());
                asked.error = reply.status();
                // Often enough to hear of a slow member in time that it gets on.
                const Duration ask_pause =
                    std::clamp<Duration>(owner->job->hello.keys.protect_timeout / 4, kAskPauseMin, kAskPauseMax);
                asked.next_ns = core_.clock().NowNs() + (reply.ok() ? ask_pause : kRetryPause).count();
                if (!reply.ok()) return OnRefusal(*owner, reply.status());
                asked.told_done = told_done;
                if (reply->mark > asked.mark) {
                  asked.mark = reply->mark;
                  owner->protection->progress_ns = core_.clock().NowNs();
                }
                if (reply->theirs.has_value() && !found->members[member].has_value()) {
                  found->members[member] = std::move(*reply->theirs);
                  owner->protection->OnStep(core_.clock().NowNs());
                }
                if (reply->done && !found->done[member]) {
                  found->done[member] = true;
                  owner->protection->OnStep(core_.clock().NowNs());
                }
                // What has come since is told at once.
                if (found->done[owner->protection->member] && !asked.telling_done) asked.next_ns = 0;
                AdvanceSoon(owner->generation);
              });
}

Result<ExchangeReply> Protect::OnExchange(Job& job, const ExchangeRequest& request) {
  const auto& layout = job.layout;
  const SetIdentity& identity = request.set;
  if (layout == nullptr || layout->id != identity.layout) {
    return Status(Code::kMismatch,
                  fmt::format("{}: node {} knows another layout of the job", identity.ToString(), core_.settings().node));
  }
  const auto self = layout->Find(core_.settings().node);
  const bool sane = self.has_value() && self->group == identity.group && request.from < layout->groups[identity.group].size() &&
                    request.from != self->member && identity.index < layout->SetCount(identity.group) &&
                    layout->groups[identity.group][request.from].name == request.mine.node &&
                    layout->RankAt(identity.group, request.from, identity.index) == request.mine.rank;
  if (!sane) return Status(Code::kInvalidArgument, identity.ToString() + ": not what the layout says");
  ExchangeReply reply;
  Version* version = nullptr;
  if (SetProgress* set = FindSet(identity, &version)) {
    if (!set->members[request.from].has_value() || (request.done && !set->done[request.from])) {
      set->members[request.from] = request.mine;
      set->done[request.from] = set->done[request.from] || request.done;
      version->protection->OnStep(core_.clock().NowNs());
      AdvanceSoon(version->generation);
    }
    reply.theirs = set->members[self->member];
    reply.done = set->done[self->member];
    reply.mark = set->Mark();
    return reply;
  }
  // Done here already; or given up; or not begun.
  const HeldSet* held = held_sets_.Find(identity);
  if (held != nullptr && version != nullptr && version->at_node && version->node_failure.ok()) {
    reply.theirs = held->record.members[self->member];
    reply.done = true;
    return reply;
  }
  if (const Status* outcome = outcomes_.Find(identity.generation, identity.layout)) {
    if (!outcome->ok()) return *outcome;
    reply.done = true;
    return reply;
  }
  const auto rank = layout->RankAt(self->group, self->member, identity.index);
  if (rank.has_value() && job.HasPassedOver(identity.generation, *rank)) {
    return Status(Code::kIncomplete,
                  fmt::format("node {} has no image of rank {}, and has later ones", core_.settings().node, *rank));
  }
  std::erase_if(early_, [&](const Early& early) { return early.set == identity && early.from == request.from; });
  early_.push_back({identity, request.from, request.done, request.mine});
  if (early_.size() > kEarlyMax) early_.pop_front();
  return reply;
}

void Protect::Make(Version& version, SetProgress& set) {
  const Protection& protection = *version.protection;
  const redundancy::Layout& layout = *protection.layout;
  const uint32_t self = protection.member;
  SetRecord record;
  record.identity = set.identity;
  record.scheme = layout.scheme;
  record.parity = layout.parity;
  for (const auto& member : set.members) record.members.push_back(*member);
  redundancy::KeepNatural(record.parity, &record.members);
  for (size_t i = 0; i < set.members.size(); ++i) set.members[i]->natural = record.members[i].natural;
  auto kept = held_sets_.Keep(version, record);
  if (!kept.ok()) return FailSoon(version.generation, kept.status());
  std::vector<uint32_t> members;
  std::vector<uint64_t> lengths;
  set.wants_room = false;
  if (layout.scheme == Scheme::kPartner) {
    for (const uint32_t member : layout.HeldBy(protection.group, self)) {
      if (record.members[member].blocks.bytes == 0 || (*kept)->objects.contains(member)) continue;
      members.push_back(member);
      lengths.push_back(record.members[member].blocks.bytes);
    }
  } else if (const uint64_t bytes = redundancy::Geometry(record).parity_bytes(); bytes > 0 && !(*kept)->objects.contains(self)) {
    members.push_back(self);
    lengths.push_back(bytes);
  }
  set.room_bytes = std::accumulate(lengths.begin(), lengths.end(), uint64_t{0});
  const bool may_take = room_.MayTake(version, set.room_bytes);
  std::vector<std::vector<OwnRange>> ranges;
  std::vector<HeldStream> objects;
  for (const uint64_t bytes : lengths) {
    auto taken = may_take ? own_slots_.TakeAll(TiersOf(*version.job), bytes) : std::nullopt;
    if (!taken.has_value()) {
      for (auto object = ranges.rbegin(); object != ranges.rend(); ++object) own_slots_.GiveBackAll(*object);
      // It is tried again when room comes free; what does not come in time is overdue.
      set.next_try_ns = core_.clock().NowNs() + kRetryPause.count();
      set.contacts[self].error = Status(Code::kNoSpace, fmt::format("no room for {} bytes of redundancy", bytes));
      set.wants_room = true;
      room_.Want();
      return;
    }
    objects.push_back(HeldStream::Of(*taken));
    ranges.push_back(std::move(*taken));
  }
  auto source = std::make_shared<SetSource>(peers_.LinkInBackground(*version.job), record, kReadTimeout);
  for (uint32_t member = 0; member < record.members.size(); ++member) {
    if (!record.members[member].rank.has_value()) continue;
    SetSource::Place place{std::nullopt, record.members[member].node};
    if (member == self) {
      const Image* own = core_.FindWhole(version.generation, *record.members[member].rank);
      if (own == nullptr) {
        for (const auto& object : ranges) own_slots_.ReleaseAll(object);
        return FailSoon(version.generation, Status(Code::kIncomplete, "an image of this node is gone"));
      }
      place = {HeldStream::Of(*own), ""};
    }
    source->SetStream(member, std::move(place));
  }
  set.making = std::make_shared<Making>();
  set.room_bytes = 0;
  LogDebug("agent", "{} is made", set.identity.ToString());
  making_->Submit([this, record = std::move(record), self, members, objects = std::move(objects), ranges = std::move(ranges),
                   source, notes = MakeNotes{set.making, {}}]() mutable {
    auto tables = MakeObjects(record, self, members, objects, *source, &notes);
    core_.loop().Post(
        [this, identity = record.identity, members, ranges, notes = std::move(notes), tables = std::move(tables)]() mutable {
          OnMade(identity.generation, identity, members, std::move(ranges), std::move(tables), notes);
        });
  });
}

void Protect::OnRoom() {
  if (!room_.TakeWant() || making_ == nullptr) return;
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
    Version* version = nullptr;
    SetProgress* set = FindSet(identity, &version);
    if (set != nullptr && set->wants_room && !set->making) Make(*version, *set);
  }
}

void Protect::OnMade(const Generation& generation, const SetIdentity& identity, std::vector<uint32_t> members,
                     std::vector<std::vector<OwnRange>> ranges, Result<std::vector<BlockTable>> tables, const MakeNotes& notes) {
  Version* version = nullptr;
  SetProgress* set = FindSet(identity, &version);
  if (set != nullptr && (set->making == nullptr || set->making != notes.making.lock())) set = nullptr;  // it was begun anew
  HeldSet* held = held_sets_.Find(identity);
  const bool wanted = set != nullptr && held != nullptr && tables.ok();
  for (size_t i = 0; i < members.size(); ++i) {
    if (!wanted) {
      own_slots_.ReleaseAll(ranges[i]);
      continue;
    }
    Status kept = held_sets_.KeepObject(*held, members[i], std::move((*tables)[i]), std::move(ranges[i]));
    if (!kept.ok()) tables = kept;
  }
  assignment_.PumpSoon();
  if (set == nullptr) return;
  (void)set->GetsOn();
  set->making = nullptr;
  if (!tables.ok()) {
    set->contacts[version->protection->member].error = tables.status();
    set->room_bytes = EstimateRoom(*version, *set);
    // What hindered it may pass; if not, it is overdue some time.
    const Duration pause = std::min<Duration>(kRetryPause * (1 << std::min(set->failures++, 4u)), kRetryPauseMax);
    set->next_try_ns = core_.clock().NowNs() + pause.count();
    LogWarning("agent", "redundancy of {}: {}. It is tried again", identity.ToString(), tables.status().ToString());
    for (const uint32_t member : notes.doubted) AskForProof(*version, identity, member);
    return;
  }
  if (HasJustLost(*version)) return;
  os::KillPoint("protect-kept");
  LogDebug("agent", "{} is made and kept", identity.ToString());
  if (const uint64_t natural = set->members[version->protection->member]->natural.bytes(); natural > 0) {
    core_.counters().bytes_natural += natural;
    LogInfo("agent", "{}: {} bytes of this node's image lie on enough nodes anyway", identity.ToString(), natural);
  }
  version->protection->OnStep(core_.clock().NowNs());
  set->done[version->protection->member] = true;
  for (SetProgress::Contact& contact : set->contacts) contact.next_ns = 0;
  AdvanceSoon(generation);
}

}  // namespace kedge
