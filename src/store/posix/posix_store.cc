#include "store/posix/posix_store.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <map>
#include <mutex>
#include <utility>

#include "os/files/files.h"
#include "os/files/striping.h"
#include "store/posix/posix_draft.h"
#include "store/posix/posix_folders.h"
#include "store/posix/posix_object.h"
#include "store/posix/sync_group.h"
#include "store/temporary_tag.h"

namespace kedge {

namespace {

constexpr uint32_t kPrivateFileMode = 0600;
constexpr double kNsPerSecond = 1e9;
constexpr uint64_t kDirectBytesMin = uint64_t{16} << 20;  // smaller ones are sooner taken by the page cache

class PosixStore final : public Store {
 public:
  PosixStore(os::FileSystem& fs, PosixStoreOptions options)
      : fs_(fs), options_(std::move(options)), folders_(fs, options_.path, options_.folder_mode, options_.making) {}

  const std::string& description() const override { return options_.path; }
  Result<std::string> Place() override;

  Result<std::unique_ptr<ObjectWriter>> CreateObject(const std::string& key, const TemporaryOwner& owner,
                                                     uint64_t expected_bytes) override;
  Result<std::unique_ptr<ObjectWriter>> AdoptObject(const std::string& key, const std::string& handle) override;
  Result<std::unique_ptr<ObjectContributor>> JoinObject(const std::string& handle) override;
  std::vector<Status> Publish(std::span<ObjectWriter* const> writers) override { return PublishBeside(nullptr, writers); }
  Result<std::unique_ptr<ObjectReader>> OpenObject(const std::string& key) override;

  Status PutIfAbsent(const std::string& key, ByteSpan bytes, const TemporaryOwner& owner, Folders folders) override;
  Status Replace(const std::string& key, ByteSpan bytes, const TemporaryOwner& owner, Folders folders) override;
  Result<Buffer> Get(const std::string& key, uint64_t bytes_max) override;
  Status EnsureDurable(std::span<const std::string> keys) override { return EnsureDurableBeside(nullptr, keys); }

  Result<std::unique_ptr<RecordDraft>> Draft(const std::string& key, ByteSpan bytes, const TemporaryOwner& owner,
                                             Folders folders) override;
  std::vector<Status> PublishBeside(RecordDraft* draft, std::span<ObjectWriter* const> writers) override;
  Status EnsureDurableBeside(RecordDraft* draft, std::span<const std::string> keys) override;
  Status Show(RecordDraft& draft) override;
  bool shows_in_place() const override { return !has_no_links_; }
  Status ShowInPlace(RecordDraft& draft) override;

  Status MakeFolder(const std::string& folder) override;
  Result<std::vector<StoreEntry>> List(const std::string& folder) override;

  Status Remove(const std::string& key) override;
  Status RemoveFolder(const std::string& folder, const std::string& first, const TemporaryOwner& owner) override;
  Result<std::vector<Temporary>> ListTemporaries(const std::string& folder, const TemporaryOwner& self) override;
  Status RemoveTemporary(const std::string& handle) override;

  Status Touch(const std::string& key, const TemporaryOwner& owner) override;
  Result<int64_t> Stamp(const std::string& key) override;
  Result<double> AgeSeconds(const std::string& key, const TemporaryOwner& owner) override;
  Result<StoreSpace> Space() override;

 private:
  std::string PathOf(const std::string& key) const { return key.empty() ? options_.path : os::JoinPath(options_.path, key); }
  // When the folder that something lies in is to be durable.
  enum class Durably : uint8_t { kNow, kLater };
  // Syncs of folders in a group, each with all on the way to it that may not be durable.
  class FolderSyncs;
  // The key's path, its folder made or required.
  Result<std::string> PathForWriting(const std::string& key, Folders folders, Durably durably);
  Result<std::string> PathOfTemporary(const std::string& handle) const;
  Status FixMode(const std::string& path) const {
    // The umask takes bits away that a shared store asks for.
    return options_.file_mode == kPrivateFileMode ? Status::Ok() : fs_.Chmod(path, options_.file_mode);
  }
  // Runs `put` on the key's path; when the folder goes between the two, it is looked for (and made) once more.
  template <typename Put>
  auto WithFolder(const std::string& key, Folders folders, Durably durably, Put put) -> decltype(put(std::string()));
  // Syncs what is begun of these objects, with their folders and the draft, in one step; not ok: nothing of the object stays.
  void SyncRound(RecordDraft* draft, std::span<ObjectWriter* const> writers, std::vector<Status>* statuses);
  // `expected_bytes` 0: unknown.
  std::unique_ptr<os::File> OpenDirect(const std::string& path);
  std::unique_ptr<ObjectWriter> MakeWriter(std::unique_ptr<os::File> file, PosixObjectWriter::Place place,
                                           uint64_t expected_bytes);
  // Objects that are made in the folder lie on as many targets as they are to, where the file system has any.
  void Stripe(const std::string& folder);
  // The time of a file just written in `folder`.
  Result<int64_t> NowNs(const std::string& folder, const TemporaryOwner& owner);
  Status CollectTemporaries(const std::string& path, const std::string& key, int64_t now_ns, std::vector<Temporary>* found);
  uint64_t TreeBytes(const std::string& path);

  os::FileSystem& fs_;
  const PosixStoreOptions options_;
  PosixFolders folders_;
  std::atomic<bool> has_no_links_{false};
  std::atomic<bool> cannot_stripe_{false};
  std::mutex striped_mutex_;
  std::string striped_;  // the last one that was
};

class PosixStore::FolderSyncs {
 public:
  // Both outlive it.
  FolderSyncs(PosixStore& store, SyncGroup& group) : store_(store), group_(group) {}

  void Add(const std::string& path) {
    if (members_.contains(path)) return;
    Member& member = members_[path];
    Result<PosixFolders::Way> way = store_.folders_.Find(path, PosixFolders::Missing::kRefuse);
    member.found = way.status();
    if (!way.ok()) return;
    member.way = std::move(*way);
    store_.folders_.AddTo(group_, &member.way);
    member.folder = group_.AddFolder(path);
  }
  // After the group was synced.
  Status Conclude(const std::string& path) {
    const Member& member = members_.at(path);
    KEDGE_RETURN_IF_ERROR(member.found);
    KEDGE_RETURN_IF_ERROR(store_.folders_.Conclude(group_, member.way));
    return group_.status(member.folder);
  }

 private:
  struct Member {
    Status found;
    PosixFolders::Way way;
    size_t folder = 0;
  };
  PosixStore& store_;
  SyncGroup& group_;
  std::map<std::string, Member> members_;
};

Result<std::string> PosixStore::PathForWriting(const std::string& key, Folders folders, Durably durably) {
  KEDGE_RETURN_IF_ERROR(ValidateKey(key));
  std::string path = PathOf(key);
  const auto missing = folders == Folders::kCreate ? PosixFolders::Missing::kMake : PosixFolders::Missing::kRefuse;
  const std::string folder = os::ParentPath(path);
  KEDGE_RETURN_IF_ERROR(durably == Durably::kNow ? folders_.MakeDurable(folder, missing)
                                                 : folders_.Find(folder, missing).status());
  return path;
}

Result<std::string> PosixStore::PathOfTemporary(const std::string& handle) const {
  KEDGE_RETURN_IF_ERROR(ValidateKey(handle));
  if (!os::IsTemporaryName(os::BaseName(handle))) {
    return Status(Code::kInvalidArgument, "'" + handle + "' does not name a temporary object");
  }
  return PathOf(handle);
}

template <typename Put>
auto PosixStore::WithFolder(const std::string& key, Folders folders, Durably durably, Put put) -> decltype(put(std::string())) {
  KEDGE_ASSIGN_OR_RETURN(const std::string path, PathForWriting(key, folders, durably));
  auto result = put(path);
  const auto& status = [&]() -> const Status& {
    if constexpr (std::is_same_v<decltype(result), Status>) {
      return result;
    } else {
      return result.status();
    }
  }();
  if (status.errno_value() != ENOENT) return result;
  KEDGE_RETURN_IF_ERROR(PathForWriting(key, folders, durably).status());
  return put(path);
}

Result<std::string> PosixStore::Place() {
  KEDGE_ASSIGN_OR_RETURN(const os::FileInfo info, fs_.Stat(options_.path));
  return std::to_string(info.device) + ':' + std::to_string(info.inode);
}

// ---- Objects ----

Result<std::unique_ptr<ObjectWriter>> PosixStore::CreateObject(const std::string& key, const TemporaryOwner& owner,
                                                               uint64_t expected_bytes) {
  using Made = Result<std::unique_ptr<ObjectWriter>>;
  return WithFolder(key, Folders::kCreate, Durably::kLater, [&](const std::string& path) -> Made {
    Stripe(os::ParentPath(path));
    const std::string temporary = os::TemporaryPath(path, MakeTemporaryTag(owner));
    const auto flags = os::OpenFlags::kReadWrite | os::OpenFlags::kCreate | os::OpenFlags::kExclusive;
    KEDGE_ASSIGN_OR_RETURN(std::unique_ptr<os::File> file, fs_.Open(temporary, flags, options_.file_mode));
    if (Status status = FixMode(temporary); !status.ok()) {
      static_cast<void>(fs_.Unlink(temporary));
      return status;
    }
    const std::string handle = os::JoinPath(os::ParentPath(key), os::BaseName(temporary));
    return Made(MakeWriter(std::move(file), {key, path, handle, temporary}, expected_bytes));
  });
}

void PosixStore::Stripe(const std::string& folder) {
  if (options_.stripe_targets == 0 || cannot_stripe_) return;
  {
    const std::lock_guard lock(striped_mutex_);
    if (std::exchange(striped_, folder) == folder) return;
  }
  const Status set = os::SetStriping(folder, {options_.stripe_bytes, options_.stripe_targets, {}});
  if (set.ok() || cannot_stripe_.exchange(true)) return;
  if (options_.stripes_refused) options_.stripes_refused(set);
}

// Null where the file system has no such files: everything goes through the page cache then.
std::unique_ptr<os::File> PosixStore::OpenDirect(const std::string& path) {
  if (!options_.direct) return nullptr;
  Result<std::unique_ptr<os::File>> opened = fs_.Open(path, os::OpenFlags::kWrite | os::OpenFlags::kDirect);
  return opened.ok() ? std::move(*opened) : nullptr;
}

std::unique_ptr<ObjectWriter> PosixStore::MakeWriter(std::unique_ptr<os::File> file, PosixObjectWriter::Place place,
                                                     uint64_t expected_bytes) {
  const bool is_large = expected_bytes == 0 || expected_bytes >= kDirectBytesMin;
  std::unique_ptr<os::File> direct = is_large ? OpenDirect(place.temporary_path) : nullptr;
  if (options_.stripe_targets > 0 && options_.stripe_bytes > 0 && !cannot_stripe_) place.border_bytes = options_.stripe_bytes;
  return std::make_unique<PosixObjectWriter>(*this, fs_, std::move(file), std::move(direct), std::move(place));
}

Result<std::unique_ptr<ObjectWriter>> PosixStore::AdoptObject(const std::string& key, const std::string& handle) {
  KEDGE_ASSIGN_OR_RETURN(const std::string temporary, PathOfTemporary(handle));
  if (os::ParentPath(handle) != os::ParentPath(key)) {
    return Status(Code::kInvalidArgument, "temporary '" + handle + "' does not lie beside '" + key + "'");
  }
  KEDGE_ASSIGN_OR_RETURN(const std::string path, PathForWriting(key, Folders::kMustExist, Durably::kLater));
  const auto flags = os::OpenFlags::kReadWrite | os::OpenFlags::kNoFollow;
  KEDGE_ASSIGN_OR_RETURN(std::unique_ptr<os::File> file, fs_.Open(temporary, flags));
  return MakeWriter(std::move(file), {key, path, handle, temporary}, 0);
}

Result<std::unique_ptr<ObjectContributor>> PosixStore::JoinObject(const std::string& handle) {
  KEDGE_ASSIGN_OR_RETURN(const std::string temporary, PathOfTemporary(handle));
  const auto flags = os::OpenFlags::kReadWrite | os::OpenFlags::kNoFollow;
  KEDGE_ASSIGN_OR_RETURN(std::unique_ptr<os::File> file, fs_.Open(temporary, flags));
  return std::unique_ptr<ObjectContributor>(std::make_unique<PosixObjectContributor>(std::move(file), OpenDirect(temporary)));
}

std::vector<Status> PosixStore::PublishBeside(RecordDraft* draft, std::span<ObjectWriter* const> writers) {
  std::vector<Status> statuses(writers.size());
  for (size_t i = 0; i < writers.size(); ++i) {
    auto* const writer = dynamic_cast<PosixObjectWriter*>(writers[i]);
    statuses[i] =
        writer != nullptr ? writer->BeginCommit() : Status(Code::kInternal, writers[i]->key() + " is an object of another store");
    if (statuses[i].ok()) statuses[i] = writer->ShowIfAbsent();
  }
  SyncRound(draft, writers, &statuses);
  // What is to be replaced, or cannot be linked, is whole and durable by now.
  std::vector<size_t> moved;
  for (size_t i = 0; i < writers.size(); ++i) {
    auto* const writer = static_cast<PosixObjectWriter*>(writers[i]);
    if (!statuses[i].ok() || writer->is_in_place()) continue;
    statuses[i] = writer->MoveIntoPlace();
    if (statuses[i].ok()) moved.push_back(i);
  }
  SyncGroup group(fs_);
  std::map<size_t, size_t> folders;  // by writer
  for (const size_t i : moved) {
    folders[i] = group.AddFolder(os::ParentPath(static_cast<PosixObjectWriter*>(writers[i])->path()));
  }
  group.Sync();
  for (const size_t i : moved) {
    statuses[i] = group.status(folders[i]);
    if (!statuses[i].ok()) static_cast<PosixObjectWriter*>(writers[i])->TakeBack();
  }
  return statuses;
}

void PosixStore::SyncRound(RecordDraft* draft, std::span<ObjectWriter* const> writers, std::vector<Status>* statuses) {
  SyncGroup group(fs_);
  FolderSyncs folders(*this, group);
  struct Member {
    size_t writer;
    size_t file;
    std::string folder;
  };
  std::vector<Member> members;
  for (size_t i = 0; i < writers.size(); ++i) {
    if (!(*statuses)[i].ok()) continue;
    auto* const writer = static_cast<PosixObjectWriter*>(writers[i]);
    members.push_back({i, group.Add(writer->file()), os::ParentPath(writer->path())});
    folders.Add(members.back().folder);
  }
  auto* const record = static_cast<PosixDraft*>(draft);
  if (record != nullptr) record->AddTo(group);
  group.Sync();
  if (record != nullptr) record->EndSync(group);
  for (const Member& member : members) {
    Status status = group.status(member.file);
    if (status.ok()) status = folders.Conclude(member.folder);
    (*statuses)[member.writer] = static_cast<PosixObjectWriter*>(writers[member.writer])->EndSync(status);
  }
}

Result<std::unique_ptr<ObjectReader>> PosixStore::OpenObject(const std::string& key) {
  KEDGE_RETURN_IF_ERROR(ValidateKey(key));
  KEDGE_ASSIGN_OR_RETURN(std::unique_ptr<os::File> file, fs_.Open(PathOf(key), os::OpenFlags::kRead));
  KEDGE_ASSIGN_OR_RETURN(const os::FileInfo info, file->Fstat());
  if (info.kind != os::FileKind::kFile) return Status::FromErrno(EISDIR, "open " + PathOf(key));
  return std::unique_ptr<ObjectReader>(std::make_unique<PosixObjectReader>(std::move(file), info.size_bytes));
}

// ---- Records ----

Status PosixStore::PutIfAbsent(const std::string& key, ByteSpan bytes, const TemporaryOwner& owner, Folders folders) {
  return WithFolder(key, folders, Durably::kNow, [&](const std::string& path) {
    const Status status = os::CreateIfAbsent(fs_, path, AsText(bytes), MakeTemporaryTag(owner), options_.file_mode);
    return status.ok() ? FixMode(path) : status;
  });
}

Status PosixStore::Replace(const std::string& key, ByteSpan bytes, const TemporaryOwner& owner, Folders folders) {
  return WithFolder(key, folders, Durably::kNow, [&](const std::string& path) {
    const Status status = os::WriteFileDurably(fs_, path, AsText(bytes), MakeTemporaryTag(owner), options_.file_mode);
    return status.ok() ? FixMode(path) : status;
  });
}

Result<Buffer> PosixStore::Get(const std::string& key, uint64_t bytes_max) {
  KEDGE_RETURN_IF_ERROR(ValidateKey(key));
  KEDGE_RETURN_IF_ERROR(folders_.CheckRoot());  // here: whatever a store is used for, a record is read first
  // A file of the root itself tells whether this is still the store (Catalog reads its record there).
  const bool is_in_root = key.find('/') == std::string::npos;
  const std::optional<PosixFolders::Inode> root = is_in_root ? folders_.Root() : std::nullopt;
  KEDGE_ASSIGN_OR_RETURN(const std::string content, os::ReadFile(fs_, PathOf(key), bytes_max));
  is_in_root ? folders_.OnRootRead(root) : folders_.OnRootSeen();
  const ByteSpan bytes = AsBytes(content);
  return Buffer(bytes.begin(), bytes.end());
}

Result<std::unique_ptr<RecordDraft>> PosixStore::Draft(const std::string& key, ByteSpan bytes, const TemporaryOwner& owner,
                                                       Folders folders) {
  using Made = Result<std::unique_ptr<RecordDraft>>;
  return WithFolder(key, folders, Durably::kLater, [&](const std::string& path) -> Made {
    PosixDraft::Place place{path, os::TemporaryPath(path, MakeTemporaryTag(owner))};
    KEDGE_ASSIGN_OR_RETURN(std::unique_ptr<os::File> file,
                           os::BeginTemporary(fs_, place.temporary_path, AsText(bytes), options_.file_mode));
    if (Status status = FixMode(place.temporary_path); !status.ok()) {
      static_cast<void>(fs_.Unlink(place.temporary_path));
      return status;
    }
    return Made(std::make_unique<PosixDraft>(fs_, std::move(place), std::move(file), key, bytes, owner, folders));
  });
}

Status PosixStore::Show(RecordDraft& draft) {
  const Status shown = static_cast<PosixDraft&>(draft).Show(options_.file_mode);
  // Its temporary, or its folder: gc may have taken it for what a dead process has left.
  if (shown.errno_value() == ENOENT) return PutIfAbsent(draft.key(), draft.bytes(), draft.owner(), draft.folders());
  return shown;
}

// The temporary lies in the folder, and would have gone with it.
Status PosixStore::ShowInPlace(RecordDraft& draft) {
  const std::string folder = os::ParentPath(PathOf(draft.key()));
  KEDGE_RETURN_IF_ERROR(folders_.MakeDurable(folder, PosixFolders::Missing::kRefuse));
  const Status shown = static_cast<PosixDraft&>(draft).ShowInPlace();
  if (os::MeansNoHardLinks(shown)) {
    has_no_links_ = true;
    return Status(Code::kUnsupported, shown.message());
  }
  KEDGE_RETURN_IF_ERROR(shown);
  KEDGE_RETURN_IF_ERROR(os::SyncFolder(fs_, folder));
  // Another folder may have been synced, in the place of one that has gone with the record.
  return fs_.Stat(PathOf(draft.key())).status();
}

Status PosixStore::EnsureDurableBeside(RecordDraft* draft, std::span<const std::string> keys) {
  SyncGroup group(fs_);
  FolderSyncs folders(*this, group);
  std::vector<std::unique_ptr<os::File>> files;
  for (const std::string& key : keys) {
    KEDGE_RETURN_IF_ERROR(ValidateKey(key));
    const std::string path = PathOf(key);
    KEDGE_ASSIGN_OR_RETURN(std::unique_ptr<os::File> file, fs_.Open(path, os::OpenFlags::kRead));
    group.Add(*file);
    files.push_back(std::move(file));
    folders.Add(os::ParentPath(path));
  }
  auto* const record = static_cast<PosixDraft*>(draft);
  if (record != nullptr) record->AddTo(group);
  group.Sync();
  if (record != nullptr) record->EndSync(group);
  for (size_t i = 0; i < keys.size(); ++i) {
    KEDGE_RETURN_IF_ERROR(group.status(i));
    KEDGE_RETURN_IF_ERROR(files[i]->Close());
    KEDGE_RETURN_IF_ERROR(folders.Conclude(os::ParentPath(PathOf(keys[i]))));
  }
  return Status::Ok();
}

// ---- Folders ----

Status PosixStore::MakeFolder(const std::string& folder) {
  KEDGE_RETURN_IF_ERROR(ValidateKey(folder));
  return folders_.Find(PathOf(folder), PosixFolders::Missing::kMake).status();
}

Result<std::vector<StoreEntry>> PosixStore::List(const std::string& folder) {
  if (!folder.empty()) KEDGE_RETURN_IF_ERROR(ValidateKey(folder));
  KEDGE_ASSIGN_OR_RETURN(const std::vector<os::FolderEntry> found, fs_.List(PathOf(folder)));
  std::vector<StoreEntry> entries;
  for (const os::FolderEntry& entry : found) {
    if (os::IsTemporaryName(entry.name)) continue;
    entries.push_back({entry.name, entry.kind == os::FileKind::kFolder});
  }
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return entries;
}

// ---- Removal ----

Status PosixStore::Remove(const std::string& key) {
  KEDGE_RETURN_IF_ERROR(ValidateKey(key));
  const std::string path = PathOf(key);
  const Status removed = fs_.Unlink(path);
  if (!removed.ok() && removed.errno_value() != ENOENT) return removed;
  // Also when it was gone: whoever removed it may not have synced yet.
  const Status synced = os::SyncFolder(fs_, os::ParentPath(path));
  return synced.errno_value() == ENOENT ? Status::Ok() : synced;
}

Status PosixStore::RemoveFolder(const std::string& folder, const std::string& /*first*/, const TemporaryOwner& owner) {
  KEDGE_RETURN_IF_ERROR(ValidateKey(folder));
  const std::string path = PathOf(folder);
  const std::string aside = os::TemporaryPath(folder, MakeTemporaryTag(owner));
  const Status moved = fs_.Rename(path, PathOf(aside));
  if (!moved.ok() && moved.errno_value() != ENOENT) return moved;
  // Before anything in it is deleted: a crash must not bring back the folder without a part of it.
  const Status synced = os::SyncFolder(fs_, os::ParentPath(path));
  if (!synced.ok()) return synced.errno_value() == ENOENT ? Status::Ok() : synced;
  return moved.ok() ? fs_.RemoveBeneath(options_.path, aside) : Status::Ok();
}

Result<std::vector<Temporary>> PosixStore::ListTemporaries(const std::string& folder, const TemporaryOwner& self) {
  if (!folder.empty()) KEDGE_RETURN_IF_ERROR(ValidateKey(folder));
  const std::string path = PathOf(folder);
  KEDGE_ASSIGN_OR_RETURN(const int64_t now_ns, NowNs(path, self));
  std::vector<Temporary> found;
  KEDGE_RETURN_IF_ERROR(CollectTemporaries(path, folder, now_ns, &found));
  return found;
}

Status PosixStore::CollectTemporaries(const std::string& path, const std::string& key, int64_t now_ns,
                                      std::vector<Temporary>* found) {
  const Result<std::vector<os::FolderEntry>> entries = fs_.List(path);
  if (!entries.ok()) return entries.status().errno_value() == ENOENT ? Status::Ok() : entries.status();
  for (const os::FolderEntry& entry : *entries) {
    const std::string entry_path = os::JoinPath(path, entry.name);
    const std::string entry_key = key.empty() ? entry.name : os::JoinPath(key, entry.name);
    std::string tag;
    if (os::IsTemporaryName(entry.name, &tag)) {
      const Result<os::FileInfo> info = fs_.Stat(entry_path);
      const std::optional<TemporaryOwner> owner = ParseTemporaryTag(tag);
      if (!info.ok() || !owner) continue;  // gone meanwhile, or not one of ours
      const uint64_t bytes = entry.kind == os::FileKind::kFolder ? TreeBytes(entry_path) : info->size_bytes;
      const double age_seconds = static_cast<double>(now_ns - info->modified_ns) / kNsPerSecond;
      found->push_back({entry_key, *owner, tag, bytes, std::max(age_seconds, 0.0)});
    } else if (entry.kind == os::FileKind::kFolder) {
      KEDGE_RETURN_IF_ERROR(CollectTemporaries(entry_path, entry_key, now_ns, found));
    }
  }
  return Status::Ok();
}

uint64_t PosixStore::TreeBytes(const std::string& path) {
  const Result<std::vector<os::FolderEntry>> entries = fs_.List(path);
  if (!entries.ok()) return 0;
  uint64_t bytes = 0;
  for (const os::FolderEntry& entry : *entries) {
    const std::string entry_path = os::JoinPath(path, entry.name);
    if (entry.kind == os::FileKind::kFolder) {
      bytes += TreeBytes(entry_path);
    } else if (const Result<os::FileInfo> info = fs_.Stat(entry_path); info.ok()) {
      bytes += info->size_bytes;
    }
  }
  return bytes;
}

Status PosixStore::RemoveTemporary(const std::string& handle) {
  KEDGE_RETURN_IF_ERROR(PathOfTemporary(handle).status());
  return fs_.RemoveBeneath(options_.path, handle);
}

// ---- Time and space ----

Result<int64_t> PosixStore::NowNs(const std::string& folder, const TemporaryOwner& owner) {
  const std::string path = os::TemporaryPath(os::JoinPath(folder, "clock"), MakeTemporaryTag(owner));
  const auto flags = os::OpenFlags::kWrite | os::OpenFlags::kCreate | os::OpenFlags::kExclusive;
  KEDGE_ASSIGN_OR_RETURN(const std::unique_ptr<os::File> file, fs_.Open(path, flags, options_.file_mode));
  // Written, not only created: network file systems may give a new file the client's time.
  Status status = os::WriteAll(*file, "t", 1, 0);
  const Status closed = file->Close();
  if (status.ok()) status = closed;
  const Result<os::FileInfo> info = fs_.Stat(path);
  static_cast<void>(os::UnlinkIfPresent(fs_, path));
  KEDGE_RETURN_IF_ERROR(status);
  if (!info.ok()) return info.status();
  return info->modified_ns;
}

Status PosixStore::Touch(const std::string& key, const TemporaryOwner& owner) {
  KEDGE_RETURN_IF_ERROR(ValidateKey(key));
  const std::string path = PathOf(key);
  KEDGE_ASSIGN_OR_RETURN(const int64_t now_ns, NowNs(os::ParentPath(path), owner));
  KEDGE_ASSIGN_OR_RETURN(const os::FileInfo info, fs_.Stat(path));
  // A clock that was set back must not hide the touch. A second: some file systems keep no less.
  return fs_.SetModifiedTime(path, now_ns > info.modified_ns ? now_ns : info.modified_ns + static_cast<int64_t>(kNsPerSecond));
}

Result<int64_t> PosixStore::Stamp(const std::string& key) {
  KEDGE_RETURN_IF_ERROR(ValidateKey(key));
  KEDGE_ASSIGN_OR_RETURN(const os::FileInfo info, fs_.Stat(PathOf(key)));
  return info.modified_ns;
}

Result<double> PosixStore::AgeSeconds(const std::string& key, const TemporaryOwner& owner) {
  KEDGE_RETURN_IF_ERROR(ValidateKey(key));
  const std::string path = PathOf(key);
  KEDGE_ASSIGN_OR_RETURN(const os::FileInfo info, fs_.Stat(path));
  KEDGE_ASSIGN_OR_RETURN(const int64_t now_ns, NowNs(os::ParentPath(path), owner));
  return static_cast<double>(now_ns - info.modified_ns) / kNsPerSecond;
}

Result<StoreSpace> PosixStore::Space() {
  // The folder may not be there yet; what is above it is on the same device then.
  std::string path = options_.path;
  Result<os::VolumeInfo> volume = fs_.StatVolume(path);
  while (!volume.ok() && volume.status().code() == Code::kNotFound && os::ParentPath(path) != path) {
    path = os::ParentPath(path);
    volume = fs_.StatVolume(path);
  }
  if (!volume.ok()) return volume.status();
  return StoreSpace{volume->total_bytes, volume->available_bytes};
}

}  // namespace

std::unique_ptr<Store> MakePosixStore(os::FileSystem& file_system, PosixStoreOptions options) {
  while (options.path.size() > 1 && options.path.back() == '/') options.path.pop_back();
  return std::make_unique<PosixStore>(file_system, std::move(options));
}

}  // namespace kedge
