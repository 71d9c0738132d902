/* What applications do by themselves: one synchronous checkpoint file, written by all ranks at once ([VeloC] V-G, GenericIO's
 * way).
 *
 * Each rank writes its regions into a range of its own, around the page cache, and syncs; when all have, rank 0 gives the file
 * the place of the version before. Nothing goes on meanwhile, and when the call returns the checkpoint is durable. The ranks are
 * those of MPI_COMM_WORLD; an error ends the program (MPI_Abort). One thread.
 */
#ifndef KEDGE_BENCH_SINGLE_FILE_H
#define KEDGE_BENCH_SINGLE_FILE_H

#include <stddef.h>

typedef struct {
  int id;
  const char* address;
  size_t bytes;
} single_file_region;

/* Collective. `path` is replaced whole; ranges are whole blocks of 4 KiB, rank after rank, regions in the order given. */
void single_file_write(const char* path, const single_file_region* regions, size_t count);

#endif
