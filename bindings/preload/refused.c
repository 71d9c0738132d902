/* Functions of the C library for what files of burst buffers have not got: permissions, owners, times, links, a path of their
 * own, a file system. Each fails with ENOTSUP and says so, where the C library would say that there is no such file. */
#define _GNU_SOURCE
#undef _FORTIFY_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <unistd.h>
#include <utime.h>

#include "open_files.h"

#define SHOWN __attribute__((visibility("default")))

static const char kMode[] = "change a file's permissions";
static const char kOwner[] = "give a file to another user";
static const char kTimes[] = "set a file's times";
static const char kLinks[] = "make links";
static const char kRealPath[] = "say a path without links: its files have none";
static const char kVolume[] = "say how a file system is: kedge ls says what room there is";

/* Functions of a path, of a descriptor, and of a path below a folder: of an empty one the descriptor is meant. */
#define BY_PATH(path, what, real) (bb_is_path(path) ? bb_refuse(path, what) : (real))
#define BY_DESCRIPTOR(descriptor, what, real) (bb_is_open(descriptor) ? bb_refuse_open(descriptor, what) : (real))
#define BY_EITHER(folder, path, what, real) \
  (bb_is_path(path) ? bb_refuse(path, what) : is_itself(folder, path) ? bb_refuse_open(folder, what) : (real))

/* Not inlined: the C library's headers promise that no path is null, which programs need not keep. */
__attribute__((noinline)) static int is_itself(int descriptor, const char* path) {
  return path != NULL && *path == '\0' && bb_is_open(descriptor);
}

/* ---- permissions and owners ---- */

SHOWN int chmod(const char* path, mode_t mode) {
  return BY_PATH(path, kMode, BB_REAL(chmod)(path, mode));
}
SHOWN int lchmod(const char* path, mode_t mode) {
  return BY_PATH(path, kMode, BB_REAL(lchmod)(path, mode));
}
SHOWN int fchmod(int descriptor, mode_t mode) {
  return BY_DESCRIPTOR(descriptor, kMode, BB_REAL(fchmod)(descriptor, mode));
}
SHOWN int fchmodat(int folder, const char* path, mode_t mode, int flags) {
  return BY_EITHER(folder, path, kMode, BB_REAL(fchmodat)(folder, path, mode, flags));
}
SHOWN int chown(const char* path, uid_t user, gid_t group) {
  return BY_PATH(path, kOwner, BB_REAL(chown)(path, user, group));
}
SHOWN int lchown(const char* path, uid_t user, gid_t group) {
  return BY_PATH(path, kOwner, BB_REAL(lchown)(path, user, group));
}
SHOWN int fchown(int descriptor, uid_t user, gid_t group) {
  return BY_DESCRIPTOR(descriptor, kOwner, BB_REAL(fchown)(descriptor, user, group));
}
SHOWN int fchownat(int folder, const char* path, uid_t user, gid_t group, int flags) {
  return BY_EITHER(folder, path, kOwner, BB_REAL(fchownat)(folder, path, user, group, flags));
}

/* ---- times ---- */

SHOWN int utime(const char* path, const struct utimbuf* times) {
  return BY_PATH(path, kTimes, BB_REAL(utime)(path, times));
}
SHOWN int utimes(const char* path, const struct timeval times[2]) {
  return BY_PATH(path, kTimes, BB_REAL(utimes)(path, times));
}
SHOWN int lutimes(const char* path, const struct timeval times[2]) {
  return BY_PATH(path, kTimes, BB_REAL(lutimes)(path, times));
}
SHOWN int futimes(int descriptor, const struct timeval times[2]) {
  return BY_DESCRIPTOR(descriptor, kTimes, BB_REAL(futimes)(descriptor, times));
}
SHOWN int futimens(int descriptor, const struct timespec times[2]) {
  return BY_DESCRIPTOR(descriptor, kTimes, BB_REAL(futimens)(descriptor, times));
}
SHOWN int futimesat(int folder, const char* path, const struct timeval times[2]) {
  return BY_EITHER(folder, path, kTimes, BB_REAL(futimesat)(folder, path, times));
}
SHOWN int utimensat(int folder, const char* path, const struct timespec times[2], int flags) {
  return BY_EITHER(folder, path, kTimes, BB_REAL(utimensat)(folder, path, times, flags));
}

/* ---- links and paths ---- */

SHOWN int link(const char* from, const char* to) {
  return BY_PATH(from, kLinks, BY_PATH(to, kLinks, BB_REAL(link)(from, to)));
}
SHOWN int symlink(const char* from, const char* to) {
  return BY_PATH(from, kLinks, BY_PATH(to, kLinks, BB_REAL(symlink)(from, to)));
}
SHOWN int symlinkat(const char* from, int folder, const char* to) {
  return BY_PATH(from, kLinks, BY_PATH(to, kLinks, BB_REAL(symlinkat)(from, folder, to)));
}
SHOWN int linkat(int folder, const char* from, int other, const char* to, int flags) {
  return BY_EITHER(folder, from, kLinks, BY_PATH(to, kLinks, BB_REAL(linkat)(folder, from, other, to, flags)));
}
/* Null: refused. */
static char* refused_path(const char* path) {
  (void)bb_refuse(path, kRealPath);
  return NULL;
}
SHOWN char* realpath(const char* path, char* room) {
  return bb_is_path(path) ? refused_path(path) : BB_REAL(realpath)(path, room);
}
SHOWN char* canonicalize_file_name(const char* path) {
  return bb_is_path(path) ? refused_path(path) : BB_REAL(canonicalize_file_name)(path);
}
/* What _FORTIFY_SOURCE makes of the first. */
SHOWN char* __realpath_chk(const char* path, char* room, size_t bytes) {
  if (room != NULL && bytes < PATH_MAX) abort();
  return realpath(path, room);
}

/* ---- file systems ---- */

SHOWN int statvfs(const char* path, struct statvfs* out) {
  return BY_PATH(path, kVolume, BB_REAL(statvfs)(path, out));
}
SHOWN int fstatvfs(int descriptor, struct statvfs* out) {
  return BY_DESCRIPTOR(descriptor, kVolume, BB_REAL(fstatvfs)(descriptor, out));
}
SHOWN int statvfs64(const char* path, struct statvfs64* out) {
  return BY_PATH(path, kVolume, BB_REAL(statvfs64)(path, out));
}
SHOWN int fstatvfs64(int descriptor, struct statvfs64* out) {
  return BY_DESCRIPTOR(descriptor, kVolume, BB_REAL(fstatvfs64)(descriptor, out));
}
SHOWN int statfs(const char* path, struct statfs* out) {
  return BY_PATH(path, kVolume, BB_REAL(statfs)(path, out));
}
SHOWN int fstatfs(int descriptor, struct statfs* out) {
  return BY_DESCRIPTOR(descriptor, kVolume, BB_REAL(fstatfs)(descriptor, out));
}
SHOWN int statfs64(const char* path, struct statfs64* out) {
  return BY_PATH(path, kVolume, BB_REAL(statfs64)(path, out));
}
SHOWN int fstatfs64(int descriptor, struct statfs64* out) {
  return BY_DESCRIPTOR(descriptor, kVolume, BB_REAL(fstatfs64)(descriptor, out));
}
