/* fmi_checkpoints MIB STEPS: what checkpoints of FMI_Loop cost, of so many MiB a rank that change in each step, and what their
 * way back does. Each rank prints a line for each call:
 *
 * - step RANK STEP BEGIN END COPY: FMI_Loop, in seconds of FMI_Wtime; before it all ranks copy as many bytes, in COPY seconds
 * - back RANK STEP BEGIN END: it has brought the arrays back
 *
 * It pauses between steps, so that what follows the call (parity, copies) is over before the next one. */
#include <kedge/fmi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kPauseSeconds = 4 };

int main(int argc, char** argv) {
  FMI_Init(&argc, &argv);
  int rank, step, before = -1;
  FMI_Comm_rank(FMI_COMM_WORLD, &rank);
  if (argc != 3) FMI_Abort(FMI_COMM_WORLD, 2);
  const size_t bytes = (size_t)atoi(argv[1]) << 20;
  const int steps = atoi(argv[2]);
  unsigned char *data = malloc(bytes), *copy = malloc(bytes);
  if (data == NULL || copy == NULL) FMI_Abort(FMI_COMM_WORLD, 1);
  uint64_t random = 88172645463325252u + (uint64_t)rank;
  for (size_t i = 0; i + 8 <= bytes; i += 8) {
    random ^= random << 13;
    random ^= random >> 7;
    random ^= random << 17;
    memcpy(data + i, &random, 8);
  }
  memset(copy, 1, bytes);
  void* arrays[] = {data};
  int sizes[] = {(int)bytes};
  for (;;) {
    FMI_Barrier(FMI_COMM_WORLD);
    const double copying = FMI_Wtime();
    memcpy(copy, data, bytes);
    const double copied = FMI_Wtime() - copying;
    FMI_Barrier(FMI_COMM_WORLD);
    const double begin = FMI_Wtime();
    step = FMI_Loop(arrays, sizes, 1);
    const double end = FMI_Wtime();
    if (step != before + 1) printf("back %d %d %.6f %.6f\n", rank, step, begin, end);
    if (step >= steps) break;
    if (step == before + 1) printf("step %d %d %.6f %.6f %.6f\n", rank, step, begin, end, copied);
    fflush(stdout);
    before = step;
    for (size_t i = 0; i < bytes; i += 4096) ++data[i];
    /* A death ends this, too. */
    for (int i = 0; i < 100 * kPauseSeconds; ++i) {
      usleep(10000);
      if (i % 10 == 0 && FMI_Barrier(FMI_COMM_WORLD) != FMI_SUCCESS) break;
    }
  }
  fflush(stdout);
  return FMI_Finalize();
}
