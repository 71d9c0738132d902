/* The probe: preloaded into the ranks of an example by bench/applications and bench/capture-figures, it notes what checkpoints
 * cost the run.
 *
 * It stands between the program and libkedge. PROBE_WRITER says who takes the checkpoints:
 *   kedge        every call is passed on
 *   none         Kedge is never called: no checkpoint, no agent
 *   single-file  Kedge is never called; a checkpoint writes PROBE_FILE (single_file.h)
 * In each case only the first PROBE_CHECKPOINTS checkpoints are taken. Before each of them, PROBE_OTHER_KIB of other memory are
 * captured: where those are captured later (capture.mode = cow, from 4096 on), Kedge has forgotten by that how the program
 * writes. At kedge_finalize each rank appends one line of JSON to PROBE_FOLDER/RANK.json: the wall time from its start to there,
 * of that the time in kedge_mpi_init, in each checkpoint and in kedge_finalize, and processor time: of the process, and of its
 * main thread alone; and the blocks whose writers Kedge held back. It serves programs that free no blocks of kedge_alloc, with
 * one context that start anew (nothing is there to restart from) and one thread.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <inttypes.h>
#include <kedge/kedge_mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

#include "single_file.h"

#define NEXT(function) ((__typeof__(&function))dlsym(RTLD_NEXT, #function))

enum { kRegionsMax = 256, kCheckpointsMax = 64 };

static enum { kKedge, kNone, kSingleFile } taker = kKedge;
static single_file_region regions[kRegionsMax]; /* by id, ascending */
static size_t region_count = 0;
static double process_began = 0, init_seconds = 0;
static double blocked_seconds[kCheckpointsMax];
static int checkpoints = 0, checkpoints_max = kCheckpointsMax;
static size_t other_bytes = 0;
static char stand_in; /* the context, where Kedge has none */

static double now(void) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

/* User and system time. */
static double cpu_seconds(int who) {
  struct rusage usage;
  getrusage(who, &usage);
  return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

__attribute__((constructor)) static void start(void) {
  process_began = now();
  unsetenv("LD_PRELOAD"); /* a child that the rank starts does not inherit the probe */
  const char* writer = getenv("PROBE_WRITER");
  const char* most = getenv("PROBE_CHECKPOINTS");
  if (writer != NULL && strcmp(writer, "none") == 0) taker = kNone;
  if (writer != NULL && strcmp(writer, "single-file") == 0) taker = kSingleFile;
  if (most != NULL && atoi(most) < kCheckpointsMax) checkpoints_max = atoi(most);
  const char* other = getenv("PROBE_OTHER_KIB");
  if (other != NULL) other_bytes = (size_t)atoi(other) << 10;
}

KEDGE_API int kedge_mpi_init(MPI_Comm communicator, const kedge_options* options, kedge_context** out) {
  const double began = now();
  int status = KEDGE_OK;
  if (taker == kKedge)
    status = NEXT(kedge_mpi_init)(communicator, options, out);
  else
    *out = (kedge_context*)&stand_in;
  init_seconds = now() - began;
  return status;
}

static void forget(int id) {
  for (size_t i = 0; i < region_count; ++i) {
    if (regions[i].id != id) continue;
    memmove(&regions[i], &regions[i + 1], (--region_count - i) * sizeof *regions);
    return;
  }
}

KEDGE_API int kedge_protect(kedge_context* context, int id, void* address, size_t count, size_t element_bytes,
                            const kedge_region_info* info) {
  if (taker == kKedge) return NEXT(kedge_protect)(context, id, address, count, element_bytes, info);
  forget(id);
  if (region_count == kRegionsMax) return KEDGE_ERROR_INVALID_ARGUMENT;
  size_t at = region_count;
  for (; at > 0 && regions[at - 1].id > id; --at) regions[at] = regions[at - 1];
  regions[at] = (single_file_region){id, address, count * element_bytes};
  ++region_count;
  return KEDGE_OK;
}

KEDGE_API int kedge_restart(kedge_context* context, const char* name, int64_t at_most, int64_t* restored) {
  return taker == kKedge ? NEXT(kedge_restart)(context, name, at_most, restored) : KEDGE_ERROR_NOT_FOUND;
}

KEDGE_API int kedge_newest(kedge_context* context, const char* name, int64_t at_most, int64_t* version) {
  return taker == kKedge ? NEXT(kedge_newest)(context, name, at_most, version) : KEDGE_ERROR_NOT_FOUND;
}

/* Where Kedge is never called there are blocks all the same, and zero as its are. */
KEDGE_API int kedge_alloc(kedge_context* context, const char* name, size_t count, size_t element_bytes,
                          const kedge_region_info* info, void** out) {
  if (taker == kKedge) return NEXT(kedge_alloc)(context, name, count, element_bytes, info, out);
  const size_t alignment = (size_t)2 << 20, bytes = (count * element_bytes + alignment - 1) / alignment * alignment;
  *out = aligned_alloc(alignment, bytes);
  if (*out == NULL) return KEDGE_ERROR_NO_SPACE;
  madvise(*out, bytes, MADV_HUGEPAGE);
  memset(*out, 0, bytes);
  return KEDGE_OK;
}

KEDGE_API int kedge_should_exit(kedge_context* context, int* answer) {
  if (taker == kKedge) return NEXT(kedge_should_exit)(context, answer);
  *answer = 0;
  return KEDGE_OK;
}

static void check(int status, const char* what) {
  if (status == KEDGE_OK) return;
  fprintf(stderr, "probe: %s: %s\n", what, kedge_error_message());
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static void capture_other_memory(kedge_context* context) {
  static void* memory = NULL;
  if (memory == NULL) memory = calloc(1, other_bytes);
  if (memory == NULL) abort();
  memset(memory, checkpoints + 1, other_bytes);
  check(kedge_group(context, "probe"), "kedge_group");
  check(NEXT(kedge_protect)(context, 0, memory, other_bytes, 1, NULL), "kedge_protect");
  check(NEXT(kedge_checkpoint)(context, "probe", checkpoints + 1, 0), "kedge_checkpoint");
  check(kedge_wait(context, "probe", checkpoints + 1, KEDGE_LEVEL_LOCAL, 60), "kedge_wait");
  check(kedge_group(context, NULL), "kedge_group");
}

KEDGE_API int kedge_checkpoint(kedge_context* context, const char* name, int64_t version, unsigned flags) {
  if (checkpoints == checkpoints_max || taker == kNone) return KEDGE_OK;
  if (other_bytes > 0 && taker == kKedge) capture_other_memory(context);
  const double began = now();
  int status = KEDGE_OK;
  if (taker == kKedge)
    status = NEXT(kedge_checkpoint)(context, name, version, flags);
  else
    single_file_write(getenv("PROBE_FILE"), regions, region_count);
  blocked_seconds[checkpoints++] = now() - began;
  return status;
}

static void note(double finalize_seconds, uint64_t writes_held) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  char path[4096];
  snprintf(path, sizeof path, "%s/%d.json", getenv("PROBE_FOLDER"), rank);
  FILE* file = fopen(path, "ae");
  if (file == NULL) {
    perror(path);
    MPI_Abort(MPI_COMM_WORLD, 1);
    return;
  }
  fprintf(file, "{\"run_seconds\": %.6f, \"init_seconds\": %.6f, \"finalize_seconds\": %.6f, \"cpu_seconds\": %.6f, ",
          now() - process_began, init_seconds, finalize_seconds, cpu_seconds(RUSAGE_SELF));
  fprintf(file, "\"main_thread_cpu_seconds\": %.6f, \"writes_held\": %" PRIu64 ", \"blocked_seconds\": [",
          cpu_seconds(RUSAGE_THREAD), writes_held);
  for (int i = 0; i < checkpoints; ++i) fprintf(file, "%s%.6f", i == 0 ? "" : ", ", blocked_seconds[i]);
  fprintf(file, "]}\n");
  fclose(file);
}

KEDGE_API int kedge_finalize(kedge_context* context, int drain) {
  const double began = now();
  kedge_statistics statistics = {.struct_size = sizeof statistics};
  if (taker == kKedge) check(kedge_get_statistics(context, &statistics), "kedge_get_statistics");
  const int status = taker == kKedge ? NEXT(kedge_finalize)(context, drain) : KEDGE_OK;
  const double finalize_seconds = now() - began;
  if (getenv("PROBE_FOLDER") != NULL) note(finalize_seconds, statistics.writes_held);
  return status;
}
