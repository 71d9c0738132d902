#include "fmi/failure.h"

#include <unwind.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace kedge::fmi {
namespace {

struct Frame {
  uintptr_t begin = 0;    // the stack pointer in the call that it has made
  uintptr_t address = 0;  // where it goes on after that
};

Frame FrameIn(_Unwind_Context* context) {
  return {static_cast<uintptr_t>(_Unwind_GetCFA(context)), static_cast<uintptr_t>(_Unwind_GetIP(context))};
}

// `look(frame)` for the frames from the innermost one on, until it is true. Whether it was.
template <typename Look>
bool FindFrame(Look look) {
  struct Search {
    Look& look;
    bool found = false;
  } search{look};
  const auto each = [](_Unwind_Context* context, void* argument) {
    auto* own = static_cast<Search*>(argument);
    own->found = own->look(FrameIn(context));
    return own->found ? _URC_END_OF_STACK : _URC_NO_REASON;
  };
  _Unwind_Backtrace(each, &search);
  return search.found;
}

[[noreturn]] void DieOfCaught() {
  std::fputs("FMI: the program has caught what unwinds it after a failure; catch (...) must throw it again\n", stderr);
  std::abort();
}

}  // namespace

FailureExit& FailureExit::Get() {
  static FailureExit exit;
  return exit;
}

std::jmp_buf* FailureExit::JumpTo(const void* return_address) {
  bool is_below = false;
  has_place_ = FindFrame([&](const Frame& frame) {
    if (is_below) {
      caller_begin_ = frame.begin;
      caller_address_ = frame.address;
      return true;
    }
    is_below = frame.address == reinterpret_cast<uintptr_t>(return_address);
    return false;
  });
  return has_place_ ? &place_ : nullptr;
}

bool FailureExit::FindPlace() {
  Frame former;
  return FindFrame([&](const Frame& frame) {
    begin_ = former.begin;
    former = frame;
    return frame.begin == caller_begin_ && frame.address == caller_address_;
  });
}

void FailureExit::Leave() {
  if (is_leaving_) return;
  if (handler_ != nullptr) return handler_(state_);
  if (has_place_ && FindPlace()) Jump();
}

void FailureExit::Jump() {
  is_leaving_ = true;
  static _Unwind_Exception unwinding;
  std::memset(&unwinding, 0, sizeof unwinding);
  unwinding.exception_cleanup = [](_Unwind_Reason_Code, _Unwind_Exception*) { DieOfCaught(); };
  const auto stop = [](int, _Unwind_Action, _Unwind_Exception_Class, _Unwind_Exception*, _Unwind_Context* context, void* self) {
    auto* own = static_cast<FailureExit*>(self);
    if (FrameIn(context).begin != own->begin_) return _URC_NO_REASON;
    own->is_leaving_ = false;
    std::longjmp(own->place_, 1);
  };
  _Unwind_ForcedUnwind(&unwinding, stop, this);
  std::abort();
}

}  // namespace kedge::fmi
