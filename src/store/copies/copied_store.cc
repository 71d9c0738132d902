#include "store/copies/copied_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <mutex>
#include <optional>
#include <utility>

#include "store/reading/fallback_reader.h"

namespace kedge {
namespace {

// Of a handle, what is of which.
constexpr char kHandleOfBoth = 'b';  // bLENGTH:FIRST SECOND, without the space
constexpr std::array<char, 2> kHandleOfOne = {'1', '2'};

constexpr uint64_t kCopiedRecordBytesMax = uint64_t{64} << 20;

bool IsAbsent(const Status& status) {
  return status.code() == Code::kNotFound;
}

struct HandlePair {
  std::string first, second;

  std::string ToText() const { return fmt::format("{}{}:{}{}", kHandleOfBoth, first.size(), first, second); }
};

std::optional<HandlePair> ParseHandle(const std::string& text) {
  const size_t colon = text.find(':');
  if (!text.starts_with(kHandleOfBoth) || colon == std::string::npos) return std::nullopt;
  size_t bytes = 0;
  const auto read = std::from_chars(text.data() + 1, text.data() + colon, bytes);
  if (read.ec != std::errc() || read.ptr != text.data() + colon || bytes > text.size() - colon - 1) return std::nullopt;
  return HandlePair{text.substr(colon + 1, bytes), text.substr(colon + 1 + bytes)};
}

Status NoHandle(const std::string& handle) {
  return {Code::kInvalidArgument, fmt::format("\"{}\" names nothing of a store on two burst buffers", handle)};
}

// One of the two.
class Side {
 public:
  Side(std::shared_ptr<Store> store, const CopiedStoreOptions& options) : store_(std::move(store)), options_(options) {}

  Store& store() const { return *store_; }
  bool is_away() const { return options_.clock->NowNs() < away_until_ns_; }
  Status WhileAway() const {
    return {Code::kUnavailable, fmt::format("{} has not answered a moment ago", store_->description())};
  }
  const Status& Noted(const Status& status) {
    if (MeansNotReached(status)) away_until_ns_ = options_.clock->NowNs() + options_.pause.count();
    return status;
  }
  template <typename Value>
  Result<Value> Noted(Result<Value> result) {
    Noted(result.status());
    return result;
  }
  // For readers: not while it is away.
  template <typename Ask>
  auto Answer(Ask ask) -> decltype(ask(std::declval<Store&>())) {
    if (is_away()) return WhileAway();
    return Noted(ask(*store_));
  }

 private:
  const std::shared_ptr<Store> store_;
  const CopiedStoreOptions options_;
  std::atomic<int64_t> away_until_ns_{INT64_MIN};
};

class CopiedWriter final : public ObjectWriter {
 public:
  CopiedWriter(Side& first, Side& second, std::unique_ptr<ObjectWriter> of_first, std::unique_ptr<ObjectWriter> of_second)
      : sides_{&first, &second},
        inner_{std::move(of_first), std::move(of_second)},
        handle_(HandlePair{inner_[0]->handle(), inner_[1]->handle()}.ToText()) {}

  Status WriteAt(uint64_t offset, ByteSpan bytes) override {
    return OfBoth([&](ObjectWriter& writer) { return writer.WriteAt(offset, bytes); });
  }
  bool is_buffered() const override { return inner_[0]->is_buffered() && inner_[1]->is_buffered(); }
  Status FlushHint(uint64_t offset, uint64_t bytes, bool wait) override {
    return OfBoth([&](ObjectWriter& writer) { return writer.FlushHint(offset, bytes, wait); });
  }
  Status Commit() override {
    return OfBoth([](ObjectWriter& writer) { return writer.Commit(); });
  }
  Status Abandon() override {
    const Status first = inner_[0]->Abandon(), second = inner_[1]->Abandon();
    return first.ok() ? second : first;
  }
  const std::string& handle() const override { return handle_; }
  const std::string& key() const override { return inner_[0]->key(); }

  ObjectWriter* inner(size_t number) const { return inner_.at(number).get(); }

 private:
  template <typename Do>
  Status OfBoth(Do write) {
    for (size_t i = 0; i < inner_.size(); ++i) KEDGE_RETURN_IF_ERROR(sides_[i]->Noted(write(*inner_[i])));
    return Status::Ok();
  }

  const std::array<Side*, 2> sides_;
  const std::array<std::unique_ptr<ObjectWriter>, 2> inner_;
  const std::string handle_;
};

class CopiedContributor final : public ObjectContributor {
 public:
  CopiedContributor(std::unique_ptr<ObjectContributor> first, std::unique_ptr<ObjectContributor> second)
      : first_(std::move(first)), second_(std::move(second)) {}

  Status WriteAt(uint64_t offset, ByteSpan bytes) override {
    KEDGE_RETURN_IF_ERROR(first_->WriteAt(offset, bytes));
    return second_->WriteAt(offset, bytes);
  }
  Status Finish() override {
    KEDGE_RETURN_IF_ERROR(first_->Finish());
    return second_->Finish();
  }

 private:
  const std::unique_ptr<ObjectContributor> first_, second_;
};

class CopiedStore final : public Store {
 public:
  CopiedStore(std::shared_ptr<Store> first, std::shared_ptr<Store> second, const CopiedStoreOptions& options)
      : description_(fmt::format("{} (and {})", first->description(), second->description())),
        first_(std::move(first), options),
        second_(std::move(second), options) {}

  const std::string& description() const override { return description_; }
  bool is_far() const override { return true; }
  Result<std::string> Place() override;

  Result<std::unique_ptr<ObjectWriter>> CreateObject(const std::string& key, const TemporaryOwner& owner,
                                                     uint64_t expected_bytes) override;
  Result<std::unique_ptr<ObjectWriter>> AdoptObject(const std::string& key, const std::string& handle) override;
  Result<std::unique_ptr<ObjectContributor>> JoinObject(const std::string& handle) override;
  std::vector<Status> Publish(std::span<ObjectWriter* const> writers) override;
  Result<std::unique_ptr<ObjectReader>> OpenObject(const std::string& key) override;

  Status PutIfAbsent(const std::string& key, ByteSpan bytes, const TemporaryOwner& owner, Folders folders) override;
  Status Replace(const std::string& key, ByteSpan bytes, const TemporaryOwner& owner, Folders folders) override {
    return ToBoth([&](Store& store) { return store.Replace(key, bytes, owner, folders); });
  }
  Result<Buffer> Get(const std::string& key, uint64_t bytes_max) override {
    return Find<Buffer>([&](Store& store) { return store.Get(key, bytes_max); });
  }
  Status EnsureDurable(std::span<const std::string> keys) override;

  Status MakeFolder(const std::string& folder) override {
    return ToBoth([&](Store& store) { return store.MakeFolder(folder); });
  }
  Result<std::vector<StoreEntry>> List(const std::string& folder) override;

  Status Remove(const std::string& key) override {
    return ToBoth([&](Store& store) { return store.Remove(key); });
  }
  Status RemoveFolder(const std::string& folder, const std::string& first, const TemporaryOwner& owner) override {
    return ToBoth([&](Store& store) { return store.RemoveFolder(folder, first, owner); });
  }
  Result<std::vector<Temporary>> ListTemporaries(const std::string& folder, const TemporaryOwner& self) override;
  Status RemoveTemporary(const std::string& handle) override;

  Status Touch(const std::string& key, const TemporaryOwner& owner) override;
  Result<int64_t> Stamp(const std::string& key) override {
    return Find<int64_t>([&](Store& store) { return store.Stamp(key); });
  }
  Result<double> AgeSeconds(const std::string& key, const TemporaryOwner& owner) override {
    return Find<double>([&](Store& store) { return store.AgeSeconds(key, owner); });
  }
  // Of the one that has less.
  Result<StoreSpace> Space() override;

 private:
  std::array<Side*, 2> sides() { return {&first_, &second_}; }
  // What needs both is not begun where one is known to be away.
  Status Reached() const {
    for (const Side* side : {&first_, &second_}) {
      if (side->is_away()) return side->WhileAway();
    }
    return Status::Ok();
  }
  template <typename Do>
  Status ToBoth(Do write) {
    KEDGE_RETURN_IF_ERROR(Reached());
    for (Side* side : sides()) KEDGE_RETURN_IF_ERROR(side->Noted(write(side->store())));
    return Status::Ok();
  }
  // In the first that has it. An answer counts for more than none, and what is wrong more than that it is not there.
  template <typename Value, typename Ask>
  Result<Value> Find(Ask ask) {
    Status unreached, absent, failed;
    for (Side* side : sides()) {
      Result<Value> found = side->Answer(ask);
      if (found.ok()) return found;
      Status& kept = MeansNotReached(found.status()) ? unreached : IsAbsent(found.status()) ? absent : failed;
      if (kept.ok()) kept = found.status();
    }
    return !failed.ok() ? failed : !absent.ok() ? absent : unreached;
  }
  // What the first has becomes what both have.
  Status Complete(const std::string& key, const TemporaryOwner& owner, Folders folders);

  const std::string description_;
  Side first_, second_;
  std::mutex mutex_;
  std::array<std::string, 2> places_;  // guarded by mutex_: as they were told last
};

// One that is away counts as being where it was.
Result<std::string> CopiedStore::Place() {
  std::array<std::optional<Result<std::string>>, 2> told;
  for (size_t i = 0; i < told.size(); ++i) {
    told[i] = sides()[i]->Answer([](Store& store) { return store.Place(); });
    if (!told[i]->ok() && !MeansNotReached(told[i]->status())) return *told[i];
  }
  if (!told[0]->ok() && !told[1]->ok()) return *told[0];
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < told.size(); ++i) {
    if (told[i]->ok()) places_[i] = **told[i];
  }
  return places_[0] + '\n' + places_[1];
}

// ---- Objects ----

Result<std::unique_ptr<ObjectWriter>> CopiedStore::CreateObject(const std::string& key, const TemporaryOwner& owner,
                                                                uint64_t expected_bytes) {
  KEDGE_RETURN_IF_ERROR(Reached());
  KEDGE_ASSIGN_OR_RETURN(auto first, first_.Noted(first_.store().CreateObject(key, owner, expected_bytes)));
  auto second = second_.Noted(second_.store().CreateObject(key, owner, expected_bytes));
  if (!second.ok()) {
    (void)first->Abandon();
    return second.status();
  }
  return std::unique_ptr<ObjectWriter>(std::make_unique<CopiedWriter>(first_, second_, std::move(first), std::move(*second)));
}

Result<std::unique_ptr<ObjectWriter>> CopiedStore::AdoptObject(const std::string& key, const std::string& handle) {
  const std::optional<HandlePair> pair = ParseHandle(handle);
  if (!pair) return NoHandle(handle);
  KEDGE_RETURN_IF_ERROR(Reached());
  KEDGE_ASSIGN_OR_RETURN(auto first, first_.Noted(first_.store().AdoptObject(key, pair->first)));
  KEDGE_ASSIGN_OR_RETURN(auto second, second_.Noted(second_.store().AdoptObject(key, pair->second)));
  return std::unique_ptr<ObjectWriter>(std::make_unique<CopiedWriter>(first_, second_, std::move(first), std::move(second)));
}

Result<std::unique_ptr<ObjectContributor>> CopiedStore::JoinObject(const std::string& handle) {
  const std::optional<HandlePair> pair = ParseHandle(handle);
  if (!pair) return NoHandle(handle);
  KEDGE_RETURN_IF_ERROR(Reached());
  KEDGE_ASSIGN_OR_RETURN(auto first, first_.Noted(first_.store().JoinObject(pair->first)));
  KEDGE_ASSIGN_OR_RETURN(auto second, second_.Noted(second_.store().JoinObject(pair->second)));
  return std::unique_ptr<ObjectContributor>(std::make_unique<CopiedContributor>(std::move(first), std::move(second)));
}

std::vector<Status> CopiedStore::Publish(std::span<ObjectWriter* const> writers) {
  std::vector<Status> statuses(writers.size());
  for (size_t side = 0; side < sides().size(); ++side) {
    std::vector<ObjectWriter*> inner;
    std::vector<size_t> numbers;
    for (size_t i = 0; i < writers.size(); ++i) {
      const auto* const writer = dynamic_cast<CopiedWriter*>(writers[i]);
      if (writer == nullptr) statuses[i] = {Code::kInternal, writers[i]->key() + " is an object of another store"};
      if (!statuses[i].ok()) continue;
      inner.push_back(writer->inner(side));
      numbers.push_back(i);
    }
    if (inner.empty()) continue;
    const std::vector<Status> published = sides()[side]->store().Publish(inner);
    for (size_t i = 0; i < numbers.size(); ++i) statuses[numbers[i]] = sides()[side]->Noted(published[i]);
  }
  return statuses;
}

Result<std::unique_ptr<ObjectReader>> CopiedStore::OpenObject(const std::string& key) {
  return Find<std::unique_ptr<ObjectReader>>([&](Store& store) -> Result<std::unique_ptr<ObjectReader>> {
    KEDGE_ASSIGN_OR_RETURN(std::unique_ptr<ObjectReader> opened, store.OpenObject(key));
    Side* const other = &store == &first_.store() ? &second_ : &first_;
    return std::unique_ptr<ObjectReader>(std::make_unique<FallbackReader>(
        std::move(opened), [other, key] { return other->Answer([&key](Store& far) { return far.OpenObject(key); }); }));
  });
}

// ---- Records ----

Status CopiedStore::Complete(const std::string& key, const TemporaryOwner& owner, Folders folders) {
  if (second_.store().Stamp(key).ok()) return Status::Ok();
  KEDGE_ASSIGN_OR_RETURN(const Buffer bytes, first_.Noted(first_.store().Get(key, kCopiedRecordBytesMax)));
  const Status put = second_.Noted(second_.store().PutIfAbsent(key, bytes, owner, folders));
  return put.code() == Code::kAlreadyExists ? Status::Ok() : put;
}

Status CopiedStore::PutIfAbsent(const std::string& key, ByteSpan bytes, const TemporaryOwner& owner, Folders folders) {
  KEDGE_RETURN_IF_ERROR(Reached());
  const Status first = first_.Noted(first_.store().PutIfAbsent(key, bytes, owner, folders));
  if (first.code() == Code::kAlreadyExists) {
    const Status completed = Complete(key, owner, folders);
    return completed.ok() ? first : completed;
  }
  KEDGE_RETURN_IF_ERROR(first);
  const Status second = second_.Noted(second_.store().PutIfAbsent(key, bytes, owner, folders));
  // Somebody has completed it already; or it is of a time before the first lost its files.
  if (second.code() != Code::kAlreadyExists) return second;
  return second_.Noted(second_.store().Replace(key, bytes, owner, folders));
}

Status CopiedStore::EnsureDurable(std::span<const std::string> keys) {
  KEDGE_RETURN_IF_ERROR(Reached());
  KEDGE_RETURN_IF_ERROR(first_.Noted(first_.store().EnsureDurable(keys)));
  const Status second = second_.Noted(second_.store().EnsureDurable(keys));
  if (!IsAbsent(second)) return second;
  for (const std::string& key : keys) KEDGE_RETURN_IF_ERROR(Complete(key, {"", 0, "copy"}, Folders::kMustExist));
  return second_.Noted(second_.store().EnsureDurable(keys));
}

// One may have been drained, and have removed it.
Status CopiedStore::Touch(const std::string& key, const TemporaryOwner& owner) {
  KEDGE_RETURN_IF_ERROR(Reached());
  const Status first = first_.Noted(first_.store().Touch(key, owner));
  if (!first.ok() && !IsAbsent(first)) return first;
  const Status second = second_.Noted(second_.store().Touch(key, owner));
  return IsAbsent(second) ? first : second;
}

// ---- Lists and space ----

Result<std::vector<StoreEntry>> CopiedStore::List(const std::string& folder) {
  std::vector<StoreEntry> all;
  bool is_there = false;
  Status unreached, absent;
  for (Side* side : sides()) {
    const auto listed = side->Answer([&](Store& store) { return store.List(folder); });
    if (MeansNotReached(listed.status())) {
      unreached = listed.status();
    } else if (IsAbsent(listed.status())) {
      absent = listed.status();
    } else {
      KEDGE_RETURN_IF_ERROR(listed.status());
      std::vector<StoreEntry> more;
      std::ranges::set_union(all, *listed, std::back_inserter(more), {}, &StoreEntry::name, &StoreEntry::name);
      all = std::move(more);
      is_there = true;
    }
  }
  if (is_there) return all;
  return absent.ok() ? unreached : absent;
}

Result<std::vector<Temporary>> CopiedStore::ListTemporaries(const std::string& folder, const TemporaryOwner& self) {
  std::vector<Temporary> all;
  size_t answers = 0;
  for (size_t i = 0; i < sides().size(); ++i) {
    Side* const side = sides()[i];
    if (side->is_away()) continue;
    auto found = side->Noted(side->store().ListTemporaries(folder, self));
    if (MeansNotReached(found.status())) continue;
    KEDGE_RETURN_IF_ERROR(found.status());
    ++answers;
    for (Temporary& one : *found) {
      one.handle = kHandleOfOne[i] + one.handle;
      all.push_back(std::move(one));
    }
  }
  if (answers == 0) return first_.WhileAway();
  return all;
}

Status CopiedStore::RemoveTemporary(const std::string& handle) {
  if (const std::optional<HandlePair> pair = ParseHandle(handle)) {
    const Status first = first_.Noted(first_.store().RemoveTemporary(pair->first));
    const Status second = second_.Noted(second_.store().RemoveTemporary(pair->second));
    return first.ok() ? second : first;
  }
  for (size_t i = 0; i < sides().size(); ++i) {
    if (handle.starts_with(kHandleOfOne[i])) return sides()[i]->Noted(sides()[i]->store().RemoveTemporary(handle.substr(1)));
  }
  return NoHandle(handle);
}

Result<StoreSpace> CopiedStore::Space() {
  std::optional<StoreSpace> least;
  Status failed;
  for (Side* side : sides()) {
    const auto space = side->Answer([](Store& store) { return store.Space(); });
    if (!space.ok()) failed = space.status();
    if (space.ok() && (!least || space->available_bytes < least->available_bytes)) least = *space;
  }
  if (!least) return failed;
  return *least;
}

}  // namespace

std::unique_ptr<Store> MakeCopiedStore(std::shared_ptr<Store> first, std::shared_ptr<Store> second, CopiedStoreOptions options) {
  return std::make_unique<CopiedStore>(std::move(first), std::move(second), options);
}

}  // namespace kedge
