/* What the test programs of FMI share: who they are, and how they fail or die. */
#ifndef KEDGE_TESTS_FMI_CHECKS_H
#define KEDGE_TESTS_FMI_CHECKS_H

#include <kedge/fmi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define WORLD FMI_COMM_WORLD
#define CHECK(condition) ((condition) ? (void)0 : fail(__FILE__, __LINE__, #condition))
#define OK(call) CHECK((call) == FMI_SUCCESS)

static int rank, ranks;

static inline void fail(const char* file, int line, const char* condition) {
  fprintf(stderr, "%s:%d: rank %d: %s does not hold\n", file, line, rank, condition);
  FMI_Abort(WORLD, 3);
}

static inline void begin(int* argc, char*** argv) {
  FMI_Init(argc, argv);
  FMI_Comm_rank(WORLD, &rank);
  FMI_Comm_size(WORLD, &ranks);
}

static inline int was_started_again(void) {
  return atoi(getenv("FMI_RESPAWNS")) > 0;
}

static inline void die(void) {
  kill(getpid(), SIGKILL);
}

#endif
