// A store with a function of the test called before each operation: not ok, and the operation fails with that.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "store/store.h"

namespace kedge::testing {

// Whether the operation adds or marks something.
enum class Adds { kNo, kYes };

class WatchedStore : public Store {
 public:
  using Before = std::function<Status(Adds)>;
  WatchedStore(Store& store, Before before) : store_(store), before_(std::move(before)) {}

  const std::string& description() const override { return store_.description(); }
  bool is_far() const override { return store_.is_far(); }
  Result<std::string> Place() override {
    return Watched<std::string>(Adds::kNo, [&] { return store_.Place(); });
  }
  Result<std::unique_ptr<ObjectWriter>> CreateObject(const std::string& key, const TemporaryOwner& owner,
                                                     uint64_t expected_bytes) override {
    return Watched<std::unique_ptr<ObjectWriter>>(Adds::kYes, [&] { return store_.CreateObject(key, owner, expected_bytes); });
  }
  Result<std::unique_ptr<ObjectWriter>> AdoptObject(const std::string& key, const std::string& handle) override {
    return Watched<std::unique_ptr<ObjectWriter>>(Adds::kYes, [&] { return store_.AdoptObject(key, handle); });
  }
  Result<std::unique_ptr<ObjectContributor>> JoinObject(const std::string& handle) override {
    return Watched<std::unique_ptr<ObjectContributor>>(Adds::kYes, [&] { return store_.JoinObject(handle); });
  }
  std::vector<Status> Publish(std::span<ObjectWriter* const> writers) override {
    const Status may = before_(Adds::kNo);
    return may.ok() ? store_.Publish(writers) : std::vector<Status>(writers.size(), may);
  }
  Result<std::unique_ptr<ObjectReader>> OpenObject(const std::string& key) override {
    return Watched<std::unique_ptr<ObjectReader>>(Adds::kNo, [&] { return store_.OpenObject(key); });
  }
  Status PutIfAbsent(const std::string& key, ByteSpan bytes, const TemporaryOwner& owner, Folders folders) override {
    return WatchedStatus(Adds::kYes, [&] { return store_.PutIfAbsent(key, bytes, owner, folders); });
  }
  Status Replace(const std::string& key, ByteSpan bytes, const TemporaryOwner& owner, Folders folders) override {
    return WatchedStatus(Adds::kYes, [&] { return store_.Replace(key, bytes, owner, folders); });
  }
  Result<Buffer> Get(const std::string& key, uint64_t bytes_max) override {
    return Watched<Buffer>(Adds::kNo, [&] { return store_.Get(key, bytes_max); });
  }
  Status EnsureDurable(std::span<const std::string> keys) override {
    return WatchedStatus(Adds::kNo, [&] { return store_.EnsureDurable(keys); });
  }
  Status MakeFolder(const std::string& folder) override {
    return WatchedStatus(Adds::kYes, [&] { return store_.MakeFolder(folder); });
  }
  Result<std::vector<StoreEntry>> List(const std::string& folder) override {
    return Watched<std::vector<StoreEntry>>(Adds::kNo, [&] { return store_.List(folder); });
  }
  Status Remove(const std::string& key) override {
    return WatchedStatus(Adds::kNo, [&] { return store_.Remove(key); });
  }
  Status RemoveFolder(const std::string& folder, const std::string& first, const TemporaryOwner& owner) override {
    return WatchedStatus(Adds::kNo, [&] { return store_.RemoveFolder(folder, first, owner); });
  }
  Result<std::vector<Temporary>> ListTemporaries(const std::string& folder, const TemporaryOwner& self) override {
    return Watched<std::vector<Temporary>>(Adds::kNo, [&] { return store_.ListTemporaries(folder, self); });
  }
  Status RemoveTemporary(const std::string& handle) override {
    return WatchedStatus(Adds::kNo, [&] { return store_.RemoveTemporary(handle); });
  }
  Status Touch(const std::string& key, const TemporaryOwner& owner) override {
    return WatchedStatus(Adds::kYes, [&] { return store_.Touch(key, owner); });
  }
  Result<int64_t> Stamp(const std::string& key) override {
    return Watched<int64_t>(Adds::kNo, [&] { return store_.Stamp(key); });
  }
  Result<double> AgeSeconds(const std::string& key, const TemporaryOwner& owner) override {
    return Watched<double>(Adds::kNo, [&] { return store_.AgeSeconds(key, owner); });
  }
  Result<StoreSpace> Space() override {
    return Watched<StoreSpace>(Adds::kNo, [&] { return store_.Space(); });
  }

 private:
  template <typename Value, typename Call>
  Result<Value> Watched(Adds adds, Call call) {
    KEDGE_RETURN_IF_ERROR(before_(adds));
    return call();
  }
  template <typename Call>
  Status WatchedStatus(Adds adds, Call call) {
    KEDGE_RETURN_IF_ERROR(before_(adds));
    return call();
  }

  Store& store_;
  const Before before_;
};

}  // namespace kedge::testing
