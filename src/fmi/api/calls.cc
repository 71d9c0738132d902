// The C ABI of libkedge-fmi (kedge/fmi.h): begin, end, survive.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "base/clock.h"
#include "fmi/api/checks.h"
#include "fmi/failure.h"
#include "fmi/job_member.h"
#include "kedge/fmi.h"
#include "kedge/fmi_jump.h"

// Of the library itself here.
#undef FMI_Loop

using namespace kedge::fmi;  // NOLINT(google-build-using-namespace)

int FMI_Init(int*, char***) {
  if (TheJob()) Die("FMI_Init", "it has been called before");
  const auto options = JobMember::FromEnvironment();
  if (!options.ok()) Die("FMI_Init", options.status().message());
  auto job = JobMember::Attach(*options);
  if (!job.ok()) Die("FMI_Init", job.status().message());
  TheJob() = std::move(*job);
  return Answer("FMI_Init", TheJob()->Begin());
}

int FMI_On_failure(FMI_Failure_handler* handler, void* state) {
  JobIn("FMI_On_failure");
  FailureExit::Get().SetHandler(handler, state);
  return FMI_SUCCESS;
}

jmp_buf* FMI_Jump_to_here(void) {
  constexpr char kCall[] = "FMI_Loop";
  JobIn(kCall);
  jmp_buf* place = FailureExit::Get().JumpTo(__builtin_return_address(0));
  if (place == nullptr) Die(kCall, "the frame of its caller cannot be walked: compile with -fasynchronous-unwind-tables");
  return place;
}

int FMI_Finalize(void) {
  FailureExit::Get().Forget();
  const kedge::Status ended = JobIn("FMI_Finalize").End();
  if (!ended.ok()) Die("FMI_Finalize", ended.message());
  TheJob().reset();
  return FMI_SUCCESS;
}

int FMI_Abort(FMI_Comm comm, int code) {
  CommunicatorIn("FMI_Abort", comm);
  EndProcess(code != 0 ? code : 1);
}

double FMI_Wtime(void) {
  return static_cast<double>(kedge::SystemClock().NowNs()) * 1e-9;
}

namespace {

Arrays CheckedArrays(const char* call, void** ckpts, const int* sizes, int len) {
  if (len < 0) Die(call, fmt::format("there are {} arrays", len));
  if (len > 0 && (ckpts == nullptr || sizes == nullptr)) Die(call, "the arrays are NULL");
  for (int i = 0; i < len; ++i) {
    CheckCount(call, sizes[i]);
    if (sizes[i] > 0) CheckNotNull(call, ckpts[i], "the buffer");
  }
  return {ckpts, sizes, len};
}

bool IsInName(char character) {
  return std::isalnum(static_cast<unsigned char>(character)) != 0 || character == '-' || character == '_';
}

}  // namespace

int FMI_Inner_loop(const char* loop, void** ckpts, int* sizes, int len) {
  constexpr char kCall[] = "FMI_Inner_loop";
  JobMember& job = JobIn(kCall);
  CheckNotNull(kCall, loop, "the name of the loop");
  const std::string name = loop;
  if (name.empty() || name.size() > kInnerLoopNameMax || !std::all_of(name.begin(), name.end(), IsInName))
    Die(kCall, fmt::format("\"{}\" is no name of a loop: 1 to {} letters, digits, - and _", name, kInnerLoopNameMax));
  const auto number = job.InnerLoop(name, CheckedArrays(kCall, ckpts, sizes, len));
  if (!number.ok()) Die(kCall, number.status().message());
  if (!*number) {
    job.WaitUnlessSurvivable();
    FailureExit::Get().Leave();
    return FMI_OUTER_LOOP;
  }
  return static_cast<int>(**number);
}

int FMI_Loop(void** ckpts, int* sizes, int len) {
  constexpr char kCall[] = "FMI_Loop";
  JobMember& job = JobIn(kCall);
  const auto step = job.Loop(CheckedArrays(kCall, ckpts, sizes, len));
  if (!step.ok()) Die(kCall, step.status().message());
  if (*step > INT32_MAX) Die(kCall, "there were more steps than an int counts");
  return static_cast<int>(*step);
}
