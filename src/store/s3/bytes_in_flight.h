// How many bytes of objects a store holds in memory: parts that are being written to, and those on their way.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace kedge::s3 {

// Thread safe.
class BytesInFlight {
 public:
  explicit BytesInFlight(uint64_t max) : max_(max) {}

  // Waits for room. Where nothing is on its way, none would ever come: then it goes beyond the limit.
  void Take(uint64_t bytes) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return held_ + bytes <= max_ || sending_ == 0; });
    held_ += bytes;
    most_ = held_ > most_ ? held_ : most_;
  }
  void BeginSending(uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    sending_ += bytes;
  }
  void EndSending(uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    sending_ -= bytes;
    changed_.notify_all();
  }
  void Free(uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    held_ -= bytes;
    changed_.notify_all();
  }
  // The most that were ever held.
  uint64_t most() const {
    const std::lock_guard lock(mutex_);
    return most_;
  }

 private:
  const uint64_t max_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t held_ = 0, sending_ = 0, most_ = 0;  // guarded by mutex_
};

}  // namespace kedge::s3
