/* The witness: preloaded into the ranks of an example by examples/run, so that the examples themselves stay examples.
 *
 * It stands between the program and libkedge, passes every call on, and
 * - appends one line of JSON per event to WITNESS_FOLDER/RANK.jsonl (start, checkpoint, restart, finalize), with what
 *   kedge_get_statistics tells;
 * - keeps the word "checkpoint" or "outside" at the head of WITNESS_FOLDER/RANK.where, in a shared mapping that
 * outlives the process, so that it is known after a kill whether it fell into a checkpoint call;
 * - kills the process with SIGKILL, by a kernel timer, WITNESS_KILL="RANK VERSION SECONDS": that many seconds
 *   after the call that checkpoints VERSION began on RANK; 0: as it begins, without a timer. A RANK that lives when it
 *   calls kedge_finalize dies there: without a call of VERSION (-1: something else is to kill it) at once, else when
 *   its timer ends. So it never gets away, however far its pace is from the one that was measured.
 * Without WITNESS_FOLDER, or in a process without an MPI rank, it does nothing.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <inttypes.h>
#include <kedge/kedge.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define NEXT(function) ((__typeof__(&function))dlsym(RTLD_NEXT, #function))

enum { kWhereBytes = 16, kLeadNanoseconds = 500000 };

static int rank = -1;
static int events = -1;    /* descriptor of RANK.jsonl */
static char* where = NULL; /* mapping of RANK.where */
static double restart_began = 0;
static int64_t restart_version = -1;
static bool is_struck_at_once = false;
static bool is_timer_set = false;

static double seconds_of(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

__attribute__((format(printf, 1, 2))) static void note(const char* format, ...) {
  if (events < 0) return;
  char line[2048];
  va_list arguments;
  va_start(arguments, format);
  const int length = vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  if (length > 0 && length < (int)sizeof line && write(events, line, (size_t)length) != length)
    fprintf(stderr, "witness: rank %d cannot write its events\n", rank);
}

static int open_in_folder(const char* folder, const char* suffix) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%d.%s", folder, rank, suffix);
  return open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

static void set_where(const char* text) {
  if (where != NULL) strncpy(where, text, kWhereBytes);
}

/* The rank's own number is the launcher's; a child that it starts (the agent) does not inherit the witness. */
__attribute__((constructor)) static void start(void) {
  const char* folder = getenv("WITNESS_FOLDER");
  const char* number = getenv("OMPI_COMM_WORLD_RANK");
  if (number == NULL) number = getenv("PMI_RANK");
  unsetenv("LD_PRELOAD");
  if (folder == NULL || number == NULL) return;
  rank = atoi(number);
  events = open_in_folder(folder, "jsonl");
  const int file = open_in_folder(folder, "where");
  if (events < 0 || file < 0 || ftruncate(file, kWhereBytes) != 0) return;
  where = mmap(NULL, kWhereBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (where == MAP_FAILED) where = NULL;
  close(file);
  set_where("outside");
  note("{\"event\": \"start\", \"rank\": %d, \"pid\": %d}\n", rank, (int)getpid());
}

static int64_t nanoseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* What WITNESS_KILL orders; false where this rank is not the victim. */
static bool read_order(int64_t* version, double* delay) {
  const char* order = getenv("WITNESS_KILL");
  int victim = 0;
  return order != NULL && sscanf(order, "%d %" SCNd64 " %lf", &victim, version, delay) == 3 && victim == rank;
}

/* Called right before the checkpoint call. Setting a timer takes longer than a small checkpoint, so it is set a lead
 * ahead of the call, which then begins exactly when the lead is over. */
static void arm_kill(int64_t version) {
  int64_t victim_version = 0;
  double delay = 0;
  if (!read_order(&victim_version, &delay) || victim_version != version) return;
  is_struck_at_once = delay == 0;
  if (is_struck_at_once) return;
  const int64_t call = nanoseconds() + kLeadNanoseconds;
  const int64_t end = call + (int64_t)(delay * 1e9);
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
  const struct itimerspec at = {.it_value = {end / 1000000000, end % 1000000000}};
  timer_t timer;
  if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 || timer_settime(timer, TIMER_ABSTIME, &at, NULL) != 0) raise(SIGKILL);
  is_timer_set = true;
  while (nanoseconds() < call) continue;
}

/* The victim goes no further than here. */
static void die_at_the_end(void) {
  int64_t version = 0;
  double delay = 0;
  if (!read_order(&version, &delay)) return;
  if (!is_timer_set) raise(SIGKILL);
  for (;;) pause();
}

static kedge_statistics statistics_of(kedge_context* context) {
  kedge_statistics s = {.struct_size = sizeof s};
  NEXT(kedge_get_statistics)(context, &s);
  return s;
}

KEDGE_API int kedge_checkpoint(kedge_context* context, const char* name, int64_t version, unsigned flags) {
  arm_kill(version);
  const double began = seconds_of(CLOCK_REALTIME), began_monotonic = seconds_of(CLOCK_MONOTONIC);
  set_where("checkpoint");
  if (is_struck_at_once) raise(SIGKILL);
  const int status = NEXT(kedge_checkpoint)(context, name, version, flags);
  set_where("outside");
  const double blocked = seconds_of(CLOCK_MONOTONIC) - began_monotonic;
  const kedge_statistics s = statistics_of(context);
  note("{\"event\": \"checkpoint\", \"rank\": %d, \"version\": %" PRId64
       ", \"status\": %d, \"began\": %.6f, "
       "\"blocked_seconds\": %.9f, \"bytes_captured\": %" PRIu64 ", \"bytes_pool\": %" PRIu64 ", \"bytes_directory\": %" PRIu64
       ", \"bytes_through\": %" PRIu64 ", \"inline\": %" PRIu64 "}\n",
       rank, version, status, began, blocked, s.bytes_captured, s.bytes_pool, s.bytes_directory, s.bytes_through,
       s.checkpoints_inline);
  return status;
}

static void note_restart(kedge_context* context, int64_t version, double seconds) {
  const kedge_statistics s = statistics_of(context);
  note("{\"event\": \"restart\", \"rank\": %d, \"version\": %" PRId64 ", \"seconds\": %.9f, \"bytes_pool\": %" PRIu64
       ", \"bytes_directory\": %" PRIu64 ", \"bytes_store\": %" PRIu64 ", \"corrupt_copies\": %" PRIu64 "}\n",
       rank, version, seconds, s.bytes_restored_pool, s.bytes_restored_directory, s.bytes_restored_store, s.corrupt_copies);
}

KEDGE_API int kedge_restart(kedge_context* context, const char* name, int64_t at_most, int64_t* restored) {
  const double began = seconds_of(CLOCK_MONOTONIC);
  int64_t version = -1;
  const int status = NEXT(kedge_restart)(context, name, at_most, &version);
  if (restored != NULL) *restored = version;
  if (status == KEDGE_OK) note_restart(context, version, seconds_of(CLOCK_MONOTONIC) - began);
  return status;
}

KEDGE_API int kedge_restart_begin(kedge_context* context, const char* name, int64_t version) {
  restart_began = seconds_of(CLOCK_MONOTONIC);
  restart_version = version;
  return NEXT(kedge_restart_begin)(context, name, version);
}

KEDGE_API int kedge_load_begin(kedge_context* context, const char* name, int64_t version) {
  restart_version = -1; /* what is only read is no restart */
  return NEXT(kedge_load_begin)(context, name, version);
}

KEDGE_API int kedge_restart_end(kedge_context* context, int success) {
  const int status = NEXT(kedge_restart_end)(context, success);
  if (status == KEDGE_OK && success && restart_version >= 0)
    note_restart(context, restart_version, seconds_of(CLOCK_MONOTONIC) - restart_began);
  return status;
}

KEDGE_API int kedge_finalize(kedge_context* context, int drain) {
  die_at_the_end();
  const kedge_statistics s = statistics_of(context);
  const int status = NEXT(kedge_finalize)(context, drain);
  note("{\"event\": \"finalize\", \"rank\": %d, \"status\": %d, \"flush_failures\": %" PRIu64 "}\n", rank, status,
       s.flush_failures);
  return status;
}
