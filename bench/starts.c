/* What a launch costs, for bench/fmi: rank 0 prints the seconds that FMI_Init took on the slowest rank. Compiled with FMI, and
 * over MPI. */
#include <kedge/fmi.h>
#include <stdio.h>
#include <time.h>

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

int main(int argc, char** argv) {
  const double begin = now();
  FMI_Init(&argc, &argv);
  double took = now() - begin, most = 0;
  int rank;
  FMI_Comm_rank(FMI_COMM_WORLD, &rank);
  FMI_Reduce(&took, &most, 1, FMI_DOUBLE, FMI_MAX, 0, FMI_COMM_WORLD);
  if (rank == 0) printf("%.6f\n", most);
  return FMI_Finalize();
}
