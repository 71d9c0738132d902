/* Files on burst buffers: servers with fast storage on other nodes (kedge-buffer(1)). The C ABI of libkedge-bb; link
 * -lkedge-bb. It needs no agent, and nothing of libkedge.
 *
 *   kedge_bb* buffer;
 *   kedge_bb_file* file;
 *   if (kedge_bb_connect("fast", NULL, &buffer)) ...  kedge_bb_error_message() says why
 *   if (kedge_bb_open(buffer, "run7/result", KEDGE_BB_WRITE, &file)) ...
 *   kedge_bb_write(file, data, bytes);
 *   if (kedge_bb_close(file, 1)) ...                  only now the file is there, whole and durable
 *   kedge_bb_disconnect(buffer);
 *
 * Conventions are those of kedge.h: codes of kedge_status, bytes, UTF-8 strings that the callee copies, option structs that
 * begin with their size. What differs:
 * - Threads: calls on one connection may come from several threads at a time, calls on one file from one at a time.
 * - Nothing is collective. A process that forks makes new connections in the child.
 * - Every wait ends: a server that is gone is found in seconds.
 */
#ifndef KEDGE_BB_H
#define KEDGE_BB_H

#include "kedge.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A connection to one server, in the name of one owner. */
typedef struct kedge_bb kedge_bb;
/* An open file. It keeps its connection. */
typedef struct kedge_bb_file kedge_bb_file;

typedef struct kedge_bb_options {
  size_t struct_size;
  const char* folder;      /* where servers say where they are; NULL: configuration (buffer.folder), or the store */
  const char* owner;       /* in whose name; NULL: configuration (buffer.owner) */
  const char* secret;      /* the file with the owner's secret, of mode 0600; NULL: configuration (buffer.secret) */
  const char* config_file; /* TOML; NULL: the usual places (docs/reference.md) */
} kedge_bb_options;
#define KEDGE_BB_OPTIONS_INIT \
  { sizeof(kedge_bb_options), NULL, NULL, NULL, NULL }

/* `options` NULL: all from the configuration. KEDGE_ERROR_NOT_FOUND: no server of that name says where it is.
 * KEDGE_ERROR_PERMISSION: others may read the secret. KEDGE_ERROR_TIMEOUT, KEDGE_ERROR_UNAVAILABLE: the server is gone, or has
 * another secret for this owner. */
KEDGE_API int kedge_bb_connect(const char* server, const kedge_bb_options* options, kedge_bb** out);
/* Frees the connection; files that are open keep it until they are closed. NULL: nothing. */
KEDGE_API void kedge_bb_disconnect(kedge_bb* buffer);

typedef enum kedge_bb_mode {
  KEDGE_BB_READ = 1,
  KEDGE_BB_WRITE = 2 /* a new file, which takes the place of a former one when it is closed */
} kedge_bb_mode;

/* A path has parts between slashes; no part is empty or begins with a dot. Folders need not be made.
 * KEDGE_ERROR_NOT_FOUND: there is no such file to read. KEDGE_ERROR_CORRUPT: it is damaged. */
KEDGE_API int kedge_bb_open(kedge_bb* buffer, const char* path, kedge_bb_mode mode, kedge_bb_file** out);

/* Appends `bytes` bytes at `data`, which is the caller's again on return. Small ones are sent in the background, from at most
 * 16 MiB for each file: their error comes with a later call, with kedge_bb_close at the latest. After an error only
 * kedge_bb_discard is of use. KEDGE_ERROR_NO_SPACE: the owner's quota or the server's room is used up. */
KEDGE_API int kedge_bb_write(kedge_bb_file* file, const void* data, size_t bytes);
/* Reads up to `bytes` bytes, verified; *read is how many: fewer only at the file's end. Reading ahead goes on in the
 * background. KEDGE_ERROR_CORRUPT: the bytes there are damaged; none of them are returned. */
KEDGE_API int kedge_bb_read(kedge_bb_file* file, void* data, size_t bytes, size_t* read);
/* Of a file that is read: goes on at `position`, its size at most. */
KEDGE_API int kedge_bb_seek(kedge_bb_file* file, uint64_t position);
/* Where the next byte is read or written, and the size of a file that is read; either may be NULL. */
KEDGE_API int kedge_bb_tell(kedge_bb_file* file, uint64_t* position, uint64_t* size);
/* Ends the file and frees it in any case. One that was written is there whole from KEDGE_OK on, and durable with `sync`; after
 * an error the former file of that name stays. Only after KEDGE_ERROR_TIMEOUT or KEDGE_ERROR_UNAVAILABLE it may be either. */
KEDGE_API int kedge_bb_close(kedge_bb_file* file, int sync);
/* Ends the file and frees it. One that was written never appears. NULL: nothing. */
KEDGE_API void kedge_bb_discard(kedge_bb_file* file);

/* KEDGE_ERROR_NOT_FOUND: there is no such file. Who reads it reads on. */
KEDGE_API int kedge_bb_remove(kedge_bb* buffer, const char* path);

/* In one step, and durably; a former file `to` goes. KEDGE_ERROR_NOT_FOUND: there is no file `from`. */
KEDGE_API int kedge_bb_rename(kedge_bb* buffer, const char* from, const char* to);

typedef struct kedge_bb_entry {
  const char* path; /* valid during the call-back */
  uint64_t bytes;
  int64_t modified_ns; /* when it was closed, since 1970, by the server's clock */
} kedge_bb_entry;
/* Calls `entry` for each of the owner's files whose path begins with `prefix` (NULL: all), in the order of their bytes, until
 * it returns another value than 0, which fails the call with KEDGE_ERROR_FAILED_PRECONDITION. */
KEDGE_API int kedge_bb_list(kedge_bb* buffer, const char* prefix, int (*entry)(void* user, const kedge_bb_entry* entry),
                            void* user);

/* In bytes. */
typedef struct kedge_bb_room {
  size_t struct_size; /* set by the caller */
  uint64_t own;       /* that the owner's files take */
  uint64_t quota;     /* that they may take; 0: no bound */
  uint64_t used;      /* that all files take */
  uint64_t capacity;  /* that they may take; 0: what the disk has */
  uint64_t disk_free;
} kedge_bb_room;
#define KEDGE_BB_ROOM_INIT \
  { sizeof(kedge_bb_room), 0, 0, 0, 0, 0 }
KEDGE_API int kedge_bb_get_room(kedge_bb* buffer, kedge_bb_room* room);

/* The sentence that belongs to the last error of this thread in this library; "" after none. Valid until the thread's next
 * call. */
KEDGE_API const char* kedge_bb_error_message(void);
/* The errno of the same error, as the disk of the server said it, or this machine: ENOSPC, EDQUOT, EIO, EROFS and so on. ENOSPC
 * and EDQUOT also where the server's capacity or the owner's quota is used up. 0: there was no error, or none of a disk. */
KEDGE_API int kedge_bb_error_errno(void);
/* For a library on top of this one: sets this thread's message and returns `status`. */
KEDGE_API int kedge_bb_report_error(int status, const char* message);

#ifdef __cplusplus
}
#endif
#endif
