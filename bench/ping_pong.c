/* Messages of each size from rank 0 to rank 1 and back, for bench/fmi: prints bytes, and the seconds of one way in the best of
 * several rounds, so that what else the machine does counts least. With more ranks than two it prints the seconds of a sum of one
 * number over all instead. Arguments are the sizes in place of its own. Compiled with FMI, and over MPI. */
#include <kedge/fmi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double seconds_of(int rank, char* data, int bytes, int times) {
  const double begin = FMI_Wtime();
  for (int i = 0; i < times; ++i) {
    if (rank == 0) FMI_Send(data, bytes, FMI_BYTE, 1, 0, FMI_COMM_WORLD);
    FMI_Recv(data, bytes, FMI_BYTE, 1 - rank, 0, FMI_COMM_WORLD, FMI_STATUS_IGNORE);
    if (rank == 1) FMI_Send(data, bytes, FMI_BYTE, 0, 0, FMI_COMM_WORLD);
  }
  return (FMI_Wtime() - begin) / times / 2;
}

static double seconds_of_sum(int times) {
  double own = 1, all = 0;
  const double begin = FMI_Wtime();
  for (int i = 0; i < times; ++i) FMI_Allreduce(&own, &all, 1, FMI_DOUBLE, FMI_SUM, FMI_COMM_WORLD);
  return (FMI_Wtime() - begin) / times;
}

int main(int argc, char** argv) {
  const int sizes[] = {1, 1024, 16 << 10, 128 << 10, 8 << 20};
  const int count = argc > 1 ? argc - 1 : (int)(sizeof sizes / sizeof *sizes);
  int rank, ranks;
  FMI_Init(&argc, &argv);
  FMI_Comm_rank(FMI_COMM_WORLD, &rank);
  FMI_Comm_size(FMI_COMM_WORLD, &ranks);
  if (ranks > 2) {
    const double seconds = seconds_of_sum(300);
    if (rank == 0) printf("8 %.9f\n", seconds);
    return FMI_Finalize();
  }
  for (int i = 0; i < count; ++i) {
    const int bytes = argc > 1 ? atoi(argv[i + 1]) : sizes[i], times = bytes < 4096 ? 20000 : bytes < (1 << 20) ? 2000 : 40;
    char* data = malloc(bytes);
    memset(data, rank, bytes);
    double best = seconds_of(rank, data, bytes, times);
    for (int round = 0; round < 8; ++round) {
      const double seconds = seconds_of(rank, data, bytes, times);
      if (seconds < best) best = seconds;
    }
    if (rank == 0) printf("%d %.9f\n", bytes, best);
    free(data);
  }
  return FMI_Finalize();
}
