#include "os/process/signals.h"

#include <dlfcn.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>

#include "os/memory/mapping.h"

namespace kedge::os {
namespace {

std::atomic<void (*)()> termination_handler{nullptr};

void Forward(int) {
  const int saved_errno = errno;
  if (auto* handler = termination_handler.load()) handler();
  errno = saved_errno;
}

// Zeros in place of the page that its file does not reach any more.
void ReplacePage(int signal, siginfo_t* info, void*) {
  const int saved_errno = errno;
  const auto page_bytes = static_cast<uintptr_t>(PageBytes());
  const uintptr_t page = reinterpret_cast<uintptr_t>(info->si_addr) / page_bytes * page_bytes;
  const bool replaced = info->si_code == BUS_ADRERR && page != 0 &&
                        mmap(reinterpret_cast<void*>(page), page_bytes, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
  if (!replaced) ::signal(signal, SIG_DFL);  // the access is tried again, and ends the process
  errno = saved_errno;
}

bool IsHandledBy(LibraryNames libraries, int number) {
  struct sigaction action {};
  Dl_info found{};
  if (sigaction(number, nullptr, &action) != 0 || action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN) return false;
  if (dladdr(reinterpret_cast<void*>(action.sa_handler), &found) == 0 || found.dli_fname == nullptr) return false;
  std::string_view file = found.dli_fname;
  file.remove_prefix(file.rfind('/') + 1);
  return std::ranges::any_of(libraries, [&](std::string_view library) { return file.starts_with(library); });
}

}  // namespace

void OutliveTruncatedMappings() {
  struct sigaction action {};
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_SIGINFO;
  action.sa_sigaction = ReplacePage;
  sigaction(SIGBUS, &action, nullptr);
}

void OnTerminationSignals(void (*handler)()) {
  termination_handler = handler;
  struct sigaction action {};
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  action.sa_handler = handler == nullptr ? SIG_DFL : Forward;
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaction(signal, &action, nullptr);
  action.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &action, nullptr);
}

void RemoveSignalHandlersOf(LibraryNames libraries) {
  for (const int number : {SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGSYS, SIGXCPU, SIGXFSZ}) {
    if (IsHandledBy(libraries, number)) (void)signal(number, SIG_DFL);
  }
}

KeptSignalHandlers::KeptSignalHandlers(LibraryNames libraries) : libraries_(libraries) {
  for (size_t i = 1; i < actions_.size(); ++i) sigaction(static_cast<int>(i), nullptr, &actions_[i]);
}

KeptSignalHandlers::~KeptSignalHandlers() {
  for (size_t i = 1; i < actions_.size(); ++i) {
    const int number = static_cast<int>(i);
    if (IsHandledBy(libraries_, number)) (void)sigaction(number, &actions_[i], nullptr);
  }
}

void ExitNow(int code) {
  _exit(code);
}

}  // namespace kedge::os
