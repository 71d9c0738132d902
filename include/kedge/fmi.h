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
 * its beginning: what it communicates before its first FMI_Loop is not done, and returns that error. But where nobody can go
 * back yet, before the first checkpoint, such a call does not return: fmirun ends all ranks, and starts them again.
 * - Misuse (a rank or a type that does not exist, a message longer than its buffer, ranks that make different collective calls)
 * ends the job with a sentence on stderr that names rank and call. Ranks in it are those of FMI_COMM_WORLD.
 * - Handles are numbers. One whose communicator, group or type is gone is misuse, and never stands for another one.
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
enum { FMI_COMM_NULL = -1, FMI_COMM_WORLD = 0 };
typedef int FMI_Group;
enum { FMI_GROUP_NULL = -1, FMI_GROUP_EMPTY = 0 };

typedef int FMI_Datatype;
enum {
  FMI_DATATYPE_NULL = -1,
  FMI_BYTE = 0, /* combined bit by bit alone */
  FMI_CHAR = 1,
  FMI_INT = 2,
  FMI_LONG = 3,
  FMI_LONG_LONG = 4,
  FMI_UNSIGNED = 5,
  FMI_UNSIGNED_LONG = 6,
  FMI_FLOAT = 7,
  FMI_DOUBLE = 8,
  FMI_SHORT = 9,
  FMI_UNSIGNED_SHORT = 10,
  FMI_SIGNED_CHAR = 11,
  FMI_UNSIGNED_CHAR = 12,
  FMI_UNSIGNED_LONG_LONG = 13,
  FMI_LONG_DOUBLE = 14,
  FMI_C_BOOL = 15,
  FMI_C_FLOAT_COMPLEX = 16,
  FMI_C_DOUBLE_COMPLEX = 17,
  /* struct { float value; int index; } and so on, with C's padding; for FMI_MINLOC and FMI_MAXLOC */
  FMI_FLOAT_INT = 18,
  FMI_DOUBLE_INT = 19,
  FMI_LONG_INT = 20,
  FMI_2INT = 21
};

typedef int FMI_Op;
enum {
  FMI_OP_NULL = -1,
  FMI_SUM = 0, /* and FMI_PROD: of numbers, complex ones too */
  FMI_PROD = 1,
  FMI_MIN = 2, /* and FMI_MAX: of numbers that are not complex */
  FMI_MAX = 3,
  FMI_LAND = 4, /* and FMI_LOR, FMI_LXOR: of whole numbers, 0 or not; 1 or 0 */
  FMI_LOR = 5,
  FMI_LXOR = 6,
  FMI_BAND = 7, /* and FMI_BOR, FMI_BXOR: of whole numbers, bit by bit */
  FMI_BOR = 8,
  FMI_BXOR = 9,
  FMI_MINLOC = 10, /* and FMI_MAXLOC: of pairs; of those with the same value the one with the least index */
  FMI_MAXLOC = 11
};

enum {
  FMI_ANY_SOURCE = -1,
  FMI_PROC_NULL = -2, /* sends to it and receives from it do nothing */
  FMI_ANY_TAG = -1,
  FMI_UNDEFINED = -3 /* no rank, no colour, no number */
};
#define FMI_IN_PLACE ((void*)-1)

typedef struct FMI_Status {
  int FMI_SOURCE;
  int FMI_TAG;
  size_t bytes;
} FMI_Status;
#define FMI_STATUS_IGNORE ((FMI_Status*)NULL)
#define FMI_STATUSES_IGNORE ((FMI_Status*)NULL)

/* A send or a receive under way, or one that can be started again and again. A failure ends all that are under way: waits for
 * them return FMI_ERR_PROC_FAILED. */
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
/* Seconds since an arbitrary moment; the same clock for all ranks, also those that were started again. */
KEDGE_API double FMI_Wtime(void);

/* Collective. Once for each step of the main loop, at its begin. Returns the step's number: 0 at first, one more at each call.
 *
 * The first call and each `--interval`-th one (fmirun; FMI_INTERVAL), or each at which one is due (--interval due), take a
 * checkpoint of the `len` arrays: array i begins at ckpts[i], and has sizes[i] bytes. After a failure the call waits for all
 * ranks, those that were started again among them, brings the arrays of all of them back from the newest checkpoint that all
 * have, and returns the number of the step that it was taken in. So state that is not in the arrays must follow from the number.
 *
 * Checkpoints are versions of the name "fmi" of Kedge (kedge.h), with all that Kedge's configuration says of levels, stores and
 * retention. Where a job of that name has a checkpoint already (a former fmirun was ended), the first call brings that back.
 *
 * It returns no error. The job ends, with a sentence that names rank and reason, when the checkpoint does not fit the arrays,
 * when ranks have called it unequally often, or when no checkpoint is left. A checkpoint that fails (no room) is a warning: the
 * one before stays; without a first one the job ends. */
KEDGE_API int FMI_Loop(void** ckpts, int* sizes, int len);

/* Collective. A loop within a step of FMI_Loop, which takes long enough to have checkpoints of its own: once for each turn, at
 * its begin. Returns the call's number: 0 at first in each step, then one more at each call.
 *
 *   while ((n = FMI_Loop(arrays, sizes, 2)) < steps) {
 *     prepare();
 *     while ((i = FMI_Inner_loop("solve", own, own_sizes, 3)) != FMI_OUTER_LOOP && i < turns) ...
 *     if (i == FMI_OUTER_LOOP) continue;
 *   }
 *
 * After a failure it returns FMI_OUTER_LOOP on all ranks, until they call FMI_Loop: leave the loop. FMI_Loop goes back to the
 * begin of a step. Where that one's loop has got a checkpoint since, its first call in the step brings the arrays back, and
 * returns the number of the call that it was taken in. So what the step does before the loop must give the same again.
 *
 * It takes a checkpoint at each call whose number is a multiple of the interval (or, with --interval due, at which one is
 * due) in steps in which FMI_Loop has taken one; where it has not, it does in the next step. They are versions of the name
 * "fmi." and that of the loop, which has up to 47 letters, digits, - and _. Several loops of a step have different names, and
 * follow each other. Errors are as those of FMI_Loop. */
enum { FMI_OUTER_LOOP = -1 };
KEDGE_API int FMI_Inner_loop(const char* loop, void** ckpts, int* sizes, int len);

/* For programs that do not look at what calls return. The handler is called, with `state`, where a call is about to return
 * FMI_ERR_PROC_FAILED, and nobody has called FMI_Loop since the failure. It may throw a C++ exception through the call, which
 * keeps nothing then; else the call returns. It does not jump (kedge/fmi_jump.h does that). NULL: none. */
typedef void FMI_Failure_handler(void* state);
KEDGE_API int FMI_On_failure(FMI_Failure_handler* handler, void* state);

/* ---- From rank to rank ------------------------------------------------------------------------------------------ */

/* Tags are 0 or greater. A send may return before its message is received: up to 32 KiB are copied into memory that both share,
 * as long as there is room; longer ones the receiver reads from the sender's memory. */
KEDGE_API int FMI_Send(const void* data, int count, FMI_Datatype type, int to, int tag, FMI_Comm comm);
/* Returns once the message's receive has begun. */
KEDGE_API int FMI_Ssend(const void* data, int count, FMI_Datatype type, int to, int tag, FMI_Comm comm);
/* `status` may be FMI_STATUS_IGNORE. */
KEDGE_API int FMI_Recv(void* data, int count, FMI_Datatype type, int from, int tag, FMI_Comm comm, FMI_Status* status);
KEDGE_API int FMI_Sendrecv(const void* sent, int sent_count, FMI_Datatype sent_type, int to, int sent_tag, void* received,
                           int received_count, FMI_Datatype received_type, int from, int received_tag, FMI_Comm comm,
                           FMI_Status* status);
/* The memory is the caller's at once: a copy is sent. The library makes room for copies itself; what the program attaches it has
 * back from FMI_Buffer_detach, which waits until they are sent. `buffer` there is the address of a pointer. */
KEDGE_API int FMI_Bsend(const void* data, int count, FMI_Datatype type, int to, int tag, FMI_Comm comm);
KEDGE_API int FMI_Buffer_attach(void* buffer, int bytes);
KEDGE_API int FMI_Buffer_detach(void* buffer, int* bytes);
/* Into the memory from which it was sent. */
KEDGE_API int FMI_Sendrecv_replace(void* data, int count, FMI_Datatype type, int to, int sent_tag, int from, int received_tag,
                                   FMI_Comm comm, FMI_Status* status);
/* The memory is the caller's again when the request is complete. Requests make progress in calls of FMI only. */
KEDGE_API int FMI_Isend(const void* data, int count, FMI_Datatype type, int to, int tag, FMI_Comm comm, FMI_Request* request);
/* Complete once its receive has begun. */
KEDGE_API int FMI_Issend(const void* data, int count, FMI_Datatype type, int to, int tag, FMI_Comm comm, FMI_Request* request);
KEDGE_API int FMI_Ibsend(const void* data, int count, FMI_Datatype type, int to, int tag, FMI_Comm comm, FMI_Request* request);
KEDGE_API int FMI_Irecv(void* data, int count, FMI_Datatype type, int from, int tag, FMI_Comm comm, FMI_Request* request);
/* They set what is complete to FMI_REQUEST_NULL; that request is complete at once. Persistent ones stay, and are not started any
 * more; those that are not are complete at once, too. */
KEDGE_API int FMI_Wait(FMI_Request* request, FMI_Status* status);
KEDGE_API int FMI_Waitall(int count, FMI_Request* requests, FMI_Status* statuses);
/* Of one of them; *index: which one. FMI_UNDEFINED where none is under way. */
KEDGE_API int FMI_Waitany(int count, FMI_Request* requests, int* index, FMI_Status* status);
/* Of at least one, and all that are complete. *finished: how many, or FMI_UNDEFINED where none is under way; indices[i] and
 * statuses[i]: which ones, and theirs. */
KEDGE_API int FMI_Waitsome(int count, FMI_Request* requests, int* finished, int* indices, FMI_Status* statuses);
/* *flag: 1 when it is complete (FMI_Testall: all are; else none is touched). They never wait. */
KEDGE_API int FMI_Test(FMI_Request* request, int* flag, FMI_Status* status);
KEDGE_API int FMI_Testall(int count, FMI_Request* requests, int* flag, FMI_Status* statuses);
/* *flag: 1 where one is complete, or none is under way. */
KEDGE_API int FMI_Testany(int count, FMI_Request* requests, int* index, int* flag, FMI_Status* status);
/* *finished may be 0. */
KEDGE_API int FMI_Testsome(int count, FMI_Request* requests, int* finished, int* indices, FMI_Status* statuses);
/* What is under way ends as it would, and nobody is told. */
KEDGE_API int FMI_Request_free(FMI_Request* request);

/* Persistent requests: a send or a receive with these arguments begins with FMI_Start, as often as the program wants. They belong
 * to this process, whose memory they name, and are no part of checkpoints. After FMI_Loop a rank that lives has its own, none of
 * them started; one that is started again makes those that it makes before its first FMI_Loop, with the same handles. Where a
 * failure has kept the communicator from being made they return FMI_ERR_PROC_FAILED, and the request is there. The communicator
 * must be there whenever they are started. */
KEDGE_API int FMI_Send_init(const void* data, int count, FMI_Datatype type, int to, int tag, FMI_Comm comm, FMI_Request* request);
KEDGE_API int FMI_Ssend_init(const void* data, int count, FMI_Datatype type, int to, int tag, FMI_Comm comm,
                             FMI_Request* request);
KEDGE_API int FMI_Bsend_init(const void* data, int count, FMI_Datatype type, int to, int tag, FMI_Comm comm,
                             FMI_Request* request);
KEDGE_API int FMI_Recv_init(void* data, int count, FMI_Datatype type, int from, int tag, FMI_Comm comm, FMI_Request* request);
KEDGE_API int FMI_Start(FMI_Request* request);
KEDGE_API int FMI_Startall(int count, FMI_Request* requests);
/* What the message that such a receive would take says of itself. FMI_Probe waits for it; FMI_Iprobe sets *flag to 1 where it
 * has come. */
KEDGE_API int FMI_Probe(int from, int tag, FMI_Comm comm, FMI_Status* status);
KEDGE_API int FMI_Iprobe(int from, int tag, FMI_Comm comm, int* flag, FMI_Status* status);
/* *count: how many elements were received; FMI_UNDEFINED where that is no whole number. */
KEDGE_API int FMI_Get_count(const FMI_Status* status, FMI_Datatype type, int* count);

/* ---- Of all ranks ----------------------------------------------------------------------------------------------- */

/* All ranks of the communicator make these calls in the same order, with the same counts, types, operations and roots. The order
 * in which numbers are combined depends on the number of ranks alone: a call that is made again has the same result, to the last
 * bit. The language's operations are for types of the language; operations of the program are for all types.
 * FMI_IN_PLACE as `sent` means: what this rank gives lies where it receives (FMI_Reduce and FMI_Gather: on the root alone). */
KEDGE_API int FMI_Barrier(FMI_Comm comm);
KEDGE_API int FMI_Bcast(void* data, int count, FMI_Datatype type, int root, FMI_Comm comm);
KEDGE_API int FMI_Reduce(const void* sent, void* received, int count, FMI_Datatype type, FMI_Op op, int root, FMI_Comm comm);
KEDGE_API int FMI_Allreduce(const void* sent, void* received, int count, FMI_Datatype type, FMI_Op op, FMI_Comm comm);
/* Each rank gives `sent_count` elements; `received` has room for those of all ranks, in their order. Both counts are equal. */
KEDGE_API int FMI_Gather(const void* sent, int sent_count, FMI_Datatype sent_type, void* received, int received_count,
                         FMI_Datatype received_type, int root, FMI_Comm comm);
KEDGE_API int FMI_Allgather(const void* sent, int sent_count, FMI_Datatype sent_type, void* received, int received_count,
                            FMI_Datatype received_type, FMI_Comm comm);

/* The same with a count for each rank. What is of rank r begins places[r] elements behind `received` (`sent`). Counts and places
 * are looked at where they are needed: by FMI_Gatherv and FMI_Scatterv on the root. */
KEDGE_API int FMI_Gatherv(const void* sent, int sent_count, FMI_Datatype sent_type, void* received, const int* received_counts,
                          const int* places, FMI_Datatype received_type, int root, FMI_Comm comm);
KEDGE_API int FMI_Allgatherv(const void* sent, int sent_count, FMI_Datatype sent_type, void* received, const int* received_counts,
                             const int* places, FMI_Datatype received_type, FMI_Comm comm);
/* The root's elements to all ranks, in their order. FMI_IN_PLACE as `received`, on the root: its own stay where they are. */
KEDGE_API int FMI_Scatter(const void* sent, int sent_count, FMI_Datatype sent_type, void* received, int received_count,
                          FMI_Datatype received_type, int root, FMI_Comm comm);
KEDGE_API int FMI_Scatterv(const void* sent, const int* sent_counts, const int* places, FMI_Datatype sent_type, void* received,
                           int received_count, FMI_Datatype received_type, int root, FMI_Comm comm);
/* From each rank to each rank. FMI_IN_PLACE as `sent`: what is sent lies where the others' will be. */
KEDGE_API int FMI_Alltoall(const void* sent, int sent_count, FMI_Datatype sent_type, void* received, int received_count,
                           FMI_Datatype received_type, FMI_Comm comm);
KEDGE_API int FMI_Alltoallv(const void* sent, const int* sent_counts, const int* sent_places, FMI_Datatype sent_type,
                            void* received, const int* received_counts, const int* received_places, FMI_Datatype received_type,
                            FMI_Comm comm);
/* Of the ranks from 0 to this one. */
KEDGE_API int FMI_Scan(const void* sent, void* received, int count, FMI_Datatype type, FMI_Op op, FMI_Comm comm);
/* Of the ranks before this one. On rank 0 `received` stays as it is. */
KEDGE_API int FMI_Exscan(const void* sent, void* received, int count, FMI_Datatype type, FMI_Op op, FMI_Comm comm);
/* Of what all ranks combine, rank r receives counts[r] elements (block: `count`): those behind the lower ranks'. FMI_IN_PLACE as
 * `sent`: all lie where each rank then receives its own. */
KEDGE_API int FMI_Reduce_scatter(const void* sent, void* received, const int* counts, FMI_Datatype type, FMI_Op op,
                                 FMI_Comm comm);
KEDGE_API int FMI_Reduce_scatter_block(const void* sent, void* received, int count, FMI_Datatype type, FMI_Op op, FMI_Comm comm);

/* ---- Operations of the program ---------------------------------------------------------------------------------- */

/* inout[i] = in[i] op inout[i], for *count elements of *type, as they lie in the program's memory. `in` has what comes of lower
 * ranks. The function calls nothing of FMI that communicates. */
typedef void FMI_User_function(void* in, void* inout, int* count, FMI_Datatype* type);
/* The same with a state of the program, and a count that fits an int, too. */
typedef void FMI_User_function_x(void* in, void* inout, size_t count, FMI_Datatype type, void* state);
/* For all calls that combine elements, of any type that is committed. The operation is associative; with `commute` 0 elements are
 * combined in the order of ranks.
 *
 * Operations are a rank's own, and functions of its process: they are no part of checkpoints. A rank that lives keeps them; one
 * that is started again makes those that it makes before its first FMI_Loop, with the same handles. */
KEDGE_API int FMI_Op_create(FMI_User_function* function, int commute, FMI_Op* made);
KEDGE_API int FMI_Op_create_x(FMI_User_function_x* function, void* state, int commute, FMI_Op* made);
KEDGE_API int FMI_Op_free(FMI_Op* op);
KEDGE_API int FMI_Op_commutative(FMI_Op op, int* commute);
/* inout[i] = in[i] op inout[i], of this rank alone. */
KEDGE_API int FMI_Reduce_local(const void* in, void* inout, int count, FMI_Datatype type, FMI_Op op);

/* ---- Communicators ---------------------------------------------------------------------------------------------- */

/* Some ranks, in an order of their own. Messages of different communicators never match, also with FMI_ANY_SOURCE and
 * FMI_ANY_TAG.
 *
 * Communicators are part of FMI_Loop's checkpoints. After a failure each rank has those that it had at the checkpoint, by the
 * same handles, without making them anew: also such as have been freed since, and none that were made since, whose handles are
 * misuse. Handles are given in the order of the calls that make communicators, so a rank that is started again, and makes the
 * same calls before its first FMI_Loop, has the same ones. Those calls return FMI_ERR_PROC_FAILED there, and set the handle. What
 * follows from a rank's own arguments (dup, create, Cartesian ones) can be asked for at once. What follows from others'
 * (FMI_Comm_split) comes with FMI_Loop; until then calls that ask for it return FMI_ERR_PROC_FAILED. A handle that was made in
 * the loop belongs into the arrays of FMI_Loop. */
KEDGE_API int FMI_Comm_rank(FMI_Comm comm, int* rank);
KEDGE_API int FMI_Comm_size(FMI_Comm comm, int* size);
enum { FMI_IDENT = 0, FMI_CONGRUENT = 1, FMI_SIMILAR = 2, FMI_UNEQUAL = 3 };
/* FMI_IDENT: the same one; FMI_CONGRUENT: the same ranks in the same order; FMI_SIMILAR: in another order. */
KEDGE_API int FMI_Comm_compare(FMI_Comm left, FMI_Comm right, int* result);
/* These and FMI_Cart_create and FMI_Cart_sub are collective over `comm`. */
KEDGE_API int FMI_Comm_dup(FMI_Comm comm, FMI_Comm* made);
/* A communicator for each colour (0 or greater), its ranks in the order of their keys, and in that of `comm` where keys are
 * equal. FMI_UNDEFINED: in none; *made is FMI_COMM_NULL. */
KEDGE_API int FMI_Comm_split(FMI_Comm comm, int colour, int key, FMI_Comm* made);
/* One for each node: of the ranks that are on it at that moment. It keeps its ranks, wherever a failure brings them. `type` is
 * FMI_COMM_TYPE_SHARED, or FMI_UNDEFINED. */
enum { FMI_COMM_TYPE_SHARED = 0 };
KEDGE_API int FMI_Comm_split_type(FMI_Comm comm, int type, int key, FMI_Comm* made);
/* Of a group's ranks, which all give the same one; others get FMI_COMM_NULL. Groups without a common rank may be made at once. */
KEDGE_API int FMI_Comm_create(FMI_Comm comm, FMI_Group group, FMI_Comm* made);
/* Waits for nobody; all ranks are to call it. What was begun ends as it would. */
KEDGE_API int FMI_Comm_free(FMI_Comm* comm);

/* Groups are a rank's own: nobody waits. A rank that was started again has those of the checkpoint after FMI_Loop. */
KEDGE_API int FMI_Comm_group(FMI_Comm comm, FMI_Group* group);
KEDGE_API int FMI_Group_incl(FMI_Group group, int count, const int* ranks, FMI_Group* made);
KEDGE_API int FMI_Group_excl(FMI_Group group, int count, const int* ranks, FMI_Group* made);
/* The ranks of the first, and then those of the second that are not in it; those of the first that are in the second; those that
 * are not. */
KEDGE_API int FMI_Group_union(FMI_Group left, FMI_Group right, FMI_Group* made);
KEDGE_API int FMI_Group_intersection(FMI_Group left, FMI_Group right, FMI_Group* made);
KEDGE_API int FMI_Group_difference(FMI_Group left, FMI_Group right, FMI_Group* made);
/* FMI_IDENT: the same ranks in the same order; FMI_SIMILAR: in another one. */
KEDGE_API int FMI_Group_compare(FMI_Group left, FMI_Group right, int* result);
/* FMI_UNDEFINED: this rank is not in it. */
KEDGE_API int FMI_Group_rank(FMI_Group group, int* rank);
KEDGE_API int FMI_Group_size(FMI_Group group, int* size);
/* What ranks of one group are in another; FMI_UNDEFINED where they are not in it. */
KEDGE_API int FMI_Group_translate_ranks(FMI_Group from, int count, const int* ranks, FMI_Group to, int* translated);
KEDGE_API int FMI_Group_free(FMI_Group* group);

/* ---- Ranks in a grid -------------------------------------------------------------------------------------------- */

/* Sets those of the sizes that are 0, as near to each other as can be, so that there are as many places as ranks. At most 16
 * dimensions. */
KEDGE_API int FMI_Dims_create(int ranks, int dimensions, int* sizes);
/* The first ranks of `comm` in a grid, the last coordinate counting fastest; others get FMI_COMM_NULL. A dimension with `periods`
 * wraps. `reorder` is not looked at: ranks keep their order. */
KEDGE_API int FMI_Cart_create(FMI_Comm comm, int dimensions, const int* sizes, const int* periods, int reorder, FMI_Comm* made);
/* The grid without the dimensions for which `keeps` is 0: one for each place in those. */
KEDGE_API int FMI_Cart_sub(FMI_Comm comm, const int* keeps, FMI_Comm* made);
KEDGE_API int FMI_Cartdim_get(FMI_Comm comm, int* dimensions);
/* Of this rank. `dimensions` is how many the arrays have room for, here and below. */
KEDGE_API int FMI_Cart_get(FMI_Comm comm, int dimensions, int* sizes, int* periods, int* coordinates);
KEDGE_API int FMI_Cart_coords(FMI_Comm comm, int rank, int dimensions, int* coordinates);
KEDGE_API int FMI_Cart_rank(FMI_Comm comm, const int* coordinates, int* rank);
/* Who is `by` places before this rank (*source), and behind it (*destination); FMI_PROC_NULL at an edge. */
KEDGE_API int FMI_Cart_shift(FMI_Comm comm, int dimension, int by, int* source, int* destination);

/* ---- Types of the program --------------------------------------------------------------------------------------- */

/* Elements need not lie side by side: they are packed for the way, and unpacked. Those that do are not copied. Types are a rank's
 * own, as groups are, and part of its checkpoints. A type is used in communication once it is committed. */
typedef ptrdiff_t FMI_Aint; /* bytes */
KEDGE_API int FMI_Type_contiguous(int count, FMI_Datatype type, FMI_Datatype* made);
/* `count` blocks of `length` elements; a block begins `stride` elements (hvector: bytes) behind the one before. */
KEDGE_API int FMI_Type_vector(int count, int length, int stride, FMI_Datatype type, FMI_Datatype* made);
KEDGE_API int FMI_Type_create_hvector(int count, int length, FMI_Aint stride, FMI_Datatype type, FMI_Datatype* made);
/* lengths[i] elements, from places[i] elements on. */
KEDGE_API int FMI_Type_indexed(int count, const int* lengths, const int* places, FMI_Datatype type, FMI_Datatype* made);
/* lengths[i] elements of types[i], from offsets[i] bytes on. Its extent has the padding that C gives such a struct. */
KEDGE_API int FMI_Type_create_struct(int count, const int* lengths, const FMI_Aint* offsets, const FMI_Datatype* types,
                                     FMI_Datatype* made);
/* Of an array with these sizes the counts[i] elements from begins[i] on. With FMI_ORDER_C the last dimension counts fastest, else
 * the first. The next one lies behind the whole array. */
enum { FMI_ORDER_C = 0, FMI_ORDER_FORTRAN = 1 };
KEDGE_API int FMI_Type_create_subarray(int dimensions, const int* sizes, const int* counts, const int* begins, int order,
                                       FMI_Datatype type, FMI_Datatype* made);
/* The same elements, the first byte of which counts as `lower`; the next one begins `extent` bytes further. */
KEDGE_API int FMI_Type_create_resized(FMI_Datatype type, FMI_Aint lower, FMI_Aint extent, FMI_Datatype* made);
KEDGE_API int FMI_Type_commit(FMI_Datatype* type);
/* Types made of it, and messages under way, keep what they need. */
KEDGE_API int FMI_Type_free(FMI_Datatype* type);
/* The bytes of an element in a message; FMI_UNDEFINED where they are more than an int counts. */
KEDGE_API int FMI_Type_size(FMI_Datatype type, int* size);
/* Where an element begins, and how far the next one is. */
KEDGE_API int FMI_Type_get_extent(FMI_Datatype type, FMI_Aint* lower, FMI_Aint* extent);
/* Of the bytes that it has. */
KEDGE_API int FMI_Type_get_true_extent(FMI_Datatype type, FMI_Aint* lower, FMI_Aint* extent);
/* Elements side by side, as messages have them, from *position on in a buffer of so many bytes, and from there. *position moves
 * behind them. Who sends the buffer sends FMI_BYTE. */
KEDGE_API int FMI_Pack(const void* data, int count, FMI_Datatype type, void* packed, int bytes, int* position, FMI_Comm comm);
KEDGE_API int FMI_Unpack(const void* packed, int bytes, int* position, void* data, int count, FMI_Datatype type, FMI_Comm comm);
/* How many bytes they take. */
KEDGE_API int FMI_Pack_size(int count, FMI_Datatype type, FMI_Comm comm, int* size);

#ifdef __cplusplus
}
#endif
#endif
