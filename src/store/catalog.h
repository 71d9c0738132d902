// The catalog: the commit rule on top of any store (docs/internals.md, "Store"). This header holds what the rest of
// it shares; attempts.h, publish.h, versions.h, retention.h, garbage.h, verify.h and copy.h hold the operations, one
// concern each. What is true is in the store alone, and any number of processes may run any of them at a time.
//
// A Catalog says which store, that store's identity, and in whose name temporaries are written. It is a small value, to
// be copied; the store must outlive it. Thread safe. Readers refuse, with the reason, what is truncated, damaged,
// foreign (another store's id) or from a newer format; they never take it for something else.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "format/store_records.h"
#include "store/keys.h"
#include "store/store.h"

namespace kedge {

inline constexpr uint64_t kSmallRecordBytesMax = 64 << 20;  // what a reader takes of a record with a fixed key

class Catalog {
 public:
  // Reads the store record, or makes the store when there is none: of two that race, both end up with the winner's id.
  static Result<Catalog> OpenOrCreate(Store& store, const TemporaryOwner& owner);
  // The same where it is to be there already: makes nothing, and makes its record durable. kNotFound: no store there.
  static Result<Catalog> OpenDurably(Store& store, const TemporaryOwner& owner);
  // Never writes. kNotFound: no store there.
  static Result<Catalog> Open(Store& store, const TemporaryOwner& owner);
  // For a store that cannot be reached now and is known from elsewhere: nothing is read.
  static Catalog Assume(Store& store, const StoreId& id, const TemporaryOwner& owner);

  // Whether the store that lies there is this one. kMismatch: another; kUnavailable: none. It may have come to lie in another
  // folder (Store::Place): a file system that was mounted anew, or a copy, perhaps an older one. What this process had made sure
  // of before is then made sure of anew.
  Status Confirm() const;
  // In how many folders Confirm has found it, one after the other: when that grows, what was in it may not be.
  uint32_t places() const;

  // The same store in another owner's name: when the attempt is known, or for another job.
  Catalog WithOwner(const TemporaryOwner& owner) const;

  Store& store() const { return *store_; }
  const StoreId& id() const { return id_; }
  const TemporaryOwner& owner() const { return owner_; }

  // Makes the job's (name's) folder and record, durably, or checks that the record there is of this job (name) and
  // store: kMismatch otherwise, which only a collision of hashes or a store put together by hand can bring about. Costs
  // nothing when this process has done it before.
  Status EnsureJob(const std::string& job) const;
  Status EnsureName(const std::string& job, const std::string& name) const;

  // An attempt that began without the store (attempts.h): nothing of it is published before this record stands there.
  void Await(const AttemptRecord& record) const;
  // The record that is awaited of an attempt; nothing: none is.
  std::optional<AttemptRecord> AwaitedRecordOf(uint32_t attempt) const;
  // The greatest attempt number with a record; 0: there is none.
  Result<uint32_t> GreatestRecorded(const std::string& job) const;
  // Ok at once for every other attempt. kUnavailable: the record is not there yet; kBusy: it never will be, since another
  // attempt's is, or that of a greater one.
  Status CheckRecordOf(const std::string& job, uint32_t attempt) const;

  // What an attempt went on from (lineage.h), durably; ok when it was noted before.
  Status NoteRestored(const RestoredRecord& record) const;
  // The same, as soon as something of that name is prepared: for a store that is out of reach now.
  void AwaitRestored(const RestoredRecord& record) const;
  Status NoteAwaitedRestored(const std::string& job, const std::string& name) const;
  // Those among the entries of a name's folder. They never change: this process reads each once. Damaged ones are left out.
  Result<std::vector<RestoredRecord>> RestoredIn(const std::string& job, const std::string& name,
                                                 const std::vector<StoreEntry>& entries) const;

  // Real names, sorted. Folders whose record cannot be read, or is another store's, are passed over; `skipped`, when
  // not null, gets one sentence for each.
  Result<std::vector<std::string>> Jobs(std::vector<std::string>* skipped) const;
  Result<std::vector<std::string>> Names(const std::string& job, std::vector<std::string>* skipped) const;

 private:
  struct Memo;  // what EnsureX has done, what is awaited, and restored records; shared by copies
  Catalog(Store& store, const StoreId& id, TemporaryOwner owner, std::shared_ptr<Memo> memo);
  bool WasEnsured(const std::string& key) const;
  void NotePlace(const std::string& place) const;
  // Creates the record, or leaves it to `check` what is there.
  template <typename Check>
  Status EnsureRecord(const std::string& key, const Buffer& record, Check check) const;

  Store* store_;
  StoreId id_;
  TemporaryOwner owner_;
  std::shared_ptr<Memo> memo_;
};

}  // namespace kedge
