#include "os/memory/private_pages.h"

#include <sys/mman.h>

namespace kedge::os {

PrivatePages::PrivatePages(uint64_t bytes) : bytes_(bytes) {
  void* const mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped != MAP_FAILED) data_ = static_cast<std::byte*>(mapped);
}

PrivatePages::~PrivatePages() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

}  // namespace kedge::os
