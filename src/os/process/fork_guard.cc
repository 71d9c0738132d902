#include "os/process/fork_guard.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <utility>

#include "os/memory/mapping.h"

namespace kedge::os {
namespace {

struct Page {
  volatile uint64_t alive;  // 1; reads 0 in a child where the kernel wipes the page
  volatile bool wiped_on_fork;
  pid_t owner;
};

}  // namespace

Result<ForkGuard> ForkGuard::Create() {
  void* memory = mmap(nullptr, PageBytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return Status::FromErrno(errno, "mmap of the fork guard");
  auto* page = static_cast<Page*>(memory);
  page->wiped_on_fork = madvise(memory, PageBytes(), MADV_WIPEONFORK) == 0;
  page->owner = getpid();
  page->alive = 1;
  return ForkGuard(memory);
}

ForkGuard::ForkGuard(ForkGuard&& other) noexcept : page_(std::exchange(other.page_, nullptr)) {}

ForkGuard& ForkGuard::operator=(ForkGuard&& other) noexcept {
  std::swap(page_, other.page_);
  return *this;
}

ForkGuard::~ForkGuard() {
  if (page_ != nullptr) munmap(page_, PageBytes());
}

bool ForkGuard::InChild() const {
  const auto* page = static_cast<const Page*>(page_);
  if (page->alive == 0) return true;
  return !page->wiped_on_fork && page->owner != getpid();
}

}  // namespace kedge::os
