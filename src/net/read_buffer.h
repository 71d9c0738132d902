// The bytes of one remote read, in a buffer of the network's bounded pool.
//
// A read never goes to the caller's own memory: a read that has timed out may still be written by the provider, and only the
// network knows when it no longer is. Let a buffer go soon: others wait for it. Any thread; may outlive the Network.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <utility>

namespace kedge::net {

class ReadBuffer {
 public:
  ReadBuffer() = default;
  // `release` gives the memory back; called once.
  ReadBuffer(std::span<std::byte> bytes, std::function<void()> release) : bytes_(bytes), release_(std::move(release)) {}
  ReadBuffer(ReadBuffer&& other) noexcept
      : bytes_(std::exchange(other.bytes_, {})), release_(std::exchange(other.release_, nullptr)) {}
  ReadBuffer& operator=(ReadBuffer&& other) noexcept {
    if (this != &other) {
      Release();
      bytes_ = std::exchange(other.bytes_, {});
      release_ = std::exchange(other.release_, nullptr);
    }
    return *this;
  }
  ~ReadBuffer() { Release(); }

  std::span<std::byte> bytes() const { return bytes_; }

 private:
  void Release() {
    if (release_) std::exchange(release_, nullptr)();
  }
  std::span<std::byte> bytes_;
  std::function<void()> release_;
};

}  // namespace kedge::net
