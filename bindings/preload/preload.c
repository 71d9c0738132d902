/* libkedge-bb-preload.so: programs that know nothing of burst buffers read and write files of theirs.
 *
 *   LD_PRELOAD=libkedge-bb-preload.so app --output bb:/fast/run7/result
 *
 * Functions of the C library that take such a path, or a descriptor that came of one, go to open_files.c; all others, and all
 * other files, to the C library. What a burst buffer cannot do fails with ENOTSUP, and says so on standard error.
 *
 * stdio calls the kernel by itself, so that its streams are made here (fopencookie); fileno() knows no descriptor of theirs. */
#define _GNU_SOURCE
#undef _FORTIFY_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include "open_files.h"

#define SHOWN __attribute__((visibility("default")))

/* ---- opening and closing ---- */

#define MODE_OF(flags, last)                       \
  ({                                               \
    mode_t given = 0;                              \
    if ((flags) & (O_CREAT | O_TMPFILE)) {         \
      va_list arguments;                           \
      va_start(arguments, last);                   \
      given = (mode_t)va_arg(arguments, unsigned); \
      va_end(arguments);                           \
    }                                              \
    given;                                         \
  })

SHOWN int open(const char* path, int flags, ...) {
  const mode_t mode = MODE_OF(flags, flags);
  return bb_is_path(path) ? bb_open(path, flags) : BB_REAL(open)(path, flags, mode);
}
SHOWN int open64(const char* path, int flags, ...) {
  const mode_t mode = MODE_OF(flags, flags);
  return bb_is_path(path) ? bb_open(path, flags) : BB_REAL(open64)(path, flags, mode);
}
SHOWN int openat(int folder, const char* path, int flags, ...) {
  const mode_t mode = MODE_OF(flags, flags);
  return bb_is_path(path) ? bb_open(path, flags) : BB_REAL(openat)(folder, path, flags, mode);
}
SHOWN int openat64(int folder, const char* path, int flags, ...) {
  const mode_t mode = MODE_OF(flags, flags);
  return bb_is_path(path) ? bb_open(path, flags) : BB_REAL(openat64)(folder, path, flags, mode);
}
SHOWN int creat(const char* path, mode_t mode) {
  return open(path, O_WRONLY | O_CREAT | O_TRUNC, mode);
}
SHOWN int creat64(const char* path, mode_t mode) {
  return open64(path, O_WRONLY | O_CREAT | O_TRUNC, mode);
}
/* What _FORTIFY_SOURCE makes of the same. */
SHOWN int __open_2(const char* path, int flags) {
  return open(path, flags);
}
SHOWN int __open64_2(const char* path, int flags) {
  return open64(path, flags);
}
SHOWN int __openat_2(int folder, const char* path, int flags) {
  return openat(folder, path, flags);
}
SHOWN int __openat64_2(int folder, const char* path, int flags) {
  return openat64(folder, path, flags);
}

SHOWN int close(int descriptor) {
  return bb_is_open(descriptor) ? bb_close(descriptor) : BB_REAL(close)(descriptor);
}

/* ---- reading and writing ---- */

SHOWN ssize_t read(int descriptor, void* data, size_t bytes) {
  return bb_is_open(descriptor) ? bb_read(descriptor, data, bytes, -1) : BB_REAL(read)(descriptor, data, bytes);
}
SHOWN ssize_t pread(int descriptor, void* data, size_t bytes, off_t at) {
  return bb_is_open(descriptor) ? bb_read(descriptor, data, bytes, at) : BB_REAL(pread)(descriptor, data, bytes, at);
}
SHOWN ssize_t pread64(int descriptor, void* data, size_t bytes, off64_t at) {
  return pread(descriptor, data, bytes, at);
}
SHOWN ssize_t __read_chk(int descriptor, void* data, size_t bytes, size_t room) {
  if (bytes > room) abort();
  return read(descriptor, data, bytes);
}
SHOWN ssize_t __pread_chk(int descriptor, void* data, size_t bytes, off_t at, size_t room) {
  if (bytes > room) abort();
  return pread(descriptor, data, bytes, at);
}
SHOWN ssize_t __pread64_chk(int descriptor, void* data, size_t bytes, off64_t at, size_t room) {
  return __pread_chk(descriptor, data, bytes, at, room);
}
SHOWN ssize_t write(int descriptor, const void* data, size_t bytes) {
  return bb_is_open(descriptor) ? bb_write(descriptor, data, bytes, -1) : BB_REAL(write)(descriptor, data, bytes);
}
SHOWN ssize_t pwrite(int descriptor, const void* data, size_t bytes, off_t at) {
  return bb_is_open(descriptor) ? bb_write(descriptor, data, bytes, at) : BB_REAL(pwrite)(descriptor, data, bytes, at);
}
SHOWN ssize_t pwrite64(int descriptor, const void* data, size_t bytes, off64_t at) {
  return pwrite(descriptor, data, bytes, at);
}
/* `at` < 0: where the file is. */
static ssize_t read_parts(int descriptor, const struct iovec* parts, int count, off_t at) {
  ssize_t done = 0;
  for (int i = 0; i < count; ++i) {
    const ssize_t part = bb_read(descriptor, parts[i].iov_base, parts[i].iov_len, at < 0 ? -1 : at + done);
    if (part < 0) return done > 0 ? done : -1;
    done += part;
    if ((size_t)part < parts[i].iov_len) break;
  }
  return done;
}
static ssize_t write_parts(int descriptor, const struct iovec* parts, int count, off_t at) {
  ssize_t done = 0;
  for (int i = 0; i < count; ++i) {
    const ssize_t part = bb_write(descriptor, parts[i].iov_base, parts[i].iov_len, at < 0 ? -1 : at + done);
    if (part < 0) return done > 0 ? done : -1;
    done += part;
  }
  return done;
}
SHOWN ssize_t readv(int descriptor, const struct iovec* parts, int count) {
  return bb_is_open(descriptor) ? read_parts(descriptor, parts, count, -1) : BB_REAL(readv)(descriptor, parts, count);
}
SHOWN ssize_t writev(int descriptor, const struct iovec* parts, int count) {
  return bb_is_open(descriptor) ? write_parts(descriptor, parts, count, -1) : BB_REAL(writev)(descriptor, parts, count);
}
SHOWN ssize_t preadv(int descriptor, const struct iovec* parts, int count, off_t at) {
  if (!bb_is_open(descriptor)) return BB_REAL(preadv)(descriptor, parts, count, at);
  return at < 0 ? (errno = EINVAL, -1) : read_parts(descriptor, parts, count, at);
}
SHOWN ssize_t preadv64(int descriptor, const struct iovec* parts, int count, off64_t at) {
  return preadv(descriptor, parts, count, at);
}
SHOWN ssize_t pwritev(int descriptor, const struct iovec* parts, int count, off_t at) {
  if (!bb_is_open(descriptor)) return BB_REAL(pwritev)(descriptor, parts, count, at);
  return at < 0 ? (errno = EINVAL, -1) : write_parts(descriptor, parts, count, at);
}
SHOWN ssize_t pwritev64(int descriptor, const struct iovec* parts, int count, off64_t at) {
  return pwritev(descriptor, parts, count, at);
}
/* At -1: where the file is. */
SHOWN ssize_t preadv2(int descriptor, const struct iovec* parts, int count, off_t at, int flags) {
  if (!bb_is_open(descriptor)) return BB_REAL(preadv2)(descriptor, parts, count, at, flags);
  if (flags != 0) return bb_refuse_open(descriptor, "read with flags");
  return at == -1 ? readv(descriptor, parts, count) : preadv(descriptor, parts, count, at);
}
SHOWN ssize_t preadv64v2(int descriptor, const struct iovec* parts, int count, off64_t at, int flags) {
  return preadv2(descriptor, parts, count, at, flags);
}
SHOWN ssize_t pwritev2(int descriptor, const struct iovec* parts, int count, off_t at, int flags) {
  if (!bb_is_open(descriptor)) return BB_REAL(pwritev2)(descriptor, parts, count, at, flags);
  if (flags != 0) return bb_refuse_open(descriptor, "write with flags");
  return at == -1 ? writev(descriptor, parts, count) : pwritev(descriptor, parts, count, at);
}
SHOWN ssize_t pwritev64v2(int descriptor, const struct iovec* parts, int count, off64_t at, int flags) {
  return pwritev2(descriptor, parts, count, at, flags);
}
SHOWN off_t lseek(int descriptor, off_t offset, int whence) {
  return bb_is_open(descriptor) ? bb_seek(descriptor, offset, whence) : BB_REAL(lseek)(descriptor, offset, whence);
}
SHOWN off64_t lseek64(int descriptor, off64_t offset, int whence) {
  return lseek(descriptor, offset, whence);
}
SHOWN int fsync(int descriptor) {
  return bb_is_open(descriptor) ? bb_sync(descriptor) : BB_REAL(fsync)(descriptor);
}
SHOWN int fdatasync(int descriptor) {
  return bb_is_open(descriptor) ? bb_sync(descriptor) : BB_REAL(fdatasync)(descriptor);
}
SHOWN int ftruncate(int descriptor, off_t bytes) {
  return bb_is_open(descriptor) ? bb_truncate(descriptor, bytes) : BB_REAL(ftruncate)(descriptor, bytes);
}
SHOWN int ftruncate64(int descriptor, off64_t bytes) {
  return ftruncate(descriptor, bytes);
}
SHOWN int posix_fallocate(int descriptor, off_t offset, off_t bytes) {
  return bb_is_open(descriptor) ? EOPNOTSUPP : BB_REAL(posix_fallocate)(descriptor, offset, bytes);
}
SHOWN int posix_fallocate64(int descriptor, off64_t offset, off64_t bytes) {
  return posix_fallocate(descriptor, offset, bytes);
}
SHOWN int posix_fadvise(int descriptor, off_t offset, off_t bytes, int advice) {
  return bb_is_open(descriptor) ? 0 : BB_REAL(posix_fadvise)(descriptor, offset, bytes, advice);
}
SHOWN int posix_fadvise64(int descriptor, off64_t offset, off64_t bytes, int advice) {
  return posix_fadvise(descriptor, offset, bytes, advice);
}

/* A private copy of the file's bytes. */
SHOWN void* mmap(void* address, size_t bytes, int protection, int flags, int descriptor, off_t offset) {
  if ((flags & MAP_ANONYMOUS) || !bb_is_open(descriptor))
    return BB_REAL(mmap)(address, bytes, protection, flags, descriptor, offset);
  if ((protection & PROT_WRITE) && !(flags & MAP_PRIVATE)) {
    bb_refuse_open(descriptor, "be written through memory");
    return MAP_FAILED;
  }
  const int anonymous = (flags & ~(MAP_SHARED | MAP_SHARED_VALIDATE)) | MAP_PRIVATE | MAP_ANONYMOUS;
  char* memory = BB_REAL(mmap)(address, bytes, PROT_READ | PROT_WRITE, anonymous, -1, 0);
  if (memory == MAP_FAILED) return MAP_FAILED;
  for (size_t done = 0; done < bytes;) {
    const ssize_t part = bb_read(descriptor, memory + done, bytes - done, offset + (off_t)done);
    if (part < 0) {
      const int number = errno;
      munmap(memory, bytes);
      errno = number;
      return MAP_FAILED;
    }
    if (part == 0) break;
    done += (size_t)part;
  }
  mprotect(memory, bytes, protection);
  return memory;
}
SHOWN void* mmap64(void* address, size_t bytes, int protection, int flags, int descriptor, off64_t offset) {
  return mmap(address, bytes, protection, flags, descriptor, offset);
}

SHOWN int dup(int descriptor) {
  const int copy = BB_REAL(dup)(descriptor);
  return bb_is_open(descriptor) ? bb_copy(descriptor, copy) : copy;
}
SHOWN int dup3(int descriptor, int other, int flags) {
  if (descriptor != other && bb_is_open(other)) (void)bb_close(other);
  const int copy = BB_REAL(dup3)(descriptor, other, flags);
  return bb_is_open(descriptor) ? bb_copy(descriptor, copy) : copy;
}
SHOWN int dup2(int descriptor, int other) {
  return descriptor == other ? BB_REAL(dup2)(descriptor, other) : dup3(descriptor, other, 0);
}
SHOWN int fcntl64(int descriptor, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void* argument = va_arg(arguments, void*); /* or an int, which comes the same way */
  va_end(arguments);
  const int is_ours = bb_is_open(descriptor);
  if (is_ours && command == F_GETFL) return bb_access_mode(descriptor);
  if (is_ours && command == F_SETFL) return 0;
  const int done = BB_REAL(fcntl64)(descriptor, command, argument);
  return is_ours && (command == F_DUPFD || command == F_DUPFD_CLOEXEC) ? bb_copy(descriptor, done) : done;
}
SHOWN int fcntl(int descriptor, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void* argument = va_arg(arguments, void*);
  va_end(arguments);
  return fcntl64(descriptor, command, argument);
}

/* ---- names ---- */

SHOWN int stat(const char* path, struct stat* out) {
  return bb_is_path(path) ? bb_stat(path, out) : BB_REAL(stat)(path, out);
}
SHOWN int lstat(const char* path, struct stat* out) {
  return bb_is_path(path) ? bb_stat(path, out) : BB_REAL(lstat)(path, out);
}
SHOWN int fstat(int descriptor, struct stat* out) {
  return bb_is_open(descriptor) ? bb_fstat(descriptor, out) : BB_REAL(fstat)(descriptor, out);
}
SHOWN int fstatat(int folder, const char* path, struct stat* out, int flags) {
  if (bb_is_path(path)) return bb_stat(path, out);
  if ((flags & AT_EMPTY_PATH) && *path == '\0' && bb_is_open(folder)) return bb_fstat(folder, out);
  return BB_REAL(fstatat)(folder, path, out, flags);
}
/* On 64-bit systems the two structs are one. */
_Static_assert(sizeof(struct stat) == sizeof(struct stat64) && sizeof(off_t) == sizeof(off64_t),
               "a system with large files only");
SHOWN int stat64(const char* path, struct stat64* out) {
  return stat(path, (struct stat*)out);
}
SHOWN int lstat64(const char* path, struct stat64* out) {
  return lstat(path, (struct stat*)out);
}
SHOWN int fstat64(int descriptor, struct stat64* out) {
  return fstat(descriptor, (struct stat*)out);
}
SHOWN int fstatat64(int folder, const char* path, struct stat64* out, int flags) {
  return fstatat(folder, path, (struct stat*)out, flags);
}
SHOWN int statx(int folder, const char* path, int flags, unsigned mask, struct statx* out) {
  struct stat found;
  const int by_path = bb_is_path(path);
  const int by_descriptor = !by_path && (flags & AT_EMPTY_PATH) && *path == '\0' && bb_is_open(folder);
  if (!by_path && !by_descriptor) return BB_REAL(statx)(folder, path, flags, mask, out);
  if ((by_path ? bb_stat(path, &found) : bb_fstat(folder, &found)) != 0) return -1;
  memset(out, 0, sizeof *out);
  out->stx_mask =
      STATX_TYPE | STATX_MODE | STATX_NLINK | STATX_UID | STATX_GID | STATX_SIZE | STATX_MTIME | STATX_BLOCKS | STATX_INO;
  out->stx_mode = (uint16_t)found.st_mode;
  out->stx_nlink = 1;
  out->stx_ino = found.st_ino;
  out->stx_dev_major = major(found.st_dev);
  out->stx_dev_minor = minor(found.st_dev);
  out->stx_uid = found.st_uid;
  out->stx_gid = found.st_gid;
  out->stx_size = (uint64_t)found.st_size;
  out->stx_blocks = (uint64_t)found.st_blocks;
  out->stx_blksize = (uint32_t)found.st_blksize;
  out->stx_mtime.tv_sec = found.st_mtim.tv_sec;
  out->stx_mtime.tv_nsec = (uint32_t)found.st_mtim.tv_nsec;
  return 0;
}
static int may(const char* path, int how) {
  struct stat found;
  if (bb_stat(path, &found) != 0) return -1;
  if ((how & X_OK) && !S_ISDIR(found.st_mode)) return errno = EACCES, -1;
  return 0;
}
SHOWN int access(const char* path, int how) {
  return bb_is_path(path) ? may(path, how) : BB_REAL(access)(path, how);
}
SHOWN int faccessat(int folder, const char* path, int how, int flags) {
  return bb_is_path(path) ? may(path, how) : BB_REAL(faccessat)(folder, path, how, flags);
}
SHOWN int unlink(const char* path) {
  return bb_is_path(path) ? bb_unlink(path) : BB_REAL(unlink)(path);
}
SHOWN int unlinkat(int folder, const char* path, int flags) {
  if (!bb_is_path(path)) return BB_REAL(unlinkat)(folder, path, flags);
  return flags & AT_REMOVEDIR ? bb_refuse(path, "remove a folder") : bb_unlink(path);
}
SHOWN int remove(const char* path) {
  return bb_is_path(path) ? bb_unlink(path) : BB_REAL(remove)(path);
}
SHOWN int rename(const char* from, const char* to) {
  return bb_is_path(from) || bb_is_path(to) ? bb_rename(from, to) : BB_REAL(rename)(from, to);
}
SHOWN int renameat(int folder, const char* from, int other, const char* to) {
  return bb_is_path(from) || bb_is_path(to) ? bb_rename(from, to) : BB_REAL(renameat)(folder, from, other, to);
}
SHOWN int renameat2(int folder, const char* from, int other, const char* to, unsigned flags) {
  if (!bb_is_path(from) && !bb_is_path(to)) return BB_REAL(renameat2)(folder, from, other, to, flags);
  struct stat found;
  if (flags & ~(unsigned)RENAME_NOREPLACE) return bb_refuse(from, "exchange files");
  if ((flags & RENAME_NOREPLACE) && bb_is_path(to) && bb_stat(to, &found) == 0) return errno = EEXIST, -1;
  return bb_rename(from, to);
}
/* Folders need not be made. */
SHOWN int mkdir(const char* path, mode_t mode) {
  return bb_is_path(path) ? 0 : BB_REAL(mkdir)(path, mode);
}
SHOWN int mkdirat(int folder, const char* path, mode_t mode) {
  return bb_is_path(path) ? 0 : BB_REAL(mkdirat)(folder, path, mode);
}
SHOWN int truncate(const char* path, off_t bytes) {
  return bb_is_path(path) ? bb_refuse(path, "cut or extend a file") : BB_REAL(truncate)(path, bytes);
}
SHOWN int truncate64(const char* path, off64_t bytes) {
  return truncate(path, bytes);
}
SHOWN DIR* opendir(const char* path) {
  if (!bb_is_path(path)) return BB_REAL(opendir)(path);
  bb_refuse(path, "list a folder for a program: kedge ls does");
  return NULL;
}

/* ---- stdio ---- */

static ssize_t stream_read(void* cookie, char* data, size_t bytes) {
  return bb_read((int)(intptr_t)cookie, data, bytes, -1);
}
static ssize_t stream_write(void* cookie, const char* data, size_t bytes) {
  const ssize_t written = bb_write((int)(intptr_t)cookie, data, bytes, -1);
  return written < 0 ? 0 : written; /* how a cookie tells an error */
}
static int stream_seek(void* cookie, off64_t* offset, int whence) {
  const int64_t found = bb_seek((int)(intptr_t)cookie, *offset, whence);
  if (found >= 0) *offset = found;
  return found >= 0 ? 0 : -1;
}
static int stream_close(void* cookie) {
  return bb_close((int)(intptr_t)cookie);
}

static FILE* stream_of(int descriptor, const char* mode) {
  const cookie_io_functions_t functions = {stream_read, stream_write, stream_seek, stream_close};
  FILE* stream = fopencookie((void*)(intptr_t)descriptor, mode, functions);
  if (stream != NULL) setvbuf(stream, NULL, _IOFBF, 1 << 20);
  return stream;
}

static FILE* open_stream(const char* path, const char* mode) {
  const int both = strchr(mode, '+') != NULL;
  const int exclusive = strchr(mode, 'x') != NULL ? O_EXCL : 0;
  int flags;
  switch (*mode) {
    case 'r': flags = both ? O_RDWR : O_RDONLY; break;
    case 'w': flags = O_WRONLY | O_CREAT | O_TRUNC | exclusive; break;
    case 'a': flags = O_WRONLY | O_CREAT | O_APPEND; break;
    default: errno = EINVAL; return NULL;
  }
  const int descriptor = bb_open(path, flags);
  if (descriptor < 0) return NULL;
  FILE* stream = stream_of(descriptor, *mode == 'r' ? "r" : "w");
  if (stream == NULL) (void)bb_close(descriptor);
  return stream;
}

SHOWN FILE* fopen(const char* path, const char* mode) {
  return bb_is_path(path) ? open_stream(path, mode) : BB_REAL(fopen)(path, mode);
}
SHOWN FILE* fopen64(const char* path, const char* mode) {
  return bb_is_path(path) ? open_stream(path, mode) : BB_REAL(fopen64)(path, mode);
}
SHOWN FILE* fdopen(int descriptor, const char* mode) {
  return bb_is_open(descriptor) ? stream_of(descriptor, *mode == 'r' ? "r" : "w") : BB_REAL(fdopen)(descriptor, mode);
}
SHOWN FILE* freopen(const char* path, const char* mode, FILE* stream) {
  if (!bb_is_path(path)) return BB_REAL(freopen)(path, mode, stream);
  bb_refuse(path, "take the place of a stream");
  return NULL;
}
