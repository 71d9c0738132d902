// The buffers that remote reads arrive in: a fixed number, allocated once, handed out and given back.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "net/read_buffer.h"

namespace kedge::net {

// Thread safe. Kept alive by the buffers that are out, so that they may outlive the network.
class ReadPool : public std::enable_shared_from_this<ReadPool> {
 public:
  // `spares`: further buffers, whose memory is only touched when they stand in for others.
  ReadPool(size_t buffers, size_t spares, size_t buffer_bytes);

  std::optional<size_t> Acquire();
  void Release(size_t index);
  // A buffer that cannot be given back for now is stood in for by a spare one, if there is any; Retire takes it back once nobody
  // writes to it any more, as a spare, or as what there was no spare for.
  void AddSpare();
  void Retire(size_t index);
  std::span<std::byte> memory(size_t index) const { return {bytes_.get() + index * buffer_bytes_, buffer_bytes_}; }
  std::span<std::byte> all() const { return {bytes_.get(), buffers_ * buffer_bytes_}; }
  // An acquired buffer's first `bytes`, as its reader gets it.
  ReadBuffer Wrap(size_t index, size_t bytes);
  // Called, by any thread, when a buffer is there again after Acquire had none; null: nobody listens any more.
  void OnRelease(std::function<void()> listener);

 private:
  struct Free {
    void operator()(std::byte* bytes) const;
  };
  // REQUIRES: mutex_ is held.
  void TellListener();
  const size_t buffers_;
  const size_t buffer_bytes_;
  const std::unique_ptr<std::byte[], Free> bytes_;
  std::mutex mutex_;  // guards what follows
  std::vector<size_t> free_;
  std::vector<size_t> spares_;
  size_t missing_ = 0;      // that no spare stood in for
  bool is_wanted_ = false;  // since somebody was told that there is none
  std::function<void()> listener_;
};

}  // namespace kedge::net
