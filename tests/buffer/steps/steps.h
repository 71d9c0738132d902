/* A line of a test program in C or C++: it ends the program with the line's number when it does not hold. */
#ifndef KEDGE_TESTS_BUFFER_STEPS_H
#define KEDGE_TESTS_BUFFER_STEPS_H

#include <stdio.h>
#include <stdlib.h>

#define EXPECT(condition)                                                                                   \
  do {                                                                                                      \
    if (!(condition)) {                                                                                     \
      fprintf(stderr, "line %d: %s; the last error: %s\n", __LINE__, #condition, kedge_bb_error_message()); \
      exit(1);                                                                                              \
    }                                                                                                       \
  } while (0)

#endif
