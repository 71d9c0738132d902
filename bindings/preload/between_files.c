/* Functions that bring bytes from one file to another: where one of the two is ours, through memory, some at a time. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <sys/sendfile.h>
#include <unistd.h>

#include "open_files.h"

#define SHOWN __attribute__((visibility("default")))

enum { kBetweenBytesMax = 1 << 20 };

/* Offsets: null: where the file is, which goes on. As many bytes as one write takes; 0: the source is at its end. */
static ssize_t bring(int from, off_t* read_at, int to, off_t* write_at, size_t bytes) {
  const off_t at = read_at != NULL ? *read_at : lseek(from, 0, SEEK_CUR);
  if (at < 0 || (write_at != NULL && *write_at < 0)) return errno = EINVAL, -1;
  const size_t room = bytes < kBetweenBytesMax ? bytes : kBetweenBytesMax;
  char* data = malloc(room > 0 ? room : 1);
  if (data == NULL) return -1;
  ssize_t done = pread(from, data, room, at);
  if (done > 0) done = write_at != NULL ? pwrite(to, data, (size_t)done, *write_at) : write(to, data, (size_t)done);
  const int number = errno;
  free(data);
  if (done > 0 && write_at != NULL) *write_at += done;
  if (done > 0 && read_at != NULL) *read_at += done;
  if (done > 0 && read_at == NULL) (void)lseek(from, at + done, SEEK_SET);
  errno = number;
  return done;
}

SHOWN ssize_t sendfile(int to, int from, off_t* at, size_t bytes) {
  return bb_is_open(to) || bb_is_open(from) ? bring(from, at, to, NULL, bytes) : BB_REAL(sendfile)(to, from, at, bytes);
}
SHOWN ssize_t sendfile64(int to, int from, off64_t* at, size_t bytes) {
  return sendfile(to, from, at, bytes);
}
SHOWN ssize_t copy_file_range(int from, off64_t* read_at, int to, off64_t* write_at, size_t bytes, unsigned flags) {
  if (!bb_is_open(to) && !bb_is_open(from)) return BB_REAL(copy_file_range)(from, read_at, to, write_at, bytes, flags);
  return flags != 0 ? (errno = EINVAL, -1) : bring(from, read_at, to, write_at, bytes);
}
