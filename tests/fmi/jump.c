/* Programs in C that ignore what calls return: `fmirun -n RANKS fmi_jump CASE`. */
#include <kedge/fmi_jump.h>
#include <stdint.h>
#include <string.h>

#include "checks.h"

enum { kSteps = 12, kLong = 50000 };

static int respawns(void) {
  return atoi(getenv("FMI_RESPAWNS"));
}

static double field[kLong];
static int64_t state;

/* Calls come back with success alone. */
static void call_all(int step) {
  static double got[kLong];
  double sum = 0;
  const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
  FMI_Request requests[2];
  int finished = 0, indices[2];
  OK(FMI_Irecv(got, kLong, FMI_DOUBLE, previous, 1, WORLD, &requests[0]));
  OK(FMI_Issend(field, kLong, FMI_DOUBLE, next, 1, WORLD, &requests[1]));
  if (step % 3 == 0) {
    OK(FMI_Waitall(2, requests, FMI_STATUSES_IGNORE));
  } else {
    for (int all = 0; all < 2; all += finished) {
      step % 3 == 1 ? OK(FMI_Waitsome(2, requests, &finished, indices, FMI_STATUSES_IGNORE))
                    : OK(FMI_Testsome(2, requests, &finished, indices, FMI_STATUSES_IGNORE));
    }
  }
  for (int i = 0; i < kLong; ++i) field[i] = got[i] + 1;
  OK(FMI_Allreduce(&field[7], &sum, 1, FMI_DOUBLE, FMI_SUM, WORLD));
  state += (int64_t)sum;
}

/* From some frames further in. */
static void nested(int step, int depth, char* memory) {
  char more[200];
  memset(more, depth, sizeof more);
  if (depth > 0) {
    nested(step, depth - 1, more);
  } else {
    call_all(step);
  }
  CHECK(memory[0] == depth + 1);
}

static void do_step(int step) {
  char memory[200];
  memset(memory, 6, sizeof memory);
  nested(step, 5, memory);
}

static void begin_state(void) {
  for (int i = 0; i < kLong; ++i) field[i] = rank;
  state = 0;
}

static void check_state(void) {
  int64_t expected = 0;
  for (int step = 1; step <= kSteps; ++step) expected += (int64_t)ranks * (ranks - 1) / 2 + (int64_t)ranks * step;
  CHECK(state == expected);
}

/* Whoever is named dies in his n-th life in this step, among his calls. */
static void die_in(int step, int who, int life, int at) {
  if (step == at && rank == who && respawns() == life) die();
}

static void run(void) {
  void* arrays[] = {field, &state};
  int sizes[] = {sizeof field, sizeof state};
  volatile int step;
  while ((step = FMI_Loop(arrays, sizes, 2)) < kSteps) {
    die_in(step, 1, 0, 3);
    die_in(step, 0, 0, 5);
    die_in(step, 1, 1, 7);
    do_step(step);
    die_in(step, 2, 0, 8);
  }
  /* A rank that dies behind the loop brings all of them back to it. */
  int64_t all = 0;
  if (rank == 3 && respawns() == 0) die();
  OK(FMI_Allreduce(&state, &all, 1, FMI_LONG, FMI_SUM, WORLD));
  CHECK(all == ranks * state);
}

static void loop_to_the_end(void) {
  void* arrays[] = {field, &state};
  int sizes[] = {sizeof field, sizeof state};
  int step;
  while ((step = FMI_Loop(arrays, sizes, 2)) < kSteps) do_step(step);
}

/* The function with the loop has returned: then calls say what is, and the program goes back by itself. */
static void returned(void) {
  loop_to_the_end();
  if (rank == 1 && respawns() == 0) die();
  while (FMI_Barrier(WORLD) != FMI_SUCCESS) loop_to_the_end();
}

int main(int argc, char** argv) {
  const char* name = argc == 2 ? argv[1] : "";
  begin(&argc, &argv);
  begin_state();
  if (strcmp(name, "survive") == 0) {
    run();
  } else if (strcmp(name, "returned") == 0) {
    returned();
  } else {
    fail(__FILE__, __LINE__, name);
  }
  check_state();
  if (rank == 0) puts("ok");
  return FMI_Finalize();
}
