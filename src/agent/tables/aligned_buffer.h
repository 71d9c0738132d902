// Memory that a store can be written from without a copy (O_DIRECT). One thread at a time.
#pragma once

#include <cstddef>
#include <cstdlib>

namespace kedge {

class AlignedBuffer {
 public:
  static constexpr size_t kAlignment = 4096;

  AlignedBuffer() = default;
  ~AlignedBuffer() { std::free(data_); }
  AlignedBuffer(const AlignedBuffer&) = delete;
  AlignedBuffer& operator=(const AlignedBuffer&) = delete;

  // At least so many bytes, until it is called with more; what was there before is not kept. Null: there is no memory.
  std::byte* OfSize(size_t bytes) {
    if (bytes > bytes_) {
      std::free(data_);
      bytes_ = (bytes + kAlignment - 1) / kAlignment * kAlignment;
      data_ = static_cast<std::byte*>(std::aligned_alloc(kAlignment, bytes_));
      if (data_ == nullptr) bytes_ = 0;
    }
    return data_;
  }

 private:
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace kedge
