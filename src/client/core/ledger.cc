// See ledger.h.
#include "client/core/ledger.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"

namespace kedge::client {
namespace {

constexpr size_t kVersionsRemembered = 256;

}  // namespace

uint32_t Ledger::TakesOf(const std::string& name) const {
  const auto found = names_.find(name);
  return found == names_.end() ? 0 : found->second.takes;
}

void Ledger::CatchUp(const std::string& name, uint32_t takes) {
  if (takes > TakesOf(name)) names_[name].takes = takes;
}

Result<TakenVersion*> Ledger::Begin(const std::string& name, int64_t version, bool overwrite) {
  if (version < 0) return Status(Code::kInvalidArgument, fmt::format("version {} of '{}': expected 0 or more", version, name));
  Name* const entry = &names_[name];
  if (!entry->newest) {
    const auto stored = stored_.find(name);
    if (stored != stored_.end()) entry->newest = stored->second;
  }
  if (!overwrite && entry->newest && version <= *entry->newest) {
    return Status(Code::kAlreadyExists, fmt::format("version {} of '{}' is not greater than the newest, {}: count on, or pass "
                                                    "KEDGE_OVERWRITE to replace it",
                                                    version, name, *entry->newest));
  }
  if (entry->versions.contains(version)) {
    entry->order.erase(std::find(entry->order.begin(), entry->order.end(), version));
  } else if (entry->versions.size() == kVersionsRemembered) {
    Forget(entry);
  }
  TakenVersion& taken = entry->versions[version];
  if (newest_ == &taken) newest_ = nullptr;
  taken = TakenVersion{};
  taken.generation = {store_id_, job_, name, version, attempt_, entry->takes};
  entry->order.push_back(version);
  return &taken;
}

void Ledger::Forget(Name* name) {
  const auto oldest = name->versions.find(name->order.front());
  if (newest_ == &oldest->second) newest_ = nullptr;
  name->versions.erase(oldest);
  name->order.pop_front();
}

void Ledger::Started(TakenVersion* taken) {
  taken->started = true;
  newest_ = taken;
  names_[taken->generation.name].newest = taken->generation.version;
}

void Ledger::Captured(TakenVersion* taken) {
  taken->started = false;
  taken->captured = true;
  newest_ = taken;
  names_[taken->generation.name].newest = taken->generation.version;
}

RestoredRecord Ledger::Restored(const Generation& generation) {
  Name& name = names_[generation.name];
  name.newest = generation.version;
  name.restored = generation;
  // Each restart has a record of its own: the second of two without a checkpoint between them counts as one.
  if (name.restored_before == name.takes + 1) ++name.takes;
  name.restored_before = name.takes + 1;
  return {generation, attempt_, name.restored_before, WallTimeNs()};
}

const Generation* Ledger::FindRestored(const std::string& name, int64_t version) const {
  const auto entry = names_.find(name);
  if (entry == names_.end() || !entry->second.restored.has_value()) return nullptr;
  return entry->second.restored->version == version ? &*entry->second.restored : nullptr;
}

bool Ledger::IsLeftBehind(const TakenVersion& taken) const {
  const auto entry = names_.find(taken.generation.name);
  return entry != names_.end() && taken.generation.take < entry->second.restored_before;
}

TakenVersion* Ledger::Find(const std::string& name, int64_t version) {
  const auto entry = names_.find(name);
  if (entry == names_.end()) return nullptr;
  const auto found = entry->second.versions.find(version);
  return found == entry->second.versions.end() ? nullptr : &found->second;
}

TakenVersion* Ledger::FindSerial(uint64_t session, uint64_t serial) {
  for (auto& [name, entry] : names_) {
    for (auto& [version, taken] : entry.versions) {
      if (taken.session == session && taken.serial == serial) return &taken;
    }
  }
  return nullptr;
}

}  // namespace kedge::client
