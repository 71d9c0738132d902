/* FMI: messages that survive. MPI's calls under FMI_ names, in a job whose ranks may die: fmirun(1) starts a rank that was killed
 * again, the others keep their memory, and FMI_Loop brings all of them back to their last checkpoint. After K. Sato's thesis,
 * chapter 5. Link -lkedge-fmi; start with `fmirun -n RANKS PROGRAM`. docs/fmi.md tells how to use it, and what is not there.
 *
 *   FMI_Init(&argc, &argv);
 *   void* arrays[] = {field, &residual};
 *   int sizes[] = {sizeof field, sizeof residual};
 *   while ((n = FMI_Loop(arrays, sizes, 2)) < steps) {
 *     if (FMI_Allreduce(...) != FMI_SUCCESS) continue;   a rank has died: FMI_Loop goes back
 *     ...
 *   }
 *   FMI_Finalize();
 *
 * Conventions, unless a function says otherwise:
 * - Failures. When a rank has died, every call that communicates returns FMI_ERR_PROC_FAILED at once, on all ranks, until they
 * call FMI_Loop. What was received meanwhile is undefined, requests are gone. In a rank that was started again, this holds from
 * its beginning: what it communicates before its first FMI_Loop is not done, and returns that error.
 * - Misuse (a rank or a type that does not exist, a message longer than its buffer, ranks that make different collective calls)
 * ends the job with a sentence on stderr that names rank and call.
 * - Counts are of elements of the type. A buffer of no elements may be NULL.
 * - Order. Messages between two ranks are received in the order in which they were sent, as far as source and tag match them.
 * - Threads: all calls are made by one thread.
 */
#ifndef KEDGE_FMI_H
#define KEDGE_FMI_H

#include <stddef.h>
#include <stdint.h>

#include "kedge.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  FMI_SUCCESS = 0,
  FMI_ERR_PROC_FAILED = 1 /* a rank has died: call FMI_Loop */
};

typedef int FMI_Comm;
enum { FMI_COMM_WORLD = 0 };

typedef int FMI_Datatype;
enum {
  FMI_BYTE = 0, /* not to be reduced */
  FMI_CHAR = 1,
  FMI_INT = 2,
  FMI_LONG = 3,
  FMI_LONG_LONG = 4,
  FMI_UNSIGNED = 5,
  FMI_UNSIGNED_LONG = 6,
  FMI_FLOAT = 7,
  FMI_DOUBLE = 8
};

typedef int FMI_Op;
enum { FMI_SUM = 0, FMI_PROD = 1, FMI_MIN = 2, FMI_MAX = 3 };

enum {
  FMI_ANY_SOURCE = -1,
  FMI_PROC_NULL = -2, /* sends to it and receives from it do nothing */
  FMI_ANY_TAG = -1
};
#define FMI_IN_PLACE ((void*)-1)

typedef struct FMI_Status {
  int FMI_SOURCE;
  int FMI_TAG;
  size_t bytes;
} FMI_Status;
#define FMI_STATUS_IGNORE ((FMI_Status*)NULL)
#define FMI_STATUSES_IGNORE ((FMI_Status*)NULL)

/* A send or a receive under way. A failure ends all of them: waits for them return FMI_ERR_PROC_FAILED. */
typedef int64_t FMI_Request;
#define FMI_REQUEST_NULL ((FMI_Request)0)

/* ---- Begin, end, survive ---------------------------------------------------------------------------------------- */

/* The first call. Returns when all ranks have made it; in a rank that was started again, at once. The arguments are not looked
 * at, and may be NULL. A process that fmirun has not started ends here. */
KEDGE_API int FMI_Init(int* argc, char*** argv);
/* The last call. Returns when all ranks have made it, after equally many calls of FMI_Loop. Where a rank dies before that, nobody
 * can go back any more: fmirun then starts all ranks again, from their last checkpoint. */
KEDGE_API int FMI_Finalize(void);
/* Ends the job; fmirun exits with `code` (1 where that is 0). */
KEDGE_API int FMI_Abort(FMI_Comm comm, int code);
KEDGE_API int FMI_Comm_rank(FMI_Comm comm, int* rank);
KEDGE_API int FMI_Comm_size(FMI_Comm comm, int* size);
/* Seconds since an arbitrary moment; the same clock for all ranks, also those that were started again. */
KEDGE_API double FMI_Wtime(void);

/* Collective. Once for each step of the main loop, at its begin. Returns the step's number: 0 at first, one more at each call.
 *
 * The first call and each `--interval`-th one (fmirun; FMI_INTERVAL) take a checkpoint of the `len` arrays: array i begins at
 * ckpts[i], and has sizes[i] bytes. After a failure the call waits for all ranks, those that were started again among them,
 * brings the arrays of all of them back from the newest checkpoint that all have, and returns the number of the step that it was
 * taken in. So state that is not in the arrays must follow from the number.
 *
 * Checkpoints are versions of the name "fmi" of Kedge (kedge.h), with all that Kedge's configuration says of levels, stores and
 * retention. Where a job of that name has a checkpoint already (a former fmirun was ended), the first call brings that back.
 *
 * It returns no error. The job ends, with a sentence that names rank and reason, when the checkpoint does not fit the arrays,
 * when ranks have called it unequally often, or when no checkpoint is left. A checkpoint that fails (no room) is a warning: the
 * one before stays; without a first one the job ends. */
KEDGE_API int FMI_Loop(void** ckpts, int* sizes, int len);

/* ---- From rank to rank ------------------------------------------------------------------------------------------ */

/* Tags are 0 or greater. A send may return before its message is received: up to 32 KiB are copied into memory that both share,
 * as long as there is room; longer ones the receiver reads from the sender's memory. */
KEDGE_API int FMI_Send(const void* data, int count, FMI_Datatype type, int to, int tag, FMI_Comm comm);
/* `status` may be FMI_STATUS_IGNORE. */
KEDGE_API int FMI_Recv(void* data, int count, FMI_Datatype type, int from, int tag, FMI_Comm comm, FMI_Status* status);
KEDGE_API int FMI_Sendrecv(const void* sent, int sent_count, FMI_Datatype sent_type, int to, int sent_tag, void* received,
                           int received_count, FMI_Datatype received_type, int from, int received_tag, FMI_Comm comm,
                           FMI_Status* status);
/* The memory is the caller's again when the request is complete. Requests make progress in calls of FMI only. */
KEDGE_API int FMI_Isend(const void* data, int count, FMI_Datatype type, int to, int tag, FMI_Comm comm, FMI_Request* request);
KEDGE_API int FMI_Irecv(void* data, int count, FMI_Datatype type, int from, int tag, FMI_Comm comm, FMI_Request* request);
/* They set what is complete to FMI_REQUEST_NULL; that request is complete at once. */
KEDGE_API int FMI_Wait(FMI_Request* request, FMI_Status* status);
KEDGE_API int FMI_Waitall(int count, FMI_Request* requests, FMI_Status* statuses);
/* *flag: 1 when it is complete. Never waits. */
KEDGE_API int FMI_Test(FMI_Request* request, int* flag, FMI_Status* status);
/* *count: how many elements were received; -1 where that is no whole number. */
KEDGE_API int FMI_Get_count(const FMI_Status* status, FMI_Datatype type, int* count);

/* ---- Of all ranks ----------------------------------------------------------------------------------------------- */

/* All ranks make these calls in the same order, with the same counts, types, operations and roots. The order in which numbers are
 * combined depends on the number of ranks alone: a call that is made again has the same result, to the last bit. FMI_IN_PLACE as
 * `sent` means: what this rank gives lies where it receives (FMI_Reduce and FMI_Gather: on the root alone). */
KEDGE_API int FMI_Barrier(FMI_Comm comm);
KEDGE_API int FMI_Bcast(void* data, int count, FMI_Datatype type, int root, FMI_Comm comm);
KEDGE_API int FMI_Reduce(const void* sent, void* received, int count, FMI_Datatype type, FMI_Op op, int root, FMI_Comm comm);
KEDGE_API int FMI_Allreduce(const void* sent, void* received, int count, FMI_Datatype type, FMI_Op op, FMI_Comm comm);
/* Each rank gives `sent_count` elements; `received` has room for those of all ranks, in their order. Both counts are equal. */
KEDGE_API int FMI_Gather(const void* sent, int sent_count, FMI_Datatype sent_type, void* received, int received_count,
                         FMI_Datatype received_type, int root, FMI_Comm comm);
KEDGE_API int FMI_Allgather(const void* sent, int sent_count, FMI_Datatype sent_type, void* received, int received_count,
                            FMI_Datatype received_type, FMI_Comm comm);

#ifdef __cplusplus
}
#endif
#endif
