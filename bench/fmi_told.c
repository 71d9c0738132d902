/* fmi_told: how soon ranks know of a death, for bench/fmi. All wait for a message that nobody sends, so that they sleep, and each
 * prints "told RANK SECONDS" when the call returns because a rank has died: by the machine's monotonic clock, as its processes
 * have it in common. Then all go back and wait again, until they are ended. */
#include <kedge/fmi.h>
#include <stdio.h>
#include <time.h>

int main(int argc, char** argv) {
  int rank, ranks, value = 0;
  FMI_Init(&argc, &argv);
  FMI_Comm_rank(FMI_COMM_WORLD, &rank);
  FMI_Comm_size(FMI_COMM_WORLD, &ranks);
  void* arrays[] = {&value};
  int sizes[] = {sizeof value};
  for (;;) {
    FMI_Loop(arrays, sizes, 1);
    printf("waits %d\n", rank);
    fflush(stdout);
    if (FMI_Recv(&value, 1, FMI_INT, (rank + 1) % ranks, 0, FMI_COMM_WORLD, FMI_STATUS_IGNORE) == FMI_SUCCESS) return 1;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    printf("told %d %.6f\n", rank, (double)now.tv_sec + (double)now.tv_nsec / 1e9);
    fflush(stdout);
  }
}
