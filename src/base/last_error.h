// A thread's last error, as a library with a C ABI has it: statuses become a code and a message. Each library has its own.
#pragma once

#include <exception>
#include <new>
#include <utility>

#include "base/status.h"

namespace kedge {

// Remembers message and errno, and returns the code. Ok clears it.
int Report(const Status& status) noexcept;
// The same of a code (0: Ok) and a message, which may be null.
int Report(int code, const char* message) noexcept;
// The errno of the same error; 0: it has none.
int LastErrorNumber() noexcept;
// Of this thread; "" after none. Valid until its next Report.
const char* LastErrorMessage() noexcept;

// Runs `body`, which returns a Status. Nothing is thrown out of it: an application written in C could not catch it.
template <typename Body>
int Guarded(Body&& body) noexcept {
  try {
    return Report(std::forward<Body>(body)());
  } catch (const std::bad_alloc&) {
    return Report(Status(Code::kNoSpace, "out of memory"));
  } catch (const std::exception& error) {
    return Report(Status(Code::kInternal, error.what()));
  } catch (...) {
    return Report(Status(Code::kInternal, "an unknown exception"));
  }
}

}  // namespace kedge
