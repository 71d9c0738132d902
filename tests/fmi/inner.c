/* Steps with two loops in them: `fmirun -n RANKS fmi_inner CASE`. It prints its result, and how many turns rank 0 has made.
 * With -DJUMPS it is a program that ignores what calls return. */
#ifdef JUMPS
#include <kedge/fmi_jump.h>
#endif
#include <stdint.h>
#include <string.h>

#include "checks.h"

enum { kSteps = 4, kTurns = 60, kCells = 300 };

static double field[kCells]; /* from step to step */
static double right[kCells]; /* of the step, made anew at its begin */
static double x[kCells], y[kCells], sum;
static int turns; /* of this process */

/* Each rank's cells and those of the one before it. */
static int relax(double* cells) {
  double got[kCells], own = 0;
  int code = FMI_Sendrecv(cells, kCells, FMI_DOUBLE, (rank + 1) % ranks, 1, got, kCells, FMI_DOUBLE, (rank + ranks - 1) % ranks,
                          1, WORLD, FMI_STATUS_IGNORE);
  if (code != FMI_SUCCESS) return code;
  for (int i = 0; i < kCells; ++i) {
    cells[i] = 0.5 * (cells[i] + 0.999 * got[i]) + 0.01 * right[i] + 1e-6 * sum;
    own += cells[i];
  }
  return FMI_Allreduce(&own, &sum, 1, FMI_DOUBLE, FMI_SUM, WORLD);
}

static int prepare(int step) {
  double most = 0, own = field[step];
  const int code = FMI_Allreduce(&own, &most, 1, FMI_DOUBLE, FMI_MAX, WORLD);
  for (int i = 0; i < kCells; ++i) right[i] = field[i] / (1 + most) + step;
  memset(x, 0, sizeof x);
  memset(y, 0, sizeof y);
  sum = 0;
  return code;
}

/* KILLS has "LOOP STEP TURN" for this process, if it is to die there. */
static void die_if_due(const char* loop, int step, int turn) {
  char here[64];
  snprintf(here, sizeof here, "%s %d %d", loop, step, turn);
  if (getenv("KILLS") != NULL && strcmp(getenv("KILLS"), here) == 0) die();
}

/* FMI_OUTER_LOOP, or how many turns it has made in all. With MORE in the environment it has an array more in its checkpoints. */
static int loop(const char* name, int step, double* cells) {
  int more = 0, turn;
  void* own[] = {cells, &sum, &more};
  int bytes[] = {kCells * sizeof *cells, sizeof sum, sizeof more};
  const int count = getenv("MORE") != NULL ? 3 : 2;
  while ((turn = FMI_Inner_loop(name, own, bytes, count)) != FMI_OUTER_LOOP && turn < kTurns) {
    die_if_due(name, step, turn);
    ++turns;
    usleep(500);
    if (relax(cells) != FMI_SUCCESS) continue;
  }
  return turn;
}

static int print_result(void) {
  uint64_t own = 0, all = 0, bits;
  for (int i = 0; i < kCells; ++i) {
    memcpy(&bits, &field[i], sizeof bits);
    own += (bits ^ (uint64_t)(rank * kCells + i)) * UINT64_C(0x9e3779b97f4a7c15);
  }
  const int code = FMI_Reduce(&own, &all, 1, FMI_UNSIGNED_LONG, FMI_SUM, 0, WORLD);
  if (code == FMI_SUCCESS && rank == 0) printf("steps %d, checksum %016lx\nturns %d\n", kSteps, (unsigned long)all, turns);
  return code;
}

static void survive(void) {
  void* arrays[] = {field};
  int bytes[] = {sizeof field};
  for (int i = 0; i < kCells; ++i) field[i] = rank + 0.001 * i;
  do {
    int step;
    while ((step = FMI_Loop(arrays, bytes, 1)) < kSteps) {
      if (prepare(step) != FMI_SUCCESS) continue;
      if (loop("first", step, x) == FMI_OUTER_LOOP) continue;
      die_if_due("between", step, 0);
      if (loop("second", step, y) == FMI_OUTER_LOOP) continue;
      for (int i = 0; i < kCells; ++i) field[i] += x[i] + y[i];
      die_if_due("behind", step, 0);
    }
  } while (print_result() != FMI_SUCCESS);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  const char* name = argc > 1 ? argv[1] : "";
  void* arrays[] = {field};
  int bytes[] = {sizeof field};
  if (strcmp(name, "survive") == 0) survive();
  if (strcmp(name, "outside") == 0) FMI_Inner_loop("solve", arrays, bytes, 1);
  if (strcmp(name, "name") == 0) FMI_Inner_loop("../solve", arrays, bytes, 1);
  if (strcmp(name, "apart") == 0) {
    FMI_Loop(arrays, bytes, 1);
    for (int i = 0; i < 2; ++i) FMI_Inner_loop(rank == 0 ? "here" : "there", arrays, bytes, 1);
  }
  return FMI_Finalize();
}
