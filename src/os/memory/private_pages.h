// Private memory straight from the system: zeros, no memory behind it before it is written to, and none of it kept afterwards.
// malloc keeps several times as much when many threads take and give back large blocks.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kedge::os {

class PrivatePages {
 public:
  explicit PrivatePages(uint64_t bytes);
  ~PrivatePages();
  PrivatePages(const PrivatePages&) = delete;
  PrivatePages& operator=(const PrivatePages&) = delete;

  // Null: the system has none.
  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
  const uint64_t bytes_;
};

}  // namespace kedge::os
