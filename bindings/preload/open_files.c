#define _GNU_SOURCE
#include "open_files.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <kedge/bb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

enum { kDescriptorsMax = 65536, kServersMax = 64, kNameBytesMax = 256 };

typedef struct {
  atomic_int users;      /* its descriptors, and calls under way */
  pthread_mutex_t mutex; /* of what follows */
  kedge_bb_file* file;   /* null: what was written has been shown, or could not be */
  char* path;            /* as the program has said it */
  int writes;
  int descriptors;
  int64_t position;
  int64_t size;
  int64_t modified_ns;
} open_file;

typedef struct {
  char name[kNameBytesMax];
  kedge_bb* buffer;
} connection;

static pthread_mutex_t table_mutex = PTHREAD_MUTEX_INITIALIZER;
static open_file* table[kDescriptorsMax];
static atomic_int open_count;
static pthread_mutex_t connections_mutex = PTHREAD_MUTEX_INITIALIZER;
static connection connections[kServersMax];
static pid_t owner; /* of what is open: not its children, not even one of vfork in its memory */

void* bb_real(const char* name) {
  return dlsym(RTLD_NEXT, name);
}

static void say(const char* path, const char* what) {
  char line[2048];
  const int bytes = snprintf(line, sizeof line, "kedge-bb: %s: %s\n", path, what);
  if (bytes > 0) (void)!BB_REAL(write)(STDERR_FILENO, line, (size_t)bytes < sizeof line ? (size_t)bytes : sizeof line - 1);
}

/* -1 and errno for a code of the library. What a program asks as a question is not said aloud. */
static int fail(const char* path, int code) {
  static const int numbers[] = {[KEDGE_ERROR_INVALID_ARGUMENT] = EINVAL,
                                [KEDGE_ERROR_NOT_FOUND] = ENOENT,
                                [KEDGE_ERROR_ALREADY_EXISTS] = EEXIST,
                                [KEDGE_ERROR_UNSUPPORTED] = ENOTSUP,
                                [KEDGE_ERROR_NO_SPACE] = ENOSPC,
                                [KEDGE_ERROR_PERMISSION] = EACCES,
                                [KEDGE_ERROR_UNAVAILABLE] = EHOSTUNREACH,
                                [KEDGE_ERROR_TIMEOUT] = ETIMEDOUT,
                                [KEDGE_ERROR_BUSY] = EBUSY,
                                [KEDGE_ERROR_LOST] = 0};
  const int of_code = code > 0 && (size_t)code < sizeof numbers / sizeof *numbers ? numbers[code] : 0;
  const int number =
      kedge_bb_error_errno() != 0 ? kedge_bb_error_errno() : of_code; /* of the server's disk, where it knows one */
  if (number != ENOENT) say(path, kedge_bb_error_message());
  errno = number != 0 ? number : EIO;
  return -1;
}

int bb_refuse(const char* path, const char* what) {
  char text[256];
  snprintf(text, sizeof text, "a burst buffer cannot %s", what);
  say(path, text);
  errno = ENOTSUP;
  return -1;
}

/* ---- names and connections ---- */

int bb_is_path(const char* path) {
  return path != NULL && strncmp(path, "bb:/", 4) == 0;
}

/* The path on the server, and its connection; null: errno. */
static const char* resolve(const char* path, kedge_bb** buffer) {
  const char* server = path + 4;
  while (*server == '/') ++server;
  const size_t length = strcspn(server, "/");
  const char* rest = server + length;
  while (*rest == '/') ++rest;
  if (length == 0 || length >= kNameBytesMax) return errno = ENOENT, NULL;
  if (getpid() != owner) {
    bb_refuse(path, "be reached by a process that was forked: have it start the program anew");
    return NULL;
  }
  /* Connecting takes long; it is done once for a server, and others wait for it. The library opens no path of ours meanwhile. */
  pthread_mutex_lock(&connections_mutex);
  connection* found = NULL;
  for (int i = 0; i < kServersMax && found == NULL; ++i) {
    connection* one = &connections[i];
    if (one->buffer == NULL || (strlen(one->name) == length && memcmp(one->name, server, length) == 0)) found = one;
  }
  int code = KEDGE_OK;
  if (found != NULL && found->buffer == NULL) {
    memcpy(found->name, server, length);
    found->name[length] = '\0';
    code = kedge_bb_connect(found->name, NULL, &found->buffer);
    if (code != KEDGE_OK) found->buffer = NULL;
  }
  pthread_mutex_unlock(&connections_mutex);
  if (found == NULL) return errno = EMFILE, NULL;
  if (code != KEDGE_OK) {
    if (code != KEDGE_ERROR_NOT_FOUND) return fail(path, code), NULL;
    say(path, kedge_bb_error_message());
    return errno = EHOSTUNREACH, NULL;
  }
  *buffer = found->buffer;
  return rest;
}

/* ---- the table ---- */

static void let_go(open_file* file) {
  if (atomic_fetch_sub(&file->users, 1) > 1) return;
  kedge_bb_discard(file->file);
  pthread_mutex_destroy(&file->mutex);
  free(file->path);
  free(file);
}

/* To be let go of; null: not ours. */
static open_file* hold(int descriptor) {
  if (atomic_load(&open_count) == 0 || descriptor < 0 || descriptor >= kDescriptorsMax || getpid() != owner) return NULL;
  pthread_mutex_lock(&table_mutex);
  open_file* file = table[descriptor];
  if (file != NULL) atomic_fetch_add(&file->users, 1);
  pthread_mutex_unlock(&table_mutex);
  return file;
}

static void put_in(int descriptor, open_file* file) {
  pthread_mutex_lock(&table_mutex);
  table[descriptor] = file;
  pthread_mutex_unlock(&table_mutex);
  atomic_fetch_add(&open_count, 1);
}

static open_file* take_out(int descriptor) {
  pthread_mutex_lock(&table_mutex);
  open_file* file = table[descriptor];
  table[descriptor] = NULL;
  if (file != NULL) atomic_fetch_sub(&open_count, 1);
  pthread_mutex_unlock(&table_mutex);
  return file;
}

/* The same with its lock; null: errno. To be left. */
static open_file* enter(int descriptor) {
  open_file* file = hold(descriptor);
  if (file == NULL) return errno = EBADF, NULL;
  pthread_mutex_lock(&file->mutex);
  return file;
}

static void leave(open_file* file) {
  pthread_mutex_unlock(&file->mutex);
  let_go(file);
}

int bb_is_open(int descriptor) {
  open_file* file = hold(descriptor);
  if (file == NULL) return 0;
  let_go(file);
  return 1;
}

int bb_refuse_open(int descriptor, const char* what) {
  open_file* file = hold(descriptor);
  if (file == NULL) return errno = EBADF, -1;
  bb_refuse(file->path, what);
  let_go(file);
  return -1;
}

/* As the kernel does for others' files, what is still written when the program ends is closed. */
static void close_all(void) {
  if (atomic_load(&open_count) == 0 || getpid() != owner) return;
  fflush(NULL);
  for (int descriptor = 0; descriptor < kDescriptorsMax; ++descriptor) {
    if (table[descriptor] != NULL) bb_close(descriptor);
  }
}

__attribute__((constructor)) static void begin(void) {
  owner = getpid();
  atexit(close_all);
}

/* ---- files ---- */

typedef struct {
  const char* path;
  int is_file, is_folder;
  int64_t bytes, modified_ns;
} look;

/* Of those that begin with the path, the first is the file itself; then come others whose next byte is less than a slash. */
static int look_at(void* user, const kedge_bb_entry* entry) {
  look* wanted = user;
  const size_t length = strlen(wanted->path);
  if (entry->path[length] == '\0') {
    wanted->is_file = 1;
    wanted->bytes = (int64_t)entry->bytes;
    wanted->modified_ns = entry->modified_ns;
    return 1;
  }
  wanted->is_folder = length == 0 || entry->path[length] == '/';
  return wanted->is_folder;
}

/* Programs tell by device and number whether two files are one. */
static ino_t number_of(const char* path) {
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  for (; *path != '\0'; ++path) hash = (hash ^ (unsigned char)*path) * UINT64_C(0x100000001b3);
  return hash;
}

static int fill_stat(const char* path, struct stat* out, mode_t mode, int64_t bytes, int64_t modified_ns) {
  memset(out, 0, sizeof *out);
  out->st_dev = makedev(0xbbb, 0);
  out->st_ino = number_of(path);
  out->st_mode = mode;
  out->st_nlink = 1;
  out->st_uid = geteuid();
  out->st_gid = getegid();
  out->st_size = bytes;
  out->st_blksize = 1 << 20;
  out->st_blocks = (bytes + 511) / 512;
  out->st_mtim.tv_sec = modified_ns / 1000000000;
  out->st_mtim.tv_nsec = modified_ns % 1000000000;
  out->st_atim = out->st_ctim = out->st_mtim;
  return 0;
}

int bb_stat(const char* path, struct stat* out) {
  kedge_bb* buffer;
  look wanted = {.path = resolve(path, &buffer)};
  if (wanted.path == NULL) return -1;
  const int code = kedge_bb_list(buffer, wanted.path, look_at, &wanted);
  if (wanted.is_file) return fill_stat(path, out, S_IFREG | 0600, wanted.bytes, wanted.modified_ns);
  if (wanted.is_folder || *wanted.path == '\0') return fill_stat(path, out, S_IFDIR | 0700, 0, 0);
  if (code != KEDGE_OK) return fail(path, code);
  errno = ENOENT;
  return -1;
}

/* The mode that the flags ask for; -1: errno. */
static int mode_of(const char* path, int flags) {
  const int access_mode = flags & O_ACCMODE;
  if (flags & (O_DIRECTORY | O_PATH)) return bb_refuse(path, "open a folder");
  if (access_mode == O_RDONLY && !(flags & O_TRUNC)) return KEDGE_BB_READ;
  struct stat found;
  const int is_there = bb_stat(path, &found) == 0;
  if (is_there && S_ISDIR(found.st_mode)) return errno = EISDIR, -1;
  if (!is_there && errno != ENOENT) return -1;
  if (is_there && (flags & O_CREAT) && (flags & O_EXCL)) return errno = EEXIST, -1;
  if (!is_there && !(flags & O_CREAT)) return errno = ENOENT, -1;
  if (is_there && found.st_size > 0 && !(flags & O_TRUNC))
    return bb_refuse(path, flags & O_APPEND ? "append to a file that is there" : "change a file that is there");
  return KEDGE_BB_WRITE;
}

int bb_open(const char* path, int flags) {
  const int mode = mode_of(path, flags);
  if (mode < 0) return -1;
  kedge_bb* buffer;
  const char* there = resolve(path, &buffer);
  if (there == NULL) return -1;
  open_file* file = calloc(1, sizeof *file);
  char* copy = strdup(path);
  const int descriptor = BB_REAL(open)("/dev/null", O_PATH | O_CLOEXEC);
  if (file == NULL || copy == NULL || descriptor < 0 || descriptor >= kDescriptorsMax) {
    if (descriptor >= 0) BB_REAL(close)(descriptor);
    free(copy);
    free(file);
    return errno = descriptor < 0 ? errno : descriptor >= kDescriptorsMax ? EMFILE : ENOMEM, -1;
  }
  pthread_mutex_init(&file->mutex, NULL);
  file->path = copy;
  file->writes = mode == KEDGE_BB_WRITE;
  file->descriptors = 1;
  atomic_store(&file->users, 1);
  uint64_t size = 0;
  int code = kedge_bb_open(buffer, there, (kedge_bb_mode)mode, &file->file);
  if (code == KEDGE_OK) code = kedge_bb_tell(file->file, NULL, &size);
  struct stat found;
  if (code == KEDGE_OK && !file->writes && bb_stat(path, &found) == 0)
    file->modified_ns = found.st_mtim.tv_sec * INT64_C(1000000000) + found.st_mtim.tv_nsec;
  file->size = (int64_t)size;
  if (code != KEDGE_OK) {
    const int failed = fail(path, code);
    const int number = errno;
    BB_REAL(close)(descriptor);
    let_go(file);
    errno = number;
    return failed;
  }
  put_in(descriptor, file);
  return descriptor;
}

int bb_copy(int descriptor, int copy) {
  open_file* file = hold(descriptor);
  if (file == NULL || copy < 0 || copy >= kDescriptorsMax) {
    const int number = file == NULL ? EBADF : copy < 0 ? errno : EMFILE;
    if (copy >= 0) BB_REAL(close)(copy);
    if (file != NULL) let_go(file);
    return errno = number, -1;
  }
  pthread_mutex_lock(&file->mutex);
  ++file->descriptors;
  pthread_mutex_unlock(&file->mutex);
  put_in(copy, file); /* it holds the file from now on */
  return copy;
}

int bb_access_mode(int descriptor) {
  open_file* file = hold(descriptor);
  if (file == NULL) return errno = EBADF, -1;
  const int writes = file->writes;
  let_go(file);
  return writes ? O_WRONLY : O_RDONLY;
}

/* With the file's lock. */
static int show(open_file* file, int sync) {
  if (file->file == NULL || !file->writes) return 0;
  kedge_bb_file* shown = file->file;
  file->file = NULL;
  const int code = kedge_bb_close(shown, sync);
  return code == KEDGE_OK ? 0 : fail(file->path, code);
}

int bb_close(int descriptor) {
  open_file* file = take_out(descriptor);
  if (file == NULL) return errno = EBADF, -1;
  pthread_mutex_lock(&file->mutex);
  const int shown = --file->descriptors == 0 ? show(file, 0) : 0;
  const int number = errno;
  pthread_mutex_unlock(&file->mutex);
  let_go(file);
  BB_REAL(close)(descriptor);
  errno = number;
  return shown;
}

int bb_sync(int descriptor) {
  open_file* file = enter(descriptor);
  if (file == NULL) return -1;
  const int shown = show(file, 1);
  leave(file);
  return shown;
}

static ssize_t read_locked(open_file* file, void* data, size_t bytes, int64_t at) {
  if (file->writes) return bb_refuse(file->path, "read a file that is being written");
  const int64_t from = at < 0 ? file->position : at;
  if (from >= file->size) return 0;
  size_t read = 0;
  int code = kedge_bb_seek(file->file, (uint64_t)from);
  if (code == KEDGE_OK) code = kedge_bb_read(file->file, data, bytes, &read);
  if (code != KEDGE_OK) return fail(file->path, code);
  if (at < 0) file->position += (int64_t)read;
  return (ssize_t)read;
}

static ssize_t write_locked(open_file* file, const void* data, size_t bytes, int64_t at) {
  if (!file->writes) return errno = EBADF, -1;
  if (bytes == 0) return 0;
  if (file->file == NULL) return bb_refuse(file->path, "write on after fsync, which has shown the file");
  if ((at < 0 ? file->position : at) != file->size) return bb_refuse(file->path, "write elsewhere than at the file's end");
  const int code = kedge_bb_write(file->file, data, bytes);
  if (code != KEDGE_OK) return fail(file->path, code);
  file->size += (int64_t)bytes;
  if (at < 0) file->position = file->size;
  return (ssize_t)bytes;
}

ssize_t bb_read(int descriptor, void* data, size_t bytes, int64_t at) {
  open_file* file = enter(descriptor);
  if (file == NULL) return -1;
  const ssize_t read = read_locked(file, data, bytes, at);
  leave(file);
  return read;
}

ssize_t bb_write(int descriptor, const void* data, size_t bytes, int64_t at) {
  open_file* file = enter(descriptor);
  if (file == NULL) return -1;
  const ssize_t written = write_locked(file, data, bytes, at);
  leave(file);
  return written;
}

int64_t bb_seek(int descriptor, int64_t offset, int whence) {
  open_file* file = enter(descriptor);
  if (file == NULL) return -1;
  const int64_t begin = whence == SEEK_CUR ? file->position : whence == SEEK_END ? file->size : 0;
  const int64_t target = begin + offset;
  int64_t found = -1;
  if ((whence != SEEK_SET && whence != SEEK_CUR && whence != SEEK_END) || target < 0) {
    errno = EINVAL;
  } else {
    found = file->position = target;
  }
  leave(file);
  return found;
}

int bb_fstat(int descriptor, struct stat* out) {
  open_file* file = enter(descriptor);
  if (file == NULL) return -1;
  fill_stat(file->path, out, S_IFREG | 0600, file->size, file->modified_ns);
  leave(file);
  return 0;
}

int bb_truncate(int descriptor, int64_t bytes) {
  open_file* file = enter(descriptor);
  if (file == NULL) return -1;
  const int done = file->writes && bytes == file->size ? 0 : bb_refuse(file->path, "cut or extend a file");
  leave(file);
  return done;
}

int bb_unlink(const char* path) {
  kedge_bb* buffer;
  const char* there = resolve(path, &buffer);
  if (there == NULL) return -1;
  const int code = kedge_bb_remove(buffer, there);
  return code == KEDGE_OK ? 0 : fail(path, code);
}

int bb_rename(const char* from, const char* to) {
  if (!bb_is_path(from) || !bb_is_path(to)) return errno = EXDEV, -1;
  kedge_bb *source, *target;
  const char* there = resolve(from, &source);
  const char* named = resolve(to, &target);
  if (there == NULL || named == NULL) return -1;
  if (source != target) return errno = EXDEV, -1;
  const int code = kedge_bb_rename(source, there, named);
  return code == KEDGE_OK ? 0 : fail(from, code);
}
