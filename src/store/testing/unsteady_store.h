// Stores that fail when the test says so, and a clock that stands still.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/clock.h"
#include "store/testing/watched_store.h"

namespace kedge::testing {

// A store that can be away, or without room for what is new.
class Unsteady final : public WatchedStore {
 public:
  explicit Unsteady(std::unique_ptr<Store> inner)
      : WatchedStore(*inner, [this](Adds adds) { return Before(adds); }), inner_(std::move(inner)) {}
  Status failure;  // of every call, and of readers
  Status refusal;  // of every call that adds something
  // After so many calls it is away, and stays so.
  uint64_t calls_left = UINT64_MAX;

  Result<std::unique_ptr<ObjectReader>> OpenObject(const std::string& key) override {
    KEDGE_ASSIGN_OR_RETURN(std::unique_ptr<ObjectReader> reader, WatchedStore::OpenObject(key));
    return std::unique_ptr<ObjectReader>(std::make_unique<Reader>(*this, std::move(reader)));
  }

 private:
  Status Before(Adds adds) {
    if (calls_left == 0) failure = {Code::kUnavailable, "away"};
    calls_left -= calls_left == 0 ? 0 : 1;
    return failure.ok() && adds == Adds::kYes ? refusal : failure;
  }
  class Reader final : public ObjectReader {
   public:
    Reader(Unsteady& of, std::unique_ptr<ObjectReader> inner) : of_(of), inner_(std::move(inner)) {}
    Status ReadAt(uint64_t offset, std::span<std::byte> out) override {
      KEDGE_RETURN_IF_ERROR(of_.failure);
      return inner_->ReadAt(offset, out);
    }
    uint64_t size_bytes() const override { return inner_->size_bytes(); }

   private:
    Unsteady& of_;
    const std::unique_ptr<ObjectReader> inner_;
  };

  const std::unique_ptr<Store> inner_;
};

class StillClock final : public Clock {
 public:
  int64_t NowNs() const override { return now_ns; }
  int64_t now_ns = 0;
};

}  // namespace kedge::testing
