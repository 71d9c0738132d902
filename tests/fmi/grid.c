/* grid STEPS: a job that lives by its communicators, whose ranks may be killed at any moment.
 *
 * Cells on a torus of ranks, the sides of which are exchanged by a Cartesian communicator, the columns as a derived type. Sums
 * over the rows of the grid, over the odd and the even ranks, and over a communicator that is made anew at every third step, of
 * another part of the ranks each time, go into the cells. So does what a rank is called in each. The checksum at the end covers
 * every bit: with a wrong communicator it would be another one. */
#include <inttypes.h>
#include <string.h>

#include "checks.h"

enum { kCells = 24, kRow = kCells + 2 };

static double cells[kRow][kRow], next_cells[kRow][kRow];
static int above, below, left, right;

static int number_in(FMI_Comm comm) {
  int own = -1, size = -1;
  if (comm == FMI_COMM_NULL) return 0;
  OK(FMI_Comm_rank(comm, &own));
  OK(FMI_Comm_size(comm, &size));
  return 256 * size + own;
}

static int exchange(FMI_Comm grid, FMI_Datatype column) {
  FMI_Request requests[8];
  FMI_Irecv(&cells[0][1], kCells, FMI_DOUBLE, above, 0, grid, &requests[0]);
  FMI_Irecv(&cells[kCells + 1][1], kCells, FMI_DOUBLE, below, 1, grid, &requests[1]);
  FMI_Irecv(&cells[1][0], 1, column, left, 2, grid, &requests[2]);
  FMI_Irecv(&cells[1][kCells + 1], 1, column, right, 3, grid, &requests[3]);
  FMI_Isend(&cells[kCells][1], kCells, FMI_DOUBLE, below, 0, grid, &requests[4]);
  FMI_Isend(&cells[1][1], kCells, FMI_DOUBLE, above, 1, grid, &requests[5]);
  FMI_Isend(&cells[1][kCells], 1, column, right, 2, grid, &requests[6]);
  FMI_Isend(&cells[1][1], 1, column, left, 3, grid, &requests[7]);
  return FMI_Waitall(8, requests, FMI_STATUSES_IGNORE);
}

static int add(FMI_Comm comm, double* value) {
  double sum = 0;
  const int code = comm == FMI_COMM_NULL ? FMI_SUCCESS : FMI_Allreduce(value, &sum, 1, FMI_DOUBLE, FMI_SUM, comm);
  *value = sum * 1e-3 + number_in(comm) * 1e-6;
  return code;
}

static void compute(double change) {
  for (int i = 1; i <= kCells; ++i)
    for (int j = 1; j <= kCells; ++j)
      next_cells[i][j] = 0.2 * (cells[i][j] + cells[i - 1][j] + cells[i + 1][j] + cells[i][j - 1] + cells[i][j + 1]) + change;
  for (int i = 1; i <= kCells; ++i) memcpy(&cells[i][1], &next_cells[i][1], kCells * sizeof(double));
}

static int print_result(int steps) {
  unsigned long sum = 0, all = 0;
  for (int i = 1; i <= kCells; ++i)
    for (int j = 1; j <= kCells; ++j) {
      uint64_t bits;
      memcpy(&bits, &cells[i][j], sizeof bits);
      sum += (bits ^ (uint64_t)((rank * kRow + i) * kRow + j)) * UINT64_C(0x9e3779b97f4a7c15);
    }
  const int code = FMI_Reduce(&sum, &all, 1, FMI_UNSIGNED_LONG, FMI_SUM, 0, WORLD);
  if (code == FMI_SUCCESS && rank == 0) printf("steps %d, checksum %016lx\n", steps, all);
  fflush(stdout);
  return code;
}

int main(int argc, char** argv) {
  const int steps = argc == 2 ? atoi(argv[1]) : 0, periods[2] = {1, 1}, keeps[2] = {0, 1};
  int extents[2] = {0, 0};
  FMI_Comm grid, row, parity, part = FMI_COMM_NULL;
  FMI_Datatype column;
  begin(&argc, &argv);
  /* A rank that was started again is told of the failure here, and has the handles all the same; and its neighbours. */
  FMI_Dims_create(ranks, 2, extents);
  FMI_Cart_create(WORLD, 2, extents, periods, 0, &grid);
  OK(FMI_Cart_shift(grid, 0, 1, &above, &below));
  OK(FMI_Cart_shift(grid, 1, 1, &left, &right));
  FMI_Cart_sub(grid, keeps, &row);
  FMI_Comm_split(WORLD, rank % 2, -rank, &parity);
  FMI_Type_vector(kCells, 1, kRow, FMI_DOUBLE, &column);
  FMI_Type_commit(&column);
  for (int i = 0; i < kRow; ++i)
    for (int j = 0; j < kRow; ++j) cells[i][j] = rank + 1e-2 * i + 1e-4 * j;

  void* arrays[] = {cells, &part};
  int sizes[] = {sizeof cells, sizeof part}, step;
  do {
    while ((step = FMI_Loop(arrays, sizes, 2)) < steps) {
      if (step % 3 == 0) {
        FMI_Comm next;
        const int colour = (rank + step / 3) % 3;
        if (FMI_Comm_split(grid, colour == 2 ? FMI_UNDEFINED : colour, (rank * 7 + step) % 5, &next) != FMI_SUCCESS) continue;
        if (part != FMI_COMM_NULL) FMI_Comm_free(&part);
        part = next;
      }
      if (exchange(grid, column) != FMI_SUCCESS) continue;
      double sums[3] = {cells[1][2], cells[2][1], cells[kCells][3]};
      if (add(row, &sums[0]) != FMI_SUCCESS || add(parity, &sums[1]) != FMI_SUCCESS || add(part, &sums[2]) != FMI_SUCCESS)
        continue;
      compute(sums[0] + 2 * sums[1] + 3 * sums[2]);
    }
  } while (print_result(steps) != FMI_SUCCESS);
  return FMI_Finalize();
}
