/* Ranks wait for each other by computing: those of Open MPI call sched_yield where nothing has come, those of MPICH ask UCX again
 * and again. Preloaded into the ranks of tests, this lets them sleep there: many ranks share a machine's few processors with
 * other tests, and where ranks are killed three fifths of a test's processor time went into waiting. Ranks of users and
 * benchmarks wait as their MPI does. */
#include <dlfcn.h>
#include <stddef.h>
#include <time.h>

static void pause_a_little(void) {
  const struct timespec pause = {0, 50 * 1000};
  nanosleep(&pause, 0);
}

__attribute__((visibility("default"))) int sched_yield(void) {
  pause_a_little();
  return 0;
}

/* A rank polls often while messages come; and many times in vain before it sleeps. One thread. */
__attribute__((visibility("default"))) unsigned ucp_worker_progress(void* worker) {
  static unsigned (*progress)(void*) = NULL;
  static unsigned in_vain = 0;
  if (progress == NULL) *(void**)&progress = dlsym(dlopen("libucp.so.0", RTLD_LAZY | RTLD_NOLOAD), "ucp_worker_progress");
  const unsigned came = progress(worker);
  in_vain = came == 0 ? in_vain + 1 : 0;
  if (in_vain > 200) pause_a_little();
  return came;
}
