/* Open MPI's ranks wait for each other by computing, and call sched_yield where nothing has come. Preloaded into the ranks of
 * tests, this lets them sleep there: many ranks share a machine's few processors with other tests, and where ranks are killed
 * three fifths of a test's processor time went into waiting. Ranks of users and benchmarks wait as their MPI does. */
#include <time.h>

__attribute__((visibility("default"))) int sched_yield(void) {
  const struct timespec pause = {0, 50 * 1000};
  nanosleep(&pause, 0);
  return 0;
}
