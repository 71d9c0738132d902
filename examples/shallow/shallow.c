/* shallow: waves in a closed basin, in the shape of a real application.
 *
 *   mpirun -np 4 shallow SIDE STEPS FOLDER
 *
 * The basin has SIDE x SIDE cells of shallow water; each rank has a band of rows. The program shows what an application with long
 * runs wants of Kedge:
 *  - The loop asks each step whether a checkpoint is due, and whether to end (kedge halt, or kedge run before the allocation
 * ends).
 *  - Each checkpoint carries an output file per rank. Kedge puts it to FOLDER/water-STEP.RANK once the version is in the store.
 *  - FOLDER/shallow.log grows from step to step. Its length is part of the checkpoints, and a restart cuts it to that.
 *  - A relaunch continues from the newest checkpoint, also on another number of ranks. Then the files are made anew.
 * The checksum printed at the end covers every bit of the water's height and does not depend on the number of ranks.
 */
#include <inttypes.h>
#include <kedge/kedge_mpi.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STEP, TIME, HEIGHT, ALONG, ACROSS, LOG_BYTES }; /* the regions */

/* One rank's band: its rows, with one more on both sides, of SIDE cells each. `along` is the flow through the left faces of the
 * cells, `across` that through their lower ones; no water flows through walls. */
typedef struct {
  int side, rows, first, below, above, rank;
  double *height, *along, *across;
  int step;
  double time;
  int64_t log_bytes;
  FILE* log; /* rank 0 has it */
} basin;

static const double kTimeStep = 0.5;
static const int kStepsOfLog = 10; /* from line to line */

static void fail(const char* what, const char* why) {
  fprintf(stderr, "shallow: %s: %s\n", what, why);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static void must(int code, const char* what) {
  if (code != KEDGE_OK) fail(what, kedge_error_message());
}

static basin make_basin(int side) {
  basin b = {.side = side};
  int ranks;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Comm_rank(MPI_COMM_WORLD, &b.rank);
  if (side < ranks) fail("usage", "SIDE is at least the number of ranks");
  b.first = (int)((int64_t)side * b.rank / ranks);
  b.rows = (int)((int64_t)side * (b.rank + 1) / ranks) - b.first;
  b.below = b.rank > 0 ? b.rank - 1 : MPI_PROC_NULL;
  b.above = b.rank + 1 < ranks ? b.rank + 1 : MPI_PROC_NULL;
  const size_t cells = (size_t)(b.rows + 2) * side;
  b.height = calloc(cells, sizeof(double));
  b.along = calloc(cells, sizeof(double));
  b.across = calloc(cells, sizeof(double));
  if (b.height == NULL || b.along == NULL || b.across == NULL) fail("memory", "not enough for the basin");
  /* A hill of water off the middle. */
  for (int y = 1; y <= b.rows; ++y)
    for (int x = 0; x < side; ++x) {
      const double dy = (b.first + y - 0.5) / side - 0.4, dx = (x + 0.5) / side - 0.3, r = 1 - 25 * (dx * dx + dy * dy);
      b.height[(size_t)y * side + x] = r > 0 ? r * r : 0;
    }
  return b;
}

/* Linear shallow water on a staggered grid, forward in the flow and backward in the height. */
static void advance(basin* b) {
  const int n = b->side;
  const size_t last = (size_t)b->rows * n, beyond = last + n;
  MPI_Sendrecv(b->height + last, n, MPI_DOUBLE, b->above, 0, b->height, n, MPI_DOUBLE, b->below, 0, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  for (int y = 1; y <= b->rows; ++y)
    for (int x = 0; x < n; ++x) {
      const size_t i = (size_t)y * n + x;
      if (x > 0) b->along[i] -= kTimeStep * (b->height[i] - b->height[i - 1]);
      if (b->first + y > 1) b->across[i] -= kTimeStep * (b->height[i] - b->height[i - n]);
    }
  MPI_Sendrecv(b->across + n, n, MPI_DOUBLE, b->below, 1, b->across + beyond, n, MPI_DOUBLE, b->above, 1, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  for (int y = 1; y <= b->rows; ++y)
    for (int x = 0; x < n; ++x) {
      const size_t i = (size_t)y * n + x;
      const double right = x + 1 < n ? b->along[i + 1] : 0;
      b->height[i] -= kTimeStep * ((right - b->along[i]) + (b->across[i + n] - b->across[i]));
    }
  ++b->step;
  b->time += kTimeStep;
}

/* Every cell's bits times an odd number of its own, summed: the same for every number of ranks. */
static uint64_t checksum(const basin* b) {
  uint64_t sum = 0, total = 0;
  for (int y = 1; y <= b->rows; ++y)
    for (int x = 0; x < b->side; ++x) {
      uint64_t bits;
      memcpy(&bits, &b->height[(size_t)y * b->side + x], sizeof bits);
      sum += bits * (2 * ((uint64_t)(b->first + y) * (uint64_t)b->side + (uint64_t)x) + 1);
    }
  MPI_Allreduce(&sum, &total, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
  return total;
}

static void protect_rows(kedge_context* kedge, const basin* b, int id, const char* name, double* rows) {
  const kedge_region_info info = {.struct_size = sizeof info,
                                  .name = name,
                                  .type = KEDGE_TYPE_FLOAT64,
                                  .dimensions = 2,
                                  .shape = {b->rows + 2, b->side},
                                  .global_shape = {b->side, b->side},
                                  .global_offset = {b->first, 0},
                                  .halo = {1, 0}};
  must(kedge_protect(kedge, id, rows, (size_t)(b->rows + 2) * b->side, sizeof *rows, &info), name);
}

static void protect(kedge_context* kedge, basin* b) {
  const kedge_region_info step = {.struct_size = sizeof step, .name = "step", .type = KEDGE_TYPE_INT32, .replicated = 1};
  const kedge_region_info time = {.struct_size = sizeof time, .name = "time", .type = KEDGE_TYPE_FLOAT64, .replicated = 1};
  const kedge_region_info log = {.struct_size = sizeof log, .name = "log bytes", .type = KEDGE_TYPE_INT64, .replicated = 1};
  must(kedge_protect(kedge, STEP, &b->step, 1, sizeof b->step, &step), "step");
  must(kedge_protect(kedge, TIME, &b->time, 1, sizeof b->time, &time), "time");
  must(kedge_protect(kedge, LOG_BYTES, &b->log_bytes, 1, sizeof b->log_bytes, &log), "length of the log");
  protect_rows(kedge, b, HEIGHT, "height", b->height);
  protect_rows(kedge, b, ALONG, "along", b->along);
  protect_rows(kedge, b, ACROSS, "across", b->across);
}

/* What was written behind the checkpoint that the run goes on from is written again. */
static void open_log(basin* b, const char* folder) {
  if (b->rank != 0) return;
  char path[4096];
  snprintf(path, sizeof path, "%s/shallow.log", folder);
  b->log = fopen(path, "ab");
  if (b->log == NULL || ftruncate(fileno(b->log), b->log_bytes) != 0) fail("the log", path);
}

/* All ranks count, so that the length is the same on each. */
static void write_log(basin* b) {
  char line[64];
  const int bytes = snprintf(line, sizeof line, "step %9d time %12.1f\n", b->step, b->time);
  if (b->log != NULL && fwrite(line, 1, (size_t)bytes, b->log) != (size_t)bytes) fail("the log", "it cannot be written");
  b->log_bytes += bytes;
}

/* The heights of this rank's rows, for whoever looks at the run. */
static int write_water(kedge_context* kedge, const basin* b, const char* folder) {
  char wanted[4096], path[4096];
  snprintf(wanted, sizeof wanted, "%s/water-%06d.%d", folder, b->step, b->rank);
  if (kedge_route_file(kedge, wanted, path, sizeof path) != KEDGE_OK) return 0;
  FILE* file = fopen(path, "wb");
  if (file == NULL) return 0;
  const size_t cells = (size_t)b->rows * b->side;
  const int written = fwrite(b->height + b->side, sizeof(double), cells, file) == cells;
  return fclose(file) == 0 && written;
}

/* On an error the run goes on with the older checkpoints. */
static void checkpoint(kedge_context* kedge, const basin* b, const char* folder) {
  if (b->log != NULL) fflush(b->log); /* before its length is saved */
  int code = kedge_checkpoint_begin(kedge, "water", b->step, 0);
  if (code == KEDGE_OK) {
    const int good = kedge_checkpoint_part(kedge, KEDGE_ALL, NULL, 0) == KEDGE_OK && write_water(kedge, b, folder);
    code = kedge_checkpoint_end(kedge, good);
  }
  if (code != KEDGE_OK) fprintf(stderr, "shallow: rank %d: step %d: %s\n", b->rank, b->step, kedge_error_message());
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc != 4 || atoi(argv[1]) < 1) fail("usage", "shallow SIDE STEPS FOLDER");
  basin b = make_basin(atoi(argv[1]));
  const int steps = atoi(argv[2]);

  kedge_context* kedge;
  must(kedge_mpi_init(MPI_COMM_WORLD, NULL, &kedge), "starting Kedge");
  protect(kedge, &b);
  const int found = kedge_restart(kedge, "water", -1, NULL);
  if (found != KEDGE_ERROR_NOT_FOUND) must(found, "restart");
  if (found == KEDGE_OK && b.rank == 0) printf("shallow: continuing from step %d, time %g\n", b.step, b.time);
  open_log(&b, argv[3]);

  int due = 0, stop = 0;
  while (b.step < steps && !stop) {
    advance(&b);
    if (b.step % kStepsOfLog == 0) write_log(&b);
    must(kedge_checkpoint_due(kedge, &due), "asking whether a checkpoint is due");
    if (due) checkpoint(kedge, &b, argv[3]);
    must(kedge_should_exit(kedge, &stop), "asking whether to end");
  }

  const uint64_t sum = checksum(&b);
  if (b.rank == 0 && b.step < steps) printf("shallow: halted at step %d of %d\n", b.step, steps);
  if (b.rank == 0 && b.step >= steps) printf("shallow: step %d, checksum %016" PRIX64 "\n", b.step, sum);
  must(kedge_finalize(kedge, 1), "finishing Kedge");
  if (b.log != NULL && fclose(b.log) != 0) fail("the log", "it cannot be written");
  free(b.height);
  free(b.along);
  free(b.across);
  MPI_Finalize();
  return 0;
}
