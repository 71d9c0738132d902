// kedge_mpi_init: a kedge_bootstrap over a duplicate of the user's communicator.
//
// The duplicate returns errors instead of aborting, so that a broken network becomes a status. This library holds no
// state of its own: the communicator belongs to the context and is freed with it.
//
// Whoever waits for other ranks sleeps. MPI's own collectives spin, and at a restart the processors are wanted by the agents that
// bring what the slowest rank waits for.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <new>
#include <string>
#include <thread>

#include "base/status.h"
#include "kedge/kedge_mpi.h"
#include "os/process/launch_note.h"

namespace {

struct Communicator {
  MPI_Comm handle = MPI_COMM_NULL;
};

MPI_Comm Handle(void* user) {
  return static_cast<Communicator*>(user)->handle;
}

// A collective that `begun` has started. Ranks that come together are through while we still ask without a pause; who is early
// asks ever more rarely.
int Finish(int begun, MPI_Request* request) {
  using std::chrono::microseconds;
  constexpr auto kAskOn = microseconds(100);
  constexpr auto kPauseMax = microseconds(1000);
  if (begun != MPI_SUCCESS) return begun;
  const auto start = std::chrono::steady_clock::now();
  for (auto pause = microseconds(20);;) {
    int done = 0;
    const int code = MPI_Test(request, &done, MPI_STATUS_IGNORE);
    if (code != MPI_SUCCESS || done) return code;
    if (std::chrono::steady_clock::now() - start < kAskOn) {
      std::this_thread::yield();
      continue;
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, kPauseMax);
  }
}

int Allgather(void* user, const void* send, void* receive, size_t bytes) {
  if (bytes > INT_MAX) return MPI_ERR_COUNT;
  const int count = static_cast<int>(bytes);
  MPI_Request request = MPI_REQUEST_NULL;
  return Finish(MPI_Iallgather(send, count, MPI_BYTE, receive, count, MPI_BYTE, Handle(user), &request), &request);
}

int Broadcast(void* user, void* data, size_t bytes, int root) {
  if (bytes > INT_MAX) return MPI_ERR_COUNT;
  MPI_Request request = MPI_REQUEST_NULL;
  return Finish(MPI_Ibcast(data, static_cast<int>(bytes), MPI_BYTE, root, Handle(user), &request), &request);
}

int Barrier(void* user) {
  MPI_Request request = MPI_REQUEST_NULL;
  return Finish(MPI_Ibarrier(Handle(user), &request), &request);
}

int Duplicate(MPI_Comm communicator, MPI_Comm* duplicate) {
  MPI_Request request = MPI_REQUEST_NULL;
  return Finish(MPI_Comm_idup(communicator, duplicate, &request), &request);
}

void Release(void* user) {
  auto* communicator = static_cast<Communicator*>(user);
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (!finalized) MPI_Comm_free(&communicator->handle);
  delete communicator;
}

bool MpiIsUsable() {
  int initialized = 0;
  int finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  return initialized && !finalized;
}

// A program that is built against another MPI than the launcher's: each of its processes finds itself alone. They would be in
// each other's way as so many launches of the job.
kedge::Status CheckLaunched() {
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks > 1 || kedge::os::LaunchedRanks() <= 1) return kedge::Status::Ok();
  char library[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  MPI_Get_library_version(library, &length);
  std::string first_line = std::string(library).substr(0, std::string(library).find_first_of(",\n"));
  std::replace(first_line.begin(), first_line.end(), '\t', ' ');
  return kedge::Status(
      kedge::Code::kFailedPrecondition,
      fmt::format("MPI_COMM_WORLD has 1 rank, and kedge run has launched {}: the program uses another MPI ({}) than "
                  "the launcher. Name that MPI's launcher (kedge run --launcher), or build the program with the "
                  "launcher's MPI",
                  kedge::os::LaunchedRanks(), first_line));
}

}  // namespace

int kedge_mpi_init(MPI_Comm communicator, const kedge_options* options, kedge_context** out) {
  if (out == nullptr) return kedge_report_error(KEDGE_ERROR_INVALID_ARGUMENT, "kedge_mpi_init: out is null");
  *out = nullptr;
  if (!MpiIsUsable()) {
    return kedge_report_error(KEDGE_ERROR_FAILED_PRECONDITION, "kedge_mpi_init: call it between MPI_Init and MPI_Finalize");
  }
  if (communicator == MPI_COMM_NULL) {
    return kedge_report_error(KEDGE_ERROR_INVALID_ARGUMENT, "kedge_mpi_init: the communicator is MPI_COMM_NULL");
  }
  if (const kedge::Status launched = CheckLaunched(); !launched.ok()) {
    kedge::os::LeaveRefusal(launched);
    return kedge_report_error(static_cast<int>(launched.code()), launched.message().c_str());
  }
  auto* duplicate = new (std::nothrow) Communicator;
  if (duplicate == nullptr) return kedge_report_error(KEDGE_ERROR_NO_SPACE, "kedge_mpi_init: out of memory");
  if (Duplicate(communicator, &duplicate->handle) != MPI_SUCCESS) {
    delete duplicate;
    return kedge_report_error(KEDGE_ERROR_UNAVAILABLE, "kedge_mpi_init: MPI_Comm_dup failed");
  }
  MPI_Comm_set_errhandler(duplicate->handle, MPI_ERRORS_RETURN);

  kedge_bootstrap bootstrap{};
  bootstrap.struct_size = sizeof bootstrap;
  bootstrap.user = duplicate;
  MPI_Comm_rank(duplicate->handle, &bootstrap.rank);
  MPI_Comm_size(duplicate->handle, &bootstrap.ranks);
  bootstrap.allgather = Allgather;
  bootstrap.broadcast = Broadcast;
  bootstrap.barrier = Barrier;
  bootstrap.release = Release;
  return kedge_init(options, &bootstrap, out);  // releases the duplicate also when it fails
}
