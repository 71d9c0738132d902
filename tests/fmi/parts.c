/* Parts of things: of the ranks those of a node, of groups, of arrays, of messages. `fmirun -n RANKS fmi_parts CASE`. */
#include <string.h>

#include "checks.h"

static void groups(void) {
  FMI_Group world, even, low, made;
  int evens[32], lows[32], count = 0, size, compared, got[32], all[32];
  for (int i = 0; i < ranks; i += 2) evens[count++] = ranks - 1 - (ranks - 1) % 2 - i;
  for (int i = 0; i < ranks; ++i) all[i] = i;
  for (int i = 0; i <= ranks / 2; ++i) lows[i] = i;
  OK(FMI_Comm_group(WORLD, &world));
  OK(FMI_Group_incl(world, count, evens, &even));
  OK(FMI_Group_incl(world, ranks / 2 + 1, lows, &low));
  OK(FMI_Group_intersection(even, low, &made));
  OK(FMI_Group_size(made, &size));
  CHECK(size == ranks / 4 + 1);
  OK(FMI_Group_translate_ranks(made, 1, all, world, got));
  CHECK(got[0] == (ranks / 2) / 2 * 2);
  OK(FMI_Group_difference(even, low, &made));
  OK(FMI_Group_size(made, &size));
  CHECK(size == count - ranks / 4 - 1 && (size > 0 || made == FMI_GROUP_EMPTY));
  OK(FMI_Group_union(low, world, &made));
  OK(FMI_Group_compare(made, world, &compared));
  CHECK(compared == FMI_IDENT);
  OK(FMI_Group_union(even, world, &made));
  OK(FMI_Group_compare(made, world, &compared));
  CHECK(compared == (ranks <= 2 ? FMI_IDENT : FMI_SIMILAR));
  OK(FMI_Group_compare(low, FMI_GROUP_EMPTY, &compared));
  CHECK(compared == FMI_UNEQUAL);
}

/* A box of 2 x 3 x 2 from the middle of one of 4 x 5 x 6, to the next rank, in either order of dimensions. */
static void boxes(void) {
  enum { kX = 4, kY = 5, kZ = 6 };
  const int sizes[] = {kX, kY, kZ}, counts[] = {2, 3, 2}, begins[] = {1, 2, 3};
  const int turned[] = {kZ, kY, kX}, turned_counts[] = {2, 3, 2}, turned_begins[] = {3, 2, 1};
  static int from[2][kX][kY][kZ], to[2][kX][kY][kZ];
  FMI_Datatype box, same;
  FMI_Aint lower, extent;
  int bytes, position = 0, room;
  OK(FMI_Type_create_subarray(3, sizes, counts, begins, FMI_ORDER_C, FMI_INT, &box));
  OK(FMI_Type_create_subarray(3, turned, turned_counts, turned_begins, FMI_ORDER_FORTRAN, FMI_INT, &same));
  OK(FMI_Type_commit(&box));
  OK(FMI_Type_commit(&same));
  OK(FMI_Type_size(box, &bytes));
  CHECK(bytes == 12 * (int)sizeof(int));
  OK(FMI_Type_get_extent(box, &lower, &extent));
  CHECK(lower == 0 && extent == sizeof from[0]);
  OK(FMI_Type_get_true_extent(box, &lower, &extent));
  CHECK(lower == (char*)&from[0][1][2][3] - (char*)from && extent == (char*)&from[0][2][4][5] - (char*)&from[0][1][2][3]);
  for (int i = 0; i < 2 * kX * kY * kZ; ++i) ((int*)from)[i] = 1000 * rank + i;
  memset(to, -1, sizeof to);
  OK(FMI_Sendrecv(from, 2, box, (rank + 1) % ranks, 0, to, 2, same, (rank + ranks - 1) % ranks, 0, WORLD, FMI_STATUS_IGNORE));
  for (int x = 0; x < 2 * kX; ++x)
    for (int y = 0; y < kY; ++y)
      for (int z = 0; z < kZ; ++z) {
        const int is_in = x % kX >= 1 && x % kX < 3 && y >= 2 && z >= 3 && z < 5;
        const int sent = 1000 * ((rank + ranks - 1) % ranks) + (x * kY + y) * kZ + z;
        CHECK(to[x / kX][x % kX][y][z] == (is_in ? sent : -1));
      }

  /* Packed, passed on, and unpacked. */
  char packed[200];
  double real = rank + 0.5;
  OK(FMI_Pack_size(1, box, WORLD, &bytes));
  OK(FMI_Pack_size(1, FMI_DOUBLE, WORLD, &room));
  CHECK(bytes == 48 && room == 8);
  OK(FMI_Pack(&real, 1, FMI_DOUBLE, packed, sizeof packed, &position, WORLD));
  OK(FMI_Pack(from[1], 1, box, packed, sizeof packed, &position, WORLD));
  CHECK(position == 56);
  OK(FMI_Sendrecv_replace(packed, position, FMI_BYTE, (rank + 1) % ranks, 0, (rank + ranks - 1) % ranks, 0, WORLD,
                          FMI_STATUS_IGNORE));
  memset(to, -1, sizeof to);
  position = 0;
  OK(FMI_Unpack(packed, 56, &position, &real, 1, FMI_DOUBLE, WORLD));
  OK(FMI_Unpack(packed, 56, &position, to, 1, box, WORLD));
  CHECK(position == 56 && real == (rank + ranks - 1) % ranks + 0.5 && to[0][0][0][0] == -1);
  CHECK(to[0][2][4][4] == 1000 * ((rank + ranks - 1) % ranks) + kX * kY * kZ + (2 * kY + 4) * kZ + 4);
}

/* A communicator for each node, before the loop and in it; rank 1 dies. */
static void node(int prints) {
  FMI_Comm here, again = FMI_COMM_NULL, none;
  int size = 0, own = 0, sum = 0, step, least = 0;
  void* arrays[] = {&again};
  int sizes[] = {sizeof again};
  FMI_Comm_split_type(WORLD, FMI_COMM_TYPE_SHARED, -rank, &here);
  while ((step = FMI_Loop(arrays, sizes, 1)) < 4) {
    if (step == 1) {
      if (FMI_Comm_split_type(WORLD, FMI_COMM_TYPE_SHARED, 0, &again) != FMI_SUCCESS) continue;
      if (FMI_Comm_split_type(WORLD, FMI_UNDEFINED, 0, &none) != FMI_SUCCESS) continue;
      CHECK(none == FMI_COMM_NULL);
    }
    if (step == 3 && rank == 1 && !was_started_again()) die();
    if (FMI_Allreduce(&rank, &sum, 1, FMI_INT, FMI_SUM, here) != FMI_SUCCESS) continue;
    if (step < 2 || FMI_Allreduce(&rank, &least, 1, FMI_INT, FMI_MIN, again) != FMI_SUCCESS) continue;
    if (FMI_Barrier(WORLD) != FMI_SUCCESS) continue;
  }
  OK(FMI_Comm_size(here, &size));
  OK(FMI_Comm_rank(here, &own));
  if (prints) {
    printf("rank %d: place %d of %d, from %d, sum %d\n", rank, own, size, least, sum);
    fflush(stdout);
  }
}

int main(int argc, char** argv) {
  const char* name = argc == 2 ? argv[1] : "";
  char byte = 0;
  int position = 1;
  begin(&argc, &argv);
  if (strcmp(name, "all") == 0) {
    groups();
    boxes();
    if (rank == 0) puts("ok");
  } else if (strcmp(name, "node") == 0) {
    node(1);
  } else if (strcmp(name, "too-far") == 0) {
    FMI_Pack(&byte, 1, FMI_BYTE, &byte, 1, &position, WORLD);
  } else if (strcmp(name, "no-part") == 0) {
    FMI_Datatype type;
    const int size = 4, count = 3, first = 2;
    FMI_Type_create_subarray(1, &size, &count, &first, FMI_ORDER_C, FMI_INT, &type);
  } else {
    fail(__FILE__, __LINE__, name);
  }
  return FMI_Finalize();
}
