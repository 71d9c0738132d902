/* See single_file.h. */
#define _GNU_SOURCE
#include "single_file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kAlignment = 4096, kBufferBytes = 8 << 20, kPathBytes = 4096 };

typedef struct {
  int file;
  char* buffer; /* kBufferBytes, aligned */
  size_t used;
  int64_t offset; /* in the file, of what the buffer holds */
} writer;

static void fail(const char* what, const char* path) {
  fprintf(stderr, "single file: %s %s: %s\n", what, path, strerror(errno));
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static int64_t whole_blocks(int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

static void write_buffer(writer* out, const char* path) {
  const int64_t bytes = whole_blocks((int64_t)out->used);
  memset(out->buffer + out->used, 0, (size_t)bytes - out->used);
  for (int64_t done = 0; done < bytes;) {
    const ssize_t wrote = pwrite(out->file, out->buffer + done, (size_t)(bytes - done), out->offset + done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) fail("writing", path);
    done += wrote;
  }
  out->offset += bytes;
  out->used = 0;
}

static void append(writer* out, const char* data, size_t bytes, const char* path) {
  while (bytes > 0) {
    const size_t room = kBufferBytes - out->used;
    const size_t portion = bytes < room ? bytes : room;
    memcpy(out->buffer + out->used, data, portion);
    out->used += portion;
    data += portion;
    bytes -= portion;
    if (out->used == kBufferBytes) write_buffer(out, path);
  }
}

/* The rename is durable when its folder is synced. */
static void put_in_place(const char* temporary, const char* path) {
  if (rename(temporary, path) != 0) fail("renaming", temporary);
  char copy[kPathBytes];
  snprintf(copy, sizeof copy, "%s", path);
  const char* folder = dirname(copy);
  const int opened = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (opened < 0 || fsync(opened) != 0 || close(opened) != 0) fail("syncing", folder);
}

void single_file_write(const char* path, const single_file_region* regions, size_t count) {
  static char* buffer = NULL;
  if (buffer == NULL && posix_memalign((void**)&buffer, kAlignment, kBufferBytes) != 0) fail("no memory to write", path);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  int64_t bytes = 0, offset = 0;
  for (size_t i = 0; i < count; ++i) bytes += (int64_t)regions[i].bytes;
  bytes = whole_blocks(bytes);
  MPI_Exscan(&bytes, &offset, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) offset = 0; /* MPI leaves it undefined there */
  char temporary[kPathBytes];
  snprintf(temporary, sizeof temporary, "%s.tmp", path);
  /* What an earlier, greater version left would stay behind the end. */
  if (rank == 0 && unlink(temporary) != 0 && errno != ENOENT) fail("removing", temporary);
  MPI_Barrier(MPI_COMM_WORLD);
  writer out = {open(temporary, O_WRONLY | O_CREAT | O_DIRECT | O_CLOEXEC, 0600), buffer, 0, offset};
  if (out.file < 0) fail("making", temporary);
  for (size_t i = 0; i < count; ++i) append(&out, regions[i].address, regions[i].bytes, temporary);
  if (out.used > 0) write_buffer(&out, temporary);
  if (fsync(out.file) != 0 || close(out.file) != 0) fail("syncing", temporary);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) put_in_place(temporary, path);
  MPI_Barrier(MPI_COMM_WORLD);
}
