// Reads an object from where it was found until that fails, and then from another place that has it, too. Thread safe.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "store/store.h"

namespace kedge {

class FallbackReader final : public ObjectReader {
 public:
  using Open = std::function<Result<std::unique_ptr<ObjectReader>>()>;
  // `open_far` may be called again and again; what it uses outlives the reader.
  FallbackReader(std::unique_ptr<ObjectReader> near, Open open_far) : near_(std::move(near)), open_far_(std::move(open_far)) {}

  Status ReadAt(uint64_t offset, std::span<std::byte> out) override {
    return Read([&](ObjectReader& reader) { return reader.ReadAt(offset, out); });
  }
  Status ReadJust(uint64_t offset, std::span<std::byte> out) override {
    return Read([&](ObjectReader& reader) { return reader.ReadJust(offset, out); });
  }
  uint64_t size_bytes() const override { return near_->size_bytes(); }

 private:
  Status Read(const std::function<Status(ObjectReader&)>& read);
  // Null: the other place does not have it.
  ObjectReader* Far();

  const std::unique_ptr<ObjectReader> near_;
  const Open open_far_;
  std::atomic<bool> near_has_failed_{false};
  std::mutex mutex_;
  std::unique_ptr<ObjectReader> far_;  // guarded by mutex_
};

}  // namespace kedge
