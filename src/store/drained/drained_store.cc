#include "store/drained/drained_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <optional>
#include <utility>

#include "os/files/files.h"
#include "store/drained/named_things.h"
#include "store/keys.h"
#include "store/reading/fallback_reader.h"

namespace kedge {
namespace {

constexpr char kOfBuffer = 'b';
constexpr char kOfStore = 's';

bool IsNotThere(const Status& status) {
  return status.code() == Code::kNotFound;
}

// Of one that writes: whether cargo goes another way for a while.
bool MeansAway(const Status& status) {
  return MeansNotReached(status) || status.code() == Code::kNoSpace;
}

// Which of the two has an object that is being written, for its handle.
std::string Marked(char origin, const std::string& handle) {
  return origin + handle;
}

class Writer final : public ObjectWriter {
 public:
  Writer(char origin, std::unique_ptr<ObjectWriter> inner, std::function<void(const Status&)> note)
      : origin_(origin), inner_(std::move(inner)), note_(std::move(note)), handle_(Marked(origin, inner_->handle())) {}

  Status WriteAt(uint64_t offset, ByteSpan bytes) override { return Noted(inner_->WriteAt(offset, bytes)); }
  bool is_buffered() const override { return inner_->is_buffered(); }
  Status FlushHint(uint64_t offset, uint64_t bytes, bool wait) override { return Noted(inner_->FlushHint(offset, bytes, wait)); }
  uint64_t NextBorder(uint64_t offset) const override { return inner_->NextBorder(offset); }
  Status Commit() override { return Noted(inner_->Commit()); }
  Status Abandon() override { return inner_->Abandon(); }
  const std::string& handle() const override { return handle_; }
  const std::string& key() const override { return inner_->key(); }

  char origin() const { return origin_; }
  ObjectWriter* inner() const { return inner_.get(); }
  Status Noted(Status status) const {
    if (origin_ == kOfBuffer) note_(status);
    return status;
  }

 private:
  const char origin_;
  const std::unique_ptr<ObjectWriter> inner_;
  const std::function<void(const Status&)> note_;
  const std::string handle_;
};

class DrainedStore final : public Store {
 public:
  DrainedStore(std::shared_ptr<Store> buffer, std::shared_ptr<Store> store, DrainedStoreOptions options)
      : buffer_(std::move(buffer)),
        store_(std::move(store)),
        options_(std::move(options)),
        description_(fmt::format("{} (by {})", store_->description(), buffer_->description())) {}

  const std::string& description() const override { return description_; }
  bool is_far() const override { return true; }
  Result<std::string> Place() override;
  bool has_buffer() const override { return true; }
  Result<bool> IsDrained(const std::string& key) override;

  Result<std::unique_ptr<ObjectWriter>> CreateObject(const std::string& key, const TemporaryOwner& owner,
                                                     uint64_t expected_bytes) override;
  Result<std::unique_ptr<ObjectWriter>> AdoptObject(const std::string& key, const std::string& handle) override;
  Result<std::unique_ptr<ObjectContributor>> JoinObject(const std::string& handle) override;
  std::vector<Status> Publish(std::span<ObjectWriter* const> writers) override;
  Result<std::unique_ptr<ObjectReader>> OpenObject(const std::string& key) override;

  Status PutIfAbsent(const std::string& key, ByteSpan bytes, const TemporaryOwner& owner, Folders folders) override;
  Status Replace(const std::string& key, ByteSpan bytes, const TemporaryOwner& owner, Folders folders) override;
  Result<Buffer> Get(const std::string& key, uint64_t bytes_max) override;
  Status EnsureDurable(std::span<const std::string> keys) override;

  Status MakeFolder(const std::string& folder) override {
    return Write(folder, [&](Store& store) { return store.MakeFolder(folder); });
  }
  Result<std::vector<StoreEntry>> List(const std::string& folder) override;

  Status Remove(const std::string& key) override {
    if (!IsCargo(key)) return store_->Remove(key);
    return RemoveFromBoth(key, [&](Store& store) { return store.Remove(key); });
  }
  Status RemoveFolder(const std::string& folder, const std::string& first, const TemporaryOwner& owner) override {
    return RemoveFromBoth(folder, [&](Store& store) { return store.RemoveFolder(folder, first, owner); });
  }
  Result<std::vector<Temporary>> ListTemporaries(const std::string& folder, const TemporaryOwner& self) override;
  Status RemoveTemporary(const std::string& handle) override {
    return IsMarked(handle) ? Of(handle.front()).RemoveTemporary(handle.substr(1)) : Foreign(handle);
  }

  Status Touch(const std::string& key, const TemporaryOwner& owner) override {
    return Find<bool>(key,
                      [&](Store& store) -> Result<bool> {
                        KEDGE_RETURN_IF_ERROR(store.Touch(key, owner));
                        return true;
                      })
        .status();
  }
  Result<int64_t> Stamp(const std::string& key) override {
    return Find<int64_t>(key, [&](Store& store) { return store.Stamp(key); });
  }
  Result<double> AgeSeconds(const std::string& key, const TemporaryOwner& owner) override {
    return Find<double>(key, [&](Store& store) { return store.AgeSeconds(key, owner); });
  }
  // What the buffer takes it gives on.
  Result<StoreSpace> Space() override { return store_->Space(); }

 private:
  bool IsCargo(const std::string& key) const { return options_.where(key) == Lies::kCargo; }
  // What the buffer has answered: it is not tried for a while after some errors. One that cannot be written to may be read from.
  bool TakesNothing() const { return options_.clock->NowNs() < takes_nothing_until_ns_; }
  bool IsAway() const { return options_.clock->NowNs() < away_until_ns_; }
  void NoteOfWriter(const Status& status) {
    if (MeansAway(status)) takes_nothing_until_ns_ = options_.clock->NowNs() + options_.pause.count();
  }
  void NoteOfReader(const Status& status) {
    if (!MeansNotReached(status)) return;
    away_until_ns_ = options_.clock->NowNs() + options_.pause.count();
    NoteOfWriter(status);
  }
  Status WhileAway(const std::string& key) const {
    return {Code::kUnavailable,
            fmt::format("{}: {} does not answer, or has no room: what lies there is not known", key, buffer_->description())};
  }
  // Before cargo is written there.
  Status Begin();

  static bool IsMarked(const std::string& handle) { return handle.starts_with(kOfBuffer) || handle.starts_with(kOfStore); }
  static Status Foreign(const std::string& handle) {
    return {Code::kInvalidArgument, fmt::format("\"{}\" names nothing of a store with a burst buffer before it", handle)};
  }
  // By the origin, with which a handle begins.
  Store& Of(char origin) const { return origin == kOfBuffer ? *buffer_ : *store_; }

  // In the buffer, or else in the store.
  template <typename Value, typename Ask>
  Result<Value> Find(const std::string& key, Ask ask) {
    if (IsCargo(key) && !IsAway()) {
      Result<Value> near = ask(*buffer_);
      if (near.ok()) return near;
      NoteOfReader(near.status());
      Result<Value> far = ask(*store_);
      return far.ok() || !IsNotThere(far.status()) || IsNotThere(near.status()) || MeansNotReached(near.status())
                 ? std::move(far)
                 : std::move(near);
    }
    return ask(*store_);
  }
  // Into the buffer if it is cargo, and can be.
  template <typename Do>
  Status Write(const std::string& key, Do write) {
    if (IsCargo(key) && !TakesNothing()) {
      Status written = Begin();
      if (written.ok()) written = write(*buffer_);
      NoteOfWriter(written);
      if (!MeansAway(written)) return written;
    }
    return write(*store_);
  }
  // From the buffer first.
  template <typename Do>
  Status RemoveFromBoth(const std::string& key, Do remove) {
    if (IsAway()) return WhileAway(key);
    const Status removed = remove(*buffer_);
    NoteOfWriter(removed);
    KEDGE_RETURN_IF_ERROR(removed);
    return remove(*store_);
  }
  Status PutIntoStore(const std::string& key, ByteSpan bytes, const TemporaryOwner& owner, Folders folders);
  Status PutMark(const std::string& key, ByteSpan bytes, const TemporaryOwner& owner, Folders folders);

  const std::shared_ptr<Store> buffer_;
  const std::shared_ptr<Store> store_;
  const DrainedStoreOptions options_;
  const std::string description_;
  std::atomic<int64_t> takes_nothing_until_ns_{INT64_MIN};
  std::atomic<int64_t> away_until_ns_{INT64_MIN};
  std::mutex mutex_;
  std::optional<int64_t> begun_ns_;  // guarded by mutex_
  std::string buffers_place_;        // guarded by mutex_: as it was told last
};

// Again from time to time: a buffer that has lost its files does not know it any more.
Status DrainedStore::Begin() {
  if (!options_.begin) return Status::Ok();
  const std::lock_guard lock(mutex_);
  const int64_t now_ns = options_.clock->NowNs();
  if (begun_ns_ && now_ns - *begun_ns_ < options_.pause.count()) return Status::Ok();
  KEDGE_RETURN_IF_ERROR(options_.begin());
  begun_ns_ = now_ns;
  return Status::Ok();
}

// While the buffer is away it counts as being where it was.
Result<std::string> DrainedStore::Place() {
  KEDGE_ASSIGN_OR_RETURN(const std::string place, store_->Place());
  std::optional<Result<std::string>> of_buffer;
  if (!IsAway()) {
    of_buffer = buffer_->Place();
    NoteOfReader(of_buffer->status());
  }
  const std::lock_guard lock(mutex_);
  if (of_buffer && of_buffer->ok()) buffers_place_ = **of_buffer;
  return place + '\n' + buffers_place_;
}

Result<bool> DrainedStore::IsDrained(const std::string& key) {
  const Status found = store_->Stamp(key).status();
  if (IsNotThere(found)) return false;
  KEDGE_RETURN_IF_ERROR(found);
  return true;
}

// ---- Objects ----

Result<std::unique_ptr<ObjectWriter>> DrainedStore::CreateObject(const std::string& key, const TemporaryOwner& owner,
                                                                 uint64_t expected_bytes) {
  std::unique_ptr<ObjectWriter> created;
  char origin = kOfStore;
  KEDGE_RETURN_IF_ERROR(Write(key, [&](Store& store) -> Status {
    KEDGE_ASSIGN_OR_RETURN(created, store.CreateObject(key, owner, expected_bytes));
    origin = &store == buffer_.get() ? kOfBuffer : kOfStore;
    return Status::Ok();
  }));
  return std::unique_ptr<ObjectWriter>(
      std::make_unique<Writer>(origin, std::move(created), [this](const Status& status) { NoteOfWriter(status); }));
}

Result<std::unique_ptr<ObjectWriter>> DrainedStore::AdoptObject(const std::string& key, const std::string& handle) {
  if (!IsMarked(handle)) return Foreign(handle);
  KEDGE_ASSIGN_OR_RETURN(std::unique_ptr<ObjectWriter> adopted, Of(handle.front()).AdoptObject(key, handle.substr(1)));
  return std::unique_ptr<ObjectWriter>(
      std::make_unique<Writer>(handle.front(), std::move(adopted), [this](const Status& status) { NoteOfWriter(status); }));
}

Result<std::unique_ptr<ObjectContributor>> DrainedStore::JoinObject(const std::string& handle) {
  if (!IsMarked(handle)) return Foreign(handle);
  return Of(handle.front()).JoinObject(handle.substr(1));
}

std::vector<Status> DrainedStore::Publish(std::span<ObjectWriter* const> writers) {
  std::vector<Status> statuses(writers.size());
  for (const char origin : {kOfBuffer, kOfStore}) {
    std::vector<ObjectWriter*> inner;
    std::vector<size_t> numbers;
    for (size_t i = 0; i < writers.size(); ++i) {
      const auto* const writer = dynamic_cast<Writer*>(writers[i]);
      if (writer == nullptr) statuses[i] = {Code::kInternal, writers[i]->key() + " is an object of another store"};
      if (writer == nullptr || writer->origin() != origin) continue;
      inner.push_back(writer->inner());
      numbers.push_back(i);
    }
    if (inner.empty()) continue;
    std::vector<Status> published = Of(origin).Publish(inner);
    for (size_t i = 0; i < numbers.size(); ++i)
      statuses[numbers[i]] = static_cast<Writer*>(writers[numbers[i]])->Noted(std::move(published[i]));
  }
  return statuses;
}

Result<std::unique_ptr<ObjectReader>> DrainedStore::OpenObject(const std::string& key) {
  return Find<std::unique_ptr<ObjectReader>>(key, [&](Store& store) -> Result<std::unique_ptr<ObjectReader>> {
    auto opened = store.OpenObject(key);
    if (!opened.ok() || &store == store_.get()) return opened;
    // The object may have been drained.
    return std::unique_ptr<ObjectReader>(
        std::make_unique<FallbackReader>(std::move(*opened), [far = store_, key] { return far->OpenObject(key); }));
  });
}

// ---- Records ----

// What a version is pinned or removed by, and all else that is no cargo. Its folder may be in the buffer alone.
Status DrainedStore::PutMark(const std::string& key, ByteSpan bytes, const TemporaryOwner& owner, Folders folders) {
  const Status put = store_->PutIfAbsent(key, bytes, owner, folders);
  const std::string folder = os::ParentPath(key);
  if (folders == Folders::kCreate || !IsNotThere(put) || options_.where(folder) == Lies::kInStore) return put;
  if (IsAway()) return WhileAway(key);
  const Status listed = buffer_->List(folder).status();
  NoteOfReader(listed);
  return listed.ok() ? store_->PutIfAbsent(key, bytes, owner, Folders::kCreate) : listed;
}

// Cargo: the store must have all that it names.
Status DrainedStore::PutIntoStore(const std::string& key, ByteSpan bytes, const TemporaryOwner& owner, Folders folders) {
  const Status named = CheckNamedThings(*store_, key, bytes);
  if (!named.ok()) return WhileAway(key).WithContext(named.message());
  return store_->PutIfAbsent(key, bytes, owner, folders);
}

// Where it may have been created and the answer was lost, nothing else is tried.
Status DrainedStore::PutIfAbsent(const std::string& key, ByteSpan bytes, const TemporaryOwner& owner, Folders folders) {
  if (!IsCargo(key)) return PutMark(key, bytes, owner, folders);
  if (TakesNothing()) {
    const Status put = PutIntoStore(key, bytes, owner, folders);
    // The buffer may have the folder.
    return folders == Folders::kMustExist && IsNotThere(put) ? WhileAway(key) : put;
  }
  KEDGE_RETURN_IF_ERROR(Begin());
  // It may have been drained, and be gone from the buffer. A store that is away does not keep anybody from the buffer.
  if (store_->Stamp(key).ok()) return {Code::kAlreadyExists, fmt::format("{}/{} is there", store_->description(), key)};
  const Status put = buffer_->PutIfAbsent(key, bytes, owner, folders);
  NoteOfWriter(put);
  if (put.code() == Code::kNoSpace) return PutIntoStore(key, bytes, owner, folders);
  if (folders == Folders::kCreate || !IsNotThere(put)) return put;
  // The same holds for its folder.
  const Status folder_in_store = store_->List(os::ParentPath(key)).status();
  return folder_in_store.ok() ? PutIntoStore(key, bytes, owner, folders) : put;
}

// Parts that were written again may be other ones in the store than in the buffer: those of a version in the store are the
// store's.
Result<Buffer> DrainedStore::Get(const std::string& key, uint64_t bytes_max) {
  const std::string version = VersionOfRecord(key);
  if (!version.empty() && store_->Stamp(version).ok()) {
    auto found = store_->Get(key, bytes_max);
    if (!IsNotThere(found.status())) return found;
  }
  return Find<Buffer>(key, [&](Store& store) { return store.Get(key, bytes_max); });
}

Status DrainedStore::Replace(const std::string& key, ByteSpan bytes, const TemporaryOwner& owner, Folders folders) {
  return Write(key, [&](Store& store) { return store.Replace(key, bytes, owner, folders); });
}

Status DrainedStore::EnsureDurable(std::span<const std::string> keys) {
  std::vector<std::string> cargo, others;
  for (const std::string& key : keys) (IsCargo(key) && !IsAway() ? cargo : others).push_back(key);
  const Status all = cargo.empty() ? Status::Ok() : buffer_->EnsureDurable(cargo);
  NoteOfWriter(all);
  if (MeansAway(all) || IsNotThere(all)) {
    for (const std::string& key : cargo) {
      const Status near = MeansAway(all) ? all : buffer_->EnsureDurable(std::array{key});
      if (near.ok()) continue;
      if (!MeansAway(near) && !IsNotThere(near)) return near;
      others.push_back(key);
    }
  } else {
    KEDGE_RETURN_IF_ERROR(all);
  }
  if (others.empty()) return Status::Ok();
  Status ensured = store_->EnsureDurable(others);
  if (IsNotThere(ensured) && (IsAway() || MeansAway(all))) return WhileAway(others.front());
  return ensured;
}

// ---- Folders ----

// The buffer first: what is drained meanwhile is in one of the two lists.
Result<std::vector<StoreEntry>> DrainedStore::List(const std::string& folder) {
  if (options_.where(folder) == Lies::kInStore || IsAway()) return store_->List(folder);
  auto near = buffer_->List(folder);
  NoteOfReader(near.status());
  if (!near.ok() && !IsNotThere(near.status()) && !MeansNotReached(near.status())) return near;
  auto far = store_->List(folder);
  if (!near.ok() || (!far.ok() && !IsNotThere(far.status()))) return far;
  if (!far.ok()) return near;
  std::vector<StoreEntry> all;
  std::ranges::set_union(*near, *far, std::back_inserter(all), {}, &StoreEntry::name, &StoreEntry::name);
  return all;
}

Result<std::vector<Temporary>> DrainedStore::ListTemporaries(const std::string& folder, const TemporaryOwner& self) {
  std::vector<Temporary> all;
  for (const char origin : {kOfBuffer, kOfStore}) {
    if (origin == kOfBuffer && IsAway()) continue;
    auto found = Of(origin).ListTemporaries(folder, self);
    if (origin == kOfBuffer) NoteOfReader(found.status());
    if (IsNotThere(found.status()) || (origin == kOfBuffer && MeansNotReached(found.status()))) continue;
    KEDGE_RETURN_IF_ERROR(found.status());
    for (Temporary& one : *found) {
      one.handle = Marked(origin, one.handle);
      all.push_back(std::move(one));
    }
  }
  return all;
}

}  // namespace

Lies WhereLies(std::string_view key) {
  // jobs/JOB/names/NAME/GENERATION/...
  std::array<std::string_view, 6> parts;
  size_t count = 0;
  for (size_t begin = 0; count < parts.size() && begin <= key.size() && !key.empty();) {
    const size_t end = std::min(key.find('/', begin), key.size());
    parts[count++] = key.substr(begin, end - begin);
    begin = end + 1;
  }
  Generation generation;
  if (count < 4 || parts[0] != keys::kJobsFolder || parts[2] != "names") return Lies::kInStore;
  if (count == 4) return Lies::kAbove;
  if (!keys::ParseGenerationFolder(parts[4], &generation)) return Lies::kInStore;
  return count > 5 && keys::IsMark(parts[5]) ? Lies::kInStore : Lies::kCargo;
}

std::unique_ptr<Store> MakeDrainedStore(std::shared_ptr<Store> buffer, std::shared_ptr<Store> store,
                                        DrainedStoreOptions options) {
  return std::make_unique<DrainedStore>(std::move(buffer), std::move(store), std::move(options));
}

}  // namespace kedge
