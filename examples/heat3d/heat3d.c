/* heat3d: heat flows through a cube, on any number of MPI ranks, and the run survives being killed.
 *
 *   mpirun -np 4 heat3d CELLS STEPS INTERVAL [PAUSE]
 *
 * A cube of CELLS^3 cells with one hot face, the others cold, is cut into one block per rank. Each step exchanges the
 * faces of the blocks and applies the 7-point stencil. Every INTERVAL steps the field is checkpointed; with 0, whenever Kedge
 * says that it is due by the configuration (schedule.interval); with auto, by the interval that Kedge itself finds best for what
 * it measures. A relaunch continues from the newest checkpoint, also on another number of ranks. Asked to halt (kedge halt), it
 * ends early and says so. After each step it sleeps for PAUSE milliseconds: a long run to watch, which leaves processors to
 * others. The checksum printed at the end covers every bit of the field and does not depend on the number of ranks.
 */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <kedge/kedge_mpi.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* One rank's block, in the order z, y, x: its cells, the global index of its first cell, and its neighbours. The field
 * has one more layer of cells on every side (halo). */
typedef struct {
  int cells, count[3], first[3], lower[3], upper[3];
  MPI_Comm comm;
  MPI_Datatype face[3];
} block;

static size_t at(const block* b, int z, int y, int x) {
  return ((size_t)z * (b->count[1] + 2) + y) * (b->count[2] + 2) + x;
}

static void fail(const char* what, const char* why) {
  fprintf(stderr, "heat3d: %s: %s\n", what, why);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static block make_block(int cells) {
  block b = {.cells = cells};
  int ranks, dims[3] = {0}, periodic[3] = {0}, coordinates[3];
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Dims_create(ranks, 3, dims);
  MPI_Cart_create(MPI_COMM_WORLD, 3, dims, periodic, 0, &b.comm);
  MPI_Cart_get(b.comm, 3, dims, periodic, coordinates);
  for (int d = 0; d < 3; ++d) {
    b.first[d] = (int)((int64_t)cells * coordinates[d] / dims[d]);
    b.count[d] = (int)((int64_t)cells * (coordinates[d] + 1) / dims[d]) - b.first[d];
    MPI_Cart_shift(b.comm, d, 1, &b.lower[d], &b.upper[d]);
  }
  for (int d = 0; d < 3; ++d) {
    const int sizes[3] = {b.count[0] + 2, b.count[1] + 2, b.count[2] + 2};
    int face[3] = {b.count[0], b.count[1], b.count[2]}, start[3] = {1, 1, 1};
    face[d] = 1;
    start[d] = 0;
    MPI_Type_create_subarray(3, sizes, face, start, MPI_ORDER_C, MPI_DOUBLE, &b.face[d]);
    MPI_Type_commit(&b.face[d]);
  }
  return b;
}

/* A warm middle, and the hot face at z = 0 in the halo of the blocks that touch it. */
static void set_initial(const block* b, double* u) {
  memset(u, 0, at(b, b->count[0] + 2, 0, 0) * sizeof *u);
  for (int z = 0; z <= b->count[0]; ++z)
    for (int y = 1; y <= b->count[1]; ++y)
      for (int x = 1; x <= b->count[2]; ++x) {
        const double r = (b->first[0] + z - 0.5) / b->cells, s = (b->first[1] + y - 0.5) / b->cells,
                     t = (b->first[2] + x - 0.5) / b->cells;
        if (z > 0)
          u[at(b, z, y, x)] = ((r * (1 - r)) * (s * (1 - s))) * (t * (1 - t));
        else if (b->first[0] == 0)
          u[at(b, z, y, x)] = 1;
      }
}

static void exchange_halo(const block* b, double* u) {
  for (int d = 0; d < 3; ++d) {
    const size_t stride = d == 0 ? at(b, 1, 0, 0) : d == 1 ? at(b, 0, 1, 0) : 1;
    const int last = b->count[d];
    MPI_Sendrecv(u + stride, 1, b->face[d], b->lower[d], 0, u + (last + 1) * stride, 1, b->face[d], b->upper[d], 0, b->comm,
                 MPI_STATUS_IGNORE);
    MPI_Sendrecv(u + last * stride, 1, b->face[d], b->upper[d], 1, u, 1, b->face[d], b->lower[d], 1, b->comm, MPI_STATUS_IGNORE);
  }
}

static void advance(const block* b, const double* u, double* next) {
  const size_t up = at(b, 1, 0, 0), right = at(b, 0, 1, 0);
  for (int z = 1; z <= b->count[0]; ++z)
    for (int y = 1; y <= b->count[1]; ++y)
      for (int x = 1; x <= b->count[2]; ++x) {
        const size_t i = at(b, z, y, x);
        next[i] = u[i] + 0.125 * ((((u[i - 1] + u[i + 1]) + (u[i - right] + u[i + right])) + (u[i - up] + u[i + up])) - 6 * u[i]);
      }
}

/* Every cell's bits mixed with its global index, summed: the same for every decomposition. */
static uint64_t checksum(const block* b, const double* u) {
  uint64_t sum = 0, total = 0;
  for (int z = 1; z <= b->count[0]; ++z)
    for (int y = 1; y <= b->count[1]; ++y)
      for (int x = 1; x <= b->count[2]; ++x) {
        const uint64_t n = (uint64_t)b->cells;
        const uint64_t index = (b->first[2] + x) + n * ((b->first[1] + y) + n * (uint64_t)(b->first[0] + z));
        uint64_t bits;
        memcpy(&bits, &u[at(b, z, y, x)], sizeof bits);
        bits ^= index * UINT64_C(0x5851f42d4c957f2d);
        bits = (bits ^ (bits >> 32)) * UINT64_C(0x2545f4914f6cdd1d);
        sum += bits ^ (bits >> 29);
      }
  MPI_Allreduce(&sum, &total, 1, MPI_UINT64_T, MPI_SUM, b->comm);
  return total;
}

/* The field is computed from one array into the other, so the region's address changes with every step. */
static void protect_field(kedge_context* kedge, const block* b, double* u) {
  kedge_region_info info = {.struct_size = sizeof info, .name = "temperature", .type = KEDGE_TYPE_FLOAT64, .dimensions = 3};
  for (int d = 0; d < 3; ++d) {
    info.shape[d] = b->count[d] + 2;
    info.global_shape[d] = b->cells;
    info.global_offset[d] = b->first[d];
    info.halo[d] = 1;
  }
  if (kedge_protect(kedge, 1, u, at(b, b->count[0] + 2, 0, 0), sizeof *u, &info) != KEDGE_OK)
    fail("protecting the field", kedge_error_message());
}

/* Kedge gives all ranks the same answer. */
static int ask(int (*question)(kedge_context*, int*), kedge_context* kedge) {
  int answer = 0;
  if (question(kedge, &answer) != KEDGE_OK) fail("asking Kedge", kedge_error_message());
  return answer;
}

static void sleep_for(int milliseconds) {
  const struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000L};
  if (milliseconds > 0) nanosleep(&time, NULL);
}

static void print_interval(kedge_context* kedge) {
  kedge_statistics s = {.struct_size = sizeof s};
  if (kedge_get_statistics(kedge, &s) != KEDGE_OK) fail("statistics", kedge_error_message());
  printf("heat3d: checkpoints taken when due: %" PRIu64 ", %.6f s each; the interval is %.3f s by now\n", s.checkpoints,
         s.checkpoints > 0 ? s.blocked_seconds / (double)s.checkpoints : 0, s.checkpoint_interval_seconds);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const int cells = argc > 3 ? atoi(argv[1]) : 0, steps = argc > 3 ? atoi(argv[2]) : 0, interval = argc > 3 ? atoi(argv[3]) : -1;
  const int automatic = argc > 3 && strcmp(argv[3], "auto") == 0; /* 0 to atoi, too: Kedge says when */
  const int pause = argc > 4 ? atoi(argv[4]) : 0;
  if (cells < 1 || steps < 0 || interval < 0 || pause < 0)
    fail("usage", "heat3d CELLS STEPS INTERVAL [PAUSE], where INTERVAL is steps, 0 or auto, and PAUSE milliseconds");
  block b = make_block(cells);
  int rank, step = 0, saved = 0, stop = 0;
  MPI_Comm_rank(b.comm, &rank);
  double* u = malloc(at(&b, b.count[0] + 2, 0, 0) * sizeof *u);
  double* next = malloc(at(&b, b.count[0] + 2, 0, 0) * sizeof *u);
  if (u == NULL || next == NULL) fail("memory", "not enough for two fields");
  set_initial(&b, u);
  set_initial(&b, next); /* for its boundary */

  kedge_context* kedge;
  kedge_options options = KEDGE_OPTIONS_INIT;
  if (automatic) options.overrides = "schedule.adapt=true";
  if (kedge_mpi_init(b.comm, &options, &kedge) != KEDGE_OK) fail("starting Kedge", kedge_error_message());
  const kedge_region_info of_step = {.struct_size = sizeof of_step, .name = "step", .type = KEDGE_TYPE_INT32, .replicated = 1};
  if (kedge_protect(kedge, 0, &step, 1, sizeof step, &of_step) != KEDGE_OK) fail("protecting the step", kedge_error_message());
  protect_field(kedge, &b, u);
  const int status = kedge_restart(kedge, "heat3d", -1, NULL);
  if (status != KEDGE_OK && status != KEDGE_ERROR_NOT_FOUND) fail("restart", kedge_error_message());
  if (status == KEDGE_OK && rank == 0) printf("heat3d: continuing from step %d\n", step);
  saved = step;

  while (step < steps && !stop) {
    exchange_halo(&b, u);
    advance(&b, u, next);
    double* previous = u;
    u = next;
    next = previous;
    ++step;
    sleep_for(pause);
    if (interval > 0 ? step % interval == 0 : ask(kedge_checkpoint_due, kedge)) {
      protect_field(kedge, &b, u);
      if (kedge_checkpoint(kedge, "heat3d", step, 0) == KEDGE_OK)
        saved = step;
      else /* the run goes on, with the older checkpoints */
        fprintf(stderr, "heat3d: rank %d: checkpoint of step %d: %s\n", rank, step, kedge_error_message());
    }
    stop = ask(kedge_should_exit, kedge);
  }

  const uint64_t sum = checksum(&b, u);
  if (rank == 0 && interval == 0) print_interval(kedge);
  if (rank == 0 && step < steps) printf("heat3d: halted at step %d of %d, saved at step %d\n", step, steps, saved);
  if (rank == 0 && step >= steps) printf("heat3d: %d cells a side, step %d, checksum %016" PRIX64 "\n", cells, step, sum);
  if (kedge_finalize(kedge, 1) != KEDGE_OK) fail("finishing Kedge", kedge_error_message());
  free(u);
  free(next);
  MPI_Finalize();
  return 0;
}
