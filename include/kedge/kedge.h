/* Kedge: asynchronous multilevel checkpoint/restart. The C ABI of libkedge.
 *
 * An application makes a context, declares its memory (protect), and calls checkpoint: the call returns when the bytes
 * are copied to node-local storage; an agent on the node carries them on in the background. After a failure the
 * relaunched application declares the same regions and calls restart.
 *
 * Conventions, unless a function says otherwise:
 * - A function returns KEDGE_OK (0) or a positive kedge_status; kedge_error_message() then holds a sentence that names
 *   what was expected, found and what to do. Nothing throws, exits, prints to stdout or installs signal handlers.
 * - Sizes and offsets are bytes. Timeouts are seconds; a negative one means the configured `wait.timeout`.
 * - Strings are UTF-8, NUL-terminated, copied by the callee. Names have 1 to 1,023 bytes; any byte but NUL is allowed.
 * - Threads: calls on one context are serialised by a lock, so that two threads do not corrupt it, but the
 *   begin/part/end sequences of two threads must not interleave. Different contexts are independent.
 * - "Collective" calls are made by all ranks of the context in the same order. checkpoint is not: it never waits for
 *   another rank.
 * - Structs begin with their size, set by the caller (`.struct_size = sizeof info`), so that a program built against an older
 *   header works. KEDGE_ERROR_INVALID_ARGUMENT: it is not set.
 */
#ifndef KEDGE_KEDGE_H
#define KEDGE_KEDGE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define KEDGE_API __attribute__((visibility("default")))
#else
#define KEDGE_API
#endif

#define KEDGE_VERSION_MAJOR 0
#define KEDGE_VERSION_MINOR 1
#define KEDGE_VERSION_PATCH 0

typedef enum kedge_status {
  KEDGE_OK = 0,
  KEDGE_ERROR_INVALID_ARGUMENT = 1,
  KEDGE_ERROR_NOT_FOUND = 2,
  KEDGE_ERROR_ALREADY_EXISTS = 3,
  KEDGE_ERROR_CORRUPT = 4,
  KEDGE_ERROR_UNSUPPORTED = 5,
  KEDGE_ERROR_NO_SPACE = 6,
  KEDGE_ERROR_IO = 7,
  KEDGE_ERROR_PERMISSION = 8,
  KEDGE_ERROR_UNAVAILABLE = 9,
  KEDGE_ERROR_TIMEOUT = 10,
  KEDGE_ERROR_MISMATCH = 11,
  KEDGE_ERROR_BUSY = 12,
  KEDGE_ERROR_FAILED_PRECONDITION = 13,
  KEDGE_ERROR_INCOMPLETE = 14,
  KEDGE_ERROR_INTERNAL = 15,
  KEDGE_ERROR_LOST = 16 /* there was a version, and no copy of any is left: not to be taken for a first launch */
} kedge_status;

/* One rank's handle: its regions, its session with the agent, its place among the ranks. */
typedef struct kedge_context kedge_context;

/* How ranks that start together find each other. libkedge-mpi fills one in from a communicator; other programs may
 * pass their own. All callbacks return 0 on success and are called only from collective calls, by the calling thread. */
typedef struct kedge_bootstrap {
  size_t struct_size;
  void* user;
  int rank;  /* 0 <= rank < ranks */
  int ranks; /* >= 1 */
  /* Every rank contributes `bytes` bytes at `send`; `receive` has room for ranks * bytes, in rank order. */
  int (*allgather)(void* user, const void* send, void* receive, size_t bytes);
  /* `bytes` bytes at `data` go from rank `root` to all. */
  int (*broadcast)(void* user, void* data, size_t bytes, int root);
  int (*barrier)(void* user);
  /* Frees `user`; called once by kedge_finalize, or by a kedge_init that fails. NULL: nothing to free. */
  void (*release)(void* user);
} kedge_bootstrap;

typedef struct kedge_options {
  size_t struct_size;
  const char* job;         /* job name; NULL: configuration (job.name), else the program's name */
  const char* config_file; /* TOML; NULL: the usual places (docs/reference.md) */
  const char* overrides;   /* "section.key=value" lines separated by '\n', above file and environment; NULL: none */
} kedge_options;
#define KEDGE_OPTIONS_INIT \
  { sizeof(kedge_options), NULL, NULL, NULL }

/* A bootstrap for processes without MPI. `folder` (made when it is missing, for this user alone) lies on storage that all
 * ranks see, and one launch at a time uses it; what an earlier launch left there does no harm. Collective: returns when
 * all `ranks` have come, or after `timeout_seconds` with KEDGE_ERROR_TIMEOUT and the rank that is missing; no later wait for
 * other ranks is longer either. KEDGE_ERROR_PERMISSION: the folder is not this user's alone (mode 0700), nor below one that is.
 * Give *bootstrap to one kedge_init, which takes it over, also when it fails. */
KEDGE_API int kedge_rendezvous(const char* folder, int rank, int ranks, double timeout_seconds, kedge_bootstrap* bootstrap);

/* Makes a context. Collective when `bootstrap` has several ranks; NULL means a single process (rank 0 of 1).
 * Starts the node's agent when none runs; without one (it cannot be started, or was killed) the context works
 * synchronously straight to the store, with a warning. KEDGE_ERROR_BUSY: another live attempt holds the job. */
KEDGE_API int kedge_init(const kedge_options* options, const kedge_bootstrap* bootstrap, kedge_context** out);

/* Ends the session. `drain` non-zero waits (bounded by wait.timeout) until everything is at its last scheduled level,
 * and returns the first error of a flush that failed and was not made good since, or why the newest version of a name has
 * not got there (KEDGE_ERROR_LOST: this rank's image went with the agent and its memory); zero leaves flushing to the agent.
 * Always frees the context. */
KEDGE_API int kedge_finalize(kedge_context* context, int drain);

/* The sentence that belongs to the last error of this thread; "" after none. Valid until the thread's next call. */
KEDGE_API const char* kedge_error_message(void);
/* For a library on top of this one (a bootstrap): sets this thread's message and returns `status`. */
KEDGE_API int kedge_report_error(int status, const char* message);
KEDGE_API const char* kedge_status_name(int status);
KEDGE_API const char* kedge_version_string(void);

/* ---- What a checkpoint holds ------------------------------------------------------------------------------------ */

typedef enum kedge_type {
  KEDGE_TYPE_BYTES = 0,
  KEDGE_TYPE_INT8 = 1,
  KEDGE_TYPE_INT16 = 2,
  KEDGE_TYPE_INT32 = 3,
  KEDGE_TYPE_INT64 = 4,
  KEDGE_TYPE_UINT8 = 5,
  KEDGE_TYPE_UINT16 = 6,
  KEDGE_TYPE_UINT32 = 7,
  KEDGE_TYPE_UINT64 = 8,
  KEDGE_TYPE_FLOAT16 = 9,
  KEDGE_TYPE_BFLOAT16 = 10,
  KEDGE_TYPE_FLOAT32 = 11,
  KEDGE_TYPE_FLOAT64 = 12,
  KEDGE_TYPE_COMPLEX64 = 13,
  KEDGE_TYPE_COMPLEX128 = 14,
  KEDGE_TYPE_BOOL = 15
} kedge_type;

typedef enum kedge_memory { KEDGE_MEMORY_HOST = 0, KEDGE_MEMORY_DEVICE = 1 } kedge_memory;

#define KEDGE_MAX_DIMENSIONS 15 /* what Fortran allows */

/* What is known of a region beyond its bytes; all optional. Stored with it, shown by `kedge inspect`, used by export, and held
 * against what is protected at a restart: where both sides know type or shape, they must be the same. */
typedef struct kedge_region_info {
  size_t struct_size;
  const char* name;    /* NULL: none */
  kedge_type type;     /* KEDGE_TYPE_BYTES: unknown */
  kedge_memory memory; /* KEDGE_MEMORY_DEVICE is refused by this version with KEDGE_ERROR_UNSUPPORTED */
  int column_major;    /* 1 when the first index runs fastest (Fortran) */
  int dimensions;      /* 0: unknown; else the number of valid entries below; the product is the element count */
  int64_t shape[KEDGE_MAX_DIMENSIONS];
  /* Of the global array that this is a part of, and where this begins in it; all 0: it is part of none, or of one that has no
   * element now. The array has the name of the region as far as a bracket (blocks of one rank are field[0], field[1], ...), or
   * its id. What is part of one comes back on another number of ranks, too (kedge_restart). */
  int64_t global_shape[KEDGE_MAX_DIMENSIONS];
  int64_t global_offset[KEDGE_MAX_DIMENSIONS];
  int reinterpret;    /* 1: a restart takes as many bytes that were saved as another type or shape; not stored */
  int device_written; /* 1: a device writes there without the processor (RDMA, GPU): its changes are not tracked; not stored */
  int replicated;     /* 1: all ranks have the same, of which each can take any other's: a global array that is this region */
  /* So many elements on both sides of a dimension are copies of what other parts have (ghost cells), and no part of the global
   * array: the offset is that of the first element behind them. A restart on another number of ranks leaves them as they are. */
  int64_t halo[KEDGE_MAX_DIMENSIONS];
  /* Memory that moves and grows, as a std::vector's. `locate`, if not NULL, is asked at protect and at each checkpoint and
   * restart where it lies and how many elements it has; address and count of kedge_protect are ignored, `dimensions` is at most
   * 1, and changes are not tracked. `resize`, if not NULL, makes it that long when a restart finds another length; without it
   * the lengths must be equal. Both return 0 on success, anything else fails the checkpoint or the restart, and call nothing
   * of Kedge. */
  int (*locate)(void* user, void** address, size_t* count);
  int (*resize)(void* user, size_t count);
  void* user;
} kedge_region_info;

/* Declares `count` elements of `element_bytes` at `address` as region `id` (any int). The memory stays the caller's and
 * must stay valid until unprotect, clear, or another protect of the same id, which replaces address and size.
 * count == 0 is a valid, empty region. `info` may be NULL. No two regions of a group have the same name. */
KEDGE_API int kedge_protect(kedge_context* context, int id, void* address, size_t count, size_t element_bytes,
                            const kedge_region_info* info);

/* The same where the compiler knows the elements (C11; kedge.hpp does so in C++): KEDGE_PROTECT(context, 1, field, 1000) also
 * records their type, which tools show and a restart compares. `pointer` is a pointer or an array, evaluated once; elements that
 * are no numbers are KEDGE_TYPE_BYTES. */
#if !defined(__cplusplus) && defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
/* clang-format off */
#define KEDGE_TYPE_OF(pointer)                                                                                       \
  _Generic(&*(pointer),                                                                                              \
      float*: KEDGE_TYPE_FLOAT32, double*: KEDGE_TYPE_FLOAT64,                                                        \
      float _Complex*: KEDGE_TYPE_COMPLEX64, double _Complex*: KEDGE_TYPE_COMPLEX128, _Bool*: KEDGE_TYPE_BOOL,        \
      char*: (char)-1 < 0 ? KEDGE_TYPE_INT8 : KEDGE_TYPE_UINT8,                                                       \
      signed char*: KEDGE_TYPE_INT8, unsigned char*: KEDGE_TYPE_UINT8,                                                \
      short*: KEDGE_TYPE_INT16, unsigned short*: KEDGE_TYPE_UINT16,                                                   \
      int*: KEDGE_TYPE_INT32, unsigned*: KEDGE_TYPE_UINT32,                                                           \
      long*: sizeof(long) == 8 ? KEDGE_TYPE_INT64 : KEDGE_TYPE_INT32,                                                 \
      unsigned long*: sizeof(long) == 8 ? KEDGE_TYPE_UINT64 : KEDGE_TYPE_UINT32,                                      \
      long long*: KEDGE_TYPE_INT64, unsigned long long*: KEDGE_TYPE_UINT64,                                           \
      default: KEDGE_TYPE_BYTES)
/* clang-format on */
#define KEDGE_PROTECT(context, id, pointer, count) \
  kedge_protect_elements_((context), (id), (pointer), (count), sizeof *(pointer), KEDGE_TYPE_OF(pointer))
static inline int kedge_protect_elements_(kedge_context* context, int id, void* address, size_t count, size_t element_bytes,
                                          kedge_type type) {
  kedge_region_info info = {0};
  info.struct_size = sizeof info;
  info.type = type;
  info.dimensions = 1;
  info.shape[0] = (int64_t)count;
  return kedge_protect(context, id, address, count, element_bytes, &info);
}
#endif

KEDGE_API int kedge_unprotect(kedge_context* context, int id);
/* Forgets all regions of the current group. */
KEDGE_API int kedge_clear(kedge_context* context);

/* Memory that Kedge gives out, the heap of the context: every checkpoint of the default group has it, and a restart brings all of
 * it back, at the same addresses, so that pointers from block to block stay right. The program protects nothing, and finds the
 * begin of its data by a name. Whatever group is selected, blocks belong to the default one.
 *
 * The heap lies in a range of addresses (heap.size, heap.address) that is reserved by the first of these calls, or by the restart
 * that brings a version's heap back, there and nowhere else: KEDGE_ERROR_MISMATCH names what this process has at its place. So
 * restart before anything else is allocated. kedge_restart, and the first part of a restart in parts that takes KEDGE_ALL or
 * KEDGE_REST, make the heap what it was: the version's blocks are back, and others without a name are gone, but for those of
 * kedge_hold. A block that was asked for by its name (alloc, find) never moves and never goes: where the version has it
 * elsewhere, with another size, type or shape, or not at all, that is KEDGE_ERROR_MISMATCH, before anything is overwritten;
 * kedge_free it first. A version that is only read (kedge_load_begin, kedge_restart_as) brings no block back; its blocks are
 * saved regions with ids up to -1,073,741,824.
 *
 * kedge_finalize frees all blocks, unless kedge_heap has given its link out: then they stay, memory of nobody, so that what lies
 * there can still be taken apart. A forked child has a copy of the heap, as of all memory; a context of its own has another. */

/* A block of `count` elements of `element_bytes`; of none it is a block all the same, of its own address. Each rank allocates by
 * itself: none of these calls waits for other ranks. With a name, which no other region may have, it begins at a multiple of 64
 * KiB and reads as zeros; type and shape of `info` (may be NULL) are stored, its name is not looked at. A block without a name
 * (NULL) of at most 16 KiB begins at a multiple of 16, and of the greatest power of two that divides its size, and is not zeroed.
 * KEDGE_ERROR_ALREADY_EXISTS: the name is taken; _UNSUPPORTED: devices write there (`info`); _NO_SPACE: range or memory are full;
 * _FAILED_PRECONDITION: no range can be reserved, or the last restart has failed. */
KEDGE_API int kedge_alloc(kedge_context* context, const char* name, size_t count, size_t element_bytes,
                          const kedge_region_info* info, void** block);
/* Changes a block's size, in place where that can be done; *resized is where it lies then, with as much of its content as fits.
 * NULL: a new block without a name. A shape of several dimensions is forgotten. On an error the block is as it was. */
KEDGE_API int kedge_realloc(kedge_context* context, void* block, size_t bytes, void** resized);
/* Later versions do not have it; its memory goes back to the system. NULL is none. KEDGE_ERROR_INVALID_ARGUMENT: no block begins
 * there. */
KEDGE_API int kedge_free(kedge_context* context, void* block);
/* Takes a named or large block out of the heap: later versions do not have it, and its memory is the caller's, who may munmap it
 * up to the next multiple of 64 KiB. Until then no version that has a block there can be restored. */
KEDGE_API int kedge_detach(kedge_context* context, void* block);
/* The block of this name; `bytes` and `info` may be NULL; info->name is valid until the block goes. KEDGE_ERROR_NOT_FOUND. */
KEDGE_API int kedge_find(kedge_context* context, const char* name, void** block, size_t* bytes, kedge_region_info* info);
/* Reserves the range now. **link is the context that has the heap, in whichever process it is, NULL after kedge_finalize: data in
 * the heap keep `link`, which a restart leaves where it is, and not the context, which is another one in each process. `link` may
 * be NULL. */
KEDGE_API int kedge_heap(kedge_context* context, kedge_context* const** link);
/* The program keeps a pointer to this named or large block: a restart never moves it, and never takes it away. The version's
 * block of the same place and size comes back there; where the version has none, the block stays as it is, and belongs to later
 * ones; where it has another, that is KEDGE_ERROR_MISMATCH, before anything is overwritten. *bytes (may be NULL) is its size.
 * KEDGE_ERROR_INVALID_ARGUMENT: no such block begins there. */
KEDGE_API int kedge_hold(kedge_context* context, const void* block, size_t* bytes);
/* The range in which the heap lies; NULL and 0 before it is reserved. */
KEDGE_API int kedge_heap_range(kedge_context* context, void** address, size_t* bytes);
/* For allocators: a block of its own, without a name, that is held (kedge_hold). Its bytes are undefined, unless `zeroed`. When
 * it is freed its memory is kept for the next one of about its size: at most 16 MiB of all. Errors as kedge_alloc. */
KEDGE_API int kedge_heap_take(kedge_context* context, size_t bytes, int zeroed, void** block);
/* What libkedge-malloc (kedge run --protect-heap) makes blocks of the heap: allocations of so many bytes and more
 * (heap.malloc_from) by the program itself, and by these of its libraries (heap.malloc_by), a text of up to `capacity` bytes with
 * its end. */
KEDGE_API int kedge_heap_malloc(kedge_context* context, size_t* from, char* by, size_t capacity);

/* Objects that are not plain memory. At a checkpoint `size` is asked for the exact number of bytes, then `serialize`
 * must write that many through kedge_write; at a restart `deserialize` reads them through kedge_read. All return 0 on
 * success; anything else fails the checkpoint (the application goes on) or the restart. */
typedef struct kedge_writer kedge_writer;
typedef struct kedge_reader kedge_reader;
typedef struct kedge_object {
  size_t struct_size;
  void* user;
  int (*size)(void* user, size_t* bytes);
  int (*serialize)(void* user, kedge_writer* writer);
  int (*deserialize)(void* user, kedge_reader* reader, size_t bytes);
} kedge_object;
KEDGE_API int kedge_protect_object(kedge_context* context, int id, const char* name, const kedge_object* object);
KEDGE_API int kedge_write(kedge_writer* writer, const void* data, size_t bytes);
KEDGE_API int kedge_read(kedge_reader* reader, void* data, size_t bytes);

/* Named groups: regions with ids of their own, apart from the default group, checkpointed under names (and so versions)
 * of their own. The selection holds for the calls that follow on this context (protect, unprotect, clear, checkpoint*,
 * restart*); NULL selects the default group again. */
KEDGE_API int kedge_group(kedge_context* context, const char* group);

/* ---- Checkpoint ------------------------------------------------------------------------------------------------- */

typedef enum kedge_level {
  KEDGE_LEVEL_NONE = 0,
  KEDGE_LEVEL_LOCAL = 1,  /* survives the loss of the process: pool and local tiers */
  KEDGE_LEVEL_NODE = 2,   /* survives the loss of a node */
  KEDGE_LEVEL_BUFFER = 3, /* survives the loss of all compute nodes: on the burst buffer before the store; else as STORE */
  KEDGE_LEVEL_STORE = 4,  /* survives the loss of everything but the store; synced */
  KEDGE_LEVEL_LAST = 100  /* the highest level scheduled for the version */
} kedge_level;

typedef enum kedge_selection { KEDGE_ALL = 0, KEDGE_SOME = 1, KEDGE_REST = 2 } kedge_selection;

enum {
  KEDGE_OVERWRITE = 1u /* a version equal to or below the newest is accepted; the old one stays until this is complete */
};

/* Captures all regions of the current group as (name, version). Version >= 0, greater than this rank's newest of the name
 * unless KEDGE_OVERWRITE. All ranks take the same versions of a name in the same order; a call that fails counts, so that ranks
 * take a version again together. Ranks that took different ones are told: KEDGE_ERROR_MISMATCH of wait, test, finalize and
 * kedge_last_flush_error, naming both, and a restart brings them in step. Returns when the memory may change again ("captured");
 * with capture.mode = cow when writes to it are held back until they may, and it may be freed once kedge_wait has seen level
 * LOCAL, or after kedge_unprotect. When the flush of an earlier version has failed, this checkpoint is still taken, and
 * kedge_last_flush_error tells. Blocked time: docs/performance.md. */
KEDGE_API int kedge_checkpoint(kedge_context* context, const char* name, int64_t version, unsigned flags);

/* The same in parts: begin, any number of parts (each region at most once: REST is what no part has written yet), routed
 * files, and end. `success` zero abandons the version; the older ones stay. */
KEDGE_API int kedge_checkpoint_begin(kedge_context* context, const char* name, int64_t version, unsigned flags);
KEDGE_API int kedge_checkpoint_part(kedge_context* context, kedge_selection selection, const int* ids, size_t count);
/* Between begin and end: where to write (checkpoint) or read (restart) the file that the application calls `original`.
 * `routed` has room for `routed_bytes` bytes. The file is sealed and checksummed at checkpoint_end, and not written after;
 * once at the store level it also stands at `original` when files.publish is on. */
KEDGE_API int kedge_route_file(kedge_context* context, const char* original, char* routed, size_t routed_bytes);
/* A user key and value (any bytes) stored with the version; between begin and end. */
KEDGE_API int kedge_annotate(kedge_context* context, const char* key, const void* value, size_t bytes);
KEDGE_API int kedge_checkpoint_end(kedge_context* context, int success);

/* Collective, as its neighbour below. For a loop that asks every step: *due is 1 when `schedule.interval` has passed since the
 * last checkpoint or restart ended (of whatever name, on rank 0), or `kedge halt --now` wants one; from then on until a
 * checkpoint is begun; always where no interval is configured. With `schedule.adapt` the interval is the one that the agent finds
 * best for what it measures; with `schedule.adapt_levels` a yes may also change how many versions are protected across nodes and
 * go to the store.
 *
 * All ranks make these calls in the same order, and get the same answer at the same call. Some of them are one broadcast from
 * rank 0, in which whoever comes before rank 0 waits for it: about every ten milliseconds, at each call where these come more
 * seldom, and at least every 32nd call; less often only where broadcasts are slow (through files, say), and would take more
 * than a fiftieth of the time. All others answer what the last one brought, well under a microsecond, without a system call, a
 * file, or a wait for another rank. A context of one rank waits for nobody. KEDGE_ERROR_UNAVAILABLE: the bootstrap's broadcast
 * has failed; each later call says so at once. */
KEDGE_API int kedge_checkpoint_due(kedge_context* context, int* due);
/* Collective, and the same for the question whether to end: *exit is 1, once and for ever, when somebody has asked the job to
 * halt (kedge halt, kedge run at the end of its allocation). The application then calls kedge_finalize with drain, and ends; what
 * it has computed since its last checkpoint is computed again by the next run, unless it takes one more. */
KEDGE_API int kedge_should_exit(kedge_context* context, int* exit);

/* What this rank does from now on, in its own words; a hint, and not collective. While a rank of the node says that it
 * communicates, other nodes' agents do not read the node's images for the store (store.layout = leaders, staging.folder) or for
 * redundancy (protect.scheme), and its own agent does not read theirs: the network is the application's. At most `net.pause` at
 * a time, and half of the time over long ones: a hint that is never taken back stops nothing. What a rank waits for goes on.
 * Well under a microsecond; while images are being read, the time to wake the agent. Without an agent, nothing happens. */
typedef enum kedge_phase_kind { KEDGE_PHASE_COMPUTATION = 0, KEDGE_PHASE_COMMUNICATION = 1 } kedge_phase_kind;
KEDGE_API int kedge_phase(kedge_context* context, kedge_phase_kind phase);

/* Waits until all ranks' images of (name, version) are at `level`. name NULL: the newest checkpoint of this context.
 * KEDGE_ERROR_TIMEOUT names who is missing, or the store while that is not where it was; _FAILED_PRECONDITION says why it never
 * gets there; a failed flush returns its own error at once, _CORRUPT when the image has changed on the node since its capture.
 * _NOT_FOUND: this context has not taken it, and the store has none of that number that the job has not abandoned.
 * _BUSY: a newer attempt has taken the job over. Before STORE is reported, the node has looked for one within a quarter of a
 * second: while the store does not tell, STORE is not reported, and the wait ends with KEDGE_ERROR_TIMEOUT and the store's
 * error. For levels below it, which the nodes vouch for, it looks every quarter of job.lease; until then they are still
 * reported. */
KEDGE_API int kedge_wait(kedge_context* context, const char* name, int64_t version, kedge_level level, double timeout_seconds);
/* The level that (name, version) has reached over all ranks now, as far as that can be told: while the store does not tell
 * whether it has the version still, what the nodes vouch for. Never waits. An error of its flush is returned. */
KEDGE_API int kedge_test(kedge_context* context, const char* name, int64_t version, kedge_level* level);
/* KEDGE_OK when nothing of this rank is pending, KEDGE_ERROR_BUSY while a flush runs or waits. */
KEDGE_API int kedge_pending(kedge_context* context);
/* The error of the first flush that failed since the last call of this function, or KEDGE_OK. No waiting, no system call. */
KEDGE_API int kedge_last_flush_error(kedge_context* context, char* name, size_t name_bytes, int64_t* version);

/* ---- Restart ---------------------------------------------------------------------------------------------------- */

/* The newest version of `name` at or below `at_most` (negative: no limit) that every rank can restore. Collective.
 * KEDGE_ERROR_NOT_FOUND: there never was one, or only newer ones than `at_most` are left: the application begins at its start.
 * KEDGE_ERROR_LOST: versions were safe on the nodes, at whatever level, and no copy of any is left, nor in the store; without
 * protect.scheme, none on the ranks' own nodes. Rank 0 warns, and the sentence says what is lost and why. To begin anew is not
 * Kedge's to decide: set restart.if_lost to "begin", and NOT_FOUND is returned instead. The nodes remember their versions, and
 * the store hears of a name's first one moments after it is safe: where all nodes are gone before that, nobody knows that there
 * was one. KEDGE_ERROR_BUSY: a newer attempt has taken the job over, which ends this one. */
KEDGE_API int kedge_newest(kedge_context* context, const char* name, int64_t at_most, int64_t* version);

/* Restores every region of the current group from the newest restorable version at or below `at_most` (negative: no limit);
 * *restored says which (may be NULL). Collective. Each chunk comes from the nearest good copy, verified. Should a rank
 * fail, all ranks go to the next older version, with a message in the log. What another number of ranks has saved is divided
 * anew: then all regions must be parts of global arrays (kedge_region_info). The job goes on from what was restored: newer
 * versions are abandoned from then on. On error memory is undefined, except for
 * KEDGE_ERROR_MISMATCH (a region has another size, type or shape, or cannot be divided anew), KEDGE_ERROR_NOT_FOUND and
 * KEDGE_ERROR_LOST (as kedge_newest has them), which are found before anything is overwritten. KEDGE_ERROR_BUSY: a newer attempt
 * has taken the job over. */
KEDGE_API int kedge_restart(kedge_context* context, const char* name, int64_t at_most, int64_t* restored);

/* The same in parts, of exactly `version`. begin and end are collective; parts are the rank's own. With an end that reports
 * success on all ranks the job goes on from this version, whatever parts of it were restored. */
KEDGE_API int kedge_restart_begin(kedge_context* context, const char* name, int64_t version);
/* In place of kedge_restart_begin where a version is only read, to compare with it or to look into it: kedge_restart_end then
 * changes nothing, the job does not go on from this version, and no other one is abandoned. */
KEDGE_API int kedge_load_begin(kedge_context* context, const char* name, int64_t version);
/* Bytes, element type, shape and name of a saved region before memory is allocated. *bytes is 0 and KEDGE_ERROR_NOT_FOUND
 * returned for an unknown id. `info` may be NULL; info->name points into the context, valid until restart_end. */
KEDGE_API int kedge_saved_region(kedge_context* context, int id, size_t* bytes, kedge_region_info* info);
/* The ids of the saved regions, in the order in which they were protected: the first `capacity` of them go to `ids` (may be
 * NULL when capacity is 0); *count is how many there are. */
KEDGE_API int kedge_saved_ids(kedge_context* context, int* ids, size_t capacity, size_t* count);
KEDGE_API int kedge_restart_part(kedge_context* context, kedge_selection selection, const int* ids, size_t count);
/* *bytes is the value's size also when `capacity` is too small (KEDGE_ERROR_INVALID_ARGUMENT, nothing copied). */
KEDGE_API int kedge_annotation(kedge_context* context, const char* key, void* value, size_t capacity, size_t* bytes);
/* Agrees over all ranks: KEDGE_ERROR_INCOMPLETE where another rank reported failure. */
KEDGE_API int kedge_restart_end(kedge_context* context, int success);

/* Lets one process read another rank's image (a tool, an analysis, fewer ranks): the restart calls that follow read the
 * image of `rank`, are not collective, and the job does not go on from what they read. -1 returns to the context's own rank.
 * They find what the store or this node has: an image that is on another node only is KEDGE_ERROR_UNAVAILABLE, unless it is that
 * of the context's own rank. */
KEDGE_API int kedge_restart_as(kedge_context* context, int rank);

/* ---- Housekeeping ----------------------------------------------------------------------------------------------- */

/* Removes this rank's local copies of `name` (NULL: of every name) that the store does not need any more. */
KEDGE_API int kedge_cleanup(kedge_context* context, const char* name);
/* Keeps (name, version) for ever, outside `keep`; pinned zero lets go. The version must be complete. */
KEDGE_API int kedge_pin(kedge_context* context, const char* name, int64_t version, int pinned);

typedef struct kedge_statistics {
  size_t struct_size; /* set by the caller */
  uint64_t checkpoints;
  uint64_t checkpoints_inline; /* taken synchronously because there was no agent or no tier with room */
  uint64_t bytes_captured;
  double blocked_seconds; /* in checkpoint calls, in all */
  double last_blocked_seconds;
  uint64_t bytes_pool; /* captured to the memory tier, to directory tiers, through to the store */
  uint64_t bytes_directory;
  uint64_t bytes_through;
  double slot_wait_seconds;     /* part of blocked_seconds spent waiting for a place */
  uint64_t bytes_restored_pool; /* restored, by source */
  uint64_t bytes_restored_directory;
  uint64_t bytes_restored_store;
  double last_restart_seconds;
  uint64_t flush_failures;
  uint64_t corrupt_copies;            /* found and passed over */
  double checkpoint_interval_seconds; /* what kedge_checkpoint_due goes by now; 0: always due */
  uint64_t checkpoints_not_due;       /* how often it said no */
  uint64_t bytes_unchanged;           /* of bytes_captured: neither read nor copied by the call (capture.track) */
  uint64_t writes_held;               /* blocks whose writer waited until they were copied (capture.mode = cow) */
} kedge_statistics;
KEDGE_API int kedge_get_statistics(kedge_context* context, kedge_statistics* out);

#ifdef __cplusplus
}
#endif
#endif
