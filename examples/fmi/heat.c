/* heat: a plate that is warm at one side, as a program for MPI. Ranks may die, where it runs on FMI.
 *
 *   mpicc_abi heat.c -o heat -I.../include
 *   mpiexec -n 4 ./heat CELLS STEPS                      on MPICH
 *   fmirun -n 4 --interval 10 ./heat CELLS STEPS         on FMI, the same binary
 *
 * CELLS^2 cells on a grid of ranks; each has a block, and a line of its neighbours' cells around it. Two lines of this program
 * know of FMI: the pragma, by which it runs without FMI, too, and the call of FMI_Loop at the head of the loop.
 */
#include <inttypes.h>
#include <kedge/fmi.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#pragma weak FMI_Loop

typedef struct {
  MPI_Comm comm;
  int rank, left, right, above, below;
  int rows, columns; /* without the neighbours' cells */
  int first_row, first_column;
  double *now, *next;
  double change; /* of the last step, of all ranks */
  MPI_Datatype column;
} block;

static size_t at(const block* b, int row, int column) {
  return (size_t)row * (size_t)(b->columns + 2) + (size_t)column;
}

static block make_block(int cells) {
  block b = {.change = 0};
  int ranks, sizes[2] = {0, 0}, periods[2] = {0, 0}, place[2];
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Dims_create(ranks, 2, sizes);
  MPI_Cart_create(MPI_COMM_WORLD, 2, sizes, periods, 0, &b.comm);
  MPI_Comm_rank(b.comm, &b.rank);
  MPI_Cart_coords(b.comm, b.rank, 2, place);
  MPI_Cart_shift(b.comm, 0, 1, &b.above, &b.below);
  MPI_Cart_shift(b.comm, 1, 1, &b.left, &b.right);
  b.first_row = cells * place[0] / sizes[0];
  b.rows = cells * (place[0] + 1) / sizes[0] - b.first_row;
  b.first_column = cells * place[1] / sizes[1];
  b.columns = cells * (place[1] + 1) / sizes[1] - b.first_column;
  MPI_Type_vector(b.rows, 1, b.columns + 2, MPI_DOUBLE, &b.column);
  MPI_Type_commit(&b.column);
  b.now = calloc(at(&b, b.rows + 2, 0), sizeof *b.now);
  b.next = calloc(at(&b, b.rows + 2, 0), sizeof *b.next);
  if (b.now == NULL || b.next == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
  for (int column = 0; b.above == MPI_PROC_NULL && column < b.columns + 2; ++column) b.now[column] = b.next[column] = 100;
  return b;
}

/* The outermost cells to the neighbours; theirs here. */
static int exchange(block* b) {
  int code = MPI_Sendrecv(&b->now[at(b, 1, 1)], b->columns, MPI_DOUBLE, b->above, 0, &b->now[at(b, b->rows + 1, 1)], b->columns,
                          MPI_DOUBLE, b->below, 0, b->comm, MPI_STATUS_IGNORE);
  if (code == MPI_SUCCESS)
    code = MPI_Sendrecv(&b->now[at(b, b->rows, 1)], b->columns, MPI_DOUBLE, b->below, 1, &b->now[at(b, 0, 1)], b->columns,
                        MPI_DOUBLE, b->above, 1, b->comm, MPI_STATUS_IGNORE);
  MPI_Request requests[4];
  MPI_Irecv(&b->now[at(b, 1, 0)], 1, b->column, b->left, 2, b->comm, &requests[0]);
  MPI_Irecv(&b->now[at(b, 1, b->columns + 1)], 1, b->column, b->right, 3, b->comm, &requests[1]);
  MPI_Isend(&b->now[at(b, 1, b->columns)], 1, b->column, b->right, 2, b->comm, &requests[2]);
  MPI_Isend(&b->now[at(b, 1, 1)], 1, b->column, b->left, 3, b->comm, &requests[3]);
  const int waited = MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
  return code == MPI_SUCCESS ? waited : code;
}

static int step(block* b) {
  if (exchange(b) != MPI_SUCCESS) return MPI_ERR_PROC_ABORTED;
  double own = 0;
  for (int row = 1; row <= b->rows; ++row)
    for (int column = 1; column <= b->columns; ++column) {
      const size_t x = at(b, row, column), line = at(b, 1, 0);
      b->next[x] = 0.25 * (b->now[x - line] + b->now[x + line] + b->now[x - 1] + b->now[x + 1]);
      const double change = b->next[x] > b->now[x] ? b->next[x] - b->now[x] : b->now[x] - b->next[x];
      if (change > own) own = change;
    }
  for (int row = 1; row <= b->rows; ++row) memcpy(&b->now[at(b, row, 1)], &b->next[at(b, row, 1)], b->columns * sizeof *b->now);
  return MPI_Allreduce(&own, &b->change, 1, MPI_DOUBLE, MPI_MAX, b->comm);
}

/* Of every bit of the cells. */
static int print_result(const block* b, int steps, int cells) {
  unsigned long sum = 0, all = 0;
  for (int row = 1; row <= b->rows; ++row)
    for (int column = 1; column <= b->columns; ++column) {
      uint64_t bits;
      memcpy(&bits, &b->now[at(b, row, column)], sizeof bits);
      const uint64_t place = (uint64_t)(b->first_row + row) * (uint64_t)(cells + 2) + (uint64_t)(b->first_column + column);
      sum += (bits ^ place) * UINT64_C(0x9e3779b97f4a7c15);
    }
  const int code = MPI_Reduce(&sum, &all, 1, MPI_UNSIGNED_LONG, MPI_SUM, 0, b->comm);
  if (code == MPI_SUCCESS && b->rank == 0) printf("steps %d, change %a, checksum %016lx\n", steps, b->change, all);
  fflush(stdout);
  return code;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const int cells = argc == 3 ? atoi(argv[1]) : 0, steps = argc == 3 ? atoi(argv[2]) : 0;
  if (cells < 16 || steps < 1) {
    fprintf(stderr, "usage: heat CELLS STEPS, with at least 16 cells\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  block b = make_block(cells);
  void* arrays[] = {b.now, &b.change};
  int sizes[] = {(int)(at(&b, b.rows + 2, 0) * sizeof *b.now), sizeof b.change}, done = 0;
  do {
    while ((done = FMI_Loop ? FMI_Loop(arrays, sizes, 2) : done) < steps) {
      /* Of a step in which a rank has died nothing counts. */
      if (step(&b) == MPI_SUCCESS) ++done;
    }
  } while (print_result(&b, done, cells) != MPI_SUCCESS);
  MPI_Finalize();
  return 0;
}
