// Signals and the end of a program: for our own programs only, never called in the library.
#pragma once

namespace kedge::os {

// `handler` runs in signal context on SIGTERM, SIGINT and SIGHUP: it may only do what is safe there (EventFd::Signal).
// Null restores the default. SIGPIPE is ignored from the first call on.
void OnTerminationSignals(void (*handler)());

// Ends the process without destructors and exit handlers; open files are as they are.
[[noreturn]] void ExitNow(int code);

}  // namespace kedge::os
