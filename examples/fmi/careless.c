/* careless: a rod that is warm at one end, as a program for MPI that looks at no result of any call. Ranks may die, where it runs
 * on FMI.
 *
 *   mpicc_abi careless.c -o careless -I.../include
 *   mpiexec -n 4 ./careless CELLS STEPS                      on MPICH
 *   fmirun -n 4 --interval 10 ./careless CELLS STEPS         on FMI, the same binary
 *
 * A call that the death of a rank has ended goes on where FMI_Loop was called: kedge/fmi_jump.h makes that of FMI_Loop. The two
 * pragmas let it run where there is no FMI.
 */
#include <inttypes.h>
#include <kedge/fmi_jump.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#pragma weak FMI_Loop
#pragma weak FMI_Jump_to_here

typedef struct {
  int rank, left, right;
  int cells, first; /* without the neighbours' cells */
  double *now, *next;
  double change; /* of the last step, of all ranks */
} rod;

static void make(rod* r, int cells) {
  int ranks;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Comm_rank(MPI_COMM_WORLD, &r->rank);
  r->left = r->rank > 0 ? r->rank - 1 : MPI_PROC_NULL;
  r->right = r->rank < ranks - 1 ? r->rank + 1 : MPI_PROC_NULL;
  r->first = (int)((long)cells * r->rank / ranks);
  r->cells = (int)((long)cells * (r->rank + 1) / ranks) - r->first;
  r->now = calloc((size_t)r->cells + 2, sizeof *r->now);
  r->next = calloc((size_t)r->cells + 2, sizeof *r->next);
  r->change = 0;
  if (r->now == NULL || r->next == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
  if (r->rank == 0) r->now[0] = r->next[0] = 100;
}

/* The outermost cells to the neighbours; theirs here. */
static void exchange(rod* r) {
  MPI_Sendrecv(&r->now[1], 1, MPI_DOUBLE, r->left, 0, &r->now[r->cells + 1], 1, MPI_DOUBLE, r->right, 0, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  MPI_Sendrecv(&r->now[r->cells], 1, MPI_DOUBLE, r->right, 1, &r->now[0], 1, MPI_DOUBLE, r->left, 1, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
}

static void step(rod* r) {
  double own = 0;
  exchange(r);
  for (int i = 1; i <= r->cells; ++i) {
    r->next[i] = 0.5 * r->now[i] + 0.25 * (r->now[i - 1] + r->now[i + 1]);
    const double change = r->next[i] > r->now[i] ? r->next[i] - r->now[i] : r->now[i] - r->next[i];
    if (change > own) own = change;
  }
  memcpy(&r->now[1], &r->next[1], (size_t)r->cells * sizeof *r->now);
  MPI_Allreduce(&own, &r->change, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
}

/* Of every bit of the cells. */
static void print_result(const rod* r, int steps) {
  unsigned long sum = 0, all = 0;
  for (int i = 1; i <= r->cells; ++i) {
    uint64_t bits;
    memcpy(&bits, &r->now[i], sizeof bits);
    sum += (bits ^ (uint64_t)(r->first + i)) * UINT64_C(0x9e3779b97f4a7c15);
  }
  MPI_Reduce(&sum, &all, 1, MPI_UNSIGNED_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
  if (r->rank == 0) printf("steps %d, change %a, checksum %016lx\n", steps, r->change, all);
  fflush(stdout);
}

/* Until this function has returned, broken calls come back to its loop: the last one, too. */
static void run(rod* r, int steps) {
  void* arrays[] = {r->now, &r->change};
  int sizes[] = {(int)(((size_t)r->cells + 2) * sizeof *r->now), sizeof r->change};
  volatile int done = 0;
  while ((done = FMI_Loop ? FMI_Loop(arrays, sizes, 2) : done) < steps) {
    step(r);
    ++done;
  }
  print_result(r, done);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const int cells = argc == 3 ? atoi(argv[1]) : 0, steps = argc == 3 ? atoi(argv[2]) : 0;
  if (cells < 256 || steps < 1) {
    fprintf(stderr, "usage: careless CELLS STEPS, with at least 256 cells\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  rod r;
  make(&r, cells);
  run(&r, steps);
  free(r.now);
  free(r.next);
  MPI_Finalize();
  return 0;
}
