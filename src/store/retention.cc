#include "store/retention.h"

#include <algorithm>

#include "base/clock.h"
#include "store/attempts.h"
#include "store/lineage.h"
#include "store/record_io.h"

namespace kedge {

namespace {

// Null: none.
const Generation* NewestOfLineage(const std::vector<VersionInfo>& newest_first) {
  const auto newest = std::find_if(newest_first.begin(), newest_first.end(),
                                   [](const VersionInfo& info) { return info.complete && !info.abandoned; });
  return newest == newest_first.end() ? nullptr : &newest->generation;
}

// Incomplete, and below what a restart would take, `newest` (null: nothing): also an earlier taking of that version itself.
bool IsLeftIncomplete(const VersionInfo& info, const Generation* newest) {
  if (info.complete || info.pinned || info.unknown || info.removed || newest == nullptr) return false;
  return info.abandoned || info.generation < *newest;
}

bool IsLeftByLaterAttempt(const VersionInfo& info, const Generation* newest) {
  return IsLeftIncomplete(info, newest) && info.generation.attempt < newest->attempt;
}

// The attempts up to the caller's, from that of the newest complete version on, that have left something incomplete and that
// nobody works for: what still earlier ones have left goes anyway.
std::set<uint32_t> SilentAttempts(const Catalog& catalog, const std::string& job, const std::vector<VersionInfo>& versions,
                                  LeaseWatch* watch, bool* others_wait) {
  const Generation* const newest = NewestOfLineage(versions);
  std::set<uint32_t> attempts, silent;
  for (const VersionInfo& info : versions) {
    const uint32_t attempt = info.generation.attempt;
    const bool is_asked = watch != nullptr && IsLeftIncomplete(info, newest) && attempt >= newest->attempt;
    if (is_asked && attempt <= catalog.owner().attempt) attempts.insert(attempt);
  }
  for (const uint32_t attempt : attempts) {
    const bool is_silent = IsSilent(catalog, job, attempt, watch);
    if (is_silent) silent.insert(attempt);
    *others_wait = *others_wait || !is_silent;
  }
  return silent;
}

// What goes, the oldest first. `versions` is newest first. Pinned ones do not count against `keep`. `others_wait`: some would
// go, and are in use.
std::vector<const VersionInfo*> Candidates(const std::vector<VersionInfo>& versions, const std::set<uint32_t>& silent,
                                           const RetentionOptions& options, bool* others_wait) {
  const uint32_t keep = std::max(options.keep, 1U);
  std::vector<const VersionInfo*> candidates;
  std::vector<Moment> kept;
  for (const VersionInfo& info : versions) {
    if (!info.complete || info.abandoned || info.pinned) continue;
    if (info.superseded || kept.size() >= keep) {
      candidates.push_back(&info);
    } else {
      kept.push_back(MomentOf(info.generation));
    }
  }
  const Moment oldest_kept = kept.size() < keep ? Moment{} : *std::min_element(kept.begin(), kept.end());
  const Generation* const newest = NewestOfLineage(versions);
  for (const VersionInfo& info : versions) {
    if (info.pinned || info.unknown || info.removed) continue;
    const Moment run = MomentOf(info.generation);
    const bool left_behind = info.complete && info.abandoned && run < oldest_kept;
    // Nobody goes on with it: a later attempt has completed a newer one, or its own has ended.
    const bool left_incomplete =
        IsLeftByLaterAttempt(info, newest) || (IsLeftIncomplete(info, newest) && silent.contains(run.attempt));
    if (left_behind || left_incomplete) candidates.push_back(&info);
  }
  const size_t in_use =
      std::erase_if(candidates, [&](const VersionInfo* info) { return options.in_use.contains(info->generation); });
  *others_wait = *others_wait || in_use > 0;
  std::sort(candidates.begin(), candidates.end(),
            [](const VersionInfo* a, const VersionInfo* b) { return a->generation < b->generation; });
  return candidates;
}

// The version records that take the candidates' place must survive a crash before those go: other processes may have
// created them and not have synced them yet.
Status EnsureKeptAreDurable(const Catalog& catalog, const std::vector<VersionInfo>& versions,
                            const std::vector<const VersionInfo*>& candidates) {
  std::vector<std::string> keys;
  for (const VersionInfo& info : versions) {
    const bool goes = std::find(candidates.begin(), candidates.end(), &info) != candidates.end();
    if (info.complete && !info.abandoned && !goes) keys.push_back(keys::VersionKey(info.generation));
  }
  return catalog.store().EnsureDurable(keys);
}

constexpr int kLooksAgain = 5;

// Durably; ok when it is there. `own`: whether this call put it there.
template <typename T>
Status PutMark(const Catalog& catalog, const std::string& key, const T& mark, bool* own) {
  const Status put = catalog.store().PutIfAbsent(key, Encoded(mark), catalog.owner(), Folders::kMustExist);
  *own = put.ok();
  return put.code() == Code::kAlreadyExists ? catalog.store().EnsureDurable(std::span(&key, 1)) : put;
}

Result<bool> IsThere(const Catalog& catalog, const std::string& key) {
  const Status status = catalog.store().Get(key, kSmallRecordBytesMax).status();
  if (status.code() == Code::kNotFound) return false;
  // Damaged or not: a mark is a mark.
  if (status.ok() || status.code() == Code::kCorrupt) return true;
  return status;
}

Status LastOne(const Generation& generation) {
  return Status(Code::kFailedPrecondition,
                generation.ToString() + " is the last complete version of its name's lineage and is not removed");
}

// One of the lineage that bears no mark: whoever marked it may be removing it now.
Result<bool> AnotherIsComplete(const Catalog& catalog, const Generation& generation) {
  KEDGE_ASSIGN_OR_RETURN(const std::vector<VersionInfo> versions, ListVersions(catalog, generation.job, generation.name));
  return std::any_of(versions.begin(), versions.end(), [&](const VersionInfo& info) {
    return info.complete && !info.abandoned && !info.reprieved && info.generation != generation;
  });
}

// With the mark set: whether something stands against removing it. kRemoved: nothing, and `references` are of now.
Result<Removal> LookAgain(const Catalog& catalog, const VersionInfo& info, bool also_last, References* references) {
  KEDGE_ASSIGN_OR_RETURN(const bool pinned, IsThere(catalog, keys::PinKey(info.generation)));
  if (pinned) return Removal::kPinned;
  if (!also_last && (info.complete || info.doomed)) {
    KEDGE_ASSIGN_OR_RETURN(const bool another, AnotherIsComplete(catalog, info.generation));
    if (!another) return Removal::kLast;
  }
  // Before the mark stood there, an image under way may have taken it for its base.
  KEDGE_ASSIGN_OR_RETURN(*references, References::Read(catalog, info.generation.job));
  return Removal::kRemoved;
}

}  // namespace

Result<References> References::Read(const Catalog& catalog, const std::string& job) {
  References references;
  KEDGE_ASSIGN_OR_RETURN(const std::vector<StoreEntry> folders, catalog.store().List(keys::NamesFolder(job)));
  for (const StoreEntry& folder : folders) {
    const std::string key = keys::NamesFolder(job) + '/' + folder.name + "/name";
    const Result<NameRecord> name = ReadOwnRecord(catalog, key, &DecodeNameRecord);
    // Nothing lies in a folder without a record, and what is another store's does not refer to this one.
    if (name.status().code() == Code::kNotFound || name.status().code() == Code::kMismatch) continue;
    if (!name.ok()) return name.status();
    KEDGE_RETURN_IF_ERROR(references.ReadName(catalog, job, name->name));
  }
  return references;
}

// What a generation may refer to is older than itself. From the oldest to the newest, until no other has come: one that was not
// there yet has found its base unmarked since (base_version.h), so that the base was still seen with all that it refers to.
Status References::ReadName(const Catalog& catalog, const std::string& job, const std::string& name) {
  std::set<Generation> seen;
  for (bool is_new = true; is_new;) {
    is_new = false;
    KEDGE_ASSIGN_OR_RETURN(const std::vector<Generation> oldest_first, ListGenerations(catalog, job, name));
    for (const Generation& generation : oldest_first) {
      if (!seen.insert(generation).second) continue;
      is_new = true;
      const Result<VersionInfo> info = InspectGeneration(catalog, generation);
      if (info.status().code() == Code::kNotFound) continue;  // removed while we looked
      if (!info.ok()) return info.status();
      if (info->foreign) continue;
      if (info->unknown) return Status(Code::kUnsupported, generation.ToString() + ": " + info->reason);
      if (!info->references.empty()) by_generation_[generation] = info->references;
    }
  }
  return Status::Ok();
}

bool References::ReferTo(const Generation& generation) const {
  const std::string folder = keys::RelativeToJob(generation.job, keys::GenerationFolder(generation));
  return std::any_of(by_generation_.begin(), by_generation_.end(), [&](const auto& entry) {
    return entry.first != generation && std::binary_search(entry.second.begin(), entry.second.end(), folder);
  });
}

Result<Removal> RemoveGeneration(const Catalog& catalog, const VersionInfo& info, References* references,
                                 const RemovalOptions& options) {
  const Generation& generation = info.generation;
  bool needed = references->ReferTo(generation);
  if (needed && info.removed && !info.doomed) return Removal::kEmptied;
  if (info.complete || info.doomed || needed || options.keep_mark) {
    bool own = false;
    const Status marked = PutMark(catalog, keys::RemovedKey(generation), RemovedRecord{generation, WallTimeNs()}, &own);
    if (marked.code() == Code::kNotFound) return Removal::kRemoved;  // by another process
    KEDGE_RETURN_IF_ERROR(marked);
    const Result<Removal> removal = LookAgain(catalog, info, options.also_last, references);
    if (!removal.ok() || *removal != Removal::kRemoved) {
      // Another's mark stays: it may have looked already, and be removing what this one would then rely on.
      if (own) KEDGE_RETURN_IF_ERROR(catalog.store().Remove(keys::RemovedKey(generation)));
      return removal;
    }
    needed = references->ReferTo(generation);
  }
  if (options.keep_mark) {
    bool ignored = false;
    const RemovedRecord mark{generation, WallTimeNs()};
    KEDGE_RETURN_IF_ERROR(PutMark(catalog, keys::WithdrawnKey(generation), mark, &ignored));
  }
  if (needed || options.keep_mark) {
    // In reverse order of publication; the mark makes it no version already.
    KEDGE_RETURN_IF_ERROR(catalog.store().Remove(keys::VersionKey(generation)));
    KEDGE_RETURN_IF_ERROR(catalog.store().RemoveFolder(keys::PartsFolder(generation), {}, catalog.owner()));
    KEDGE_RETURN_IF_ERROR(catalog.store().RemoveFolder(keys::BasesFolder(generation), {}, catalog.owner()));
    if (!needed) KEDGE_RETURN_IF_ERROR(catalog.store().RemoveFolder(keys::ObjectsFolder(generation), {}, catalog.owner()));
  } else {
    if (info.removed) KEDGE_RETURN_IF_ERROR(catalog.store().Remove(keys::WithdrawnKey(generation)));
    KEDGE_RETURN_IF_ERROR(
        catalog.store().RemoveFolder(keys::GenerationFolder(generation), keys::VersionKey(generation), catalog.owner()));
  }
  references->Forget(generation);
  return needed ? Removal::kEmptied : Removal::kRemoved;
}

namespace {

// Of restored records that no generation which is still there came before: the newest are kept for those that come late.
constexpr size_t kRestoredKept = 16;

Status RemoveRestored(const Catalog& catalog, const std::string& job, const std::string& name) {
  const std::string folder = keys::NameFolder(job, name);
  KEDGE_ASSIGN_OR_RETURN(const std::vector<StoreEntry> entries, catalog.store().List(folder));
  KEDGE_ASSIGN_OR_RETURN(const std::vector<RestoredRecord> restored, catalog.RestoredIn(job, name, entries));
  std::set<Moment> runs;
  for (const RestoredRecord& record : restored) runs.insert({record.attempt, record.take});
  Moment oldest{UINT32_MAX, UINT32_MAX};
  for (const StoreEntry& entry : entries) {
    Generation generation;
    if (entry.is_folder && keys::ParseGenerationFolder(entry.name, &generation)) oldest = std::min(oldest, MomentOf(generation));
  }
  for (size_t left = runs.size(); left > kRestoredKept && *runs.begin() <= oldest; --left) {
    KEDGE_RETURN_IF_ERROR(catalog.store().Remove(keys::RestoredKey(job, name, runs.begin()->attempt, runs.begin()->take)));
    runs.erase(runs.begin());
  }
  return Status::Ok();
}

Status RetainOnce(const Catalog& catalog, const std::string& job, const std::string& name, const RetentionOptions& options,
                  RetentionReport* report) {
  KEDGE_ASSIGN_OR_RETURN(const std::vector<VersionInfo> versions, ListVersions(catalog, job, name));
  report->waits = false;
  const std::set<uint32_t> silent = SilentAttempts(catalog, job, versions, options.watch, &report->waits);
  const std::vector<const VersionInfo*> candidates = Candidates(versions, silent, options, &report->waits);
  std::vector<VersionInfo> emptied;  // whose objects may go once nothing refers to them
  for (const VersionInfo& info : versions) {
    const bool may_go = info.removed && !info.unknown && !IsWithdrawn(info, versions);
    if (may_go && !options.in_use.contains(info.generation)) emptied.push_back(info);
  }
  if (candidates.empty() && emptied.empty()) return Status::Ok();
  KEDGE_RETURN_IF_ERROR(EnsureKeptAreDurable(catalog, versions, candidates));
  KEDGE_ASSIGN_OR_RETURN(References references, References::Read(catalog, job));
  for (const VersionInfo* info : candidates) {
    KEDGE_ASSIGN_OR_RETURN(const Removal removal, RemoveGeneration(catalog, *info, &references, {}));
    if (removal == Removal::kRemoved) report->removed.push_back(info->generation);
    if (removal != Removal::kEmptied) continue;
    report->emptied.push_back(info->generation);
    emptied.push_back(*info);
    emptied.back().removed = true;
    emptied.back().complete = emptied.back().doomed = false;
  }
  // After all records that could refer to them.
  for (const VersionInfo& info : emptied) {
    KEDGE_ASSIGN_OR_RETURN(const Removal removal, RemoveGeneration(catalog, info, &references, {}));
    if (removal == Removal::kRemoved) report->removed.push_back(info.generation);
  }
  return RemoveRestored(catalog, job, name);
}

// Tools (attempt 0) are no attempt; the records of all others say whether they may.
Status CheckMayRemove(const Catalog& catalog, const std::string& job) {
  const uint32_t attempt = catalog.owner().attempt;
  return attempt == 0 ? Status::Ok() : CheckNotTakenOver(catalog, job, attempt);
}

}  // namespace

Status ApplyRetention(const Catalog& catalog, const std::string& job, const std::string& name, const RetentionOptions& options,
                      RetentionReport* report) {
  RetentionReport ignored;
  if (report == nullptr) report = &ignored;
  KEDGE_RETURN_IF_ERROR(CheckMayRemove(catalog, job));
  Status status = RetainOnce(catalog, job, name, options, report);
  // What was there has been removed by another process at the same work: look again.
  for (int again = 0; again < kLooksAgain && status.code() == Code::kNotFound; ++again) {
    status = RetainOnce(catalog, job, name, options, report);
  }
  return status;
}

namespace {

// kBusy: as CheckNotAbandoned. `versions`: of the name, where a newer attempt has begun; else none.
Status CheckNotAbandoned(const Catalog& catalog, const Generation& generation, std::vector<VersionInfo>* versions) {
  const Status newest = CheckNotTakenOver(catalog, generation.job, generation.attempt);
  if (newest.code() != Code::kBusy) return newest;
  KEDGE_ASSIGN_OR_RETURN(*versions, ListVersions(catalog, generation.job, generation.name));
  const bool abandoned = std::any_of(versions->begin(), versions->end(),
                                     [&](const VersionInfo& info) { return info.generation == generation && info.abandoned; });
  return abandoned ? newest.WithContext(generation.ToString() + " is abandoned") : Status::Ok();
}

}  // namespace

Status CheckNotAbandoned(const Catalog& catalog, const Generation& generation) {
  std::vector<VersionInfo> versions;
  return CheckNotAbandoned(catalog, generation, &versions);
}

Status LeaveNothingBehind(const Catalog& catalog, const Generation& generation) {
  std::vector<VersionInfo> versions;
  Status goes_on = CheckNotAbandoned(catalog, generation, &versions);
  const auto found =
      std::find_if(versions.begin(), versions.end(), [&](const VersionInfo& info) { return info.generation == generation; });
  if (found != versions.end() && IsLeftByLaterAttempt(*found, NewestOfLineage(versions))) {
    KEDGE_ASSIGN_OR_RETURN(References references, References::Read(catalog, generation.job));
    KEDGE_RETURN_IF_ERROR(RemoveGeneration(catalog, *found, &references, {}).status());
  }
  return goes_on;
}

namespace {

// Where one may be removed that is not in use.
Result<const VersionInfo*> FindRemovable(const std::vector<VersionInfo>& versions, const Generation& generation) {
  const auto found =
      std::find_if(versions.begin(), versions.end(), [&](const VersionInfo& info) { return info.generation == generation; });
  if (found == versions.end()) return Status(Code::kNotFound, generation.ToString() + " is not in the store");
  if (found->unknown) return Status(Code::kUnsupported, generation.ToString() + ": " + found->reason);
  if (found->pinned) return Status(Code::kBusy, generation.ToString() + " is pinned: unpin it first");
  return &*found;
}

Status JustPinned(const Generation& generation) {
  return Status(Code::kBusy, generation.ToString() + " has just been pinned");
}

}  // namespace

Status RemoveVersion(const Catalog& catalog, const Generation& generation, const RetentionOptions& options) {
  KEDGE_RETURN_IF_ERROR(CheckMayRemove(catalog, generation.job));
  KEDGE_ASSIGN_OR_RETURN(const std::vector<VersionInfo> versions, ListVersions(catalog, generation.job, generation.name));
  KEDGE_ASSIGN_OR_RETURN(const VersionInfo* const found, FindRemovable(versions, generation));
  if (options.in_use.contains(generation)) return Status(Code::kBusy, generation.ToString() + " is in use");
  if (found->complete) {
    KEDGE_ASSIGN_OR_RETURN(const bool another, AnotherIsComplete(catalog, generation));
    if (!another) return LastOne(generation);
    KEDGE_RETURN_IF_ERROR(EnsureKeptAreDurable(catalog, versions, {found}));
  }
  KEDGE_ASSIGN_OR_RETURN(References references, References::Read(catalog, generation.job));
  KEDGE_ASSIGN_OR_RETURN(const Removal removal, RemoveGeneration(catalog, *found, &references, {}));
  if (removal == Removal::kPinned) return JustPinned(generation);
  if (removal == Removal::kLast) return LastOne(generation);
  return Status::Ok();
}

Result<Removal> WithdrawVersion(const Catalog& catalog, const Generation& generation) {
  KEDGE_RETURN_IF_ERROR(CheckMayRemove(catalog, generation.job));
  KEDGE_ASSIGN_OR_RETURN(const std::vector<VersionInfo> versions, ListVersions(catalog, generation.job, generation.name));
  KEDGE_ASSIGN_OR_RETURN(const VersionInfo* const found, FindRemovable(versions, generation));
  KEDGE_ASSIGN_OR_RETURN(References references, References::Read(catalog, generation.job));
  // Where one that was taken later stands, that one tells all who hold copies that this one was let go of.
  const bool keep_mark = !IsDisplaced(*found, versions);
  if (!keep_mark) KEDGE_RETURN_IF_ERROR(EnsureKeptAreDurable(catalog, versions, {found}));
  KEDGE_ASSIGN_OR_RETURN(const Removal removal,
                         RemoveGeneration(catalog, *found, &references, {.keep_mark = keep_mark, .also_last = true}));
  if (removal == Removal::kPinned) return JustPinned(generation);
  return removal;
}

Result<std::vector<Generation>> ReadWithdrawn(const Catalog& catalog, const std::string& job, const std::string& name) {
  std::vector<Generation> withdrawn;
  KEDGE_ASSIGN_OR_RETURN(const std::vector<StoreEntry> entries, ListIfThere(catalog.store(), keys::NameFolder(job, name)));
  for (const StoreEntry& entry : entries) {
    Generation generation{catalog.id(), job, name, 0, 0, 0};
    if (!keys::ParseWithdrawnName(entry.name, &generation)) continue;
    const Result<VersionInfo> info = InspectGeneration(catalog, generation);
    if (!info.ok() && info.status().code() != Code::kNotFound) return info.status();
    if (info.ok() && info->removed) withdrawn.push_back(generation);
  }
  return withdrawn;
}

Status PinVersion(const Catalog& catalog, const Generation& generation) {
  KEDGE_ASSIGN_OR_RETURN(const VersionInfo info, InspectGeneration(catalog, generation));
  if (!info.complete) {
    return Status(Code::kFailedPrecondition, generation.ToString() + " is not complete: " + info.reason);
  }
  const std::string key = keys::PinKey(generation);
  bool own = false;
  KEDGE_RETURN_IF_ERROR(PutMark(catalog, key, PinRecord{generation, WallTimeNs()}, &own));
  if (info.pinned) return Status::Ok();
  KEDGE_ASSIGN_OR_RETURN(const bool removed, IsThere(catalog, keys::RemovedKey(generation)));
  if (!removed) return Status::Ok();
  KEDGE_RETURN_IF_ERROR(catalog.store().Remove(key));
  return Status(Code::kNotFound, generation.ToString() + " is being removed");
}

Status UnpinVersion(const Catalog& catalog, const Generation& generation) {
  KEDGE_RETURN_IF_ERROR(InspectGeneration(catalog, generation).status());
  return catalog.store().Remove(keys::PinKey(generation));
}

}  // namespace kedge
