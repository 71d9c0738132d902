// How a program that ignores what calls return is told of failures: such calls do not return.
//
// Either its handler throws a C++ exception through the call, or the call jumps to where the program has called FMI_Loop, which
// the macro of kedge/fmi_jump.h has noted. A jump first unwinds the frames in between, as an exception does: so the library gives
// back what it holds in them, and objects of C++ programs are destroyed. A function that has returned is no place to jump to;
// then the call returns.
#pragma once

#include <csetjmp>
#include <cstdint>

#include "kedge/fmi.h"

namespace kedge::fmi {

class FailureExit {
 public:
  // One for the process, as the job.
  static FailureExit& Get();

  // Null: none.
  void SetHandler(FMI_Failure_handler* handler, void* state) {
    handler_ = handler;
    state_ = state;
  }
  // Jumps lead into the function that is at this address when the call under way returns; for setjmp. Null: that function's
  // frame, or its caller's, cannot be walked.
  std::jmp_buf* JumpTo(const void* return_address);
  // No jumps any more, and no handler.
  void Forget() {
    has_place_ = false;
    handler_ = nullptr;
  }
  // Of a call that a failure has ended. Returns where the program is to see the call's code.
  void Leave();

 private:
  // The live frame of the function; false where it has returned.
  bool FindPlace();
  [[noreturn]] void Jump();

  FMI_Failure_handler* handler_ = nullptr;
  void* state_ = nullptr;
  bool is_leaving_ = false;  // what is destroyed meanwhile may make calls
  bool has_place_ = false;
  std::jmp_buf place_;
  // Of the function's caller: where its frame begins, and where it goes on. They stay the same until the function has returned.
  uintptr_t caller_begin_ = 0;
  uintptr_t caller_address_ = 0;
  uintptr_t begin_ = 0;  // of the function's frame, in the call that has failed
};

}  // namespace kedge::fmi
