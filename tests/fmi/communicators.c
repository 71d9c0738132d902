/* What the tests of FMI ask of its communicators: `fmirun -n RANKS communicators CASE`. Each case ends with "ok", or as it says.
 */
#include <string.h>

#include "checks.h"

static int size_of(FMI_Comm comm) {
  int size = -1;
  OK(FMI_Comm_size(comm, &size));
  return size;
}

static int rank_in(FMI_Comm comm) {
  int own = -1;
  OK(FMI_Comm_rank(comm, &own));
  return own;
}

static int sum_over(FMI_Comm comm, int value) {
  int sum = -1;
  OK(FMI_Allreduce(&value, &sum, 1, FMI_INT, FMI_SUM, comm));
  return sum;
}

static void splits(void) {
  FMI_Comm copy, parity, none, backwards;
  int result;
  OK(FMI_Comm_dup(WORLD, &copy));
  OK(FMI_Comm_split(WORLD, rank % 2, 0, &parity));
  OK(FMI_Comm_split(WORLD, rank == 0 ? FMI_UNDEFINED : 7, rank, &none));
  OK(FMI_Comm_split(copy, 0, -rank, &backwards));
  CHECK(size_of(copy) == ranks && rank_in(copy) == rank);
  CHECK(size_of(parity) == (ranks + 1 - rank % 2) / 2 && rank_in(parity) == rank / 2);
  CHECK((none == FMI_COMM_NULL) == (rank == 0));
  if (rank > 0) CHECK(size_of(none) == ranks - 1 && rank_in(none) == rank - 1);
  CHECK(rank_in(backwards) == ranks - 1 - rank);
  OK(FMI_Comm_compare(WORLD, WORLD, &result));
  CHECK(result == FMI_IDENT);
  OK(FMI_Comm_compare(WORLD, copy, &result));
  CHECK(result == FMI_CONGRUENT);
  OK(FMI_Comm_compare(copy, backwards, &result));
  CHECK(result == (ranks == 1 ? FMI_CONGRUENT : FMI_SIMILAR));
  OK(FMI_Comm_compare(copy, parity, &result));
  CHECK(result == (ranks == 1 ? FMI_CONGRUENT : FMI_UNEQUAL));

  /* Each communicator's numbers are its own. */
  CHECK(sum_over(parity, 1) == size_of(parity));
  int root = rank_in(backwards) == 0 ? rank : -1;
  OK(FMI_Bcast(&root, 1, FMI_INT, 0, backwards));
  CHECK(root == ranks - 1);
  int all[256];
  OK(FMI_Allgather(&rank, 1, FMI_INT, all, 1, FMI_INT, parity));
  for (int i = 0; i < size_of(parity); ++i) CHECK(all[i] == 2 * i + rank % 2);
  OK(FMI_Gather(&rank, 1, FMI_INT, all, 1, FMI_INT, ranks - 1, backwards));
  for (int i = 0; rank == 0 && i < ranks; ++i) CHECK(all[i] == ranks - 1 - i);
  OK(FMI_Barrier(parity));

  OK(FMI_Comm_free(&copy));
  OK(FMI_Comm_free(&parity));
  if (rank > 0) OK(FMI_Comm_free(&none));
  CHECK(copy == FMI_COMM_NULL && parity == FMI_COMM_NULL && none == FMI_COMM_NULL);
  CHECK(sum_over(backwards, 1) == ranks);
  OK(FMI_Comm_free(&backwards));
}

/* The same tag from the same rank, received in another order: what belongs to the communicator comes, whoever it may be from. */
static void messages_stay_apart(void) {
  FMI_Comm comms[3] = {WORLD};
  OK(FMI_Comm_dup(WORLD, &comms[1]));
  OK(FMI_Comm_split(WORLD, 0, -rank, &comms[2]));
  const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
  for (int i = 0; i < 3; ++i) OK(FMI_Send(&i, 1, FMI_INT, i == 2 ? ranks - 1 - next : next, 5, comms[i]));
  for (int i = 2; i >= 0; --i) {
    int got = -1;
    FMI_Status status;
    OK(FMI_Recv(&got, 1, FMI_INT, FMI_ANY_SOURCE, FMI_ANY_TAG, comms[i], &status));
    CHECK(got == i && status.FMI_SOURCE == (i == 2 ? ranks - 1 - previous : previous) && status.FMI_TAG == 5);
  }
  /* Long ones, of whom the receiver knows; the communicator is gone before they come. */
  enum { kLong = 50000 };
  int *out = malloc(kLong * sizeof *out), *in = malloc(kLong * sizeof *in);
  for (int i = 0; i < kLong; ++i) out[i] = rank * i;
  FMI_Request requests[2];
  FMI_Status statuses[2];
  OK(FMI_Irecv(in, kLong, FMI_INT, FMI_ANY_SOURCE, 6, comms[2], &requests[0]));
  OK(FMI_Isend(out, kLong, FMI_INT, ranks - 1 - next, 6, comms[2], &requests[1]));
  OK(FMI_Comm_free(&comms[2]));
  OK(FMI_Waitall(2, requests, statuses));
  CHECK(statuses[0].FMI_SOURCE == ranks - 1 - previous);
  for (int i = 0; i < kLong; ++i) CHECK(in[i] == previous * i);
  free(out);
  free(in);
  OK(FMI_Comm_free(&comms[1]));
}

static void groups(void) {
  FMI_Group world, evens, odds, none;
  int *members = malloc(ranks * sizeof *members), size, own, count = 0;
  OK(FMI_Comm_group(WORLD, &world));
  for (int i = 0; i < ranks; i += 2) members[count++] = i;
  OK(FMI_Group_incl(world, count, members, &evens));
  OK(FMI_Group_excl(world, count, members, &odds));
  OK(FMI_Group_size(evens, &size));
  CHECK(size == count);
  OK(FMI_Group_size(odds, &size));
  CHECK(size == ranks - count);
  OK(FMI_Group_rank(odds, &own));
  CHECK(own == (rank % 2 == 1 ? rank / 2 : FMI_UNDEFINED));
  int asked[3] = {0, FMI_PROC_NULL, count - 1}, found[3];
  OK(FMI_Group_translate_ranks(evens, 3, asked, world, found));
  CHECK(found[0] == 0 && found[1] == FMI_PROC_NULL && found[2] == 2 * (count - 1));
  OK(FMI_Group_translate_ranks(evens, 1, asked, odds, found));
  CHECK(found[0] == FMI_UNDEFINED);
  OK(FMI_Group_incl(world, 0, NULL, &none));
  CHECK(none == FMI_GROUP_EMPTY);

  /* Of one group; of two at once. */
  FMI_Comm made;
  OK(FMI_Comm_create(WORLD, evens, &made));
  CHECK((made == FMI_COMM_NULL) == (rank % 2 == 1));
  if (made != FMI_COMM_NULL) CHECK(sum_over(made, 1) == count && rank_in(made) == rank / 2);
  if (made != FMI_COMM_NULL) OK(FMI_Comm_free(&made));
  OK(FMI_Comm_create(WORLD, rank % 2 == 1 ? odds : evens, &made));
  CHECK(sum_over(made, rank % 2) == (rank % 2 == 1 ? ranks - count : 0));
  OK(FMI_Comm_free(&made));
  if (odds != FMI_GROUP_EMPTY) OK(FMI_Group_free(&odds));
  OK(FMI_Group_free(&evens));
  OK(FMI_Group_free(&world));
  CHECK(world == FMI_GROUP_NULL);
  free(members);
}

static void grids(void) {
  int sizes[2] = {0, 0}, found[2], periods[2] = {0, 1}, wraps[2], at[2], own, dimensions;
  FMI_Comm grid, row, small;
  OK(FMI_Dims_create(ranks, 2, sizes));
  CHECK(sizes[0] * sizes[1] == ranks && sizes[0] >= sizes[1]);
  OK(FMI_Cart_create(WORLD, 2, sizes, periods, 1, &grid));
  OK(FMI_Cartdim_get(grid, &dimensions));
  OK(FMI_Cart_get(grid, 2, found, wraps, at));
  CHECK(dimensions == 2 && found[0] == sizes[0] && found[1] == sizes[1] && wraps[0] == 0 && wraps[1] == 1);
  CHECK(at[0] == rank / sizes[1] && at[1] == rank % sizes[1]);
  OK(FMI_Cart_rank(grid, at, &own));
  CHECK(own == rank);
  OK(FMI_Cart_coords(grid, ranks - 1, 2, found));
  CHECK(found[0] == sizes[0] - 1 && found[1] == sizes[1] - 1);

  int above, below, left, right;
  OK(FMI_Cart_shift(grid, 0, 1, &above, &below));
  OK(FMI_Cart_shift(grid, 1, 1, &left, &right));
  CHECK(above == (at[0] == 0 ? FMI_PROC_NULL : rank - sizes[1]));
  CHECK(below == (at[0] == sizes[0] - 1 ? FMI_PROC_NULL : rank + sizes[1]));
  CHECK(right == rank - at[1] + (at[1] + 1) % sizes[1]);
  int got = -1;
  FMI_Status status;
  OK(FMI_Sendrecv(&rank, 1, FMI_INT, right, 0, &got, 1, FMI_INT, left, 0, grid, &status));
  CHECK(got == left && status.FMI_SOURCE == left);
  OK(FMI_Sendrecv(&rank, 1, FMI_INT, below, 0, &got, 1, FMI_INT, above, 0, grid, &status));
  CHECK(status.FMI_SOURCE == above && got == (above == FMI_PROC_NULL ? left : above));

  const int keeps[2] = {0, 1};
  OK(FMI_Cart_sub(grid, keeps, &row));
  CHECK(size_of(row) == sizes[1] && rank_in(row) == at[1]);
  CHECK(sum_over(row, at[0]) == at[0] * sizes[1]);
  OK(FMI_Cart_get(row, 1, found, wraps, found + 1));
  CHECK(found[0] == sizes[1] && wraps[0] == 1 && found[1] == at[1]);

  /* A copy is a grid, too; who has no place in one has none. */
  FMI_Comm copy;
  OK(FMI_Comm_dup(row, &copy));
  OK(FMI_Cartdim_get(copy, &dimensions));
  CHECK(dimensions == 1);
  sizes[0] = ranks > 1 ? ranks - 1 : 1;
  OK(FMI_Cart_create(WORLD, 1, sizes, periods, 0, &small));
  CHECK((small == FMI_COMM_NULL) == (rank >= sizes[0]));
  if (small != FMI_COMM_NULL) OK(FMI_Comm_free(&small));
  OK(FMI_Comm_free(&copy));
  OK(FMI_Comm_free(&row));
  OK(FMI_Comm_free(&grid));
}

/* A checkpoint at step 0 alone; rank 1 dies in step 3. What was done after the checkpoint is undone for all. */
static void come_back(int uses_a_stale_one) {
  FMI_Comm parity, freed, made = FMI_COMM_NULL, stale = FMI_COMM_NULL;
  FMI_Group group, none;
  int step, own;
  if (was_started_again()) {
    /* What follows from others' arguments is not known yet; the handles are. */
    CHECK(FMI_Comm_split(WORLD, rank % 2, -rank, &parity) == FMI_ERR_PROC_FAILED && parity != FMI_COMM_NULL);
    CHECK(FMI_Comm_group(parity, &group) == FMI_ERR_PROC_FAILED && FMI_Group_size(group, &own) == FMI_ERR_PROC_FAILED);
    CHECK(FMI_Group_incl(group, 0, NULL, &none) == FMI_ERR_PROC_FAILED);
    CHECK(FMI_Comm_group(parity, &group) == FMI_ERR_PROC_FAILED);
    CHECK(FMI_Comm_dup(parity, &freed) == FMI_ERR_PROC_FAILED && freed != FMI_COMM_NULL);
    CHECK(FMI_Comm_rank(parity, &own) == FMI_ERR_PROC_FAILED && FMI_Barrier(parity) == FMI_ERR_PROC_FAILED);
  } else {
    OK(FMI_Comm_split(WORLD, rank % 2, -rank, &parity));
    OK(FMI_Comm_group(parity, &group));
    OK(FMI_Group_incl(group, 0, NULL, &none));
    CHECK(none == FMI_GROUP_EMPTY);
    OK(FMI_Comm_group(parity, &group));
    OK(FMI_Comm_dup(parity, &freed));
  }
  void* arrays[] = {&freed, &made};
  int sizes[] = {sizeof freed, sizeof made};
  while ((step = FMI_Loop(arrays, sizes, 2)) < 6) {
    CHECK(rank_in(parity) == (ranks - 1 - rank) / 2 && size_of(parity) == (ranks + 1 - rank % 2) / 2);
    OK(FMI_Group_rank(group, &own));
    CHECK(own == rank_in(parity));
    if (step == 0) {
      CHECK(made == FMI_COMM_NULL && rank_in(freed) == own);
      if (stale != FMI_COMM_NULL && uses_a_stale_one) FMI_Barrier(stale);
      if (FMI_Barrier(freed) != FMI_SUCCESS) continue;
      OK(FMI_Comm_free(&freed));
      if (FMI_Comm_dup(WORLD, &made) != FMI_SUCCESS) continue;
    }
    int code = FMI_Barrier(made);
    if (step == 3 && rank == 1 && !was_started_again()) die();
    if (code == FMI_SUCCESS) code = FMI_Barrier(made);
    if (code == FMI_SUCCESS) continue;
    CHECK(step == 3);
    stale = made;
    /* What is made now is nothing before all are back. */
    CHECK(FMI_Comm_split(WORLD, 0, 0, &made) == FMI_ERR_PROC_FAILED && made != FMI_COMM_NULL);
    CHECK(FMI_Comm_size(made, &own) == FMI_ERR_PROC_FAILED && FMI_Barrier(made) == FMI_ERR_PROC_FAILED);
    CHECK(FMI_Comm_free(&made) == FMI_ERR_PROC_FAILED);
  }
  CHECK((stale == FMI_COMM_NULL) == (rank == 1));
  OK(FMI_Comm_free(&made));
}

static void misuse(const char* name) {
  int value[2] = {0, 0};
  FMI_Comm comm, other;
  FMI_Group group;
  if (strcmp(name, "freed") == 0) {
    OK(FMI_Comm_dup(WORLD, &comm));
    other = comm;
    OK(FMI_Comm_free(&comm));
    FMI_Barrier(other);
  } else if (strcmp(name, "null") == 0) {
    FMI_Barrier(FMI_COMM_NULL);
  } else if (strcmp(name, "never") == 0) {
    FMI_Send(value, 1, FMI_INT, 0, 0, (FMI_Comm)5);
  } else if (strcmp(name, "free-world") == 0) {
    comm = WORLD;
    FMI_Comm_free(&comm);
  } else if (strcmp(name, "rank") == 0) {
    OK(FMI_Comm_split(WORLD, rank, 0, &comm));
    if (rank == 1) FMI_Send(value, 1, FMI_INT, 1, 0, comm);
  } else if (strcmp(name, "root") == 0) {
    OK(FMI_Comm_split(WORLD, rank, 0, &comm));
    if (rank == 1) FMI_Bcast(value, 1, FMI_INT, 1, comm);
  } else if (strcmp(name, "truncated") == 0) {
    OK(FMI_Comm_split(WORLD, 0, -rank, &comm));
    if (rank == 1) FMI_Send(value, 2, FMI_INT, 1, 9, comm);
    if (rank == 0) FMI_Recv(value, 1, FMI_INT, 0, 9, comm, FMI_STATUS_IGNORE);
  } else if (strcmp(name, "colour") == 0) {
    FMI_Comm_split(WORLD, -1, 0, &comm);
  } else if (strcmp(name, "different") == 0) {
    if (rank == 0) FMI_Comm_dup(WORLD, &comm);
    if (rank == 1) FMI_Comm_split(WORLD, 0, 0, &comm);
  } else if (strcmp(name, "not-made") == 0) {
    if (rank == 0) FMI_Barrier(WORLD);
    if (rank == 1) FMI_Comm_dup(WORLD, &comm);
  } else if (strcmp(name, "group") == 0) {
    OK(FMI_Comm_group(WORLD, &group));
    value[0] = 2;
    FMI_Group_incl(group, 1, value, &group);
  } else if (strcmp(name, "freed-group") == 0) {
    OK(FMI_Comm_group(WORLD, &group));
    FMI_Group left = group;
    OK(FMI_Group_free(&group));
    FMI_Group_size(left, value);
  } else if (strcmp(name, "others-group") == 0) {
    OK(FMI_Comm_group(WORLD, &group));
    OK(FMI_Comm_split(WORLD, rank, 0, &comm));
    FMI_Comm_create(comm, group, &other);
  } else if (strcmp(name, "no-grid") == 0) {
    FMI_Cart_coords(WORLD, 0, 1, value);
  } else if (strcmp(name, "large-grid") == 0) {
    const int sizes[] = {2, 2}, periods[] = {0, 0};
    FMI_Cart_create(WORLD, 2, sizes, periods, 0, &comm);
  } else if (strcmp(name, "outside") == 0) {
    const int sizes[] = {2}, periods[] = {0}, at[] = {2};
    OK(FMI_Cart_create(WORLD, 1, sizes, periods, 0, &comm));
    FMI_Cart_rank(comm, at, value);
  } else if (strcmp(name, "dimension") == 0) {
    const int sizes[] = {2}, periods[] = {0};
    OK(FMI_Cart_create(WORLD, 1, sizes, periods, 0, &comm));
    FMI_Cart_shift(comm, 1, 1, &value[0], &value[1]);
  } else {
    fail(__FILE__, __LINE__, name);
  }
  FMI_Barrier(WORLD);
}

int main(int argc, char** argv) {
  const char* name = argc == 2 ? argv[1] : "";
  begin(&argc, &argv);
  if (strcmp(name, "all") == 0) {
    for (int round = 0; round < 20; ++round) {
      splits();
      messages_stay_apart();
      groups();
      grids();
    }
  } else if (strcmp(name, "come-back") == 0) {
    come_back(0);
  } else if (strcmp(name, "stale") == 0) {
    come_back(1);
  } else {
    misuse(name);
  }
  if (rank == 0) puts("ok");
  return FMI_Finalize();
}
