#include "store/reading/read_ahead.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <limits>

namespace kedge {

struct ReadAhead::Range {
  Range(uint64_t offset, uint64_t size) : begin(offset), bytes(size), data(new std::byte[size]) {}

  Status Await() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return is_done; });
    return outcome;
  }
  void Finish(Status status) {
    const std::lock_guard lock(mutex);
    outcome = std::move(status);
    is_done = true;
    changed.notify_all();
  }
  uint64_t end() const { return begin + bytes; }

  const uint64_t begin, bytes;
  const std::unique_ptr<std::byte[]> data;  // not filled with zeros first
  std::mutex mutex;
  std::condition_variable changed;
  bool is_done = false;  // guarded by mutex
  Status outcome;        // guarded by mutex
};

ReadAhead::ReadAhead(uint64_t object_bytes, uint64_t range_bytes, uint32_t ranges_max, Fetch fetch)
    : object_bytes_(object_bytes),
      range_bytes_(range_bytes),
      ranges_max_(ranges_max),
      fetch_(std::move(fetch)),
      next_(std::numeric_limits<uint64_t>::max()) {}

ReadAhead::~ReadAhead() = default;

void ReadAhead::Begin() {
  while (ranges_.size() < ranges_wanted_ && end_ < object_bytes_) {
    const auto range = std::make_shared<Range>(end_, std::min(range_bytes_, object_bytes_ - end_));
    end_ = range->end();
    ranges_.push_back(range);
    fetch_(range->begin, {range->data.get(), range->bytes}, range, [range](Status status) { range->Finish(std::move(status)); });
  }
}

std::shared_ptr<ReadAhead::Range> ReadAhead::Find(uint64_t offset, uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  const bool goes_on = offset == next_;
  next_ = offset + bytes;
  const bool is_ahead = !ranges_.empty() && offset >= ranges_.front()->begin && offset <= end_;
  if (!is_ahead) {
    if (!goes_on || bytes >= range_bytes_) return nullptr;
    ranges_.clear();
    end_ = offset;
    ranges_wanted_ = std::min(uint32_t{2}, ranges_max_);
    Begin();
  }
  while (!ranges_.empty() && ranges_.front()->end() <= offset) {
    ranges_.pop_front();
    ranges_wanted_ = std::min(2 * ranges_wanted_, ranges_max_);
  }
  Begin();
  return ranges_.front();
}

Result<uint64_t> ReadAhead::Take(uint64_t offset, std::span<std::byte> out) {
  const std::shared_ptr<Range> range = Find(offset, out.size());
  if (range == nullptr) return uint64_t{0};
  if (Status status = range->Await(); !status.ok()) {
    const std::lock_guard lock(mutex_);
    ranges_.clear();  // whoever tries again asks the store
    return status;
  }
  const uint64_t bytes = std::min<uint64_t>(out.size(), range->end() - offset);
  std::memcpy(out.data(), range->data.get() + (offset - range->begin), bytes);
  return bytes;
}

}  // namespace kedge
