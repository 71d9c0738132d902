#include "agent/space/assignment.h"

#include <algorithm>

#include "agent/space/flush_load.h"
#include "agent/space/memory_ledger.h"
#include "agent/space/redundancy_room.h"
#include "agent/space/room_giver.h"
#include "agent/space/throughput.h"
#include "agent/space/tiers.h"
#include "agent/tables/agent_core.h"
#include "os/process/kill_point.h"

namespace kedge {
namespace {

// How long a recall may take before it counts as answered, and how long it then counts.
constexpr Duration kRecallAnswer = std::chrono::milliseconds(50);
constexpr Duration kRecallPause = std::chrono::milliseconds(500);
// How long a capture waits for redundancy to make room, or leaves it what there is, before it goes through to the store.
constexpr Duration kRedundancyPause = std::chrono::seconds(2);
// Of one session that wait at a time. A client makes one for each thread that captures; the bound is against broken ones.
constexpr size_t kRequestsMax = kClientRingEntries;
// How far an open slot grows while there are others.
constexpr uint64_t kOpenBytesMax = uint64_t{8} << 20;
// More than any rank has: sums of it do not overflow.
constexpr uint64_t kBytesToComeMax = uint64_t{1} << 48;

constexpr Duration kToldSoon = std::chrono::seconds(3);

bool IsForOpenSlot(const AssignmentQueue::Request& request) {
  return request.kind == static_cast<uint32_t>(PlaceKind::kOpenSlot);
}

// Whether its nodes were told of late what this one holds: what is whole on all of them by that makes room here.
bool IsPromisedOfLate(const Job& job, int64_t now_ns) {
  const int64_t since_ns = now_ns - kToldSoon.count();
  return std::any_of(job.promises.begin(), job.promises.end(),
                     [&](const auto& entry) { return entry.second.own.has_value() && entry.second.promised_ns > since_ns; });
}

}  // namespace

Assignment::Assignment(AgentCore& core, FlushLoad& flush, RoomGiver& giver, MemoryLedger& memory, RedundancyRoom& room,
                       Throughput& throughput, Tiers& tiers)
    : core_(core),
      flush_(flush),
      giver_(giver),
      memory_(memory),
      room_(room),
      throughput_(throughput),
      tiers_(tiers),
      queue_(*this, core.clock()) {}

Status Assignment::Add(Session& session, const RequestPlace& asked) {
  if (queue_.CountOf(session.id) >= kRequestsMax) {
    return Status(Code::kInvalidArgument, "too many requests for a place at a time");
  }
  const bool is_full_chunk = asked.place == PlaceKind::kFullChunk;
  Request request;
  request.writer = session.id;
  request.number = asked.number;
  request.kind = static_cast<uint32_t>(is_full_chunk ? PlaceKind::kFullChunk : PlaceKind::kOpenSlot);
  request.bytes = asked.bytes;
  if (is_full_chunk) {
    request.bytes_to_come = std::min(asked.bytes_to_come, kBytesToComeMax);
    throughput_.OnAsked(session);
  }
  if (is_full_chunk || !GrowOpen(session, asked.grow, request)) queue_.Add(request);
  return Status::Ok();
}

bool Assignment::GrowOpen(Session& session, const SlotRange& range, Request& request) {
  if (range.slot_generation == 0 || range.tier >= session.tiers.size() || session.open_grows) return false;
  TierUnit* unit = session.tiers[range.tier];
  if (unit->lost || range.slot >= unit->info().slots) return false;
  const SlotEntry entry = unit->space->Get(range.slot);
  const uint64_t slot_bytes = unit->info().slot_bytes, backed_bytes = unit->space->BackedIn(range.slot);
  const uint64_t wanted_bytes = range.bytes;
  const bool is_its_own = entry.owner == session.id && entry.generation == range.slot_generation;
  if (!is_its_own || wanted_bytes <= backed_bytes) return false;
  const Duration in_use(core_.clock().NowNs() - session.open_since_ns);
  const bool is_fast = static_cast<double>(backed_bytes) > kFastOpenBytesPerSecond * ToSeconds(in_use);
  const bool has_others = memory_.FreeSlots(*unit) > unit->full_slots / 4;
  // Its former chunks go one after the other, and the slot with the last: a small one is free sooner.
  const bool is_large = wanted_bytes > kOpenBytesMax && has_others && !is_fast;
  if (wanted_bytes > slot_bytes || is_large) {
    // The next one will be used up as fast.
    if (is_fast && memory_.FreeSlots(*unit) > 1) request.bytes = std::max(request.bytes, backed_bytes);
    return false;
  }
  session.open_grows = memory_.Grow(unit, range.slot, std::max(wanted_bytes, 2 * backed_bytes),
                                    [this, id = session.id, unit, range, request](bool grown) {
                                      Session* found = core_.sessions().Find(id);
                                      if (found == nullptr) return;
                                      found->open_grows = false;
                                      // It may have been returned meanwhile.
                                      if (!grown || unit->space->Get(range.slot).owner != id) {
                                        queue_.Add(request);
                                        return Pump();
                                      }
                                      SlotRange whole = range;
                                      whole.offset = 0;
                                      whole.bytes = unit->space->BackedIn(range.slot);
                                      Answer(*found, request, AssignOutcome::kSlot, whole);
                                    });
  return session.open_grows;
}

void Assignment::ForgetTier(const TierUnit* unit) {
  std::erase_if(recalled_ns_,
                [&](const auto& entry) { return std::find(entry.first.begin(), entry.first.end(), unit) != entry.first.end(); });
}

void Assignment::Drop(const Session& session) {
  queue_.Drop(session.id);
  std::erase_if(recalled_ns_, [&](const auto& entry) { return entry.first == session.tiers; });
}

void Assignment::Pump() {
  if (queue_.size() > 0 || room_.wants()) giver_.ReconsiderPending();
  memory_.BeginAsking();
  core_.events().room_came();
  queue_.Pump(core_.policy());
}

void Assignment::PumpSoon() {
  if (pump_posted_ || (queue_.size() == 0 && !room_.wants())) return;
  pump_posted_ = true;
  core_.loop().Post([this] {
    pump_posted_ = false;
    Pump();
  });
}

void Assignment::AskAgain(Duration after) {
  const int64_t due_ns = core_.clock().NowNs() + after.count();
  if (ask_again_ns_ != 0 && ask_again_ns_ <= due_ns) return;
  ask_again_ns_ = due_ns;
  core_.loop().AddTimer(after, [this, due_ns] {
    if (ask_again_ns_ != due_ns) return;  // an earlier one was asked for meanwhile
    ask_again_ns_ = 0;
    Pump();
  });
}

Session* Assignment::Find(uint64_t writer) const {
  return core_.sessions().Find(static_cast<uint32_t>(writer));
}

bool Assignment::IsThere(uint64_t writer) {
  return Find(writer) != nullptr;
}

bool Assignment::SameTiers(uint64_t writer, uint64_t other) {
  const Session* one = Find(writer);
  const Session* two = Find(other);
  return one != nullptr && two != nullptr && one->tiers == two->tiers;
}

NodeLoad Assignment::LoadFor(const Request& request, std::vector<TierLoad>* tiers) {
  const Session& session = *Find(request.writer);
  const bool is_open = IsForOpenSlot(request);
  for (const TierUnit* unit : session.tiers) {
    tiers->push_back(tiers_.LoadOf(*unit, &session));
    if (is_open && !unit->lost && !tiers->back().HasRoom() && memory_.HasPart(*unit, request.bytes)) tiers->back().free_slots = 1;
  }
  if (IsKeptFrom(session, request)) {
    for (TierLoad& tier : *tiers) tier.free_slots = tier.evictable_slots = 0;
  }
  return flush_.Load(throughput_.FlushBytesPerSecond(session.job->store_id));
}

AssignmentQueue::Outcome Assignment::Assign(const Request& request, size_t tier) {
  Session& session = *Find(request.writer);
  return AssignIn(session, request, session.tiers[tier]);
}

AssignmentQueue::Refusal Assignment::NotPlaced(Request& request, const PlaceDecision& decision) {
  using enum AssignmentQueue::Refusal;
  Session& session = *Find(request.writer);
  if (memory_.IsMaking(session.tiers)) return kStays;
  // No tier is worth it as they are: a flushed chunk of an image under way makes room where it lies.
  const bool kept = IsKeptFrom(session, request);
  const bool released = std::any_of(session.tiers.begin(), session.tiers.end(), [&](TierUnit* unit) {
    return (kept || !tiers_.LoadOf(*unit).HasRoom()) && giver_.ReleaseFlushed(unit);
  });
  if (released) return kAskNow;
  if (!request.waited) {
    request.waited = true;
    ++core_.counters().places_waited;
  }
  const bool recalling = Recall(session);
  if (decision.kind == PlaceDecision::Kind::kWait || recalling) return kStays;
  if (const auto refusal = WaitForRedundancy(session, request); refusal.has_value()) return *refusal;
  ++core_.counters().places_through;
  throughput_.OnThrough(session);
  Answer(session, request, AssignOutcome::kThrough, SlotRange{});
  return kAnswered;
}

bool Assignment::IsKeptFrom(const Session& session, const Request& request) const {
  return favoured_ != std::pair(request.writer, request.number) && room_.IsKeptFrom(*session.job);
}

std::optional<AssignmentQueue::Refusal> Assignment::WaitForRedundancy(const Session& session, const Request& request) {
  const int64_t left_ns = request.head_since_ns + kRedundancyPause.count() - core_.clock().NowNs();
  if (left_ns > 0 && (room_.MayComeSoon(*session.job) || IsPromisedOfLate(*session.job, core_.clock().NowNs()))) {
    AskAgain(Duration(left_ns));
    return AssignmentQueue::Refusal::kStays;
  }
  if (!IsKeptFrom(session, request)) return std::nullopt;
  favoured_ = {request.writer, request.number};
  return AssignmentQueue::Refusal::kAskNow;
}

AssignmentQueue::Outcome Assignment::AssignIn(Session& session, const Request& request, TierUnit* unit) {
  using enum AssignmentQueue::Outcome;
  memory_.Expect(unit, request.bytes_to_come);
  uint32_t slot = 0;
  const bool is_open = IsForOpenSlot(request);
  const auto use = is_open ? MemoryLedger::Use::kPart : MemoryLedger::Use::kWhole;
  switch (memory_.Find(unit, session.id, request.bytes, use, &slot)) {
    case MemoryLedger::Found::kReady: break;
    case MemoryLedger::Found::kSoon: return kLater;
    case MemoryLedger::Found::kNone: return kNoSpace;
  }
  SlotRange range{};
  range.tier = static_cast<uint32_t>(std::find(session.tiers.begin(), session.tiers.end(), unit) - session.tiers.begin());
  range.slot = slot;
  range.slot_generation = unit->space->Assign(slot, session.id);
  range.bytes = unit->space->BackedIn(slot);
  os::KillPoint("slot-assigned");
  if (request.kind == static_cast<uint32_t>(PlaceKind::kFullChunk)) {
    throughput_.OnAssigned(session, *unit, range, request);
  }
  if (is_open) session.open_since_ns = core_.clock().NowNs();
  ++core_.counters().places_assigned;
  Answer(session, request, AssignOutcome::kSlot, range);
  return kAssigned;
}

bool Assignment::Recall(const Session& for_whom) {
  const int64_t now_ns = core_.clock().NowNs();
  const auto asked = recalled_ns_.find(for_whom.tiers);
  if (asked != recalled_ns_.end() && now_ns - asked->second < kRecallAnswer.count()) return true;
  if (asked != recalled_ns_.end() && now_ns - asked->second < kRecallPause.count()) return false;
  bool anyone = false;
  for (Session* session : core_.sessions().all()) {
    const bool shares = std::any_of(session->tiers.begin(), session->tiers.end(), [&](const TierUnit* unit) {
      return std::find(for_whom.tiers.begin(), for_whom.tiers.end(), unit) != for_whom.tiers.end() &&
             unit->space->AssignedTo(session->id) > 0;
    });
    if (!shares || session->id == for_whom.id) continue;
    core_.sessions().Send(*session, RecallSlots{});
    anyone = true;
  }
  if (!anyone) return false;
  recalled_ns_[for_whom.tiers] = now_ns;
  ++core_.counters().recalls;
  core_.loop().AddTimer(kRecallAnswer, [this] { Pump(); });
  return true;
}

void Assignment::Answer(Session& session, const Request& request, AssignOutcome outcome, const SlotRange& range) {
  if (request.waited) throughput_.OnWaited(session, Duration(core_.clock().NowNs() - request.since_ns));
  core_.sessions().Send(session, AssignPlace{.outcome = outcome, .number = request.number, .range = range});
}

}  // namespace kedge
