#include "os/signals.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

namespace kedge::os {
namespace {

std::atomic<void (*)()> termination_handler{nullptr};

void Forward(int) {
  const int saved_errno = errno;
  if (auto* handler = termination_handler.load()) handler();
  errno = saved_errno;
}

}  // namespace

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

void ExitNow(int code) { _exit(code); }

}  // namespace kedge::os
