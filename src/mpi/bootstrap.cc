// kedge_mpi_init: a kedge_bootstrap over a duplicate of the user's communicator.
//
// The duplicate returns errors instead of aborting, so that a broken network becomes a status. This library holds no
// state of its own: the communicator belongs to the context and is freed with it.
#include <climits>
#include <new>

#include "kedge/kedge_mpi.h"

namespace {

struct Communicator {
  MPI_Comm handle = MPI_COMM_NULL;
};

MPI_Comm Handle(void* user) {
  return static_cast<Communicator*>(user)->handle;
}

int Allgather(void* user, const void* send, void* receive, size_t bytes) {
  if (bytes > INT_MAX) return MPI_ERR_COUNT;
  const int count = static_cast<int>(bytes);
  return MPI_Allgather(send, count, MPI_BYTE, receive, count, MPI_BYTE, Handle(user));
}

int Broadcast(void* user, void* data, size_t bytes, int root) {
  if (bytes > INT_MAX) return MPI_ERR_COUNT;
  return MPI_Bcast(data, static_cast<int>(bytes), MPI_BYTE, root, Handle(user));
}

int Barrier(void* user) {
  return MPI_Barrier(Handle(user));
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
  auto* duplicate = new (std::nothrow) Communicator;
  if (duplicate == nullptr) return kedge_report_error(KEDGE_ERROR_NO_SPACE, "kedge_mpi_init: out of memory");
  if (MPI_Comm_dup(communicator, &duplicate->handle) != MPI_SUCCESS) {
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
