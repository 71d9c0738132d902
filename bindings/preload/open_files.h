/* Files of burst buffers behind descriptors of this process: what the functions of preload.c do to those of theirs.
 *
 * A file that is open has a descriptor that the kernel has reserved for it and on which it does nothing. All functions set errno,
 * and say on standard error what a burst buffer cannot do. They may be called from any thread. The lock of the table of
 * descriptors is not held while the library is called, which opens and closes descriptors, too. */
#ifndef KEDGE_BUFFER_PRELOAD_OPEN_FILES_H
#define KEDGE_BUFFER_PRELOAD_OPEN_FILES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

/* The function of that name behind ours. */
void* bb_real(const char* name);
#define BB_REAL(name)                                  \
  ({                                                   \
    static __typeof__(&name) real;                     \
    if (real == NULL) *(void**)&real = bb_real(#name); \
    real;                                              \
  })

/* Whether it begins with bb:, as in bb:/SERVER/PATH and bb://SERVER/PATH. */
int bb_is_path(const char* path);
/* Whether the descriptor is one of ours. */
int bb_is_open(int descriptor);

/* `flags` as for open(2). -1: errno. */
int bb_open(const char* path, int flags);
/* The last descriptor of a file shows what was written. */
int bb_close(int descriptor);
/* `copy` is the kernel's copy of the descriptor, or why there is none (-1): another one of the same file. */
int bb_copy(int descriptor, int copy);
/* O_RDONLY or O_WRONLY. */
int bb_access_mode(int descriptor);
/* `at` < 0: where the file is. */
ssize_t bb_read(int descriptor, void* data, size_t bytes, int64_t at);
ssize_t bb_write(int descriptor, const void* data, size_t bytes, int64_t at);
int64_t bb_seek(int descriptor, int64_t offset, int whence);
int bb_fstat(int descriptor, struct stat* out);
int bb_stat(const char* path, struct stat* out);
/* What was written is there, durable; nothing more can be written. */
int bb_sync(int descriptor);
int bb_truncate(int descriptor, int64_t bytes);
int bb_unlink(const char* path);
int bb_rename(const char* from, const char* to);
/* Fails with ENOTSUP, and says so. */
int bb_refuse(const char* path, const char* what);
int bb_refuse_open(int descriptor, const char* what);

#endif
