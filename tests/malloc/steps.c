/* A program that allocates as the C library's manual allows, and prints where what came to lie: malloc_steps STEP... With
 * libkedge-malloc.so, "heap" is what a checkpoint has. Each step ends with a line; anything unexpected ends the program. */
#define _GNU_SOURCE
#include <errno.h>
#include <kedge/kedge.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

static kedge_context* kedge;
static struct {
  char* block;
  struct list* list;
} roots;

struct list {
  struct list* next;
  int value;
  char rest[100000];
};

static void fail(const char* what) {
  printf("%s: %s\n", what, kedge_error_message());
  exit(1);
}
static void check(int status, const char* what) {
  if (status != KEDGE_OK) fail(what);
}
static void require(int holds, const char* what) {
  if (!holds) fail(what);
}

static int is_in_heap(const void* block) {
  void* begin = NULL;
  size_t bytes = 0;
  check(kedge_heap_range(kedge, &begin, &bytes), "range");
  return (uintptr_t)block - (uintptr_t)begin < bytes;
}
static void say(const char* what, const void* block) {
  printf("%s: %s\n", what, is_in_heap(block) ? "heap" : "elsewhere");
}
static int all(const char* block, char value, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) {
    if (block[i] != value) return 0;
  }
  return 1;
}

static void functions(void) {
  char* block = malloc(MIB);
  say("malloc", block);
  require(malloc_usable_size(block) >= MIB, "usable");
  memset(block, 1, MIB);
  block = realloc(block, 3 * MIB);
  say("grown", block);
  require(all(block, 1, MIB), "grown");
  block = realloc(block, 100 * KIB);
  say("shrunk", block);
  block = realloc(block, 100);
  say("small", block);
  require(all(block, 1, 100), "small");
  block = realloc(block, 2 * MIB);
  say("large again", block);
  require(all(block, 1, 100), "large again");
  free(block);
  block = calloc(1000, 1000);
  say("calloc", block);
  require(all(block, 0, 1000 * 1000), "calloc");
  memset(block, 1, 1000 * 1000);
  free(block);
  block = calloc(1000, 1000);
  require(all(block, 0, 1000 * 1000), "calloc again");
  free(block);
  block = reallocarray(NULL, 1000, 1000);
  say("reallocarray", block);
  free(block);
  volatile size_t huge = SIZE_MAX / 2;
  require(reallocarray(NULL, huge, 4) == NULL && errno == ENOMEM, "too much");
  require(calloc(huge, 4) == NULL, "too much of zeros");
  void* aligned = NULL;
  require(posix_memalign(&aligned, 4096, MIB) == 0 && (uintptr_t)aligned % 4096 == 0, "posix_memalign");
  say("posix_memalign", aligned);
  free(aligned);
  aligned = aligned_alloc(64 * KIB, MIB);
  say("aligned_alloc", aligned);
  free(aligned);
  aligned = memalign(MIB, MIB);
  require((uintptr_t)aligned % MIB == 0, "memalign");
  say("aligned beyond", aligned);
  free(aligned);
  aligned = memalign(64 * KIB, KIB);
  say("aligned and small", aligned);
  free(aligned);
  block = malloc(63 * KIB);
  say("below the limit", block);
  free(block);
  /* The C library's own: a stream's buffer, a line. */
  char* line = NULL;
  size_t capacity = 0;
  FILE* const file = tmpfile();
  for (size_t i = 0; i < 200000; ++i) fputc('x', file);
  rewind(file);
  require(getline(&line, &capacity, file) == 200000, "getline");
  say("of the C library", line);
  free(line);
  fclose(file);
  require(malloc(SIZE_MAX / 4) == NULL && errno == ENOMEM, "more than there is");
  free(NULL);
}

static void* churn(void* seed) {
  unsigned state = (unsigned)(uintptr_t)seed;
  char* blocks[8] = {NULL};
  for (int i = 0; i < 2000; ++i) {
    const int at = (int)((state = state * 1103515245 + 12345) >> 16) % 8;
    const size_t bytes = 1 + (state >> 8) % (300 * KIB);
    if (blocks[at] != NULL) require(blocks[at][0] == (char)at, "churn");
    if (state & 64) {
      blocks[at] = realloc(blocks[at], bytes);
    } else {
      free(blocks[at]);
      blocks[at] = malloc(bytes);
    }
    require(blocks[at] != NULL, "churn: no memory");
    blocks[at][0] = (char)at;
    blocks[at][bytes - 1] = (char)at;
  }
  for (int at = 0; at < 8; ++at) free(blocks[at]);
  return NULL;
}
static void threads(void) {
  pthread_t thread[3];
  for (uintptr_t i = 0; i < 3; ++i) pthread_create(&thread[i], NULL, &churn, (void*)(i + 1));
  for (int version = 1000; version < 1020; ++version) check(kedge_checkpoint(kedge, "churn", version, 0), "checkpoint");
  for (int i = 0; i < 3; ++i) pthread_join(thread[i], NULL);
  puts("threads");
}

static void forked(void) {
  char* const block = malloc(MIB);
  memset(block, 5, MIB);
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    char* grown = realloc(block, 2 * MIB);
    if (grown == NULL || !all(grown, 5, MIB)) _exit(1);
    free(grown);
    char* const other = malloc(MIB);
    if (other == NULL) _exit(2);
    free(other);
    _exit(0);
  }
  int status = 0;
  require(waitpid(child, &status, 0) == child && status == 0, "child");
  require(all(block, 5, MIB), "parent");
  free(block);
  puts("forked");
}

/* An object whose call-back allocates while the context is busy. */
static int size_of(void* user, size_t* bytes) {
  (void)user;
  char* const temporary = malloc(MIB);
  temporary[0] = 1;
  free(temporary);
  *bytes = 8;
  return 0;
}
static int write_it(void* user, kedge_writer* writer) {
  char* const temporary = calloc(1, MIB);
  const int status = kedge_write(writer, temporary, 8);
  free(temporary);
  (void)user;
  return status;
}
static int read_it(void* user, kedge_reader* reader, size_t bytes) {
  char* const temporary = malloc(MIB);
  const int status = kedge_read(reader, temporary, bytes);
  free(temporary);
  (void)user;
  return status;
}
static void callbacks(void) {
  const kedge_object object = {sizeof object, NULL, &size_of, &write_it, &read_it};
  check(kedge_protect_object(kedge, 5, "object", &object), "object");
  check(kedge_checkpoint(kedge, "object", 1, 0), "checkpoint");
  check(kedge_restart(kedge, "object", 1, NULL), "restart");
  check(kedge_unprotect(kedge, 5), "unprotect");
  puts("callbacks");
}

static void full(void) {
  int count = 0;
  while (malloc(MIB) != NULL) ++count;
  require(errno == ENOMEM, "full");
  printf("full after %d\n", count);
}

/* Of a block that is allocated, written and freed again: microseconds, in turn with one that is not a block of the heap. */
static double microseconds_of(size_t bytes, void* (*allocate)(size_t)) {
  const int count = (int)(256 * MIB / bytes) + 1;
  struct timespec begin, end;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  for (int i = 0; i < count; ++i) {
    char* const block = allocate(bytes);
    memset(block, i, bytes);
    free(block);
  }
  clock_gettime(CLOCK_MONOTONIC, &end);
  return ((double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec)) * 1e-3 / count;
}
static void* in_heap(size_t bytes) {
  return malloc(bytes);
}
static void* beside(size_t bytes) {
  extern void* __libc_malloc(size_t);
  return __libc_malloc(bytes);
}
static void costs(void) {
  for (size_t bytes = 64 * KIB; bytes <= 64 * MIB; bytes *= 8) {
    const double theirs = microseconds_of(bytes, &beside), ours = microseconds_of(bytes, &in_heap);
    printf("%zu KiB: %.1f us, %.1f us in the heap\n", bytes / KIB, theirs, ours);
  }
}

static void init(void) {
  check(kedge_init(NULL, NULL, &kedge), "init");
  check(kedge_protect(kedge, 0, &roots, 1, sizeof roots, NULL), "protect");
}

static void make_list(int count) {
  for (int i = 0; i < count; ++i) {
    struct list* const made = malloc(sizeof *made);
    made->value = i;
    memset(made->rest, i, sizeof made->rest);
    made->next = roots.list;
    roots.list = made;
  }
}
static void count_list(void) {
  int count = 0;
  for (const struct list* one = roots.list; one != NULL; one = one->next, ++count) {
    require(all(one->rest, (char)one->value, sizeof one->rest), "list");
  }
  printf("list of %d\n", count);
}
static void free_list(void) {
  while (roots.list != NULL) {
    struct list* const next = roots.list->next;
    free(roots.list);
    roots.list = next;
  }
}

int main(int argc, char** argv) {
  char* before = NULL;
  for (int i = 1; i < argc; ++i) {
    const char* const step = argv[i];
    if (strcmp(step, "init") == 0) init();
    if (strcmp(step, "before") == 0) before = malloc(MIB);
    if (strcmp(step, "freed-before") == 0) free(malloc(MIB));
    if (strcmp(step, "free-before") == 0) free(before);
    if (strcmp(step, "functions") == 0) functions();
    if (strcmp(step, "threads") == 0) threads();
    if (strcmp(step, "forked") == 0) forked();
    if (strcmp(step, "callbacks") == 0) callbacks();
    if (strcmp(step, "full") == 0) full();
    if (strcmp(step, "costs") == 0) costs();
    if (strcmp(step, "list") == 0) make_list(10);
    if (strcmp(step, "count") == 0) count_list();
    if (strcmp(step, "free-list") == 0) free_list();
    if (strcmp(step, "block") == 0) roots.block = calloc(1, MIB);
    if (strcmp(step, "larger") == 0) roots.block = calloc(1, 2 * MIB);
    if (strcmp(step, "fill") == 0) memset(roots.block, 7, MIB);
    if (strcmp(step, "wipe") == 0) memset(roots.block, 0, MIB);
    if (strcmp(step, "filled") == 0) puts(all(roots.block, 7, MIB) ? "filled" : "not filled");
    if (strcmp(step, "checkpoint") == 0) check(kedge_checkpoint(kedge, "steps", i, 0), "checkpoint");
    if (strcmp(step, "restart") == 0) check(kedge_restart(kedge, "steps", -1, NULL), "restart");
    if (strcmp(step, "end") == 0) check(kedge_finalize(kedge, 1), "finalize");
    if (strcmp(step, "resize") == 0) {
      roots.block = realloc(roots.block, 2 * MIB);
      puts(all(roots.block, 7, MIB) ? "resized" : "lost");
    }
    fflush(stdout);
  }
  return 0;
}
