// Signals and the end of a program: for our own programs only, but for what concerns handlers of others never called in a
// library.
#pragma once

#include <signal.h>

#include <array>
#include <span>
#include <string_view>

namespace kedge::os {

// `handler` runs in signal context on SIGTERM, SIGINT and SIGHUP: it may only do what is safe there (EventFd::Signal).
// Null restores the default. SIGPIPE is ignored from the first call on.
void OnTerminationSignals(void (*handler)());

// From now on, an access to a mapped file beyond its end (another process has cut it short) finds zeros instead of ending the
// process with SIGBUS: that page is private from then on. For programs that map what others may write, and check all they read.
void OutliveTruncatedMappings();

// With what the names of their files begin.
using LibraryNames = std::span<const std::string_view>;

// Signals that end a process do so again where one of these libraries has installed a handler: some do as they are loaded, and
// end the program by exit.
void RemoveSignalHandlersOf(LibraryNames libraries);

// Handlers that one of these libraries installs while this lives are taken back at its end, for those that were there before.
class KeptSignalHandlers {
 public:
  explicit KeptSignalHandlers(LibraryNames libraries);
  ~KeptSignalHandlers();
  KeptSignalHandlers(const KeptSignalHandlers&) = delete;
  KeptSignalHandlers& operator=(const KeptSignalHandlers&) = delete;

 private:
  const LibraryNames libraries_;
  std::array<struct sigaction, 32> actions_{};  // by number
};

// Ends the process without destructors and exit handlers; open files are as they are.
[[noreturn]] void ExitNow(int code);

}  // namespace kedge::os
