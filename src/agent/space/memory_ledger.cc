#include "agent/space/memory_ledger.h"

#include <algorithm>
#include <set>
#include <thread>
#include <utility>

#include "agent/space/assignment.h"
#include "agent/space/own_slots.h"
#include "agent/space/redundancy_room.h"
#include "agent/space/room_giver.h"
#include "agent/space/tiers.h"
#include "agent/tables/agent_core.h"
#include "agent/tables/run_folder.h"
#include "base/log.h"
#include "os/files/files.h"

namespace kedge {
namespace {

// Backing goes by large pages.
constexpr uint64_t kUnitBytes = uint64_t{2} << 20;
// What is made ahead is made in parts, between which it may rest.
constexpr uint64_t kAheadPartBytes = uint64_t{16} << 20;
// From here on, a slot that somebody waits for is only reserved.
constexpr uint64_t kHurriedBytesMin = uint64_t{8} << 20;
constexpr Duration kHeldPause = std::chrono::milliseconds(5);
// How long something must be of no use before it goes back: with a session, whose next version may need it, and without.
constexpr Duration kIdleWithSessions = std::chrono::seconds(30);
constexpr Duration kIdleAlone = std::chrono::seconds(4);
// Memory is made ahead for no more than so many kept versions of a rank: the others come one by one.
constexpr uint64_t kKeptAheadMax = 3;
constexpr uint64_t kKeptMax = 1000;  // beyond any ceiling
constexpr Duration kRefusedPause = std::chrono::seconds(1);
constexpr Duration kReleasePatience = std::chrono::seconds(10);

uint64_t RoundedFor(const TierUnit& unit, uint64_t bytes) {
  return std::min(unit.info().slot_bytes, (bytes + kUnitBytes - 1) / kUnitBytes * kUnitBytes);
}

bool IsMemory(const TierUnit& unit) {
  return unit.info().kind == TierKind::kMemory;
}

// Of a directory tier, whose file system may be full of what others put there.
bool IsReserved(const TierUnit& unit, uint32_t slot) {
  const Status reserved = IsMemory(unit) ? Status::Ok() : unit.tier->ReserveAll(slot);
  if (reserved.ok()) return true;
  static LogRateLimit limit(std::chrono::seconds(10));
  LogLimited(limit, LogLevel::kWarning, "agent", "tier {}: {}", unit.info().name, reserved.ToString());
  return false;
}

}  // namespace

MemoryLedger::MemoryLedger(AgentCore& core, Assignment& assignment, RoomGiver& giver, OwnSlots& own_slots, RedundancyRoom& room,
                           Tiers& tiers)
    : core_(core),
      assignment_(assignment),
      giver_(giver),
      own_slots_(own_slots),
      room_(room),
      tiers_(tiers),
      awaited_(1, std::chrono::seconds(2), Workers::Priority::kAwaited),
      ahead_(1, std::chrono::seconds(2), Workers::Priority::kLow) {}

void MemoryLedger::OnOpened(TierUnit* unit, bool fresh) {
  if (!IsMemory(*unit)) {
    for (uint32_t slot = 0; slot < unit->info().slots; ++slot) unit->space->SetBacked(slot, unit->info().slot_bytes);
    return;
  }
  if (!fresh) TakeOver(*unit);
  Look();
}

void MemoryLedger::TakeOver(const TierUnit& unit) {
  const uint64_t slot_bytes = unit.info().slot_bytes;
  const Result<uint64_t> space_bytes = unit.tier->SpaceBytes();
  uint64_t left_bytes = space_bytes.ok() ? *space_bytes : unit.capacity_bytes();
  if (left_bytes == 0) return;
  std::vector<uint64_t> bytes_in(unit.info().slots);
  for (uint32_t slot = 0; slot < unit.info().slots && left_bytes > 0; ++slot) {
    bytes_in[slot] = std::min(left_bytes, unit.tier->WrittenBytes(slot));
    left_bytes -= bytes_in[slot];
  }
  // What was reserved, and not written, is somewhere.
  for (uint32_t slot = 0; slot < unit.info().slots; ++slot) {
    const uint64_t more_bytes = std::min(left_bytes, slot_bytes - bytes_in[slot]);
    left_bytes -= more_bytes;
    unit.space->SetUnknown(slot, bytes_in[slot] + more_bytes);
  }
}

void MemoryLedger::Look() {
  const MemoryRoom room = RoomOf(LookAtMemory());
  room_bytes_ = room.bytes;
  room_bound_ = room.bound;
  for (TierUnit* unit : MemoryUnits()) {
    const auto volume = fs().StatVolume(os::ParentPath(unit->info().path));
    unit->memory.volume_room_bytes = volume.ok() ? RoomOf(*volume).bytes : INT64_MAX;
    // What is being made is not seen there yet, or only in part.
    const auto making_bytes = static_cast<int64_t>(unit->memory.making_bytes);
    unit->memory.volume_room_bytes -= making_bytes;
    room_bytes_ -= making_bytes;
  }
}

std::vector<TierUnit*> MemoryLedger::MemoryUnits() const {
  std::vector<TierUnit*> units = tiers_.units();
  std::erase_if(units, [](const TierUnit* unit) { return !IsMemory(*unit); });
  return units;
}

uint64_t MemoryLedger::ceiling_bytes() const {
  uint64_t node_bytes = 0, scratch_bytes = 0;
  for (const TierUnit* unit : MemoryUnits()) {
    if (unit->lost) continue;
    const uint64_t bytes = unit->capacity_bytes();
    if (unit->scratch.empty()) {
      node_bytes += bytes;
    } else {
      scratch_bytes = std::max(scratch_bytes, bytes);
    }
  }
  return std::max(node_bytes, scratch_bytes);
}

uint64_t MemoryLedger::backed_bytes() const {
  uint64_t bytes = 0;
  for (const TierUnit* unit : MemoryUnits()) bytes += unit->space->backed_bytes() + unit->memory.making_bytes;
  return bytes;
}

uint64_t MemoryLedger::spare_bytes() const {
  uint64_t bytes = 0;
  for (const TierUnit* unit : MemoryUnits()) bytes += unit->space->spare_bytes();
  return bytes;
}

MemoryRoom MemoryLedger::Room() const {
  const auto under_ceiling = static_cast<int64_t>(ceiling_bytes()) - static_cast<int64_t>(backed_bytes());
  return under_ceiling <= room_bytes_ ? MemoryRoom{under_ceiling, "pool.size"} : MemoryRoom{room_bytes_, room_bound_};
}

MemoryRoom MemoryLedger::RoomIn(const TierUnit& unit) const {
  const MemoryRoom room = Room();
  const int64_t volume_bytes = core_.clock().NowNs() < unit.memory.refused_until_ns ? 0 : unit.memory.volume_room_bytes;
  return room.bytes <= volume_bytes ? room : MemoryRoom{volume_bytes, "the memory file system"};
}

bool MemoryLedger::TakeRoom(TierUnit* unit, uint64_t bytes) {
  if (RoomIn(*unit).bytes < static_cast<int64_t>(bytes)) return false;
  room_bytes_ -= static_cast<int64_t>(bytes);
  unit->memory.volume_room_bytes -= static_cast<int64_t>(bytes);
  return true;
}

void MemoryLedger::ReturnRoom(TierUnit* unit, uint64_t bytes) {
  room_bytes_ += static_cast<int64_t>(bytes);
  unit->memory.volume_room_bytes += static_cast<int64_t>(bytes);
}

uint32_t MemoryLedger::FreeSlots(const TierUnit& unit) const {
  const SlotSpace& space = *unit.space;
  const uint32_t free_slots = unit.FreeFullSlots();
  if (!IsMemory(unit) || free_slots == 0) return free_slots;
  const auto room_bytes = static_cast<uint64_t>(std::max<int64_t>(0, RoomIn(unit).bytes));
  // The spare of other tiers is given back when it is wanted here.
  const uint64_t slots = (spare_bytes() + room_bytes) / unit.info().slot_bytes;
  const bool has_any = space.spare_bytes() > 0 || unit.memory.making > 0;
  return static_cast<uint32_t>(std::min<uint64_t>(free_slots, std::max<uint64_t>(slots, has_any ? 1 : 0)));
}

bool MemoryLedger::HasPart(const TierUnit& unit, uint64_t bytes) const {
  const auto room_bytes = static_cast<uint64_t>(std::max<int64_t>(0, RoomIn(unit).bytes));
  return IsMemory(unit) && unit.space->free_slots() > 0 && spare_bytes() + room_bytes >= RoundedFor(unit, bytes);
}

bool MemoryLedger::IsMaking(const std::vector<TierUnit*>& tiers) const {
  return releasing_ > 0 || std::any_of(tiers.begin(), tiers.end(), [](const TierUnit* unit) {
           return !unit->lost && (unit->memory.making_bytes > 0 || unit->memory.preparing > 0);
         });
}

void MemoryLedger::BeginAsking() {
  for (TierUnit* unit : MemoryUnits()) unit->memory.asked = 0;
}

MemoryLedger::Found MemoryLedger::Find(TierUnit* unit, uint32_t owner, uint64_t bytes, Use use, uint32_t* slot) {
  SlotSpace& space = *unit->space;
  bytes = RoundedFor(*unit, bytes);
  for (;;) {
    const bool has_free = use == Use::kPart ? space.free_slots() > 0 : unit->FreeFullSlots() > 0;
    if (has_free) {
      if (const auto ready = space.PickFree(owner, bytes); ready.has_value()) {
        *slot = *ready;
        return IsReserved(*unit, *slot) ? Found::kReady : Found::kNone;
      }
    }
    if (unit->lost) return Found::kNone;
    if (has_free) {
      if (unit->memory.asked < unit->memory.awaited) {
        ++unit->memory.asked;
        return Found::kSoon;
      }
      if (const auto candidate = space.PickToBack(bytes); candidate.has_value()) {
        const uint64_t more_bytes = bytes - space.BackedIn(*candidate);
        const bool beyond = space.backed_bytes() + unit->memory.making_bytes + more_bytes > unit->memory.wanted_bytes;
        if (beyond && giver_.EvictOldest(unit, /*also_newest=*/false)) continue;
        if (MakeOne(unit, bytes, use, Urgency::kAwaited)) {
          ++unit->memory.asked;
          return Found::kSoon;
        }
      }
      // Space that others have spare, or that lies in slots too small for this, as far as it is enough: else two that take each
      // other's would go on for ever. Of what a predecessor left nothing is known before it is given back.
      const bool is_enough = RoomIn(*unit).bytes + static_cast<int64_t>(spare_bytes()) >= static_cast<int64_t>(bytes);
      if (releasing_ > 0 || (is_enough && ReleaseAny())) return Found::kSoon;
    }
    if (space.evictable_slots() == 0) own_slots_.CloseEvictable(unit);
    if (space.evictable_slots() == 0 || !giver_.EvictOldest(unit, /*also_newest=*/true)) return Found::kNone;
  }
}

bool MemoryLedger::MakeOne(TierUnit* unit, uint64_t bytes, Use use, Urgency urgency) {
  SlotSpace& space = *unit->space;
  const uint64_t to = RoundedFor(*unit, bytes);
  const auto slot = space.PickToBack(to);
  if (!slot.has_value() || stopping_) return false;
  const uint64_t from = space.BackedIn(*slot);
  const bool is_one_more = from == 0 && space.spare_slots() + unit->memory.making >= unit->FreeFullSlots();
  if (use == Use::kWhole && is_one_more) return false;
  if (!TakeRoom(unit, to - from)) return false;
  space.Hold(*slot);
  ++unit->memory.making;
  if (urgency == Urgency::kAwaited) ++unit->memory.awaited;
  unit->memory.making_bytes += to - from;
  Workers& workers = urgency == Urgency::kAwaited ? awaited_ : ahead_;
  // Who waits makes the pages itself, in the copy, sooner than this could.
  const bool hurries = urgency == Urgency::kAwaited && to - from > kHurriedBytesMin;
  if (hurries) unit->memory.hurried.insert(*slot);
  workers.Submit([this, urgency, hurries, id = unit->id, tier = unit->tier, slot = *slot, from, to] {
    Status status = hurries                        ? tier->Reserve(slot, from, to - from)
                    : urgency == Urgency::kAwaited ? tier->Prepare(slot, from, to - from)
                                                   : PrepareAhead(*tier, slot, from, to);
    // What was made of it in vain would be nobody's.
    if (!status.ok()) (void)tier->Release(slot);
    if (stopping_) return;
    core_.loop().Post([this, urgency, id, slot, from, to, status] { OnMade(urgency, id, slot, from, to, status); });
  });
  return true;
}

Status MemoryLedger::PrepareAhead(Tier& tier, uint32_t slot, uint64_t from, uint64_t to) const {
  Status status;
  for (uint64_t offset = from; offset < to && status.ok() && !stopping_; offset += kAheadPartBytes) {
    while (ahead_held_.load() > 0 && !stopping_) std::this_thread::sleep_for(kHeldPause);
    status = tier.Prepare(slot, offset, std::min(kAheadPartBytes, to - offset));
  }
  return status;
}

void MemoryLedger::PrepareHurried(TierUnit* unit) {
  for (const uint32_t slot : std::set<uint32_t>(unit->memory.hurried)) {
    if (!unit->space->IsFree(slot) || unit->space->IsHeld(slot)) continue;
    unit->memory.hurried.erase(slot);
    if (unit->space->BackedIn(slot) == 0 || unit->space->IsUnknown(slot) || stopping_) continue;
    unit->space->Hold(slot);
    ++unit->memory.preparing;
    ahead_.Submit([this, id = unit->id, tier = unit->tier, slot, bytes = unit->space->BackedIn(slot)] {
      (void)PrepareAhead(*tier, slot, 0, bytes);  // its space is there; slower pages will do
      if (stopping_) return;
      core_.loop().Post([this, id, slot] {
        TierUnit* found = tiers_.FindUnit(id);
        if (found == nullptr) return;
        found->space->Unhold(slot);
        --found->memory.preparing;
        assignment_.Pump();
        PrepareHurried(found);
      });
    });
    return;  // one at a time: the others can be given out meanwhile
  }
}

void MemoryLedger::OnMade(Urgency urgency, uint32_t unit_id, uint32_t slot, uint64_t from, uint64_t to, const Status& status) {
  TierUnit* unit = tiers_.FindUnit(unit_id);
  if (unit == nullptr) return;
  --unit->memory.making;
  if (urgency == Urgency::kAwaited) --unit->memory.awaited;
  unit->memory.making_bytes -= to - from;
  unit->space->Unhold(slot);
  unit->space->SetBacked(slot, status.ok() ? to : 0);
  if (!status.ok()) {
    unit->memory.refused_until_ns = core_.clock().NowNs() + kRefusedPause.count();
    static LogRateLimit limit(std::chrono::seconds(10));
    LogLimited(limit, LogLevel::kWarning, "agent", "tier {}: no memory for another slot: {}", unit->info().name,
               status.ToString());
    core_.events().places_doubted();  // the file may have been cut short
  }
  assignment_.Pump();
}

void MemoryLedger::Expect(TierUnit* unit, uint64_t bytes) {
  if (!IsMemory(*unit) || unit->lost) return;
  const uint64_t slot_bytes = unit->info().slot_bytes;
  for (;;) {
    const uint64_t coming_bytes = unit->space->spare_bytes() + unit->memory.making_bytes;
    if (coming_bytes >= bytes || !MakeOne(unit, std::min(slot_bytes, bytes - coming_bytes), Use::kWhole, Urgency::kAhead)) return;
  }
}

bool MemoryLedger::Grow(TierUnit* unit, uint32_t slot, uint64_t bytes, std::function<void(bool)> done) {
  const uint64_t from = unit->space->BackedIn(slot);
  const uint64_t to = RoundedFor(*unit, bytes);
  if (unit->lost || to <= from || stopping_ || unit->space->IsUnknown(slot) || !TakeRoom(unit, to - from)) return false;
  const uint64_t generation = unit->space->Get(slot).generation;
  unit->memory.making_bytes += to - from;
  awaited_.Submit([this, id = unit->id, tier = unit->tier, slot, generation, from, to, done = std::move(done)]() mutable {
    const Status status = tier->Prepare(slot, from, to - from);
    if (stopping_) return;
    core_.loop().Post([this, id, slot, generation, from, to, status, done = std::move(done)] {
      TierUnit* found = tiers_.FindUnit(id);
      if (found == nullptr) return;
      found->memory.making_bytes -= to - from;
      // It may have gone to somebody else, or nobody, meanwhile: what was made is counted all the same.
      const bool is_same = found->space->Get(slot).generation == generation;
      const bool grown = status.ok() && is_same && found->space->BackedIn(slot) == from;
      if (grown) {
        found->space->SetBacked(slot, to);
      } else if (!found->space->IsHeld(slot)) {
        found->space->SetUnknown(slot, std::max(to, found->space->BackedIn(slot)));
      }
      done(grown);
    });
  });
  return true;
}

bool MemoryLedger::ReleaseOne(TierUnit* unit, Urgency urgency) {
  const auto slot = unit->space->PickToRelease();
  if (!slot.has_value() || stopping_) return false;
  unit->space->Hold(*slot);
  ++releasing_;
  Workers& workers = urgency == Urgency::kAwaited ? awaited_ : ahead_;
  workers.Submit([this, id = unit->id, tier = unit->tier, slot = *slot] {
    const Status status = tier->Release(slot);
    if (stopping_) return;
    core_.loop().Post([this, id, slot, status] {
      --releasing_;
      TierUnit* found = tiers_.FindUnit(id);
      if (found == nullptr) return;
      found->space->Unhold(slot);
      if (status.ok()) {
        ReturnRoom(found, found->space->BackedIn(slot));
        found->space->SetBacked(slot, 0);
      } else {
        LogWarning("agent", "tier {}: the space of slot {} stays: {}", found->info().name, slot, status.ToString());
      }
      if (releasing_ == 0) assignment_.Pump();
    });
  });
  return true;
}

bool MemoryLedger::ReleaseAny() {
  std::vector<TierUnit*> units = MemoryUnits();
  std::stable_sort(units.begin(), units.end(), [](const TierUnit* one, const TierUnit* two) {
    const auto beyond = [](const TierUnit* unit) {
      return static_cast<int64_t>(unit->space->backed_bytes()) - static_cast<int64_t>(unit->memory.wanted_bytes);
    };
    return beyond(one) > beyond(two);
  });
  return std::any_of(units.begin(), units.end(), [&](TierUnit* unit) { return ReleaseOne(unit, Urgency::kAwaited); });
}

// ---- What is wanted ----

uint64_t MemoryLedger::ImageBytesOf(const Session& session) const {
  const uint64_t shown_bytes = session.box().declared_bytes.load(std::memory_order_relaxed);
  return std::max(session.image_bytes, shown_bytes);
}

MemoryLedger::Wanted MemoryLedger::WantedIn(const TierUnit& unit) const {
  Wanted wanted;
  if (unit.lost) return wanted;
  const uint64_t ceiling = ceiling_bytes();
  uint64_t sum = 0;
  const auto want = [&](uint64_t bytes) {
    if (sum + bytes > ceiling) return false;
    sum += bytes;
    wanted.slots.push_back(bytes);
    return true;
  };
  const uint64_t slot_bytes = unit.info().slot_bytes;
  const auto want_image = [&](uint64_t bytes) {
    for (; bytes >= slot_bytes; bytes -= slot_bytes) {
      if (!want(slot_bytes)) return;
    }
    // What is less than a piece shares the session's open slot.
    if (bytes >= std::min(core_.settings().piece_bytes, slot_bytes)) (void)want(RoundedFor(unit, bytes));
  };
  for (const Session* session : core_.sessions().all()) {
    const auto first = std::find_if(session->tiers.begin(), session->tiers.end(),
                                    [](const TierUnit* tier) { return !tier->lost && IsMemory(*tier); });
    if (session->ended || first == session->tiers.end() || *first != &unit) continue;
    const uint64_t kept = std::min<uint64_t>(session->job->hello.keys.keep_local, kKeptMax);
    const uint64_t image_bytes = std::min(ImageBytesOf(*session), ceiling);
    for (uint64_t i = 0; i <= std::min(kept, kKeptAheadMax); ++i) want_image(image_bytes);
    wanted.bytes = std::min(ceiling, wanted.bytes + (kept + 1) * image_bytes);
  }
  for (const auto& [key, job] : core_.jobs()) {
    if (job->hello.keys.scratch == unit.scratch && job->layout != nullptr) {
      const uint64_t redundancy_bytes = room_.ExpectedBytes(*job);
      want_image(redundancy_bytes);
      wanted.bytes = std::min(ceiling, wanted.bytes + redundancy_bytes);
    }
  }
  wanted.bytes = std::max(wanted.bytes, sum);
  std::sort(wanted.slots.rbegin(), wanted.slots.rend());
  return wanted;
}

void MemoryLedger::Balance(TierUnit* unit) {
  SlotSpace& space = *unit->space;
  const std::vector<Session*> sessions = core_.sessions().all();
  const bool is_alone = std::none_of(sessions.begin(), sessions.end(), [&](const Session* session) {
    return std::find(session->tiers.begin(), session->tiers.end(), unit) != session->tiers.end();
  });
  const Wanted wanted = WantedIn(*unit);
  unit->memory.wanted_bytes = wanted.bytes;

  // Each wanted slot is one in use, a spare one, or to be made.
  std::multiset<uint64_t> used, spare;
  for (uint32_t slot = 0; slot < space.slots(); ++slot) {
    if (space.BackedIn(slot) == 0 || space.IsHeld(slot)) continue;
    (space.IsFree(slot) ? spare : used).insert(space.BackedIn(slot));
  }
  uint32_t making = unit->memory.making;
  for (const uint64_t bytes : wanted.slots) {
    if (const auto in_use = used.lower_bound(bytes); in_use != used.end()) {
      used.erase(in_use);
    } else if (const auto ready = spare.lower_bound(bytes); ready != spare.end()) {
      spare.erase(ready);
    } else if (making > 0) {
      --making;
    } else if (!MakeOne(unit, bytes, Use::kWhole, Urgency::kAhead)) {
      break;
    }
  }
  const int64_t now_ns = core_.clock().NowNs();
  const auto has_too_many = [&] {
    return space.evictable_slots() > 0 && space.backed_bytes() - space.spare_bytes() > wanted.bytes;
  };
  const bool has_excess = !spare.empty() || has_too_many();
  if (!has_excess) unit->memory.excess_since_ns = 0;
  if (has_excess && unit->memory.excess_since_ns == 0) unit->memory.excess_since_ns = now_ns;
  const Duration patience = is_alone ? kIdleAlone : kIdleWithSessions;
  const bool is_due = has_excess && now_ns - unit->memory.excess_since_ns >= patience.count();
  if (!unit->lost && !is_due) return;
  for (size_t i = 0; i < spare.size() && ReleaseOne(unit, Urgency::kAhead); ++i) {
  }
  // Evicted slots are spare from now on, and go as such.
  while (has_too_many() && giver_.EvictOldest(unit, /*also_newest=*/unit->lost)) {
  }
}

void MemoryLedger::GiveBackUnderPressure() {
  for (TierUnit* unit : MemoryUnits()) {
    const auto missing = [&] {
      return -std::min(room_bytes_, unit->memory.volume_room_bytes) - static_cast<int64_t>(unit->space->spare_bytes());
    };
    if (std::min(room_bytes_, unit->memory.volume_room_bytes) >= 0) continue;
    while (missing() > 0 && unit->space->evictable_slots() > 0 && giver_.EvictOldest(unit, /*also_newest=*/true)) {
    }
    while (ReleaseOne(unit, Urgency::kAwaited)) {
    }
  }
}

void MemoryLedger::Tick() {
  const std::vector<TierUnit*> units = MemoryUnits();
  if (units.empty()) return;
  Look();
  for (TierUnit* unit : units) {
    // What a predecessor left in free slots is given back, to know what there is.
    for (uint32_t slot = 0; slot < unit->space->slots(); ++slot) {
      const auto next = unit->space->PickToRelease();
      if (!next.has_value() || !unit->space->IsUnknown(*next) || !ReleaseOne(unit, Urgency::kAwaited)) break;
    }
    Balance(unit);
    PrepareHurried(unit);
  }
  GiveBackUnderPressure();
}

void MemoryLedger::LookAtSessions() {
  uint64_t bytes = 0;
  for (const Session* session : core_.sessions().all()) bytes += ImageBytesOf(*session);
  if (std::exchange(shown_bytes_, bytes) == bytes) return;
  for (TierUnit* unit : MemoryUnits()) Balance(unit);
}

void MemoryLedger::ReleaseFree() {
  Stop();
  (void)awaited_.WaitIdle(kReleasePatience);
  (void)ahead_.WaitIdle(kReleasePatience);
  for (TierUnit* unit : MemoryUnits()) {
    for (uint32_t slot = 0; slot < unit->space->slots(); ++slot) {
      if (unit->space->IsFree(slot)) (void)unit->tier->Release(slot);
    }
  }
}

}  // namespace kedge
