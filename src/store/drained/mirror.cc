#include "store/drained/mirror.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "os/files/files.h"
#include "os/process/kill_point.h"
#include "store/drained/named_things.h"
#include "store/record_io.h"
#include "store/temporary_tag.h"
#include "store/verify.h"
#include "store/versions.h"

namespace kedge {
namespace {

constexpr size_t kPublishedTogetherMax = 32;  // objects

Status MirrorStopped() {
  return {Code::kTimeout, "stopped by the caller"};
}

bool IsGone(const Status& status) {
  return status.code() == Code::kNotFound;
}

// Nothing: it is not there.
Result<std::optional<Buffer>> GetIfThere(Store& store, const std::string& key) {
  Result<Buffer> bytes = store.Get(key, kSmallRecordBytesMax);
  if (IsGone(bytes.status())) return std::optional<Buffer>();
  if (!bytes.ok()) return bytes.status();
  return std::optional<Buffer>(std::move(*bytes));
}

// Objects that are published in one step. What is not published is abandoned.
class Batch {
 public:
  explicit Batch(Store& store) : store_(store) {}
  ~Batch() { Abandon(); }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  void Add(std::unique_ptr<ObjectWriter> writer) { writers_.push_back(std::move(writer)); }
  size_t size() const { return writers_.size(); }
  Status Publish() {
    std::vector<ObjectWriter*> all;
    for (const auto& writer : writers_) all.push_back(writer.get());
    os::KillPoint("mirror-objects-written");
    const std::vector<Status> statuses = store_.Publish(all);
    writers_.clear();
    os::KillPoint("mirror-objects-published");
    for (const Status& status : statuses) KEDGE_RETURN_IF_ERROR(status);
    return Status::Ok();
  }

 private:
  void Abandon() {
    for (const auto& writer : writers_) static_cast<void>(writer->Abandon());
  }

  Store& store_;
  std::vector<std::unique_ptr<ObjectWriter>> writers_;
};

// Brings one generation.
class Carrier {
 public:
  Carrier(Store& source, const Catalog& target, const Catalog& view, const MirrorOptions& options, const Generation& generation)
      : source_(source), target_(target), view_(view), options_(options), generation_(generation) {}

  Status Carry();
  uint64_t bytes() const { return bytes_; }

 private:
  Status CarryAll();
  // Finds the version record that says that the generation is still there.
  Status Anchor();
  Result<bool> IsStillThere();
  Status TakeBack();
  Status RemoveOwnTemporaries(const std::string& folder);
  Status Verify();
  // `sizes_tell`: the target's are known to be whole.
  Status CopyObjects(const std::string& generation_folder, bool sizes_tell);
  Result<bool> IsSame(ObjectReader& from, const std::string& key, bool sizes_tell);
  Status CopyObject(ObjectReader& from, ObjectWriter& to);
  Status CopyRecords(const std::string& folder);
  Status PutRecord(const std::string& key, const Buffer& bytes);
  Status PutVersion();
  Status CheckStands();
  void Touch(const std::string& generation_folder, const std::string& folder);
  bool GoesOn() const { return !options_.goes_on || options_.goes_on(); }
  Store& to() const { return target_.store(); }

  Store& source_;
  const Catalog& target_;
  const Catalog& view_;
  const MirrorOptions& options_;
  const Generation& generation_;
  Buffer piece_, other_piece_;
  std::optional<Buffer> version_;  // at the source when it began
  bool in_target_ = false;         // a version record was there when it began
  bool has_put_version_ = false;
  std::map<std::string, std::string> touched_;  // folders that may have been written into, and what is to go first of each
  uint64_t bytes_ = 0;
};

Status Carrier::Carry() {
  const Status carried = CarryAll();
  if (carried.ok()) return carried;
  KEDGE_ASSIGN_OR_RETURN(const bool still_there, IsStillThere());
  // Not to be taken for its removal.
  if (still_there) return IsGone(carried) ? Status(Code::kIncomplete, carried.message()) : carried;
  KEDGE_RETURN_IF_ERROR(TakeBack());
  return {Code::kNotFound, generation_.ToString() + " was removed while it was brought to the store"};
}

Status Carrier::CarryAll() {
  KEDGE_RETURN_IF_ERROR(Anchor());
  KEDGE_ASSIGN_OR_RETURN(const VersionInfo info, InspectGeneration(view_, generation_));
  if (!info.complete) return {Code::kIncomplete, generation_.ToString() + " is not complete: " + info.reason};
  const std::string folder = keys::GenerationFolder(generation_);
  KEDGE_RETURN_IF_ERROR(RemoveOwnTemporaries(folder));
  if (!in_target_) KEDGE_RETURN_IF_ERROR(Verify());
  for (const std::string& reference : info.references) {
    if (keys::IsCommonObject(reference)) continue;  // its own: below, with all its objects
    const std::string referred = keys::JobFolder(generation_.job) + '/' + reference;
    KEDGE_RETURN_IF_ERROR(RemoveOwnTemporaries(referred));
    const bool is_whole = to().Stamp(referred + "/version").ok();
    KEDGE_RETURN_IF_ERROR(CopyObjects(referred, is_whole));
  }
  KEDGE_RETURN_IF_ERROR(CopyObjects(folder, in_target_));
  KEDGE_RETURN_IF_ERROR(CopyRecords(keys::BasesFolder(generation_)));
  KEDGE_RETURN_IF_ERROR(CopyRecords(keys::PartsFolder(generation_)));
  KEDGE_RETURN_IF_ERROR(target_.Confirm());
  KEDGE_RETURN_IF_ERROR(PutVersion());
  KEDGE_ASSIGN_OR_RETURN(const bool still_there, IsStillThere());
  if (!still_there) return {Code::kNotFound, generation_.ToString() + " is gone"};
  return CheckStands();
}

Status Carrier::Anchor() {
  const std::string key = keys::VersionKey(generation_);
  KEDGE_ASSIGN_OR_RETURN(version_, GetIfThere(source_, key));
  KEDGE_ASSIGN_OR_RETURN(const std::optional<Buffer> there, GetIfThere(to(), key));
  in_target_ = there.has_value();
  if (!version_ && !in_target_) return {Code::kNotFound, generation_.ToString() + " has no version record"};
  return Status::Ok();
}

// Where the source has never had a version record, the target's counts.
Result<bool> Carrier::IsStillThere() {
  KEDGE_ASSIGN_OR_RETURN(const std::optional<Buffer> now,
                         GetIfThere(version_ || !in_target_ ? source_ : to(), keys::VersionKey(generation_)));
  return version_ ? now == version_ : now.has_value();
}

Status Carrier::TakeBack() {
  if (has_put_version_) KEDGE_RETURN_IF_ERROR(to().Remove(keys::VersionKey(generation_)));
  for (const auto& [folder, first] : touched_) {
    const Status there = source_.List(folder).status();
    if (there.ok()) continue;
    if (!IsGone(there)) return there;
    KEDGE_RETURN_IF_ERROR(to().RemoveFolder(folder, first, target_.owner()));
  }
  return Status::Ok();
}

Status Carrier::RemoveOwnTemporaries(const std::string& folder) {
  const auto temporaries = to().ListTemporaries(folder, target_.owner());
  if (IsGone(temporaries.status())) return Status::Ok();
  KEDGE_RETURN_IF_ERROR(temporaries.status());
  const std::string own = MakeTemporaryTag(target_.owner());
  for (const Temporary& one : *temporaries) {
    if (one.tag == own) KEDGE_RETURN_IF_ERROR(to().RemoveTemporary(one.handle));
  }
  return Status::Ok();
}

Status Carrier::Verify() {
  VerifyOptions options;
  options.buffer_bytes = options_.piece_bytes;
  options.problems_max = 1;
  options.progress = [this](const VerifyProgress&) { return GoesOn(); };
  KEDGE_ASSIGN_OR_RETURN(const VerifyReport report, VerifyVersion(view_, generation_, options));
  if (!GoesOn()) return MirrorStopped();
  if (report.problems.empty()) return Status::Ok();
  // What it refers to may lie in the target: is that there at all?
  KEDGE_RETURN_IF_ERROR(view_.Confirm());
  const VerifyProblem& problem = report.problems.front();
  return {Code::kCorrupt, fmt::format("{}, rank {}: {}", generation_.ToString(), problem.rank, problem.what)};
}

void Carrier::Touch(const std::string& generation_folder, const std::string& folder) {
  touched_[generation_folder] = generation_folder + "/version";
  touched_[folder] = {};
}

Status Carrier::CopyObjects(const std::string& generation_folder, bool sizes_tell) {
  const std::string folder = generation_folder + "/data";
  KEDGE_ASSIGN_OR_RETURN(const std::vector<StoreEntry> entries, ListIfThere(source_, folder));
  if (entries.empty()) return Status::Ok();
  KEDGE_ASSIGN_OR_RETURN(const std::vector<StoreEntry> listed, ListIfThere(to(), folder));
  std::set<std::string> there;
  for (const StoreEntry& entry : listed) there.insert(entry.name);
  Touch(generation_folder, folder);
  Batch batch(to());
  for (const StoreEntry& entry : entries) {
    const std::string key = os::JoinPath(folder, entry.name);
    KEDGE_ASSIGN_OR_RETURN(const std::unique_ptr<ObjectReader> reader, source_.OpenObject(key));
    if (there.contains(entry.name)) {
      KEDGE_ASSIGN_OR_RETURN(const bool same, IsSame(*reader, key, sizes_tell));
      if (same) continue;
    }
    KEDGE_ASSIGN_OR_RETURN(std::unique_ptr<ObjectWriter> writer, to().CreateObject(key, target_.owner(), reader->size_bytes()));
    ObjectWriter& writing = *writer;
    batch.Add(std::move(writer));
    KEDGE_RETURN_IF_ERROR(CopyObject(*reader, writing));
    if (batch.size() == kPublishedTogetherMax) KEDGE_RETURN_IF_ERROR(batch.Publish());
  }
  return batch.size() > 0 ? batch.Publish() : Status::Ok();
}

Status Carrier::CopyObject(ObjectReader& from, ObjectWriter& to) {
  for (uint64_t at = 0; at < from.size_bytes(); at += options_.piece_bytes) {
    piece_.resize(std::min(options_.piece_bytes, from.size_bytes() - at));
    KEDGE_RETURN_IF_ERROR(from.ReadAt(at, piece_));
    KEDGE_RETURN_IF_ERROR(to.WriteAt(at, piece_));
    KEDGE_RETURN_IF_ERROR(to.FlushHint(at, piece_.size(), false));
    bytes_ += piece_.size();
    if (!GoesOn()) return MirrorStopped();
  }
  return Status::Ok();
}

Result<bool> Carrier::IsSame(ObjectReader& from, const std::string& key, bool sizes_tell) {
  const auto there = to().OpenObject(key);
  if (IsGone(there.status())) return false;
  KEDGE_RETURN_IF_ERROR(there.status());
  if ((*there)->size_bytes() != from.size_bytes()) return false;
  if (sizes_tell) return true;
  for (uint64_t at = 0; at < from.size_bytes(); at += options_.piece_bytes) {
    piece_.resize(std::min(options_.piece_bytes, from.size_bytes() - at));
    other_piece_.resize(piece_.size());
    KEDGE_RETURN_IF_ERROR(from.ReadAt(at, piece_));
    KEDGE_RETURN_IF_ERROR((*there)->ReadAt(at, other_piece_));
    if (piece_ != other_piece_) return false;
    if (!GoesOn()) return MirrorStopped();
  }
  // A predecessor may have published it, and have died before it was durable.
  KEDGE_RETURN_IF_ERROR(to().EnsureDurable(std::span(&key, 1)));
  return true;
}

Status Carrier::CopyRecords(const std::string& folder) {
  KEDGE_ASSIGN_OR_RETURN(const std::vector<StoreEntry> entries, ListIfThere(source_, folder));
  for (const StoreEntry& entry : entries) {
    const std::string key = os::JoinPath(folder, entry.name);
    KEDGE_ASSIGN_OR_RETURN(const Buffer bytes, source_.Get(key, kSmallRecordBytesMax));
    KEDGE_RETURN_IF_ERROR(CheckNamedThings(to(), key, bytes));
    Touch(keys::GenerationFolder(generation_), folder);
    os::KillPoint("mirror-record");
    KEDGE_RETURN_IF_ERROR(PutRecord(key, bytes));
  }
  return Status::Ok();
}

Status Carrier::PutRecord(const std::string& key, const Buffer& bytes) {
  const Status put = to().PutIfAbsent(key, bytes, target_.owner(), Folders::kCreate);
  if (put.code() != Code::kAlreadyExists) return put;
  KEDGE_ASSIGN_OR_RETURN(const Buffer there, to().Get(key, kSmallRecordBytesMax));
  // The target's version record may name what is there.
  const bool is_named = in_target_ || to().Stamp(keys::VersionKey(generation_)).ok();
  if (there == bytes || is_named) return to().EnsureDurable(std::span(&key, 1));
  return to().Replace(key, bytes, target_.owner(), Folders::kMustExist);
}

Status Carrier::PutVersion() {
  if (!version_) return Status::Ok();
  const std::string key = keys::VersionKey(generation_);
  if (!in_target_) KEDGE_RETURN_IF_ERROR(CheckNamedThings(to(), key, *version_));
  KEDGE_ASSIGN_OR_RETURN(const bool still_there, IsStillThere());
  if (!still_there) return {Code::kNotFound, generation_.ToString() + " is gone"};
  os::KillPoint("mirror-version");
  has_put_version_ = true;
  const Status put = to().PutIfAbsent(key, *version_, target_.owner(), Folders::kMustExist);
  os::KillPoint("mirror-version-put");
  return put.code() == Code::kAlreadyExists ? to().EnsureDurable(std::span(&key, 1)) : put;
}

Status Carrier::CheckStands() {
  KEDGE_RETURN_IF_ERROR(target_.Confirm());
  KEDGE_ASSIGN_OR_RETURN(const VersionInfo info, InspectGeneration(target_, generation_));
  if (info.complete || info.doomed) return Status::Ok();
  return {Code::kIncomplete,
          fmt::format("{}: {} is not complete there: {}", to().description(), generation_.ToString(), info.reason)};
}

}  // namespace

Result<Mirror> Mirror::Open(Store& source, Store& target, Store& view, const TemporaryOwner& owner, MirrorOptions options) {
  KEDGE_ASSIGN_OR_RETURN(const Catalog opened, Catalog::Open(view, owner));
  return Mirror(source, Catalog::Assume(target, opened.id(), owner), opened, std::move(options));
}

Result<std::vector<BufferedGeneration>> Mirror::List() const {
  std::vector<BufferedGeneration> found;
  KEDGE_ASSIGN_OR_RETURN(const std::vector<StoreEntry> jobs, ListIfThere(*source_, keys::kJobsFolder));
  for (const StoreEntry& job_folder : jobs) {
    const std::string folder = os::JoinPath(keys::kJobsFolder, job_folder.name);
    const Result<JobRecord> job = ReadOwnRecord(view_, folder + "/job", &DecodeJobRecord);
    if (IsUnknown(job.status()) && job.status().code() != Code::kMismatch) return job.status();
    // What lies in a folder whose record is not right is nobody's.
    if (!job.ok() || keys::JobFolder(job->job) != folder) continue;
    KEDGE_ASSIGN_OR_RETURN(const std::vector<StoreEntry> names, ListIfThere(*source_, keys::NamesFolder(job->job)));
    for (const StoreEntry& name_folder : names) {
      const std::string below = os::JoinPath(keys::NamesFolder(job->job), name_folder.name);
      const Result<NameRecord> name = ReadOwnRecord(view_, below + "/name", &DecodeNameRecord);
      if (IsUnknown(name.status()) && name.status().code() != Code::kMismatch) return name.status();
      if (!name.ok() || keys::NameFolder(job->job, name->name) != below) continue;
      KEDGE_RETURN_IF_ERROR(ListName(job->job, name->name, &found));
    }
  }
  std::ranges::sort(
      found, [](const auto& a, const auto& b) { return std::tie(a.stamp, a.generation) < std::tie(b.stamp, b.generation); });
  return found;
}

Status Mirror::ListName(const std::string& job, const std::string& name, std::vector<BufferedGeneration>* found) const {
  KEDGE_ASSIGN_OR_RETURN(const std::vector<StoreEntry> entries, ListIfThere(*source_, keys::NameFolder(job, name)));
  for (const StoreEntry& entry : entries) {
    Generation generation{view_.id(), job, name, 0, 0, 0};
    if (!entry.is_folder || !keys::ParseGenerationFolder(entry.name, &generation)) continue;
    Result<BufferedGeneration> judged = Judge(generation);
    if (IsGone(judged.status())) continue;  // removed while we looked
    KEDGE_RETURN_IF_ERROR(judged.status());
    found->push_back(std::move(*judged));
  }
  return Status::Ok();
}

Result<BufferedGeneration> Mirror::Judge(const Generation& generation) const {
  using State = BufferedGeneration::State;
  BufferedGeneration judged{generation, State::kUnderWay, 0, {}};
  KEDGE_ASSIGN_OR_RETURN(const VersionInfo info, InspectGeneration(view_, generation));
  const Result<int64_t> here = source_->Stamp(keys::VersionKey(generation));
  if (!here.ok() && !IsGone(here.status())) return here.status();
  if (here.ok()) judged.stamp = *here;
  if (info.unknown) {
    judged.problem = generation.ToString() + ": " + info.reason;
  } else if (info.complete) {
    const Status there = target_.store().Stamp(keys::VersionKey(generation)).status();
    if (!there.ok() && !IsGone(there)) return there;
    judged.state = there.ok() ? State::kBrought : State::kWaits;
  } else if (info.removed && !info.doomed) {
    judged.state = State::kEmptied;
  }
  return judged;
}

Status Mirror::Bring(const Generation& generation, uint64_t* bytes) const {
  Carrier carrier(*source_, target_, view_, options_, generation);
  const Status carried = carrier.Carry();
  *bytes = carrier.bytes();
  return carried;
}

Result<bool> Mirror::HasObjectsOf(const Generation& generation) const {
  const std::string folder = keys::ObjectsFolder(generation);
  KEDGE_ASSIGN_OR_RETURN(const std::vector<StoreEntry> entries, ListIfThere(*source_, folder));
  for (const StoreEntry& entry : entries) {
    const std::string key = os::JoinPath(folder, entry.name);
    KEDGE_ASSIGN_OR_RETURN(const std::unique_ptr<ObjectReader> here, source_->OpenObject(key));
    const auto there = target_.store().OpenObject(key);
    if (IsGone(there.status())) return false;
    KEDGE_RETURN_IF_ERROR(there.status());
    if ((*there)->size_bytes() != here->size_bytes()) return false;
  }
  return true;
}

}  // namespace kedge
