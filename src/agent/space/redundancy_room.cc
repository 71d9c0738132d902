#include "agent/space/redundancy_room.h"

#include <algorithm>
#include <numeric>

#include "agent/space/memory_ledger.h"
#include "agent/space/own_slots.h"
#include "agent/space/tiers.h"
#include "agent/tables/agent_core.h"
#include "agent/tables/protection.h"

namespace kedge {
namespace {

// How long after its last step protection counts as getting on.
constexpr Duration kGetsOn = std::chrono::seconds(3);

uint64_t RoundUp(uint64_t bytes, uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

uint64_t LargestSlot(const std::vector<TierUnit*>& tiers) {
  uint64_t largest = 0;
  for (const TierUnit* unit : tiers) largest = std::max(largest, unit->info().slot_bytes);
  return largest;
}

uint64_t FreeBytes(const MemoryLedger& memory, const std::vector<TierUnit*>& tiers) {
  uint64_t bytes = 0;
  for (const TierUnit* unit : tiers) {
    bytes += (uint64_t{memory.FreeSlots(*unit)} + unit->space->evictable_slots()) * unit->info().slot_bytes;
  }
  return bytes;
}

uint64_t YetToTake(const Protection& protection) {
  uint64_t bytes = 0;
  for (const SetProgress& set : protection.sets) bytes += set.room_bytes;
  return bytes;
}

bool ShareTiers(const Job& one, const Job& other) {
  return one.hello.keys.scratch == other.hello.keys.scratch;
}

}  // namespace

void RedundancyRoom::OnBegun(const Version& version) {
  Sizes sizes;
  sizes.redundancy_bytes = YetToTake(*version.protection);
  for (const auto& [rank, image] : version.images) {
    const uint64_t image_bytes = image->record_object_offset + image->record_bytes;
    sizes.image_bytes += image_bytes;
    sizes.largest_image_bytes = std::max(sizes.largest_image_bytes, image_bytes);
  }
  newest_[NameKeyOf(version.generation)] = sizes;
}

std::vector<TierUnit*> RedundancyRoom::TiersOf(const Job& job) const {
  std::vector<TierUnit*> tiers;
  for (TierUnit* unit : tiers_.units()) {
    if (!unit->lost && unit->scratch == job.hello.keys.scratch) tiers.push_back(unit);
  }
  return tiers;
}

uint64_t RedundancyRoom::Wanted(const Version& version) const {
  if (version.protection != nullptr) return YetToTake(*version.protection);
  const auto newest = newest_.find(NameKeyOf(version.generation));
  return newest == newest_.end() ? 0 : newest->second.redundancy_bytes;
}

uint64_t RedundancyRoom::KeptBytes(const Job& job, const std::vector<TierUnit*>& tiers) const {
  uint64_t all_bytes = 0;
  for (const TierUnit* unit : tiers) all_bytes += unit->capacity_bytes();
  const uint64_t slot_bytes = LargestSlot(tiers);
  uint64_t kept = 0;
  // In slots that redundancy has begun to fill.
  uint64_t begun_bytes = own_slots_.LeftIn(tiers);
  for (const auto& [key, other] : core_.jobs()) {
    if (other->layout == nullptr || !ShareTiers(*other, job)) continue;
    // Versions of a name stand together, the oldest first.
    for (auto entry = other->versions.begin(); entry != other->versions.end();) {
      const std::string& name = entry->first.name;
      const auto newest = newest_.find({key, name});
      // The oldest version; where versions share slots, as many as must be protected before one comes free.
      uint64_t wanted = 0, covered_bytes = 0, versions = 0;
      bool has_protected = false;
      for (; entry != other->versions.end() && entry->first.name == name; ++entry) {
        const Version& version = *entry->second;
        has_protected = has_protected || (version.at_node && !version.sets.empty());
        if (newest == newest_.end() || covered_bytes >= slot_bytes || !version.IsOwedToNodes()) continue;
        const uint64_t more = Wanted(version);
        if (more == 0) continue;  // it has its redundancy, and waits for other nodes'
        wanted += more;
        const uint64_t image_bytes = std::max<uint64_t>(newest->second.largest_image_bytes, 1);
        covered_bytes += image_bytes < core_.settings().piece_bytes ? image_bytes : slot_bytes;
        ++versions;
      }
      if (wanted == 0 || newest == newest_.end()) continue;
      const Sizes& sizes = newest->second;
      const uint64_t two_versions = 2 * (RoundUp(versions * sizes.image_bytes, slot_bytes) +
                                         RoundUp(std::max(wanted, versions * sizes.redundancy_bytes), slot_bytes));
      if (all_bytes < kept + two_versions) continue;
      uint64_t bytes = has_protected ? wanted : 2 * wanted;
      const uint64_t fits = std::min(bytes, begun_bytes);
      begun_bytes -= fits;
      bytes -= fits;
      kept += RoundUp(bytes, slot_bytes);
    }
  }
  return kept;
}

uint64_t RedundancyRoom::ExpectedBytes(const Job& job) const {
  uint64_t bytes = 0;
  for (const auto& [key, sizes] : newest_) {
    if (key.first == job.key()) bytes += 2 * sizes.redundancy_bytes;
  }
  return bytes;
}

bool RedundancyRoom::IsKeptFrom(const Job& job) const {
  if (newest_.empty()) return false;  // nothing has been protected: asked for each chunk that is placed
  const std::vector<TierUnit*> tiers = TiersOf(job);
  const uint64_t kept = KeptBytes(job, tiers);
  return kept > 0 && FreeBytes(memory_, tiers) < kept + LargestSlot(tiers);
}

bool RedundancyRoom::MayTake(const Version& version, uint64_t bytes) const {
  uint64_t older_bytes = 0;
  for (const auto& [generation, older] : version.job->versions) {
    if (generation.name != version.generation.name) continue;
    if (!(generation < version.generation) || older_bytes > 0) break;
    if (older->IsOwedToNodes()) older_bytes = Wanted(*older);
  }
  if (older_bytes == 0) return true;
  const std::vector<TierUnit*> tiers = TiersOf(*version.job);
  const uint64_t slot_bytes = LargestSlot(tiers);
  return FreeBytes(memory_, tiers) + own_slots_.LeftIn(tiers) >= RoundUp(bytes, slot_bytes) + RoundUp(older_bytes, slot_bytes);
}

std::optional<std::vector<std::vector<OwnRange>>> RedundancyRoom::Take(const Version& version,
                                                                       const std::vector<uint64_t>& lengths) {
  const bool may_take = MayTake(version, std::accumulate(lengths.begin(), lengths.end(), uint64_t{0}));
  std::vector<std::vector<OwnRange>> objects;
  for (const uint64_t length : lengths) {
    const auto tiers = tiers_.ForJob(version.job->hello.keys);
    auto taken = may_take && tiers.ok() ? own_slots_.TakeAll(*tiers, length) : std::nullopt;
    if (!taken.has_value()) {
      for (auto object = objects.rbegin(); object != objects.rend(); ++object) own_slots_.GiveBackAll(*object);
      wants_ = true;
      return std::nullopt;
    }
    objects.push_back(std::move(*taken));
  }
  return objects;
}

void RedundancyRoom::Release(const std::vector<std::vector<OwnRange>>& objects) {
  for (const auto& object : objects) own_slots_.ReleaseAll(object);
}

bool RedundancyRoom::MayComeSoon(const Job& job) const {
  const int64_t since_ns = core_.clock().NowNs() - kGetsOn.count();
  for (const auto& [key, other] : core_.jobs()) {
    if (!ShareTiers(*other, job)) continue;
    const bool gets_on = std::any_of(other->versions.begin(), other->versions.end(), [&](const auto& entry) {
      const Version& version = *entry.second;
      return version.protection != nullptr && version.protection->step_ns > since_ns && version.IsOwedToNodes();
    });
    if (gets_on) return true;
  }
  return false;
}

}  // namespace kedge
