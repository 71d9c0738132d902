#include "agent/protect/held_sets.h"

#include <fmt/format.h>

#include <algorithm>

#include "agent/space/own_slots.h"
#include "agent/space/tiers.h"
#include "agent/tables/agent_core.h"
#include "agent/tables/run_folder.h"
#include "base/crc32c.h"
#include "base/log.h"
#include "os/files/files.h"

namespace kedge {
namespace {

constexpr uint64_t kSetFileBytesMax = 256 << 20;
constexpr char kSetSuffix[] = ".set";

uint64_t BytesOf(const std::vector<OwnRange>& ranges) {
  uint64_t bytes = 0;
  for (const OwnRange& range : ranges) bytes += range.bytes;
  return bytes;
}

}  // namespace

std::string HeldSets::PathOf(uint64_t number) const {
  return core_.Path(fmt::format("sets/{}", number));
}

HeldSet* HeldSets::Find(const SetIdentity& identity) const {
  Version* version = core_.FindVersion(identity.generation);
  if (version == nullptr) return nullptr;
  auto found = version->sets.find(identity);
  return found == version->sets.end() ? nullptr : found->second.get();
}

HeldObject* HeldSets::FindObject(const SetIdentity& identity, uint32_t member) const {
  HeldSet* set = Find(identity);
  if (set == nullptr) return nullptr;
  auto found = set->objects.find(member);
  return found == set->objects.end() ? nullptr : &found->second;
}

HeldObject* HeldSets::FindCopy(const Generation& generation, uint32_t rank, const Buffer** image_record) const {
  Version* version = core_.FindVersion(generation);
  if (version == nullptr) return nullptr;
  for (auto& [identity, set] : version->sets) {
    if (set->record.scheme != Scheme::kPartner) continue;
    for (auto& [member, object] : set->objects) {
      const SetMember& owner = set->record.members[member];
      if (owner.rank != rank || !owner.natural.blocks.empty()) continue;
      *image_record = &owner.image_record;
      return &object;
    }
  }
  return nullptr;
}

Result<HeldSet*> HeldSets::Keep(Version& version, SetRecord record) {
  Buffer encoded;
  KEDGE_RETURN_IF_ERROR(EncodeSetRecord(record, &encoded));
  auto& slot = version.sets[record.identity];
  if (slot != nullptr && slot->encoded == encoded) return slot.get();
  if (slot != nullptr) Drop(version, record.identity);
  const SetIdentity identity = record.identity;
  auto set = std::make_unique<HeldSet>();
  set->number = ++last_number_;
  set->crc32c = crc32c::Compute(encoded.data(), encoded.size());
  set->record = std::move(record);
  set->encoded = std::move(encoded);
  Status saved = os::ReplaceFile(fs(), PathOf(set->number) + kSetSuffix, AsText(set->encoded), "agent");
  if (!saved.ok()) {
    version.sets.erase(identity);
    return saved;
  }
  auto& kept = version.sets[identity];
  kept = std::move(set);
  return kept.get();
}

Status HeldSets::KeepObject(HeldSet& set, uint32_t member, BlockTable blocks, std::vector<OwnRange> ranges) {
  HeldObject object;
  object.record.identity = set.record.identity;
  object.record.member = member;
  object.record.set_record_crc32c = set.crc32c;
  object.record.blocks = std::move(blocks);
  for (const OwnRange& range : ranges) {
    auto& tiers = object.record.tiers;
    auto tier = std::find(tiers.begin(), tiers.end(), range.unit->info().key);
    if (tier == tiers.end()) tier = tiers.insert(tiers.end(), range.unit->info().key);
    object.record.slots.push_back(
        {static_cast<uint32_t>(tier - tiers.begin()), range.slot, range.slot_generation, range.offset, range.bytes});
  }
  object.ranges = std::move(ranges);
  Buffer encoded;
  Status saved = EncodeParityRecord(object.record, &encoded);
  if (saved.ok()) {
    saved = os::ReplaceFile(fs(), fmt::format("{}.{}", PathOf(set.number), member), AsText(encoded), "agent");
  }
  if (!saved.ok()) {
    own_slots_.ReleaseAll(object.ranges);
    return saved;
  }
  // The file of an older one is replaced by now.
  if (auto former = set.objects.find(member); former != set.objects.end()) ReleaseObject(former->second);
  set.objects[member] = std::move(object);
  if (Version* version = core_.FindVersion(set.record.identity.generation)) UpdatePins(*version);
  return Status::Ok();
}

void HeldSets::ReleaseObject(const HeldObject& object) {
  own_slots_.ReleaseAll(object.ranges, object.pinned);
}

void HeldSets::UpdatePins(Version& version) {
  const bool pinned =
      std::any_of(version.images.begin(), version.images.end(), [](const auto& entry) { return entry.second->pinned; });
  for (const auto& [identity, set] : version.sets) {
    for (auto& [member, object] : set->objects) {
      if (object.pinned == pinned) continue;
      object.pinned = pinned;
      for (const OwnRange& range : object.ranges)
        pinned ? range.unit->space->Pin(range.slot) : range.unit->space->Unpin(range.slot);
    }
  }
}

void HeldSets::DropObject(HeldSet& set, uint32_t member) {
  auto found = set.objects.find(member);
  if (found == set.objects.end()) return;
  (void)os::UnlinkIfPresent(fs(), fmt::format("{}.{}", PathOf(set.number), member));
  ReleaseObject(found->second);
  set.objects.erase(found);
}

void HeldSets::Drop(Version& version, const SetIdentity& identity) {
  auto found = version.sets.find(identity);
  if (found == version.sets.end()) return;
  if (HeldSet* set = found->second.get()) {
    while (!set->objects.empty()) DropObject(*set, set->objects.begin()->first);
    (void)os::UnlinkIfPresent(fs(), PathOf(set->number) + kSetSuffix);
  }
  version.sets.erase(found);
}

void HeldSets::DropAll(Version& version) {
  while (!version.sets.empty()) {
    const SetIdentity identity = version.sets.begin()->first;
    Drop(version, identity);
  }
}

void HeldSets::DropLost() {
  for (const auto& [key, job] : core_.jobs()) {
    for (const auto& [generation, version] : job->versions) {
      for (const auto& [identity, set] : version->sets) {
        std::vector<uint32_t> lost;
        for (const auto& [member, object] : set->objects) {
          if (object.IsLost()) lost.push_back(member);
        }
        for (const uint32_t member : lost) DropObject(*set, member);
      }
    }
  }
}

void HeldSets::RecoverObject(HeldSet& set, const std::string& name) {
  const std::string path = core_.Path("sets/" + name);
  auto recover = [&]() -> Status {
    KEDGE_ASSIGN_OR_RETURN(const std::string bytes, os::ReadFile(fs(), path, kSetFileBytesMax));
    KEDGE_ASSIGN_OR_RETURN(ParityRecord record, DecodeParityRecord(AsBytes(bytes)));
    if (record.identity != set.record.identity || record.set_record_crc32c != set.crc32c ||
        record.member >= set.record.members.size()) {
      return Status(Code::kCorrupt, "it belongs to another set");
    }
    std::vector<OwnRange> ranges;
    for (const ParitySlot& slot : record.slots) {
      const OwnRange range{tiers_.FindKey(record.tiers[slot.tier]), slot.slot, slot.slot_generation, slot.offset, slot.bytes};
      if (!own_slots_.Claim(range)) {
        own_slots_.ReleaseAll(ranges);
        return Status(Code::kNotFound, "its slots hold something else by now");
      }
      ranges.push_back(range);
    }
    if (BytesOf(ranges) != record.blocks.bytes) {
      own_slots_.ReleaseAll(ranges);
      return Status(Code::kCorrupt, "its slots are not of its length");
    }
    set.objects[record.member] = HeldObject{std::move(record), std::move(ranges)};
    return Status::Ok();
  };
  Status recovered = recover();
  if (recovered.ok()) return;
  LogWarning("agent", "{} is passed over: {}", path, recovered.ToString());
  (void)os::UnlinkIfPresent(fs(), path);
}

void HeldSets::RecoverSet(const std::string& name) {
  const std::string path = core_.Path("sets/" + name);
  auto bytes = os::ReadFile(fs(), path, kSetFileBytesMax);
  auto record = bytes.ok() ? DecodeSetRecord(AsBytes(*bytes)) : Result<SetRecord>(bytes.status());
  Version* version = record.ok() ? core_.FindVersion(record->identity.generation) : nullptr;
  if (version == nullptr) {
    if (!record.ok()) LogWarning("agent", "{} is passed over: {}", path, record.status().ToString());
    (void)os::UnlinkIfPresent(fs(), path);
    return;
  }
  auto set = std::make_unique<HeldSet>();
  set->number = std::stoull(name);
  set->record = std::move(*record);
  set->encoded.assign(AsBytes(*bytes).begin(), AsBytes(*bytes).end());
  set->crc32c = crc32c::Compute(bytes->data(), bytes->size());
  const SetIdentity identity = set->record.identity;
  version->sets[identity] = std::move(set);
}

void HeldSets::Recover() {
  auto entries = fs().List(core_.Path("sets"));
  if (!entries.ok()) return;
  auto number_of = [](const std::string& name) {
    const size_t end = name.find('.');
    const bool is_number = end != std::string::npos && end > 0 && end < 18 && name.find_first_not_of("0123456789") == end;
    return is_number ? std::stoull(name) : 0;
  };
  for (const auto& entry : *entries) last_number_ = std::max<uint64_t>(last_number_, number_of(entry.name));
  for (const auto& entry : *entries) {
    if (number_of(entry.name) != 0 && entry.name.ends_with(kSetSuffix)) RecoverSet(entry.name);
  }
  std::map<uint64_t, HeldSet*> by_number;
  for (auto& [key, job] : core_.jobs()) {
    for (auto& [generation, version] : job->versions) {
      for (auto& [identity, set] : version->sets) by_number[set->number] = set.get();
    }
  }
  for (const auto& entry : *entries) {
    if (entry.name.ends_with(kSetSuffix) && number_of(entry.name) != 0) continue;
    auto set = by_number.find(number_of(entry.name));
    if (set != by_number.end() && !os::IsTemporaryName(entry.name)) {
      RecoverObject(*set->second, entry.name);
    } else {
      (void)os::UnlinkIfPresent(fs(), core_.Path("sets/" + entry.name));
    }
  }
  for (auto& [key, job] : core_.jobs()) {
    for (auto& [generation, version] : job->versions) UpdatePins(*version);
  }
}

}  // namespace kedge
