#include "net/read_pool.h"

#include <new>
#include <utility>

namespace kedge::net {
namespace {

constexpr std::align_val_t kAlignment{4096};

}  // namespace

void ReadPool::Free::operator()(std::byte* bytes) const {
  operator delete[](bytes, kAlignment);
}

ReadPool::ReadPool(size_t buffers, size_t spares, size_t buffer_bytes)
    : buffers_(buffers + spares),
      buffer_bytes_(buffer_bytes),
      bytes_(new (kAlignment) std::byte[(buffers + spares) * buffer_bytes]) {
  for (size_t index = buffers; index > 0; --index) free_.push_back(index - 1);
  for (size_t index = 0; index < spares; ++index) spares_.push_back(buffers + index);
}

void ReadPool::AddSpare() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (spares_.empty()) {
    ++missing_;
    return;
  }
  free_.push_back(spares_.back());
  spares_.pop_back();
  TellListener();
}

void ReadPool::Retire(size_t index) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (missing_ == 0) {
    spares_.push_back(index);
    return;
  }
  --missing_;
  free_.push_back(index);
  TellListener();
}

std::optional<size_t> ReadPool::Acquire() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (free_.empty()) {
    is_wanted_ = true;
    return std::nullopt;
  }
  const size_t index = free_.back();  // the one last used: the likeliest in the cache
  free_.pop_back();
  return index;
}

void ReadPool::Release(size_t index) {
  const std::lock_guard<std::mutex> lock(mutex_);
  free_.push_back(index);
  TellListener();
}

void ReadPool::TellListener() {
  if (listener_ && std::exchange(is_wanted_, false)) listener_();
}

ReadBuffer ReadPool::Wrap(size_t index, size_t bytes) {
  return ReadBuffer(memory(index).first(bytes), [self = shared_from_this(), index] { self->Release(index); });
}

void ReadPool::OnRelease(std::function<void()> listener) {
  const std::lock_guard<std::mutex> lock(mutex_);
  listener_ = std::move(listener);
}

}  // namespace kedge::net
