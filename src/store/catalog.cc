#include "store/catalog.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <mutex>
#include <set>

#include "base/clock.h"
#include "format/name_encoding.h"
#include "os/machine/machine.h"
#include "store/record_io.h"

namespace kedge {

struct Catalog::Memo {
  std::mutex mutex;
  // Guarded by mutex:
  std::set<std::string> ensured;              // keys of records that are there, right and durable
  std::map<uint32_t, AttemptRecord> awaited;  // by attempt, records that have not been seen yet
  std::vector<RestoredRecord> awaited_restored;
  std::map<std::string, RestoredRecord> restored;  // by key, those read
  std::string place;                               // where the store was confirmed last
  uint32_t places = 0;
};

namespace {

std::string ThisHost() {
  return os::HostName().substr(0, kHostBytesMax);
}

// Reads the record in each folder of `folder`; those whose record is not right go to `skipped`.
template <typename T, typename Key, typename Name>
Result<std::vector<std::string>> RealNames(const Catalog& catalog, const std::string& folder, Result<T> (*decode)(ByteSpan),
                                           Key key_of, Name name_of, std::vector<std::string>* skipped) {
  std::vector<std::string> names;
  KEDGE_ASSIGN_OR_RETURN(const std::vector<StoreEntry> entries, ListIfThere(catalog.store(), folder));
  for (const StoreEntry& entry : entries) {
    if (!entry.is_folder) continue;
    const Result<T> record = ReadOwnRecord(catalog, key_of(entry.name), decode);
    Status status = record.status();
    if (record.ok() && EncodeName(name_of(*record)) != entry.name) {
      status =
          Status(Code::kMismatch, PathInStore(catalog.store(), key_of(entry.name)) + ": says another name, " + name_of(*record));
    }
    if (status.ok()) {
      names.push_back(name_of(*record));
    } else if (status.code() == Code::kNotFound) {
      continue;  // a crash came between the folder and its record: nothing lies in it
    } else if (skipped != nullptr) {
      skipped->push_back(status.ToString());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

Catalog::Catalog(Store& store, const StoreId& id, TemporaryOwner owner, std::shared_ptr<Memo> memo)
    : store_(&store), id_(id), owner_(std::move(owner)), memo_(std::move(memo)) {}

Catalog Catalog::WithOwner(const TemporaryOwner& owner) const {
  return {*store_, id_, owner, memo_};
}

Result<Catalog> Catalog::Open(Store& store, const TemporaryOwner& owner) {
  const Result<StoreRecord> record = ReadRecord(store, keys::kStoreKey, &DecodeStoreRecord);
  if (record.status().code() == Code::kNotFound) {
    return Status(Code::kNotFound, store.description() + " is no store of Kedge: it has no file " + keys::kStoreKey);
  }
  if (!record.ok()) return record.status();
  return Catalog(store, record->id, owner, std::make_shared<Memo>());
}

Catalog Catalog::Assume(Store& store, const StoreId& id, const TemporaryOwner& owner) {
  return {store, id, owner, std::make_shared<Memo>()};
}

Status Catalog::Confirm() const {
  // Before it is read: where the folder is exchanged meanwhile, the next look sees that.
  const Result<std::string> place = store_->Place();
  const Result<Catalog> there = Open(*store_, owner_);
  if (there.status().code() == Code::kNotFound) return Status(Code::kUnavailable, there.status().message());
  if (!there.ok()) return there.status();
  if (there->id() == id_) {
    if (place.ok()) NotePlace(*place);
    return Status::Ok();
  }
  return Status(Code::kMismatch, fmt::format("the store at {} is {} now; the job's is {}", store_->description(),
                                             there->id().ToHex(), id_.ToHex()));
}

void Catalog::NotePlace(const std::string& place) const {
  const std::lock_guard lock(memo_->mutex);
  if (place == memo_->place) return;
  if (memo_->places > 0) memo_->ensured.clear();
  memo_->place = place;
  ++memo_->places;
}

uint32_t Catalog::places() const {
  const std::lock_guard lock(memo_->mutex);
  return memo_->places;
}

Result<Catalog> Catalog::OpenOrCreate(Store& store, const TemporaryOwner& owner) {
  Result<Catalog> there = OpenDurably(store, owner);
  if (there.status().code() != Code::kNotFound) return there;
  const StoreRecord record{StoreId::Generate(), WallTimeNs(), ThisHost()};
  const Status made = store.PutIfAbsent(keys::kStoreKey, Encoded(record), owner, Folders::kCreate);
  if (made.ok()) return Catalog(store, record.id, owner, std::make_shared<Memo>());
  if (made.code() != Code::kAlreadyExists) return made.WithContext("cannot make a store at " + store.description());
  return OpenDurably(store, owner);
}

Result<Catalog> Catalog::OpenDurably(Store& store, const TemporaryOwner& owner) {
  Result<Catalog> there = Open(store, owner);
  if (!there.ok()) return there;
  // Everything written from now on carries this id: it must not be lost with the process that made it.
  const std::string key = keys::kStoreKey;
  KEDGE_RETURN_IF_ERROR(store.EnsureDurable(std::span(&key, 1)));
  return there;
}

bool Catalog::WasEnsured(const std::string& key) const {
  const std::lock_guard lock(memo_->mutex);
  return memo_->ensured.contains(key);
}

template <typename Check>
Status Catalog::EnsureRecord(const std::string& key, const Buffer& record, Check check) const {
  Status status = store_->PutIfAbsent(key, record, owner_, Folders::kCreate);
  if (status.code() == Code::kAlreadyExists) {
    status = check();
    // Torn by a crash on a file system where records are not created in one step: it says what this one says.
    if (status.code() == Code::kCorrupt) {
      status = store_->Replace(key, record, owner_, Folders::kCreate);
    } else if (status.ok()) {
      status = store_->EnsureDurable(std::span(&key, 1));
    }
  }
  if (!status.ok()) return status;
  // Perhaps the store went away meanwhile, and what was written lies where it was.
  if (const Status stands = Confirm(); !stands.ok()) {
    const Result<Buffer> there = store_->Get(key, kSmallRecordBytesMax);
    if (there.ok() && *there == record) (void)store_->Remove(key);
    return stands;
  }
  const std::lock_guard lock(memo_->mutex);
  memo_->ensured.insert(key);
  return status;
}

void Catalog::Await(const AttemptRecord& record) const {
  const std::lock_guard lock(memo_->mutex);
  memo_->awaited.insert_or_assign(record.attempt, record);
}

std::optional<AttemptRecord> Catalog::AwaitedRecordOf(uint32_t attempt) const {
  const std::lock_guard lock(memo_->mutex);
  const auto found = memo_->awaited.find(attempt);
  return found == memo_->awaited.end() ? std::nullopt : std::optional(found->second);
}

Result<uint32_t> Catalog::GreatestRecorded(const std::string& job) const {
  KEDGE_ASSIGN_OR_RETURN(const std::vector<StoreEntry> entries, ListIfThere(*store_, keys::AttemptsFolder(job)));
  uint32_t greatest = 0;
  for (const StoreEntry& entry : entries) {
    greatest = std::max(greatest, keys::ParseNumber(entry.name).value_or(0));
  }
  return greatest;
}

Status Catalog::CheckRecordOf(const std::string& job, uint32_t attempt) const {
  const std::optional<AttemptRecord> awaited = AwaitedRecordOf(attempt);
  if (!awaited) return Status::Ok();
  KEDGE_RETURN_IF_ERROR(Confirm());
  const Result<AttemptRecord> there = ReadOwnRecord(*this, keys::AttemptKey(job, attempt), &DecodeAttemptRecord);
  if (there.status().code() == Code::kNotFound) {
    KEDGE_ASSIGN_OR_RETURN(const uint32_t greatest, GreatestRecorded(job));
    if (greatest > attempt) {
      return Status(Code::kBusy, fmt::format("attempt {} of job '{}' began without the store at {}, and is never noted there: "
                                             "attempt {} has taken the job over",
                                             attempt, job, store_->description(), greatest));
    }
    return Status(Code::kUnavailable,
                  fmt::format("attempt {} of job '{}' began without the store at {}, and is not noted there yet", attempt, job,
                              store_->description()));
  }
  KEDGE_RETURN_IF_ERROR(there.status());
  if (*there != *awaited) {
    return Status(Code::kBusy, fmt::format("attempt {} of job '{}' in the store at {} is another launch's: it began on {}",
                                           attempt, job, store_->description(), there->host));
  }
  const std::lock_guard lock(memo_->mutex);
  memo_->awaited.erase(attempt);
  return Status::Ok();
}

Status Catalog::NoteRestored(const RestoredRecord& record) const {
  const Generation& origin = record.origin;
  KEDGE_RETURN_IF_ERROR(CheckStoreId(origin.store_id, id_, "restored record"));
  const std::string key = keys::RestoredKey(origin.job, origin.name, record.attempt, record.take);
  if (WasEnsured(key)) return Status::Ok();
  KEDGE_RETURN_IF_ERROR(Confirm());
  KEDGE_RETURN_IF_ERROR(EnsureName(origin.job, origin.name));
  return EnsureRecord(key, Encoded(record), [&]() {
    const Result<RestoredRecord> there = ReadOwnRecord(*this, key, &DecodeRestoredRecord);
    if (!there.ok() || there->origin == origin) return there.status();
    return Status(Code::kMismatch, fmt::format("{} says that the ranks went on from {}, not from {}", PathInStore(*store_, key),
                                               there->origin.ToString(), origin.ToString()));
  });
}

void Catalog::AwaitRestored(const RestoredRecord& record) const {
  const std::lock_guard lock(memo_->mutex);
  memo_->awaited_restored.push_back(record);
}

Status Catalog::NoteAwaitedRestored(const std::string& job, const std::string& name) const {
  const auto is_of_name = [&](const RestoredRecord& record) { return record.origin.job == job && record.origin.name == name; };
  std::vector<RestoredRecord> awaited;
  {
    const std::lock_guard lock(memo_->mutex);
    std::copy_if(memo_->awaited_restored.begin(), memo_->awaited_restored.end(), std::back_inserter(awaited), is_of_name);
  }
  for (const RestoredRecord& record : awaited) {
    KEDGE_RETURN_IF_ERROR(NoteRestored(record));
    const std::lock_guard lock(memo_->mutex);
    std::erase(memo_->awaited_restored, record);
  }
  return Status::Ok();
}

Result<std::vector<RestoredRecord>> Catalog::RestoredIn(const std::string& job, const std::string& name,
                                                        const std::vector<StoreEntry>& entries) const {
  std::vector<RestoredRecord> restored;
  for (const StoreEntry& entry : entries) {
    if (entry.is_folder || !keys::IsRestoredName(entry.name)) continue;
    const std::string key = keys::NameFolder(job, name) + '/' + entry.name;
    {
      const std::lock_guard lock(memo_->mutex);
      if (const auto known = memo_->restored.find(key); known != memo_->restored.end()) {
        restored.push_back(known->second);
        continue;
      }
    }
    const Result<RestoredRecord> record = ReadOwnRecord(*this, key, &DecodeRestoredRecord);
    const Code code = record.status().code();
    if (code == Code::kNotFound || code == Code::kCorrupt || code == Code::kMismatch) continue;
    if (!record.ok()) return record.status();
    if (keys::RestoredKey(record->origin.job, record->origin.name, record->attempt, record->take) != key) continue;
    restored.push_back(*record);
    const std::lock_guard lock(memo_->mutex);
    memo_->restored.emplace(key, *record);
  }
  return restored;
}

Status Catalog::EnsureJob(const std::string& job) const {
  KEDGE_RETURN_IF_ERROR(ValidateName(job, "job name"));
  const std::string key = keys::JobKey(job);
  if (WasEnsured(key)) return Status::Ok();
  return EnsureRecord(key, Encoded(JobRecord{id_, job, WallTimeNs()}), [&]() {
    const Result<JobRecord> record = ReadOwnRecord(*this, key, &DecodeJobRecord);
    if (!record.ok() || record->job == job) return record.status();
    return Status(Code::kMismatch, PathInStore(*store_, key) + " belongs to job '" + record->job + "', not '" + job +
                                       "': choose another job name (job.name)");
  });
}

Status Catalog::EnsureName(const std::string& job, const std::string& name) const {
  KEDGE_RETURN_IF_ERROR(ValidateName(name, "checkpoint name"));
  KEDGE_RETURN_IF_ERROR(EnsureJob(job));
  const std::string key = keys::NameKey(job, name);
  if (WasEnsured(key)) return Status::Ok();
  return EnsureRecord(key, Encoded(NameRecord{id_, job, name, WallTimeNs()}), [&]() {
    const Result<NameRecord> record = ReadOwnRecord(*this, key, &DecodeNameRecord);
    if (!record.ok() || (record->job == job && record->name == name)) return record.status();
    return Status(Code::kMismatch, PathInStore(*store_, key) + " belongs to checkpoint '" + record->name + "' of job '" +
                                       record->job + "', not '" + name + "' of '" + job + "': choose another checkpoint name");
  });
}

Result<std::vector<std::string>> Catalog::Jobs(std::vector<std::string>* skipped) const {
  const auto key_of = [](const std::string& folder) { return std::string(keys::kJobsFolder) + '/' + folder + "/job"; };
  return RealNames(
      *this, keys::kJobsFolder, &DecodeJobRecord, key_of, [](const JobRecord& record) { return record.job; }, skipped);
}

Result<std::vector<std::string>> Catalog::Names(const std::string& job, std::vector<std::string>* skipped) const {
  KEDGE_RETURN_IF_ERROR(ValidateName(job, "job name"));
  const std::string folder = keys::NamesFolder(job);
  const auto key_of = [&folder](const std::string& component) { return folder + '/' + component + "/name"; };
  return RealNames(
      *this, folder, &DecodeNameRecord, key_of, [](const NameRecord& record) { return record.name; }, skipped);
}

}  // namespace kedge
