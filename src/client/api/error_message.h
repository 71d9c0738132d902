// This thread's last error: from the library's statuses to a code and kedge_error_message.
#pragma once

#include <exception>
#include <new>
#include <utility>

#include "base/status.h"

namespace kedge::client {

// Remembers the message and returns the code. Ok clears it.
int Report(const Status& status) noexcept;

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

}  // namespace kedge::client
