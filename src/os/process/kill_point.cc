#include "os/process/kill_point.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>

namespace kedge::os {
namespace {

struct Armed {
  std::string name;
  int signal;
  std::atomic<long> passes_left{1};
};

Armed* Read(const char* variable, int signal) {
  const char* text = std::getenv(variable);
  if (text == nullptr || *text == '\0') return nullptr;
  auto* armed = new Armed;
  armed->signal = signal;
  const char* colon = std::strrchr(text, ':');
  armed->name = colon == nullptr ? std::string(text) : std::string(text, colon);
  if (colon != nullptr) armed->passes_left = std::strtol(colon + 1, nullptr, 10);
  return armed;
}

Armed* ReadEnvironment() {
  Armed* const armed = Read("KEDGE_TEST_KILL_POINT", SIGKILL);
  return armed == nullptr ? Read("KEDGE_TEST_STOP_POINT", SIGSTOP) : armed;
}

}  // namespace

void KillPoint(const char* name) {
  static Armed* const armed = ReadEnvironment();
  if (armed == nullptr || armed->name != name) return;
  if (armed->passes_left.fetch_sub(1) == 1) kill(getpid(), armed->signal);
}

}  // namespace kedge::os
