/* libkedge-malloc.so: what a program allocates from heap.malloc_from bytes on are blocks of its context's heap (kedge_alloc), so
 * that each checkpoint has them, and a restart brings them back where they were.
 *
 *   LD_PRELOAD=libkedge-malloc.so app          (kedge run --protect-heap)
 *
 * It stands in front of the C library's allocator and of kedge_init, kedge_restart and kedge_finalize. Blocks are what the
 * program's own code asks for, and that of the libraries in heap.malloc_by: who calls is told by the return address. What MPI or
 * the C library allocate is theirs, and must not come back from a checkpoint. So is what is asked for before kedge_init, which
 * says how much that is, after kedge_finalize, in a call-back of Kedge, and in a forked child.
 *
 * A block begins at a multiple of 64 KiB, so that free() sees of nearly all others that they are none. */
#define _GNU_SOURCE
#undef _FORTIFY_SOURCE
#include "kedge/kedge.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define SHOWN __attribute__((visibility("default")))
#define CALLER __builtin_return_address(0)
#define BLOCK_ALIGNMENT ((size_t)64 << 10)
#define EARLY_MAX 256

/* ---- what stands behind ---- */

static struct {
  void* (*malloc)(size_t);
  void* (*calloc)(size_t, size_t);
  void* (*realloc)(void*, size_t);
  void (*free)(void*);
  void* (*memalign)(size_t, size_t);
  size_t (*usable)(void*);
} next;

/* What looking those up may ask for, and never gives back. */
static _Alignas(16) char first_bytes[16 << 10];
static size_t first_bytes_used;
static __thread bool looking_up __attribute__((tls_model("initial-exec")));

static void* take_first(size_t bytes) {
  const size_t begin = first_bytes_used;
  const size_t rounded = (bytes + 15) & ~(size_t)15;
  if (rounded > sizeof first_bytes - begin) return NULL;
  first_bytes_used = begin + rounded;
  return first_bytes + begin;
}
static bool is_first(const void* block) {
  return (const char*)block >= first_bytes && (const char*)block < first_bytes + sizeof first_bytes;
}

static void look_up(void) {
  looking_up = true;
  *(void**)&next.calloc = dlsym(RTLD_NEXT, "calloc");
  *(void**)&next.realloc = dlsym(RTLD_NEXT, "realloc");
  *(void**)&next.free = dlsym(RTLD_NEXT, "free");
  *(void**)&next.memalign = dlsym(RTLD_NEXT, "memalign");
  *(void**)&next.usable = dlsym(RTLD_NEXT, "malloc_usable_size");
  *(void**)&next.malloc = dlsym(RTLD_NEXT, "malloc");
  looking_up = false;
}
/* Whether the caller gets its bytes from take_first. */
static inline bool is_early(void) {
  if (__builtin_expect(next.malloc != NULL, 1)) return false;
  if (!looking_up) look_up();
  return next.malloc == NULL;
}

static void say(const char* format, ...) __attribute__((format(printf, 1, 2)));
static void say(const char* format, ...) {
  char line[512];
  va_list arguments;
  va_start(arguments, format);
  int bytes = snprintf(line, sizeof line, "kedge: ");
  bytes += vsnprintf(line + bytes, sizeof line - (size_t)bytes - 1, format, arguments);
  va_end(arguments);
  if (bytes > (int)sizeof line - 2) bytes = (int)sizeof line - 2;
  line[bytes] = '\n';
  (void)!write(STDERR_FILENO, line, (size_t)bytes + 1);
}

/* The function of that name behind ours, of libkedge or the C++ library, when it is asked for. Not linked: a program may start
 * others that have neither, and one that was opened later, as a plug-in is, may have its libraries to itself. */
struct search {
  const char* name;
  const void* own;
  void* found;
};
static int look_in(struct dl_phdr_info* info, size_t size, void* argument) {
  (void)size;
  struct search* const search = argument;
  if (info->dlpi_name[0] == '\0') return 0;
  void* const library = dlopen(info->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
  if (library == NULL) return 0;
  void* const found = dlsym(library, search->name);
  dlclose(library);
  if (found == NULL || found == search->own) return 0;
  search->found = found;
  return 1;
}
static void* find_behind(const char* name) {
  struct search search = {name, dlsym(RTLD_DEFAULT, name), dlsym(RTLD_NEXT, name)};
  if (search.found == NULL) dl_iterate_phdr(&look_in, &search);
  if (search.found != NULL) return search.found;
  say("libkedge-malloc.so stands in front of %s, and no library has it", name);
  abort();
}
#define BEHIND(function)                                       \
  ({                                                           \
    static __typeof__(&function) real;                         \
    if (real == NULL) *(void**)&real = find_behind(#function); \
    real;                                                      \
  })

/* ---- the heap ---- */

/* Held for reading while a context is used, which its end waits for. Whoever holds it for writing calls nothing of Kedge: its
 * threads allocate under locks of their own. */
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static kedge_context* context; /* guarded by lock */
static atomic_bool has_libraries;
static char libraries[1024];                      /* guarded by lock; with spaces around each name */
static _Atomic(size_t) from = (size_t)64 << 10;   /* of allocations before kedge_init what is said */
static _Atomic(uintptr_t) range_begin, range_end; /* as it was seen last, also after the context's end */
static uintptr_t program_begin, program_end;      /* its code */

/* Large allocations before kedge_init that are still there. */
static pthread_mutex_t early_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
  void* block;
  size_t bytes;
} early[EARLY_MAX]; /* guarded by early_lock */
static _Atomic(size_t) early_count;
static atomic_bool has_begun; /* kedge_init was called: nothing more is noted */

static int find_program(struct dl_phdr_info* info, size_t size, void* unused) {
  (void)size;
  (void)unused;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)* const part = &info->dlpi_phdr[i];
    if (part->p_type != PT_LOAD || (part->p_flags & PF_X) == 0) continue;
    const uintptr_t begin = info->dlpi_addr + part->p_vaddr;
    if (program_begin == 0 || begin < program_begin) program_begin = begin;
    if (begin + part->p_memsz > program_end) program_end = begin + part->p_memsz;
  }
  return 1; /* the first one is the program */
}

/* The context is its parent's, and nobody else is here to hold a lock. */
static void in_child(void) {
  pthread_rwlock_init(&lock, NULL);
  pthread_mutex_init(&early_lock, NULL);
  context = NULL;
  has_begun = true;
}

__attribute__((constructor)) static void begin(void) {
  (void)is_early();
  dl_iterate_phdr(&find_program, NULL);
  pthread_atfork(NULL, NULL, &in_child);
}

/* Lock-free where the C library has it (2.35): whoever holds the loader's lock may be waiting for Kedge's. */
struct dl_find_object;
extern int _dl_find_object(void*, struct dl_find_object*) __attribute__((weak));

/* REQUIRES: lock is held. */
static bool is_asked_by_library(void* caller) {
  const char* path = NULL;
#ifdef DLFO_STRUCT_HAS_EH_DBASE
  struct dl_find_object found;
  if (_dl_find_object != NULL && _dl_find_object(caller, &found) == 0) path = found.dlfo_link_map->l_name;
#else
  Dl_info found;
  if (dladdr(caller, &found) != 0) path = found.dli_fname;
#endif
  if (path == NULL) return false;
  const char* const slash = strrchr(path, '/');
  char name[256];
  if (snprintf(name, sizeof name, " %s ", slash != NULL ? slash + 1 : path) >= (int)sizeof name) return false;
  return strstr(libraries, name) != NULL;
}
static bool is_asked_by_program(void* caller) {
  return (uintptr_t)caller >= program_begin && (uintptr_t)caller < program_end;
}

static void look_at_range(void) {
  void* address = NULL;
  size_t bytes = 0;
  pthread_rwlock_rdlock(&lock);
  if (context != NULL && BEHIND(kedge_heap_range)(context, &address, &bytes) == KEDGE_OK) {
    range_begin = (uintptr_t)address;
    range_end = (uintptr_t)address + bytes;
  }
  pthread_rwlock_unlock(&lock);
}

static void note_early(void* block, size_t bytes) {
  if (block == NULL || has_begun) return;
  pthread_mutex_lock(&early_lock);
  for (size_t i = 0; i < EARLY_MAX; ++i) {
    if (early[i].block != NULL) continue;
    early[i].block = block;
    early[i].bytes = bytes;
    ++early_count;
    break;
  }
  pthread_mutex_unlock(&early_lock);
}
static void forget_early(void* block) {
  if (early_count == 0 || block == NULL || has_begun) return;
  pthread_mutex_lock(&early_lock);
  for (size_t i = 0; i < EARLY_MAX; ++i) {
    if (early[i].block != block) continue;
    early[i].block = NULL;
    --early_count;
  }
  pthread_mutex_unlock(&early_lock);
}

/* Asks nobody: Kedge frees memory of its own under the context's lock. */
static bool is_in_heap(const void* block) {
  return (uintptr_t)block % BLOCK_ALIGNMENT == 0 && (uintptr_t)block >= range_begin && (uintptr_t)block < range_end;
}

/* Of what the context has just refused. */
static void* no_memory(size_t bytes) {
  say("%zu bytes cannot be allocated: %s", bytes, BEHIND(kedge_error_message)());
  errno = ENOMEM;
  return NULL;
}

enum where {
  ELSEWHERE, /* the allocator behind is to be asked */
  IN_HEAP,   /* *block; NULL: there is no memory */
};

static enum where allocate(size_t bytes, size_t alignment, bool zeroed, void* caller, void** block) {
  if (bytes < from || alignment > BLOCK_ALIGNMENT || !(is_asked_by_program(caller) || has_libraries)) return ELSEWHERE;
  enum where where = ELSEWHERE;
  pthread_rwlock_rdlock(&lock);
  if (context != NULL && (is_asked_by_program(caller) || is_asked_by_library(caller))) {
    const int status = BEHIND(kedge_heap_take)(context, bytes, zeroed, block);
    void* range = NULL;
    size_t range_bytes = 0;
    /* In a call-back nothing may be asked of the context. */
    const bool in_callback = status == KEDGE_ERROR_FAILED_PRECONDITION &&
                             BEHIND(kedge_heap_range)(context, &range, &range_bytes) == KEDGE_ERROR_FAILED_PRECONDITION;
    where = in_callback ? ELSEWHERE : IN_HEAP;
    if (status != KEDGE_OK && where == IN_HEAP) *block = no_memory(bytes);
  }
  pthread_rwlock_unlock(&lock);
  /* A restart that has failed elsewhere may have made the range larger. */
  if (where == IN_HEAP && *block != NULL && !is_in_heap(*block)) look_at_range();
  return where;
}

/* Of an allocation that went elsewhere. */
static void* noted(void* block, size_t bytes, void* caller) {
  if (bytes >= from && !has_begun && is_asked_by_program(caller)) note_early(block, bytes);
  return block;
}

/* What cannot be freed now stays until the program ends. */
static void free_in_heap(void* block) {
  const int before = errno;
  pthread_rwlock_rdlock(&lock);
  if (context != NULL) BEHIND(kedge_free)(context, block);
  pthread_rwlock_unlock(&lock);
  errno = before;
}

/* Into memory elsewhere, as much as there is. */
static void* move_elsewhere(void* block, size_t bytes) {
  void* const moved = next.malloc(bytes);
  if (moved == NULL) return NULL;
  /* Where it ends only the context knows, which cannot be asked: what lies behind cannot be read. */
  const struct iovec to = {moved, bytes}, its = {block, bytes};
  if (process_vm_readv(getpid(), &to, 1, &its, 1, 0) < 0) {
    const int reason = errno;
    next.free(moved);
    say("a block at %p cannot be moved: %s", block, strerror(reason));
    errno = ENOMEM;
    return NULL;
  }
  return moved;
}

static void* resize_in_heap(void* block, size_t bytes) {
  void* resized = NULL;
  pthread_rwlock_rdlock(&lock);
  const bool stays = bytes >= from && context != NULL;
  const int status = stays ? BEHIND(kedge_realloc)(context, block, bytes, &resized) : KEDGE_ERROR_FAILED_PRECONDITION;
  if (stays && status == KEDGE_OK) BEHIND(kedge_hold)(context, resized, NULL);
  pthread_rwlock_unlock(&lock);
  if (status == KEDGE_OK && !is_in_heap(resized)) look_at_range();
  if (status == KEDGE_OK) return resized;
  if (stays && status != KEDGE_ERROR_FAILED_PRECONDITION) return no_memory(bytes);
  resized = move_elsewhere(block, bytes);
  if (resized != NULL) free_in_heap(block);
  return resized;
}

/* ---- kedge.h ---- */

/* `made` has begun: what of the program's memory is blocks from now on. */
static int adopt(kedge_context* made) {
  void* const interpreter = dlsym(RTLD_DEFAULT, "Py_BytesMain");
  if ((interpreter != NULL && is_asked_by_program(interpreter)) || strncmp(program_invocation_short_name, "python", 6) == 0) {
    return BEHIND(kedge_report_error)(
        KEDGE_ERROR_UNSUPPORTED,
        "--protect-heap: what Python itself allocates must not come back from a checkpoint; allocate arrays "
        "with Context.empty");
  }
  char by[sizeof libraries - 2];
  size_t bytes = 0;
  int status = BEHIND(kedge_heap_malloc)(made, &bytes, by, sizeof by);
  if (status == KEDGE_OK) status = BEHIND(kedge_heap)(made, NULL);
  if (status != KEDGE_OK) return status;
  pthread_rwlock_wrlock(&lock);
  if (context == NULL) { /* of several the first one */
    context = made;
    from = bytes;
    snprintf(libraries, sizeof libraries, " %s ", by);
    has_libraries = by[0] != '\0';
  }
  pthread_rwlock_unlock(&lock);
  look_at_range();
  if (atomic_exchange(&has_begun, true) || early_count == 0) return KEDGE_OK;
  size_t early_bytes = 0;
  for (size_t i = 0; i < EARLY_MAX; ++i) early_bytes += early[i].block != NULL ? early[i].bytes : 0;
  say("%zu large allocations, of %zu bytes, were made before kedge_init: checkpoints do not have them (--protect-heap)",
      (size_t)early_count, early_bytes);
  return KEDGE_OK;
}

SHOWN int kedge_init(const kedge_options* options, const kedge_bootstrap* bootstrap, kedge_context** out) {
  int status = BEHIND(kedge_init)(options, bootstrap, out);
  if (status != KEDGE_OK) return status;
  status = adopt(*out);
  if (status == KEDGE_OK) return status;
  char message[1024];
  snprintf(message, sizeof message, "%s", BEHIND(kedge_error_message)());
  BEHIND(kedge_finalize)(*out, 0);
  *out = NULL;
  return BEHIND(kedge_report_error)(status, message);
}

/* A restart may have moved the heap. One that has failed keeps its message. */
static int after_restart(int status) {
  if (status == KEDGE_OK) look_at_range();
  return status;
}
SHOWN int kedge_restart(kedge_context* its, const char* name, int64_t at_most, int64_t* restored) {
  return after_restart(BEHIND(kedge_restart)(its, name, at_most, restored));
}
SHOWN int kedge_restart_part(kedge_context* its, kedge_selection selection, const int* ids, size_t count) {
  return after_restart(BEHIND(kedge_restart_part)(its, selection, ids, count));
}

SHOWN int kedge_finalize(kedge_context* ended, int drain) {
  pthread_rwlock_wrlock(&lock);
  if (ended == context) context = NULL;
  pthread_rwlock_unlock(&lock);
  return BEHIND(kedge_finalize)(ended, drain);
}

/* ---- the C library ---- */

static void* allocate_for(size_t bytes, void* caller) {
  void* block = NULL;
  if (is_early()) return take_first(bytes);
  if (allocate(bytes, 1, false, caller, &block) == IN_HEAP) return block;
  return noted(next.malloc(bytes), bytes, caller);
}

SHOWN void* malloc(size_t bytes) {
  return allocate_for(bytes, CALLER);
}

SHOWN void* calloc(size_t count, size_t element_bytes) {
  size_t bytes = 0;
  void* block = NULL;
  if (is_early()) return take_first(count * element_bytes);
  const bool fits = !__builtin_mul_overflow(count, element_bytes, &bytes);
  if (fits && allocate(bytes, 1, true, CALLER, &block) == IN_HEAP) return block;
  return noted(next.calloc(count, element_bytes), bytes, CALLER);
}

SHOWN void free(void* block) {
  if (is_first(block) || is_early()) return;
  if (is_in_heap(block)) return free_in_heap(block);
  forget_early(block);
  next.free(block);
}

static void* reallocate_for(void* block, size_t bytes, void* caller) {
  if (block == NULL) return allocate_for(bytes, caller);
  if (bytes == 0) {
    free(block);
    return NULL;
  }
  if (is_in_heap(block)) return resize_in_heap(block, bytes);
  if (is_early()) return NULL;
  if (is_first(block)) {
    void* const moved = next.malloc(bytes);
    const size_t left = (size_t)(first_bytes + sizeof first_bytes - (char*)block);
    if (moved != NULL) memcpy(moved, block, bytes < left ? bytes : left);
    return moved;
  }
  void* moved = NULL;
  if (allocate(bytes, 1, false, caller, &moved) == IN_HEAP) {
    if (moved == NULL) return NULL;
    const size_t before = next.usable(block);
    memcpy(moved, block, before < bytes ? before : bytes);
    next.free(block);
    return moved;
  }
  forget_early(block);
  return noted(next.realloc(block, bytes), bytes, caller);
}

SHOWN void* realloc(void* block, size_t bytes) {
  return reallocate_for(block, bytes, CALLER);
}
SHOWN void* reallocarray(void* block, size_t count, size_t element_bytes) {
  size_t bytes = 0;
  if (!__builtin_mul_overflow(count, element_bytes, &bytes)) return reallocate_for(block, bytes, CALLER);
  errno = ENOMEM;
  return NULL;
}

static void* align_for(size_t alignment, size_t bytes, void* caller) {
  void* block = NULL;
  if (is_early()) return NULL;
  if (allocate(bytes, alignment, false, caller, &block) == IN_HEAP) return block;
  return noted(next.memalign(alignment, bytes), bytes, caller);
}

SHOWN void* memalign(size_t alignment, size_t bytes) {
  return align_for(alignment, bytes, CALLER);
}
SHOWN void* aligned_alloc(size_t alignment, size_t bytes) {
  return align_for(alignment, bytes, CALLER);
}
SHOWN void* valloc(size_t bytes) {
  return align_for((size_t)sysconf(_SC_PAGESIZE), bytes, CALLER);
}
SHOWN int posix_memalign(void** out, size_t alignment, size_t bytes) {
  if (alignment < sizeof(void*) || (alignment & (alignment - 1)) != 0) return EINVAL;
  const int before = errno;
  void* const block = align_for(alignment, bytes, CALLER);
  errno = before;
  if (block == NULL) return ENOMEM;
  *out = block;
  return 0;
}

SHOWN size_t malloc_usable_size(void* block) {
  if (block == NULL || is_first(block) || is_early()) return 0;
  if (!is_in_heap(block)) return next.usable(block);
  size_t bytes = 0;
  pthread_rwlock_rdlock(&lock);
  if (context != NULL) BEHIND(kedge_hold)(context, block, &bytes);
  pthread_rwlock_unlock(&lock);
  return bytes;
}

/* ---- C++: operator new of the program, which calls malloc from its own library. operator delete ends in free. ---- */

/* `block` as operator new returns it. */
void _ZSt17__throw_bad_allocv(void);
static void* or_throw(void* block) {
  if (block == NULL) BEHIND(_ZSt17__throw_bad_allocv)();
  return block;
}
static void* or_null(void* block) {
  return block;
}

/* operator new of that mangled name, with `bytes` among its parameters. */
#define NEW(name, alignment, or_fail, parameters, ...)                                       \
  SHOWN void* name parameters;                                                               \
  SHOWN void* name parameters {                                                              \
    void* block = NULL;                                                                      \
    if (allocate(bytes, alignment, false, CALLER, &block) == IN_HEAP) return or_fail(block); \
    return noted(BEHIND(name)(__VA_ARGS__), bytes, CALLER);                                  \
  }

NEW(_Znwm, 1, or_throw, (size_t bytes), bytes)
NEW(_Znam, 1, or_throw, (size_t bytes), bytes)
NEW(_ZnwmSt11align_val_t, aligned, or_throw, (size_t bytes, size_t aligned), bytes, aligned)
NEW(_ZnamSt11align_val_t, aligned, or_throw, (size_t bytes, size_t aligned), bytes, aligned)
NEW(_ZnwmRKSt9nothrow_t, 1, or_null, (size_t bytes, const void* tag), bytes, tag)
NEW(_ZnamRKSt9nothrow_t, 1, or_null, (size_t bytes, const void* tag), bytes, tag)
