/* What the tests of FMI ask of its calls: `fmirun -n RANKS calls CASE`. Each case ends with "ok", or as it says. */
#include <string.h>

#include "checks.h"

static void point_to_point(void) {
  const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
  int got = -1, count;
  FMI_Status status;
  CHECK(FMI_Sendrecv(&rank, 1, FMI_INT, next, 7, &got, 1, FMI_INT, previous, 7, WORLD, &status) == FMI_SUCCESS);
  CHECK(got == previous && status.FMI_SOURCE == previous && status.FMI_TAG == 7);
  CHECK(FMI_Get_count(&status, FMI_INT, &count) == FMI_SUCCESS && count == 1);
  CHECK(FMI_Get_count(&status, FMI_DOUBLE, &count) == FMI_SUCCESS && count == FMI_UNDEFINED);

  /* Nobody: nothing happens. */
  got = 42;
  CHECK(FMI_Send(&rank, 1, FMI_INT, FMI_PROC_NULL, 0, WORLD) == FMI_SUCCESS);
  CHECK(FMI_Recv(&got, 1, FMI_INT, FMI_PROC_NULL, 0, WORLD, &status) == FMI_SUCCESS);
  CHECK(got == 42 && status.FMI_SOURCE == FMI_PROC_NULL && status.bytes == 0);

  /* From anybody, with any tag. */
  if (rank == 0) {
    int seen[256] = {0};
    for (int i = 1; i < ranks; ++i) {
      CHECK(FMI_Recv(&got, 1, FMI_INT, FMI_ANY_SOURCE, FMI_ANY_TAG, WORLD, &status) == FMI_SUCCESS);
      CHECK(status.FMI_SOURCE == got && status.FMI_TAG == 100 + got && !seen[got]++);
    }
  } else {
    CHECK(FMI_Send(&rank, 1, FMI_INT, 0, 100 + rank, WORLD) == FMI_SUCCESS);
  }

  CHECK(FMI_Barrier(WORLD) == FMI_SUCCESS);

  /* Long ones, begun before they are waited for, with requests that are none among them. */
  enum { kLong = 300000 };
  int *out = malloc(kLong * sizeof *out), *in = malloc(kLong * sizeof *in);
  for (int i = 0; i < kLong; ++i) out[i] = rank + i;
  FMI_Request requests[4] = {FMI_REQUEST_NULL, FMI_REQUEST_NULL, FMI_REQUEST_NULL, FMI_REQUEST_NULL};
  CHECK(FMI_Isend(out, kLong, FMI_INT, next, 1, WORLD, &requests[0]) == FMI_SUCCESS);
  CHECK(FMI_Irecv(in, kLong, FMI_INT, previous, 1, WORLD, &requests[2]) == FMI_SUCCESS);
  CHECK(FMI_Isend(out, 1, FMI_INT, FMI_PROC_NULL, 1, WORLD, &requests[3]) == FMI_SUCCESS);
  CHECK(FMI_Waitall(4, requests, FMI_STATUSES_IGNORE) == FMI_SUCCESS);
  for (int i = 0; i < kLong; ++i) CHECK(in[i] == previous + i);
  for (int i = 0; i < 4; ++i) CHECK(requests[i] == FMI_REQUEST_NULL);
  free(out);
  free(in);

  int flag = 0;
  CHECK(FMI_Irecv(&got, 1, FMI_INT, rank, 2, WORLD, &requests[0]) == FMI_SUCCESS);
  CHECK(FMI_Test(&requests[0], &flag, FMI_STATUS_IGNORE) == FMI_SUCCESS && !flag);
  CHECK(FMI_Send(&rank, 1, FMI_INT, rank, 2, WORLD) == FMI_SUCCESS);
  CHECK(FMI_Test(&requests[0], &flag, &status) == FMI_SUCCESS && flag && got == rank && status.FMI_SOURCE == rank);
  CHECK(requests[0] == FMI_REQUEST_NULL && FMI_Wait(&requests[0], FMI_STATUS_IGNORE) == FMI_SUCCESS);
}

static void collectives(void) {
  const int sum = ranks * (ranks - 1) / 2, root = ranks - 1;
  int value = rank, result = -1, all[256];
  CHECK(FMI_Barrier(WORLD) == FMI_SUCCESS);
  CHECK(FMI_Reduce(&value, &result, 1, FMI_INT, FMI_SUM, root, WORLD) == FMI_SUCCESS);
  CHECK(result == (rank == root ? sum : -1));
  CHECK(FMI_Reduce(rank == root ? FMI_IN_PLACE : &value, &value, 1, FMI_INT, FMI_SUM, root, WORLD) == FMI_SUCCESS);
  CHECK(value == (rank == root ? sum : rank));
  value = rank;
  CHECK(FMI_Allreduce(FMI_IN_PLACE, &value, 1, FMI_INT, FMI_MAX, WORLD) == FMI_SUCCESS && value == ranks - 1);
  value = rank == root ? 77 : 0;
  CHECK(FMI_Bcast(&value, 1, FMI_INT, root, WORLD) == FMI_SUCCESS && value == 77);
  CHECK(FMI_Gather(&rank, 1, FMI_INT, all, 1, FMI_INT, root, WORLD) == FMI_SUCCESS);
  for (int i = 0; rank == root && i < ranks; ++i) CHECK(all[i] == i);
  memset(all, -1, sizeof all);
  all[rank] = rank;
  CHECK(FMI_Allgather(FMI_IN_PLACE, 0, FMI_INT, all, 1, FMI_INT, WORLD) == FMI_SUCCESS);
  for (int i = 0; i < ranks; ++i) CHECK(all[i] == i);
}

static void pieces(void) {
  const int root = ranks - 1;
  int counts[256], places[256], own = 100 + rank, all[512], got = -1;
  for (int i = 0; i < ranks; ++i) {
    counts[i] = 1;
    places[i] = 2 * (ranks - 1 - i);
  }
  memset(all, -1, sizeof all);
  OK(FMI_Gatherv(&own, 1, FMI_INT, all, counts, places, FMI_INT, root, WORLD));
  for (int i = 0; rank == root && i < ranks; ++i) CHECK(all[places[i]] == 100 + i && all[places[i] + 1] == -1);
  OK(FMI_Allgatherv(&own, 1, FMI_INT, all, counts, places, FMI_INT, WORLD));
  for (int i = 0; i < ranks; ++i) CHECK(all[places[i]] == 100 + i && all[places[i] + 1] == -1);
  OK(FMI_Scatterv(all, counts, places, FMI_INT, &got, 1, FMI_INT, root, WORLD));
  CHECK(got == 100 + rank);
  for (int i = 0; i < ranks; ++i) all[i] = 10 * rank + i;
  OK(FMI_Scatter(all, 1, FMI_INT, &got, 1, FMI_INT, root, WORLD));
  CHECK(got == 10 * root + rank);
  OK(FMI_Alltoall(FMI_IN_PLACE, 0, FMI_INT, all, 1, FMI_INT, WORLD));
  for (int i = 0; i < ranks; ++i) CHECK(all[i] == 10 * i + rank);
  OK(FMI_Alltoallv(FMI_IN_PLACE, NULL, NULL, FMI_INT, all, counts, places, FMI_INT, WORLD));
  OK(FMI_Scan(&rank, &got, 1, FMI_INT, FMI_SUM, WORLD));
  CHECK(got == rank * (rank + 1) / 2);
}

static void check_that_calls_fail(void) {
  int value = 0;
  FMI_Status status;
  FMI_Request request;
  CHECK(FMI_Send(&value, 1, FMI_INT, 0, 0, WORLD) == FMI_ERR_PROC_FAILED);
  CHECK(FMI_Recv(&value, 1, FMI_INT, FMI_ANY_SOURCE, 0, WORLD, &status) == FMI_ERR_PROC_FAILED);
  CHECK(FMI_Isend(&value, 1, FMI_INT, 0, 0, WORLD, &request) == FMI_ERR_PROC_FAILED);
  CHECK(FMI_Wait(&request, FMI_STATUS_IGNORE) == FMI_ERR_PROC_FAILED && request == FMI_REQUEST_NULL);
  CHECK(FMI_Probe(FMI_ANY_SOURCE, 0, WORLD, &status) == FMI_ERR_PROC_FAILED);
  CHECK(FMI_Ssend(&value, 1, FMI_INT, rank, 0, WORLD) == FMI_ERR_PROC_FAILED);
  CHECK(FMI_Scan(&value, &value, 1, FMI_INT, FMI_SUM, WORLD) == FMI_ERR_PROC_FAILED);
  CHECK(FMI_Barrier(WORLD) == FMI_ERR_PROC_FAILED);
  CHECK(FMI_Bcast(&value, 1, FMI_INT, 0, WORLD) == FMI_ERR_PROC_FAILED);
}

/* Steps of a job in which rank 1 dies once, in step 3. */
static void loop(void) {
  int step, kept = 0, state[2] = {0, 0};
  void* arrays[] = {state};
  int sizes[] = {sizeof state};
  while ((step = FMI_Loop(arrays, sizes, 1)) < 6) {
    CHECK(state[0] == step);
    int sum = -1;
    /* All have taken the step's checkpoint. */
    int code = FMI_Barrier(WORLD);
    if (step == 3 && rank == 1 && !was_started_again()) die();
    if (code == FMI_SUCCESS) code = FMI_Allreduce(&step, &sum, 1, FMI_INT, FMI_SUM, WORLD);
    if (code != FMI_SUCCESS) {
      CHECK(step == 3);
      check_that_calls_fail();
      ++kept;
      continue;
    }
    CHECK(sum == step * ranks);
    state[0] = step + 1;
  }
  /* Who lives has seen it once, and has not forgotten it. */
  CHECK(kept == (rank == 1 ? 0 : 1));
  CHECK(was_started_again() == (rank == 1));
}

/* What ranks ask of each other before the first FMI_Loop is there for a successor only as an error. */
static void set_up(void) {
  const int code = FMI_Barrier(WORLD);
  CHECK(code == (was_started_again() ? FMI_ERR_PROC_FAILED : FMI_SUCCESS));
}

static void sizes_differ(void) {
  char state[64] = {0};
  void* arrays[] = {state};
  int sizes[] = {was_started_again() ? 48 : 64};
  while (FMI_Loop(arrays, sizes, 1) < 10) {
    if (rank == 1) die();
    FMI_Barrier(WORLD);
  }
}

/* The store is away in step 3, and back in step 4, from which rank 1 dies. */
static void checkpoint_fails(void) {
  const char* store = getenv("KEDGE_STORE_PATH");
  char away[4096];
  snprintf(away, sizeof away, "%s.away", store);
  int state = 0, step;
  void* arrays[] = {&state};
  int sizes[] = {sizeof state};
  while ((step = FMI_Loop(arrays, sizes, 1)) < 6) {
    CHECK(state == step);
    if (FMI_Barrier(WORLD) != FMI_SUCCESS) continue;
    if (step == 2 && rank == 0) CHECK(rename(store, away) == 0);
    if (step == 3 && rank == 0) CHECK(rename(away, store) == 0);
    if (step == 4 && rank == 1 && !was_started_again()) die();
    if (FMI_Barrier(WORLD) != FMI_SUCCESS) continue;
    state = step + 1;
  }
}

/* Rank 1 makes one call less; with `receives` rank 0 waits for a message of it at the end. */
static void loops_differ(int receives) {
  int state = 0, step;
  void* arrays[] = {&state};
  int sizes[] = {sizeof state};
  while ((step = FMI_Loop(arrays, sizes, 1)) < (rank == 1 ? 4 : 5)) {
    if (receives && rank == 0 && step == 4) FMI_Recv(&state, 1, FMI_INT, 1, 0, WORLD, FMI_STATUS_IGNORE);
  }
}

static void misuse(const char* name) {
  int value[2] = {0, 0};
  if (strcmp(name, "truncated") == 0) {
    if (rank == 1) FMI_Send(value, 2, FMI_INT, 0, 9, WORLD);
    if (rank == 0) FMI_Recv(value, 1, FMI_INT, 1, 9, WORLD, FMI_STATUS_IGNORE);
    FMI_Barrier(WORLD);
  } else if (strcmp(name, "different-calls") == 0) {
    if (rank == 0) FMI_Allreduce(FMI_IN_PLACE, value, 1, FMI_INT, FMI_SUM, WORLD);
    if (rank != 0) FMI_Barrier(WORLD);
    FMI_Barrier(WORLD);
  } else if (strcmp(name, "no-such-rank") == 0) {
    FMI_Send(value, 1, FMI_INT, ranks, 0, WORLD);
  } else if (strcmp(name, "no-such-communicator") == 0) {
    FMI_Barrier((FMI_Comm)5);
  } else if (strcmp(name, "no-such-type") == 0) {
    FMI_Bcast(value, 1, (FMI_Datatype)99, 0, WORLD);
  } else if (strcmp(name, "no-such-operation") == 0) {
    FMI_Allreduce(FMI_IN_PLACE, value, 1, FMI_BYTE, FMI_SUM, WORLD);
  } else if (strcmp(name, "abort") == 0) {
    if (rank == 1) FMI_Abort(WORLD, 9);
    FMI_Barrier(WORLD);
  } else if (strcmp(name, "exit") == 0) {
    if (rank == 1) exit(0);
    FMI_Barrier(WORLD);
  } else if (strcmp(name, "crash-on-and-on") == 0) {
    FMI_Barrier(WORLD);
    if (rank == 1) die();
  } else if (strcmp(name, "never-loops") == 0) {
    void* arrays[] = {value};
    int sizes[] = {sizeof value};
    FMI_Loop(arrays, sizes, 1);
    FMI_Barrier(WORLD);
    if (rank == 1) die();
    while (rank == 2) sleep(1);
    FMI_Loop(arrays, sizes, 1);
  } else {
    fail(__FILE__, __LINE__, name);
  }
}

int main(int argc, char** argv) {
  const char* name = argc == 2 ? argv[1] : "";
  if (strcmp(name, "before-init") == 0) return FMI_Barrier(WORLD);
  begin(&argc, &argv);
  if (strcmp(name, "all") == 0) {
    for (int round = 0; round < 50; ++round) {
      point_to_point();
      collectives();
      pieces();
    }
  } else if (strcmp(name, "survive") == 0) {
    set_up();
    loop();
  } else if (strcmp(name, "sizes-differ") == 0) {
    sizes_differ();
  } else if (strcmp(name, "checkpoint-fails") == 0) {
    checkpoint_fails();
  } else if (strcmp(name, "loops-differ") == 0) {
    loops_differ(0);
  } else if (strcmp(name, "loops-differ-by-messages") == 0) {
    loops_differ(1);
  } else {
    misuse(name);
  }
  if (rank == 0) puts("ok");
  return FMI_Finalize();
}
