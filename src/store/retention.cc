#include "store/retention.h"

#include <algorithm>

#include "base/clock.h"
#include "store/record_io.h"

namespace kedge {

namespace {

// The complete ones that go, oldest first. `versions` is newest first. Pinned ones do not count against `keep`.
std::vector<const VersionInfo*> Candidates(const std::vector<VersionInfo>& versions, const RetentionOptions& options) {
  std::vector<const VersionInfo*> candidates;
  uint32_t kept = 0;
  for (const VersionInfo& info : versions) {
    if (!info.complete || info.pinned) continue;
    if (info.superseded || kept >= std::max(options.keep, 1U)) {
      candidates.push_back(&info);
    } else {
      ++kept;
    }
  }
  std::erase_if(candidates, [&](const VersionInfo* info) { return options.in_use.contains(info->generation); });
  std::reverse(candidates.begin(), candidates.end());
  return candidates;
}

// The version records that take the candidates' place must survive a crash before those go: other processes may have
// created them and not have synced them yet.
Status EnsureKeptAreDurable(const Catalog& catalog, const std::vector<VersionInfo>& versions,
                            const std::vector<const VersionInfo*>& candidates) {
  std::vector<std::string> keys;
  for (const VersionInfo& info : versions) {
    const bool goes = std::find(candidates.begin(), candidates.end(), &info) != candidates.end();
    if (info.complete && !goes) keys.push_back(layout::VersionKey(info.generation));
  }
  return catalog.store().EnsureDurable(keys);
}

// Marked first: from then on it is no version, whatever of its records is still there after a crash.
Status Empty(const Catalog& catalog, const Generation& generation) {
  const RemovedRecord mark{generation, WallTimeNs()};
  const Status marked = catalog.store().PutIfAbsent(layout::RemovedKey(generation), Encoded(mark), catalog.owner(),
                                                    Folders::kMustExist);
  if (!marked.ok() && marked.code() != Code::kAlreadyExists) return marked;
  if (marked.code() == Code::kAlreadyExists) {
    const std::string key = layout::RemovedKey(generation);
    KEDGE_RETURN_IF_ERROR(catalog.store().EnsureDurable(std::span(&key, 1)));
  }
  KEDGE_RETURN_IF_ERROR(catalog.store().Remove(layout::VersionKey(generation)));
  return catalog.store().RemoveFolder(layout::PartsFolder(generation), {}, catalog.owner());
}

}  // namespace

Result<References> References::Read(const Catalog& catalog, const std::string& job) {
  References references;
  KEDGE_ASSIGN_OR_RETURN(const std::vector<StoreEntry> folders, catalog.store().List(layout::NamesFolder(job)));
  for (const StoreEntry& folder : folders) {
    const std::string key = layout::NamesFolder(job) + '/' + folder.name + "/name";
    const Result<NameRecord> name = ReadOwnRecord(catalog, key, &DecodeNameRecord);
    // Nothing lies in a folder without a record, and what is another store's does not refer to this one.
    if (name.status().code() == Code::kNotFound || name.status().code() == Code::kMismatch) continue;
    if (!name.ok()) return name.status();
    KEDGE_ASSIGN_OR_RETURN(const std::vector<VersionInfo> versions, ListVersions(catalog, job, name->name));
    for (const VersionInfo& info : versions) {
      if (info.foreign) continue;
      if (info.unknown) return Status(Code::kUnsupported, info.generation.ToString() + ": " + info.reason);
      if (!info.references.empty()) references.by_generation_[info.generation] = info.references;
    }
  }
  return references;
}

bool References::ReferTo(const Generation& generation) const {
  const std::string folder = layout::RelativeToJob(generation.job, layout::GenerationFolder(generation));
  return std::any_of(by_generation_.begin(), by_generation_.end(), [&](const auto& entry) {
    return entry.first != generation && std::binary_search(entry.second.begin(), entry.second.end(), folder);
  });
}

Status RemoveGeneration(const Catalog& catalog, const VersionInfo& info, References* references, bool* emptied) {
  const Generation& generation = info.generation;
  *emptied = references->ReferTo(generation);
  if (*emptied && info.removed) return Status::Ok();
  if (*emptied) {
    KEDGE_RETURN_IF_ERROR(Empty(catalog, generation));
  } else {
    KEDGE_RETURN_IF_ERROR(catalog.store().RemoveFolder(layout::GenerationFolder(generation),
                                                       layout::VersionKey(generation), catalog.owner()));
  }
  references->Forget(generation);
  return Status::Ok();
}

Status ApplyRetention(const Catalog& catalog, const std::string& job, const std::string& name,
                      const RetentionOptions& options, RetentionReport* report) {
  RetentionReport ignored;
  if (report == nullptr) report = &ignored;
  KEDGE_ASSIGN_OR_RETURN(const std::vector<VersionInfo> versions, ListVersions(catalog, job, name));
  const std::vector<const VersionInfo*> candidates = Candidates(versions, options);
  std::vector<VersionInfo> emptied;  // whose objects may go once nothing refers to them
  for (const VersionInfo& info : versions) {
    if (info.removed && !options.in_use.contains(info.generation)) emptied.push_back(info);
  }
  if (candidates.empty() && emptied.empty()) return Status::Ok();
  KEDGE_RETURN_IF_ERROR(EnsureKeptAreDurable(catalog, versions, candidates));
  KEDGE_ASSIGN_OR_RETURN(References references, References::Read(catalog, job));
  for (const VersionInfo* info : candidates) {
    bool only_emptied = false;
    KEDGE_RETURN_IF_ERROR(RemoveGeneration(catalog, *info, &references, &only_emptied));
    (only_emptied ? report->emptied : report->removed).push_back(info->generation);
    if (!only_emptied) continue;
    emptied.push_back(*info);
    emptied.back().removed = true;
  }
  // After all records that could refer to them.
  for (const VersionInfo& info : emptied) {
    bool still_needed = false;
    KEDGE_RETURN_IF_ERROR(RemoveGeneration(catalog, info, &references, &still_needed));
    if (!still_needed) report->removed.push_back(info.generation);
  }
  return Status::Ok();
}

Status RemoveVersion(const Catalog& catalog, const Generation& generation, const RetentionOptions& options) {
  KEDGE_ASSIGN_OR_RETURN(const std::vector<VersionInfo> versions,
                         ListVersions(catalog, generation.job, generation.name));
  const auto found = std::find_if(versions.begin(), versions.end(),
                                  [&](const VersionInfo& info) { return info.generation == generation; });
  if (found == versions.end()) return Status(Code::kNotFound, generation.ToString() + " is not in the store");
  if (found->unknown) return Status(Code::kUnsupported, generation.ToString() + ": " + found->reason);
  if (found->pinned) return Status(Code::kBusy, generation.ToString() + " is pinned: unpin it first");
  if (options.in_use.contains(generation)) return Status(Code::kBusy, generation.ToString() + " is in use");
  if (found->complete) {
    const bool another = std::any_of(versions.begin(), versions.end(), [&](const VersionInfo& info) {
      return info.complete && info.generation != generation;
    });
    if (!another) {
      return Status(Code::kFailedPrecondition,
                    generation.ToString() + " is the last complete version of its name and is not removed");
    }
    KEDGE_RETURN_IF_ERROR(EnsureKeptAreDurable(catalog, versions, {&*found}));
  }
  KEDGE_ASSIGN_OR_RETURN(References references, References::Read(catalog, generation.job));
  bool emptied = false;
  return RemoveGeneration(catalog, *found, &references, &emptied);
}

Status PinVersion(const Catalog& catalog, const Generation& generation) {
  const PinRecord pin{generation, WallTimeNs()};
  const auto check = [&]() {
    const Result<VersionInfo> info = InspectGeneration(catalog, generation);
    if (!info.ok()) return info.status();
    if (info->complete) return Status::Ok();
    return Status(Code::kFailedPrecondition, generation.ToString() + " is not complete: " + info->reason);
  };
  KEDGE_RETURN_IF_ERROR(check());
  const std::string key = layout::PinKey(generation);
  const Status put = catalog.store().PutIfAbsent(key, Encoded(pin), catalog.owner(), Folders::kMustExist);
  if (put.code() == Code::kAlreadyExists) return catalog.store().EnsureDurable(std::span(&key, 1));
  KEDGE_RETURN_IF_ERROR(put);
  // It may have been removed between the look and the pin.
  return check();
}

Status UnpinVersion(const Catalog& catalog, const Generation& generation) {
  KEDGE_RETURN_IF_ERROR(InspectGeneration(catalog, generation).status());
  return catalog.store().Remove(layout::PinKey(generation));
}

}  // namespace kedge
