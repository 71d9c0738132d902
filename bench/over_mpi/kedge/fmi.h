/* FMI's names over MPI, so that a program of FMI is measured with both: compile it with this folder before include/. Of fmi.h
 * what the measured programs use. There are no checkpoints: FMI_Loop only counts. */
#ifndef KEDGE_BENCH_OVER_MPI_H
#define KEDGE_BENCH_OVER_MPI_H

#include <mpi.h>

#define FMI_SUCCESS MPI_SUCCESS
#define FMI_COMM_WORLD MPI_COMM_WORLD
#define FMI_BYTE MPI_BYTE
#define FMI_FLOAT MPI_FLOAT
#define FMI_DOUBLE MPI_DOUBLE
#define FMI_UNSIGNED_LONG MPI_UNSIGNED_LONG
#define FMI_SUM MPI_SUM
#define FMI_MAX MPI_MAX
#define FMI_PROC_NULL MPI_PROC_NULL
#define FMI_STATUS_IGNORE MPI_STATUS_IGNORE
#define FMI_Request MPI_Request
#define FMI_Init MPI_Init
#define FMI_Finalize MPI_Finalize
#define FMI_Abort MPI_Abort
#define FMI_Comm_rank MPI_Comm_rank
#define FMI_Comm_size MPI_Comm_size
#define FMI_Wtime MPI_Wtime
#define FMI_Send MPI_Send
#define FMI_Recv MPI_Recv
#define FMI_Isend MPI_Isend
#define FMI_Irecv MPI_Irecv
#define FMI_Reduce MPI_Reduce
#define FMI_Allreduce MPI_Allreduce

/* Their declaration has compilers take MPI_STATUSES_IGNORE for an array that is too short. */
#define FMI_STATUSES_IGNORE NULL
static inline int FMI_Waitall(int count, MPI_Request* requests, void* none) {
  (void)none;
  for (int i = 0; i < count; ++i) MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
  return MPI_SUCCESS;
}

static inline int FMI_Loop(void** ckpts, int* sizes, int len) {
  static int step;
  (void)ckpts, (void)sizes, (void)len;
  return step++;
}

#endif
