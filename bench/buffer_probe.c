/* One client of bench/buffers: writes or reads a file of BYTES bytes, on a burst buffer or on this machine, from memory that it
 * has touched. It prints "ready", waits for a line on standard input, and prints the seconds that the work took.
 *
 *   buffer_probe write|read PATH BYTES      PATH is bb://SERVER/PATH, a file, or nfs://SERVER/EXPORT/FILE?... (nfs_file.h)
 *   buffer_probe forget PATH                a file's pages leave the cache
 *
 * What is written is durable at the end. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <kedge/bb.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "nfs_file.h"

enum { kPortionBytes = 4 << 20 };

static void fail(const char* what, const char* why) {
  fprintf(stderr, "buffer_probe: %s: %s\n", what, why);
  exit(1);
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static size_t portion_of(size_t bytes, size_t at) {
  return bytes - at < kPortionBytes ? bytes - at : kPortionBytes;
}

static void write_local(const char* path, const char* data, size_t bytes) {
  const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (file < 0) fail(path, strerror(errno));
  for (size_t at = 0; at < bytes;) {
    const ssize_t wrote = write(file, data + at, portion_of(bytes, at));
    if (wrote <= 0) fail(path, strerror(errno));
    at += (size_t)wrote;
  }
  if (fsync(file) != 0 || close(file) != 0) fail(path, strerror(errno));
}

static void read_local(const char* path, char* data, size_t bytes) {
  const int file = open(path, O_RDONLY);
  if (file < 0) fail(path, strerror(errno));
  for (size_t at = 0; at < bytes;) {
    const ssize_t got = read(file, data + at, portion_of(bytes, at));
    if (got <= 0) fail(path, "it is too short");
    at += (size_t)got;
  }
  close(file);
}

static void on_buffer(kedge_bb* buffer, const char* path, int writes, char* data, size_t bytes) {
  kedge_bb_file* file;
  if (kedge_bb_open(buffer, path, writes ? KEDGE_BB_WRITE : KEDGE_BB_READ, &file) != KEDGE_OK)
    fail(path, kedge_bb_error_message());
  for (size_t at = 0, part = 0; at < bytes; at += part) {
    part = portion_of(bytes, at);
    const int code = writes ? kedge_bb_write(file, data + at, part) : kedge_bb_read(file, data + at, part, &part);
    if (code != KEDGE_OK || part == 0) fail(path, kedge_bb_error_message());
  }
  if (kedge_bb_close(file, 1) != KEDGE_OK) fail(path, kedge_bb_error_message());
}

struct target {
  const char* path;
  kedge_bb* buffer;        /* or null */
  struct nfs_context* nfs; /* or null */
};

static struct target connect_to(const char* path) {
  struct target target = {path, NULL, NULL};
  if (strncmp(path, "nfs://", 6) == 0) {
    target.nfs = nfs_file_connect(path);
  } else if (strncmp(path, "bb://", 5) == 0) {
    char server[256];
    const char* const slash = strchr(path + 5, '/');
    if (slash == NULL) fail(path, "it is not bb://SERVER/PATH");
    snprintf(server, sizeof server, "%.*s", (int)(slash - path - 5), path + 5);
    target.path = slash + 1;
    if (kedge_bb_connect(server, NULL, &target.buffer) != KEDGE_OK) fail(server, kedge_bb_error_message());
  }
  return target;
}

static void forget(const char* path) {
  const int file = open(path, O_RDONLY);
  if (file < 0 || posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) != 0) fail(path, "its pages stay");
  close(file);
}

int main(int argc, char** argv) {
  if (argc == 3 && strcmp(argv[1], "forget") == 0) return forget(argv[2]), 0;
  const int writes = argc == 4 && strcmp(argv[1], "write") == 0;
  if (argc != 4 || (!writes && strcmp(argv[1], "read") != 0)) fail("usage", "buffer_probe write|read PATH BYTES, or forget PATH");
  const size_t bytes = strtoull(argv[3], NULL, 10);
  char* const data = malloc(bytes);
  if (data == NULL) fail("malloc", strerror(errno));
  uint64_t mixed = (uint64_t)getpid();
  for (size_t at = 0; at + 8 <= bytes; at += 8) {
    mixed = mixed * 6364136223846793005u + 1442695040888963407u;
    memcpy(data + at, &mixed, 8);
  }
  const struct target target = connect_to(argv[2]);
  puts("ready");
  fflush(stdout);
  char line[8];
  if (fgets(line, sizeof line, stdin) == NULL) return 1;
  const double begin = now();
  if (target.nfs != NULL && writes)
    nfs_file_write(target.nfs, target.path, data, bytes);
  else if (target.nfs != NULL)
    nfs_file_read(target.nfs, target.path, data, bytes);
  else if (target.buffer != NULL)
    on_buffer(target.buffer, target.path, writes, data, bytes);
  else if (writes)
    write_local(target.path, data, bytes);
  else
    read_local(target.path, data, bytes);
  printf("%.6f\n", now() - begin);
  kedge_bb_disconnect(target.buffer);
  nfs_file_disconnect(target.nfs);
  free(data);
  return 0;
}
