// The MPI ABI on FMI: begin and end, clocks, names, errors.
#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "fmi/abi/abi.h"
#include "os/machine/machine.h"

using namespace kedge::fmi::abi;  // NOLINT(google-build-using-namespace)

namespace {

bool is_initialized = false;
bool is_finalized = false;
std::thread::id main_thread;
int threads = kThreadSingle;
MPI_Errhandler error_handler = reinterpret_cast<MPI_Errhandler>(kErrorsAreFatal);  // NOLINT(performance-no-int-to-ptr)

// Of so many characters with the zero.
void SetText(const std::string& text, size_t room, char* to, int* length) {
  const size_t count = std::min(text.size(), room - 1);
  std::memcpy(to, text.data(), count);
  to[count] = '\0';
  *length = static_cast<int>(count);
}

std::string ErrorText(int code) {
  if (code == kSuccess) return "no error";
  if (code == kErrProcAborted) return "a rank has died: FMI_Loop goes back to the last checkpoint";
  return fmt::format("error class {} of MPI, which FMI never returns", code);
}

constexpr size_t kProcessorNameMax = 256;
constexpr size_t kErrorStringMax = 512;
constexpr size_t kLibraryVersionMax = 8192;

}  // namespace

KEDGE_MPI int MPI_Init(int* argc, char*** argv) {
  const int code = FMI_Init(argc, argv);
  is_initialized = true;
  main_thread = std::this_thread::get_id();
  MakeCommSelf();
  return Answer(code);
}

// One thread makes all calls.
KEDGE_MPI int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  *provided = threads = std::min<int>(required, kThreadFunneled);
  return MPI_Init(argc, argv);
}

KEDGE_MPI int MPI_Query_thread(int* provided) {
  *provided = threads;
  return kSuccess;
}

// All calls are made by the thread that has called MPI_Init.
KEDGE_MPI int MPI_Is_thread_main(int* flag) {
  *flag = std::this_thread::get_id() == main_thread ? 1 : 0;
  return kSuccess;
}

KEDGE_MPI int MPI_Initialized(int* flag) {
  *flag = is_initialized ? 1 : 0;
  return kSuccess;
}

KEDGE_MPI int MPI_Finalize() {
  const int code = FMI_Finalize();
  is_finalized = true;
  return Answer(code);
}

KEDGE_MPI int MPI_Finalized(int* flag) {
  *flag = is_finalized ? 1 : 0;
  return kSuccess;
}

KEDGE_MPI int MPI_Abort(MPI_Comm comm, int code) {
  return Answer(FMI_Abort(In(comm), code));
}

KEDGE_MPI double MPI_Wtime() {
  return FMI_Wtime();
}

KEDGE_MPI double MPI_Wtick() {
  return 1e-9;
}

KEDGE_MPI int MPI_Pcontrol(int, ...) {
  return kSuccess;
}

KEDGE_MPI int MPI_Get_version(int* version, int* subversion) {
  *version = 5;
  *subversion = 0;
  return kSuccess;
}

KEDGE_MPI int MPI_Abi_get_version(int* version, int* subversion) {
  *version = 1;
  *subversion = 0;
  return kSuccess;
}

KEDGE_MPI int MPI_Get_library_version(char* version, int* length) {
  SetText(fmt::format("FMI of Kedge {}.{}.{}", KEDGE_VERSION_MAJOR, KEDGE_VERSION_MINOR, KEDGE_VERSION_PATCH), kLibraryVersionMax,
          version, length);
  return kSuccess;
}

// Of a virtual node its own.
KEDGE_MPI int MPI_Get_processor_name(char* name, int* length) {
  const char* node = std::getenv("KEDGE_NODE");
  SetText(node != nullptr && *node != '\0' ? node : kedge::os::HostName(), kProcessorNameMax, name, length);
  return kSuccess;
}

KEDGE_MPI int MPI_Error_string(int code, char* text, int* length) {
  SetText(ErrorText(code), kErrorStringMax, text, length);
  return kSuccess;
}

KEDGE_MPI int MPI_Error_class(int code, int* error_class) {
  *error_class = code;
  return kSuccess;
}

// Misuse ends the job in any case, and a failure is told as FMI tells it, so handlers change nothing.
KEDGE_MPI int MPI_Comm_set_errhandler(MPI_Comm, MPI_Errhandler handler) {
  error_handler = handler;
  return kSuccess;
}

KEDGE_MPI int MPI_Comm_get_errhandler(MPI_Comm, MPI_Errhandler* handler) {
  *handler = error_handler;
  return kSuccess;
}

KEDGE_MPI int MPI_Comm_get_attr(MPI_Comm, int key, void* value, int* flag) {
  static int tag_upper_bound = INT_MAX;
  static int is_global = 1;
  int* found = key == kTagUpperBound ? &tag_upper_bound : key == kWtimeIsGlobal ? &is_global : nullptr;
  *flag = found != nullptr ? 1 : 0;
  if (found != nullptr) *static_cast<int**>(value) = found;
  return kSuccess;
}

KEDGE_MPI int MPI_Alloc_mem(MPI_Aint bytes, MPI_Info, void* memory) {
  void* made = bytes >= 0 ? std::malloc(std::max<size_t>(static_cast<size_t>(bytes), 1)) : nullptr;
  if (made == nullptr) Die("MPI_Alloc_mem", fmt::format("there is no memory of {} bytes", bytes).c_str());
  std::memcpy(memory, &made, sizeof made);
  return kSuccess;
}

KEDGE_MPI int MPI_Free_mem(void* memory) {
  std::free(memory);
  return kSuccess;
}
