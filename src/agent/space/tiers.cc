#include "agent/space/tiers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "agent/space/assignment.h"
#include "agent/space/flush_load.h"
#include "agent/space/memory_ledger.h"
#include "agent/space/room_giver.h"
#include "agent/space/throughput.h"
#include "agent/tables/agent_core.h"
#include "agent/tables/run_folder.h"
#include "base/byte_size.h"
#include "base/crc32c.h"
#include "base/log.h"
#include "os/files/files.h"
#include "os/machine/machine.h"
#include "session/own_folder.h"
#include "session/process_folder.h"

namespace kedge {
namespace {

constexpr uint32_t kTmpfsMagic = 0x01021994;
constexpr uint32_t kRamfsMagic = 0x858458f6;
// A scratch of which nobody has anything waits this long for the job's next launch.
constexpr Duration kCloseAfter = std::chrono::seconds(5);
// What a lost tier held has been let go of by then.
constexpr Duration kCloseSoon = std::chrono::milliseconds(50);

// The nearest folder on the way to `path` that exists: where its file system can be asked.
std::string ExistingFolder(std::string path) {
  while (path.size() > 1) {
    auto exists = os::Exists(fs(), path);
    if (exists.ok() && *exists) break;
    path = os::ParentPath(path);
  }
  return path;
}

}  // namespace

void Tiers::OpenNode() {
  const NodeSettings& settings = core_.settings();
  const auto open = [&](const Plan& plan) {
    const Status status = Open(plan).status();
    if (status.ok()) return;
    LogError("agent", "tier {} cannot be used: {}", plan.name, status.ToString());
    unusable_.push_back({plan.name, status.message()});
  };
  if (!settings.pool_bytes.has_value() || *settings.pool_bytes > 0) {
    open({"pool", "", TierKind::kMemory, core_.Path("pool/pool"), settings.pool_bytes});
  }
  for (const TierSettings& tier : settings.tiers) {
    std::string path = OwnFolder(tier.path, settings.node);
    if (tier.kind == TierKind::kMemory) path += "/pool";
    open({tier.name, "", tier.kind, path, tier.capacity_bytes});
  }
}

Result<std::vector<TierUnit*>> Tiers::ForJob(const JobKeys& keys) {
  std::vector<TierUnit*> tiers;
  for (const auto& unit : units_) {
    if (!unit->lost && unit->scratch == keys.scratch) tiers.push_back(unit.get());
  }
  if (keys.scratch.empty() || !tiers.empty()) return tiers;
  KEDGE_RETURN_IF_ERROR(os::MakeFolders(fs(), keys.scratch, 0700, false).WithContext("job.scratch"));
  KEDGE_ASSIGN_OR_RETURN(os::VolumeInfo volume, fs().StatVolume(keys.scratch));
  Plan plan;
  plan.name = fmt::format("scratch-{:08x}", crc32c::Compute(keys.scratch.data(), keys.scratch.size()));
  plan.scratch = keys.scratch;
  plan.kind = volume.type == kTmpfsMagic || volume.type == kRamfsMagic ? TierKind::kMemory : TierKind::kDirectory;
  plan.path = OwnFolder(keys.scratch, core_.settings().node);
  if (plan.kind == TierKind::kMemory) {
    plan.path += "/pool";
    plan.capacity_bytes = core_.settings().pool_bytes;
  }
  KEDGE_ASSIGN_OR_RETURN(TierUnit * unit, Open(plan));
  // Where one job follows another, the former one's scratch may be gone by now: its memory is not to be held beside this one's.
  core_.loop().Post([this] {
    core_.events().places_doubted();
    core_.loop().AddTimer(kCloseSoon, [this] { CloseUnused(); });
  });
  return std::vector<TierUnit*>{unit};
}

Result<TierCut> Tiers::CutOf(const Plan& plan, const std::string& meta_folder) const {
  // What is there already stays as it is cut, if its size was not named: with it in place, less would be computed.
  auto text = os::ReadFile(fs(), os::JoinPath(meta_folder, "layout"), 4096);
  const auto found = ParseTierCut(text.ok() ? *text : std::string());
  if (found.has_value()) {
    auto pool = fs().Stat(plan.path);
    const bool is_there =
        pool.ok() && (plan.kind == TierKind::kDirectory || pool->size_bytes == found->slot_bytes * found->slots);
    const bool is_wanted = !plan.capacity_bytes.has_value() || *plan.capacity_bytes / found->slot_bytes == found->full_slots;
    const auto& chunk = core_.settings().chunk_bytes;
    if (is_there && is_wanted && (!chunk.has_value() || *chunk == found->slot_bytes)) return *found;
  }
  KEDGE_ASSIGN_OR_RETURN(os::VolumeInfo volume, fs().StatVolume(ExistingFolder(plan.path)));
  uint64_t capacity = 0;
  if (plan.capacity_bytes.has_value()) {
    capacity = *plan.capacity_bytes;
  } else if (plan.kind == TierKind::kDirectory) {
    capacity = volume.available_bytes / 2;
  } else {
    KEDGE_ASSIGN_OR_RETURN(os::MemoryInfo memory, os::MachineMemory());
    auto cgroup = os::CgroupMemoryLimit();
    capacity =
        DefaultPoolBytes(memory.total_bytes, volume.available_bytes, cgroup.has_value() ? cgroup->LeftBytes() : UINT64_MAX);
  }
  TierCut cut = CutTier(plan.kind, capacity, core_.settings().chunk_bytes);
  if (cut.slots == 0) {
    return Status(Code::kNoSpace, fmt::format("{} has room for {}, less than one chunk of {}", plan.path,
                                              FormatByteSize(capacity), FormatByteSize(cut.slot_bytes)));
  }
  return cut;
}

Result<TierUnit*> Tiers::Open(const Plan& plan) {
  const std::string meta_folder = core_.Path("tiers/" + plan.name);
  KEDGE_RETURN_IF_ERROR(os::MakeFolders(fs(), meta_folder, 0700, false));
  KEDGE_ASSIGN_OR_RETURN(TierCut cut, CutOf(plan, meta_folder));
  TierInfo info{plan.name, plan.path, plan.kind, plan.path, cut.slot_bytes, cut.slots};
  KEDGE_ASSIGN_OR_RETURN(CreatedTier created,
                         plan.kind == TierKind::kMemory ? CreateMemoryTier(fs(), info) : CreateDirectoryTier(fs(), info));
  bool fresh_table = false;
  KEDGE_ASSIGN_OR_RETURN(SlotTable table, SlotTable::Open(os::JoinPath(meta_folder, "slots"), cut.slots, cut.slot_bytes,
                                                          core_.boot_id(), created.fresh, &fresh_table));
  KEDGE_RETURN_IF_ERROR(os::WriteFileDurably(fs(), os::JoinPath(meta_folder, "layout"), FormatTierCut(cut), "agent"));
  auto unit = std::make_unique<TierUnit>();
  unit->id = ++last_id_;
  unit->tier = std::move(created.tier);
  unit->space = std::make_unique<SlotSpace>(std::move(table));
  unit->full_slots = cut.full_slots;
  unit->scratch = plan.scratch;
  unit->unused_since_ns = core_.clock().NowNs();
  LogInfo("agent", "tier {}: {} at {}, {} slots of {}{}", plan.name, TierKindName(plan.kind), plan.path, cut.full_slots,
          FormatByteSize(cut.slot_bytes), fresh_table ? "" : ", taken over");
  throughput_.Load(*unit);
  units_.push_back(std::move(unit));
  plans_.push_back(plan);
  memory_.OnOpened(units_.back().get(), created.fresh);
  return units_.back().get();
}

std::vector<TierUnit*> Tiers::units() const {
  std::vector<TierUnit*> units;
  for (const auto& unit : units_) units.push_back(unit.get());
  return units;
}

TierUnit* Tiers::FindUnit(uint32_t id) const {
  for (const auto& unit : units_) {
    if (unit->id == id) return unit.get();
  }
  return nullptr;
}

TierUnit* Tiers::FindKey(const std::string& key) const {
  for (const auto& unit : units_) {
    if (!unit->lost && unit->info().key == key) return unit.get();
  }
  return nullptr;
}

TierLoad Tiers::LoadOf(const TierUnit& unit, const Session* session) const {
  TierLoad load;
  load.present = !unit.lost;
  load.slots = unit.full_slots;
  load.free_slots = memory_.FreeSlots(unit);
  load.evictable_slots = unit.space->evictable_slots();
  load.writers = session == nullptr ? unit.throughput.claims : Throughput::WritersFor(*session, unit);
  if (unit.throughput.curve.has_value()) load.curve = &*unit.throughput.curve;
  load.flushing_chunks = unit.flushing_chunks;
  load.flushes_in_flight = flush_.meter().InFlightOf(unit.id);
  load.next_flush_seconds = flush_.meter().SecondsToNextEndOf(unit.id, core_.clock().NowNs());
  load.slot_bytes = unit.info().slot_bytes;
  load.backlog_bytes = flush_.QueuedBytesOf(unit.id);
  load.bytes_to_come = unit.throughput.bytes_to_come;
  return load;
}

void Tiers::Lose(TierUnit* unit, const Status& why) {
  LogError("agent", "tier lost: {}. What was captured there and is not in the store yet is flushed from what is still open",
           why.message());
  unit->lost = true;
  ++core_.counters().tiers_lost;
  core_.events().tier_lost(unit);
}

void Tiers::CheckPresent(bool make_anew) {
  for (size_t i = 0; i < units_.size(); ++i) {
    if (units_[i]->lost) continue;
    Status present = units_[i]->tier->CheckPresent();
    if (present.ok()) continue;
    Lose(units_[i].get(), present);
    if (!make_anew) continue;
    // A scratch is made anew when a session asks for it.
    const Plan plan = plans_[i];
    if (!plan.scratch.empty()) continue;
    auto again = Open(plan);
    if (!again.ok()) LogError("agent", "tier {} cannot be made anew: {}", plan.name, again.status().ToString());
  }
}

void Tiers::UpdateControl() {
  ControlBlock& control = core_.control();
  uint32_t index = 0;
  for (const auto& unit : units_) {
    if (unit->lost || index == kControlTiersMax) continue;
    ControlTier& shown = control.tiers[index++];
    const SlotSpace& space = *unit->space;
    std::strncpy(shown.name, unit->info().name.c_str(), sizeof(shown.name) - 1);
    shown.writers.store(unit->throughput.claims, std::memory_order_relaxed);
    shown.chunks.store(space.occupied_slots(), std::memory_order_relaxed);
    shown.slots.store(unit->full_slots, std::memory_order_relaxed);
    shown.slot_bytes.store(unit->info().slot_bytes, std::memory_order_relaxed);
    shown.bytes_written.store(unit->bytes_captured, std::memory_order_relaxed);
    shown.present.store(1, std::memory_order_release);
  }
  for (; index < kControlTiersMax; ++index) control.tiers[index].present.store(0, std::memory_order_release);
}

bool Tiers::IsUsed(const TierUnit& unit) const {
  const SlotSpace& space = *unit.space;
  if (space.free_slots() < space.slots() || unit.flushing_chunks > 0 || unit.memory.making > 0) return true;
  for (const Session* session : core_.sessions().all()) {
    if (std::find(session->tiers.begin(), session->tiers.end(), &unit) != session->tiers.end()) return true;
  }
  return giver_.HasFilesIn(unit);
}

void Tiers::CloseUnused() {
  const int64_t now_ns = core_.clock().NowNs();
  for (size_t i = 0; i < units_.size();) {
    TierUnit& unit = *units_[i];
    const bool may_go = unit.lost || !unit.scratch.empty();
    if (!may_go || IsUsed(unit)) unit.unused_since_ns = now_ns;
    if (!may_go || (!unit.lost && now_ns - unit.unused_since_ns < kCloseAfter.count()) || IsUsed(unit)) {
      ++i;
      continue;
    }
    LogInfo("agent", "tier {} at {} is of no more use, and goes", unit.info().name, unit.info().path);
    assignment_.ForgetTier(&unit);
    if (!unit.lost) {
      Remove(unit);
      Status forgotten = os::RemoveTree(fs(), core_.Path("tiers/" + unit.info().name));
      if (!forgotten.ok()) LogWarning("agent", "{}", forgotten.ToString());
    }
    units_.erase(units_.begin() + static_cast<std::ptrdiff_t>(i));
    plans_.erase(plans_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

void Tiers::Remove(const TierUnit& unit) {
  // Processes that have died left their routed files there.
  if (!unit.scratch.empty()) RemoveFoldersOfTheDead(fs(), RoutedFilesFolder(OwnFolder(unit.scratch, core_.settings().node)));
  Status removed = unit.tier->Remove();
  // The folder of a pool file; it stays when somebody else's files are in it.
  if (removed.ok() && unit.info().kind == TierKind::kMemory) (void)fs().Rmdir(os::ParentPath(unit.info().path));
  if (!removed.ok()) LogWarning("agent", "tier {} could not be removed: {}", unit.info().name, removed.ToString());
}

void Tiers::RemoveAll() {
  for (const auto& unit : units_) {
    if (!unit->lost) Remove(*unit);
  }
}

}  // namespace kedge
