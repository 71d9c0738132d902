/* A mesh that refines itself: patches that point to each other, each allocated with malloc, freed and enlarged as time goes by.
 * Only the begin is protected. `kedge run --protect-heap` has the patches in each checkpoint, where they were:
 *
 *   kedge run --ranks 2 --protect-heap -- patches STEPS
 *
 * Kill it in the middle, and it goes on from its last checkpoint, and ends with the same checksum.
 */
#include <inttypes.h>
#include <kedge/kedge_mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define PATCHES_MAX 24
#define CELLS_MIN 10000 /* of 8 bytes: above heap.malloc_from */
#define CELLS_MAX 40000

struct patch {
  struct patch *next, *neighbour;
  size_t count;
  double cells[];
};

/* What the program protects; all else it reaches from here. */
struct mesh {
  struct patch* first;
  uint64_t patches;
  uint64_t random;
  int64_t step;
};

static void check(int status) {
  if (status == KEDGE_OK) return;
  fprintf(stderr, "patches: %s\n", kedge_error_message());
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static void* or_abort(void* memory) {
  if (memory != NULL) return memory;
  fprintf(stderr, "patches: there is no memory\n");
  MPI_Abort(MPI_COMM_WORLD, 1);
  return NULL;
}

static uint64_t next_random(struct mesh* mesh) {
  mesh->random = mesh->random * 6364136223846793005u + 1442695040888963407u;
  return mesh->random >> 33;
}

static size_t bytes_of(size_t count) {
  return sizeof(struct patch) + count * sizeof(double);
}

static void add(struct mesh* mesh) {
  const size_t count = CELLS_MIN + next_random(mesh) % (CELLS_MAX - CELLS_MIN);
  struct patch* const patch = or_abort(malloc(bytes_of(count)));
  patch->count = count;
  for (size_t i = 0; i < count; ++i) patch->cells[i] = (double)next_random(mesh);
  patch->neighbour = mesh->first;
  patch->next = mesh->first;
  mesh->first = patch;
  ++mesh->patches;
}

/* The oldest one goes, and with it the last pointer to it. */
static void remove_last(struct mesh* mesh) {
  struct patch** place = &mesh->first;
  while ((*place)->next != NULL) place = &(*place)->next;
  struct patch* const last = *place;
  *place = NULL;
  for (struct patch* patch = mesh->first; patch != NULL; patch = patch->next) {
    if (patch->neighbour == last) patch->neighbour = NULL;
  }
  free(last);
  --mesh->patches;
}

/* The first one grows, and may lie elsewhere afterwards. */
static void refine(struct mesh* mesh) {
  struct patch* const first = mesh->first;
  const size_t count = first->count + first->count / 2;
  if (count > 4 * (size_t)CELLS_MAX) return;
  struct patch* const grown = or_abort(realloc(first, bytes_of(count)));
  for (size_t i = grown->count; i < count; ++i) grown->cells[i] = grown->cells[i / 2];
  grown->count = count;
  mesh->first = grown;
}

static void advance(struct mesh* mesh) {
  for (struct patch* patch = mesh->first; patch != NULL; patch = patch->next) {
    const double edge = patch->neighbour != NULL ? patch->neighbour->cells[0] : 0;
    for (size_t i = 1; i < patch->count; ++i) patch->cells[i] = 0.5 * (patch->cells[i] + patch->cells[i - 1]);
    patch->cells[0] = 0.5 * (patch->cells[0] + edge);
  }
  ++mesh->step;
  add(mesh);
  if (mesh->step % 3 == 0) refine(mesh);
  if (mesh->patches > PATCHES_MAX) remove_last(mesh);
}

static uint64_t checksum(const struct mesh* mesh) {
  uint64_t sum = 0xcbf29ce484222325u;
  for (const struct patch* patch = mesh->first; patch != NULL; patch = patch->next) {
    const unsigned char* const bytes = (const unsigned char*)patch->cells;
    for (size_t i = 0; i < patch->count * sizeof(double); ++i) sum = (sum ^ bytes[i]) * 0x100000001b3u;
  }
  return sum;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const int64_t steps = argc == 2 ? atoll(argv[1]) : 0;
  if (steps < 1) {
    fprintf(stderr, "usage: patches STEPS\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  kedge_context* kedge = NULL;
  check(kedge_mpi_init(MPI_COMM_WORLD, NULL, &kedge));
  struct mesh mesh = {NULL, 0, (uint64_t)rank + 1, 0};
  check(kedge_protect(kedge, 0, &mesh, 1, sizeof mesh, NULL));
  const int status = kedge_restart(kedge, "patches", -1, NULL); /* before anything is allocated */
  if (status != KEDGE_ERROR_NOT_FOUND) check(status);
  if (status == KEDGE_OK && rank == 0) {
    printf("continuing from step %" PRId64 " with %" PRIu64 " patches\n", mesh.step, mesh.patches), fflush(stdout);
  }
  while (mesh.step < steps) {
    advance(&mesh);
    if (mesh.step % 10 != 0) continue;
    check(kedge_checkpoint(kedge, "patches", mesh.step, 0));
    if (rank == 0) printf("checkpoint %" PRId64 "\n", mesh.step), fflush(stdout);
  }
  printf("rank %d: %" PRIu64 " patches, checksum %016" PRIX64 "\n", rank, mesh.patches, checksum(&mesh));
  check(kedge_finalize(kedge, 1));
  return MPI_Finalize();
}
