/* storm: warm air rises along a line of storms, in the shape of a cloud model such as CM1, and the run survives being killed.
 *
 *   mpirun -np 4 storm SIDE PLANES STEPS INTERVAL
 *
 * The air has PLANES vertical planes of SIDE^2 cells, cut into slabs, one a rank, with a plane of each neighbour at both ends.
 * Its memory is what such models have. Hot: temperature and wind, computed anew in each step, though they stay zero far from the
 * storms. Warm: cloud water, written where clouds grow. Cold: the state at rest, which differs by height alone, and a table of
 * coefficients that all ranks have. So versions are full of equal blocks: zeros, the state at rest, the table, and the planes
 * that neighbours share.
 *
 * All arrays are blocks of kedge_alloc. Every INTERVAL steps a checkpoint is taken. A relaunch with the same arguments continues
 * from the newest one. The checksum printed at the end covers every bit of the air, and does not depend on the number of ranks.
 */
#include <inttypes.h>
#include <kedge/kedge_mpi.h>
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kLevels = 32 };             /* of the table, in planes: how warm it is */
enum { kStormDistance = 32 };      /* planes from storm to storm */
static const double kClear = 1e-9; /* less is nothing */

typedef struct {
  int64_t* step;
  double *temperature, *wind;          /* hot */
  double* cloud;                       /* warm */
  double *rest, *stability, *moisture; /* cold */
  double* absorption;                  /* cold, and the same on all ranks */
  double *warming, *lifting;           /* of one step: in no version */
  int side, planes, first;             /* planes of this rank, without its neighbours'; the first of them */
  int below, above;                    /* ranks */
} air;

static kedge_context* kedge;

static void fail(const char* what, const char* why) {
  fprintf(stderr, "storm: %s: %s\n", what, why);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static void check(int status, const char* what) {
  if (status != KEDGE_OK) fail(what, kedge_error_message());
}

static size_t plane_cells(const air* a) {
  return (size_t)a->side * a->side;
}
static size_t array_cells(const air* a) {
  return plane_cells(a) * (a->planes + 2);
}

/* ---- Memory ---- */

/* A block of the version that was restored, or a new one. */
static void* have(int is_restored, const char* name, size_t count, kedge_type type) {
  void* block = NULL;
  size_t bytes = 8 * count;
  const kedge_region_info info = {.struct_size = sizeof info, .type = type, .dimensions = 1, .shape = {(int64_t)count}};
  if (is_restored)
    check(kedge_find(kedge, name, &block, &bytes, NULL), name);
  else
    check(kedge_alloc(kedge, name, count, 8, &info, &block), name);
  if (bytes != 8 * count) fail(name, "the checkpoint is of a storm of another size");
  return block;
}

static void have_memory(air* a, int is_restored) {
  const size_t cells = array_cells(a);
  a->step = have(is_restored, "step", 1, KEDGE_TYPE_INT64);
  a->rest = have(is_restored, "rest", cells, KEDGE_TYPE_FLOAT64);
  a->stability = have(is_restored, "stability", cells, KEDGE_TYPE_FLOAT64);
  a->moisture = have(is_restored, "moisture", cells, KEDGE_TYPE_FLOAT64);
  a->absorption = have(is_restored, "absorption", kLevels * plane_cells(a), KEDGE_TYPE_FLOAT64);
  a->temperature = have(is_restored, "temperature", cells, KEDGE_TYPE_FLOAT64);
  a->wind = have(is_restored, "wind", cells, KEDGE_TYPE_FLOAT64);
  a->cloud = have(is_restored, "cloud", cells, KEDGE_TYPE_FLOAT64);
  a->warming = calloc(cells, sizeof(double));
  a->lifting = calloc(cells, sizeof(double));
  if (a->warming == NULL || a->lifting == NULL) fail("memory", "not enough for a step");
}

/* New blocks are zero. */
static void set_initial(air* a) {
  const int side = a->side;
  for (int y = 0; y < a->planes + 2; ++y) {
    const int in_line = a->first + y - 1 + kStormDistance;
    const double away = (double)(in_line % kStormDistance - kStormDistance / 2) / (kStormDistance / 2);
    const double strength = 1 + 0.1 * (in_line / kStormDistance % 7);
    for (int z = 0; z < side; ++z)
      for (int x = 0; x < side; ++x) {
        const size_t i = ((size_t)y * side + z) * side + x;
        const double height = (double)z / side;
        a->rest[i] = 300 + 20 * height;
        a->stability[i] = 0.02 * (1 + height);
        a->moisture[i] = 0.014 * ((1 - height) * (1 - height));
        const double across = 6.0 * x / side - 3, up = 6 * height - 1.5;
        const double distance = (across * across + up * up) + 2 * (away * away);
        if (distance < 1) a->temperature[i] = 2 * strength * ((1 - distance) * (1 - distance));
      }
  }
  for (size_t i = 0; i < kLevels * plane_cells(a); ++i) {
    const uint64_t mixed = (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
    a->absorption[i] = (double)(mixed >> 11) * 0x1p-53;
  }
}

/* ---- A step ---- */

/* The outer planes are the neighbours'; the line is a ring. */
static void exchange_planes(const air* a, double* values) {
  const size_t plane = plane_cells(a);
  double* const last = values + a->planes * plane;
  MPI_Sendrecv(values + plane, (int)plane, MPI_DOUBLE, a->below, 0, last + plane, (int)plane, MPI_DOUBLE, a->above, 0,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Sendrecv(last, (int)plane, MPI_DOUBLE, a->above, 1, values, (int)plane, MPI_DOUBLE, a->below, 1, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
}

static double spread(const air* a, const double* v, size_t i) {
  const size_t up = (size_t)a->side, on = plane_cells(a);
  return (((v[i - 1] + v[i + 1]) + (v[i - up] + v[i + up])) + (v[i - on] + v[i + on])) - 6 * v[i];
}

static double cleared(double value) {
  return fabs(value) < kClear ? 0 : value;
}

static void compute_change(const air* a, size_t i) {
  const double warm = a->temperature[i];
  const double warmth = fabs(warm) * (kLevels / 4.0);
  const size_t level = warmth < kLevels - 1 ? (size_t)warmth : kLevels - 1;
  const double cooling = 1e-4 * a->absorption[level * plane_cells(a) + i % plane_cells(a)];
  const double vapour = a->wind[i] > 0 ? a->wind[i] * a->moisture[i] : 0;
  a->warming[i] = 0.02 * spread(a, a->temperature, i) - a->wind[i] * a->stability[i] + vapour - cooling * warm;
  a->lifting[i] = 0.02 * spread(a, a->wind, i) + 9.8 * warm / a->rest[i];
}

static void apply_change(const air* a, size_t i) {
  a->temperature[i] = cleared(a->temperature[i] + a->warming[i]);
  a->wind[i] = cleared(a->wind[i] + a->lifting[i]);
  const double vapour = a->wind[i] * a->moisture[i];
  if (vapour > 1e-3) a->cloud[i] += vapour;
}

static int is_at_wall(const air* a, size_t row) {
  return row % a->side == 0 || row % a->side == (size_t)a->side - 1;
}

static void advance(const air* a) {
  exchange_planes(a, a->temperature);
  exchange_planes(a, a->wind);
  /* All cells of the rank but those at the walls, in the order of their addresses. */
  const size_t side = (size_t)a->side, rows = side * a->planes;
  for (size_t row = side; row < side + rows; ++row)
    for (size_t x = 1; x < side - 1 && !is_at_wall(a, row); ++x) compute_change(a, row * side + x);
  for (size_t row = side; row < side + rows; ++row)
    for (size_t x = 1; x < side - 1 && !is_at_wall(a, row); ++x) apply_change(a, row * side + x);
  ++*a->step;
}

/* Every cell's bits mixed with its global index, summed: the same for every decomposition. */
static uint64_t checksum(const air* a) {
  const double* const arrays[] = {a->temperature, a->wind, a->cloud};
  uint64_t sum = 0, total = 0;
  for (size_t array = 0; array < 3; ++array)
    for (size_t i = 0; i < plane_cells(a) * a->planes; ++i) {
      const uint64_t index = 3 * (plane_cells(a) * a->first + i) + array;
      uint64_t bits;
      memcpy(&bits, &arrays[array][plane_cells(a) + i], sizeof bits);
      bits ^= index * UINT64_C(0x5851f42d4c957f2d);
      bits = (bits ^ (bits >> 32)) * UINT64_C(0x2545f4914f6cdd1d);
      sum += bits ^ (bits >> 29);
    }
  MPI_Allreduce(&sum, &total, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
  return total;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const int side = argc == 5 ? atoi(argv[1]) : 0, planes = argc == 5 ? atoi(argv[2]) : 0;
  const int steps = argc == 5 ? atoi(argv[3]) : 0, interval = argc == 5 ? atoi(argv[4]) : 0;
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (side < 3 || planes < ranks || steps < 1 || interval < 1)
    fail("usage", "storm SIDE PLANES STEPS INTERVAL, a plane a rank at least");
  air a = {.side = side, .below = (rank + ranks - 1) % ranks, .above = (rank + 1) % ranks};
  a.first = (int)((int64_t)planes * rank / ranks);
  a.planes = (int)((int64_t)planes * (rank + 1) / ranks) - a.first;

  check(kedge_mpi_init(MPI_COMM_WORLD, NULL, &kedge), "starting Kedge");
  const int restored = kedge_restart(kedge, "storm", -1, NULL);
  if (restored != KEDGE_OK && restored != KEDGE_ERROR_NOT_FOUND) fail("restart", kedge_error_message());
  have_memory(&a, restored == KEDGE_OK);
  if (restored != KEDGE_OK) set_initial(&a);
  if (restored == KEDGE_OK && rank == 0) printf("storm: continuing from step %" PRId64 "\n", *a.step);

  while (*a.step < steps) {
    advance(&a);
    if (*a.step % interval != 0) continue;
    /* The run goes on, with the older checkpoints. */
    if (kedge_checkpoint(kedge, "storm", *a.step, 0) != KEDGE_OK)
      fprintf(stderr, "storm: rank %d: checkpoint of step %" PRId64 ": %s\n", rank, *a.step, kedge_error_message());
  }
  const uint64_t sum = checksum(&a);
  if (rank == 0) printf("storm: %d planes of %d cells a side, step %d, checksum %016" PRIX64 "\n", planes, side, steps, sum);
  check(kedge_finalize(kedge, 1), "finishing Kedge");
  free(a.warming);
  free(a.lifting);
  return MPI_Finalize();
}
