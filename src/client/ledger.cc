// See ledger.h.
#include "client/ledger.h"

#include <fmt/format.h>

#include <algorithm>

#include "store/versions.h"

namespace kedge::client {
namespace {

constexpr size_t kVersionsRemembered = 256;

}  // namespace

Result<Ledger::Name*> Ledger::Use(const std::string& name) {
  const auto found = names_.find(name);
  if (found != names_.end()) return &found->second;
  KEDGE_RETURN_IF_ERROR(ValidateName(name, "checkpoint name"));
  Name fresh;
  auto stored = NewestAtOrBelow(*catalog_, job_, name, -1);
  if (stored.ok()) {
    fresh.newest = stored->generation.version;
  } else if (stored.status().code() != Code::kNotFound) {
    return stored.status().WithContext(fmt::format("looking for the newest version of '{}'", name));
  }
  return &names_.emplace(name, std::move(fresh)).first->second;
}

Result<TakenVersion*> Ledger::Begin(const std::string& name, int64_t version, bool overwrite) {
  if (version < 0) return Status(Code::kInvalidArgument, fmt::format("version {} of '{}': expected 0 or more", version, name));
  KEDGE_ASSIGN_OR_RETURN(Name* const entry, Use(name));
  if (!overwrite && entry->newest && version <= *entry->newest) {
    return Status(Code::kAlreadyExists, fmt::format("version {} of '{}' is not greater than the newest, {}: count on, or pass "
                                                    "KEDGE_OVERWRITE to replace it",
                                                    version, name, *entry->newest));
  }
  const bool known = entry->versions.contains(version);
  if (known) {
    entry->order.erase(std::find(entry->order.begin(), entry->order.end(), version));
  } else if (entry->versions.size() == kVersionsRemembered) {
    Forget(entry);
  }
  TakenVersion& taken = entry->versions[version];
  // A version that may have been forgotten gets a take that it cannot have had.
  const uint32_t earlier = known ? taken.generation.take : version <= entry->forgotten_version ? entry->forgotten_takes : 0;
  const uint32_t take = earlier + 1;
  if (newest_ == &taken) newest_ = nullptr;
  taken = TakenVersion{};
  taken.generation = {catalog_->id(), job_, name, version, attempt_, take};
  taken.turn = entry->begun++;
  entry->order.push_back(version);
  return &taken;
}

void Ledger::Forget(Name* name) {
  const auto oldest = name->versions.find(name->order.front());
  name->forgotten_version = std::max(name->forgotten_version, oldest->first);
  name->forgotten_takes = std::max(name->forgotten_takes, oldest->second.generation.take);
  if (newest_ == &oldest->second) newest_ = nullptr;
  name->versions.erase(oldest);
  name->order.pop_front();
}

void Ledger::Captured(TakenVersion* taken) {
  taken->captured = true;
  newest_ = taken;
  names_[taken->generation.name].newest = taken->generation.version;
}

void Ledger::Restored(const Generation& generation) {
  Name& name = names_[generation.name];
  name.newest = generation.version;
  name.restored = generation;
}

const Generation* Ledger::FindRestored(const std::string& name, int64_t version) const {
  const auto entry = names_.find(name);
  if (entry == names_.end() || !entry->second.restored.has_value()) return nullptr;
  return entry->second.restored->version == version ? &*entry->second.restored : nullptr;
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
