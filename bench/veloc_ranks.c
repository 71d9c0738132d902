/* veloc_ranks: a program of VELOC's as it would be without Kedge, recompiled with veloc.h (bench/footprint).
 *
 *   mpirun -n RANKS veloc_ranks CONFIGURATION BYTES VERSIONS PAUSE_MS
 */
#include <kedge/veloc.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void check(int status, const char* call) {
  if (status == VELOC_SUCCESS) return;
  fprintf(stderr, "veloc_ranks: %s failed\n", call);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc != 5) {
    fprintf(stderr, "usage: veloc_ranks CONFIGURATION BYTES VERSIONS PAUSE_MS\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  const size_t bytes = strtoull(argv[2], NULL, 10);
  const int versions = atoi(argv[3]), pause_ms = atoi(argv[4]);
  char* state = calloc(1, bytes);
  check(VELOC_Init(MPI_COMM_WORLD, argv[1]), "VELOC_Init");
  check(VELOC_Mem_protect(0, state, bytes, 1), "VELOC_Mem_protect");
  for (int version = 1; version <= versions; ++version) {
    for (size_t i = 0; i < bytes; i += 512) state[i] = (char)version;
    check(VELOC_Checkpoint("state", version), "VELOC_Checkpoint");
    nanosleep(&(struct timespec){pause_ms / 1000, pause_ms % 1000 * 1000000L}, NULL);
  }
  check(VELOC_Checkpoint_wait(), "VELOC_Checkpoint_wait");
  check(VELOC_Finalize(1), "VELOC_Finalize");
  free(state);
  MPI_Finalize();
  return 0;
}
