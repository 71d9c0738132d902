// Signals and the end of a program: for our own programs only, but for RemoveSignalHandlersOf never called in the library.
#pragma once

#include <initializer_list>
#include <string_view>

namespace kedge::os {

// `handler` runs in signal context on SIGTERM, SIGINT and SIGHUP: it may only do what is safe there (EventFd::Signal).
// Null restores the default. SIGPIPE is ignored from the first call on.
void OnTerminationSignals(void (*handler)());

// From now on, an access to a mapped file beyond its end (another process has cut it short) finds zeros instead of ending the
// process with SIGBUS: that page is private from then on. For programs that map what others may write, and check all they read.
void OutliveTruncatedMappings();

// Signals that end a process do so again where a library whose file's name begins with one of these has installed a handler: some
// do as they are loaded, and end the program by exit.
void RemoveSignalHandlersOf(std::initializer_list<std::string_view> libraries);

// Ends the process without destructors and exit handlers; open files are as they are.
[[noreturn]] void ExitNow(int code);

}  // namespace kedge::os
