/* Source compatibility with the C API of VELOC 1.8: recompile with this header on the include path, link
 * -lkedge-mpi -lkedge instead of -lveloc-client, and nothing else. The configuration is VELOC's INI file; VELOC_<KEY> in
 * the environment wins over it.
 *
 * All functions return VELOC_SUCCESS or VELOC_FAILURE unless said otherwise; a failure's reason is logged to stderr. One
 * context a process: between VELOC_Init and VELOC_Finalize. Where this differs from VELOC it is stricter: bytes are
 * always checked, a region whose size is not the saved one is refused, and a version counts once it is durable.
 */
#ifndef KEDGE_VELOC_H
#define KEDGE_VELOC_H

#include <mpi.h>
#include <stddef.h>

#include "kedge.h" /* for KEDGE_API */

#define VELOC_SUCCESS (0)
#define VELOC_FAILURE (-1)
#define VELOC_MAX_NAME (1024) /* bytes of a name or path, its NUL included */

#define VELOC_CKPT_ALL (0)  /* every region; the ids are not looked at */
#define VELOC_CKPT_SOME (1) /* the regions whose ids are given */
#define VELOC_CKPT_REST (2) /* the regions whose ids are not given */
#define VELOC_RECOVER_ALL (0)
#define VELOC_RECOVER_SOME (1)
#define VELOC_RECOVER_REST (2)

#ifdef __cplusplus
extern "C" {
#endif

/* Collective over `comm`, which is duplicated. `cfg_file`: an INI file with scratch, persistent and mode. */
KEDGE_API int VELOC_Init(MPI_Comm comm, const char* cfg_file);
/* A process on its own: its checkpoints are kept apart from those of other ids. Needs no MPI to be running. */
KEDGE_API int VELOC_Init_single(unsigned int id, const char* cfg_file);
/* `drain` non-zero waits until what was checkpointed is flushed. Nothing is deleted either way. */
KEDGE_API int VELOC_Finalize(int drain);

/* Declares `count` elements of `base_size` bytes at `ptr`; protecting an id again replaces pointer and size. */
KEDGE_API int VELOC_Mem_protect(int id, void* ptr, size_t count, size_t base_size);
KEDGE_API int VELOC_Mem_unprotect(int id);
KEDGE_API int VELOC_Mem_clear(void);
/* The same for the regions that checkpoints called `name` hold instead of the ones above. */
KEDGE_API int VELOC_Region_protect(int id, void* ptr, size_t count, size_t base_size, const char* name);
KEDGE_API int VELOC_Region_unprotect(int id, const char* name);
KEDGE_API int VELOC_Region_clear(const char* name);

/* Between begin and end of a checkpoint or restart: where to write or read the file called `original`. `routed` has room
 * for VELOC_MAX_NAME bytes. After a checkpoint the file ends, flushed, at its original path. */
KEDGE_API int VELOC_Route_file(const char* original, char* routed);
/* Removes the local copies of checkpoints called `name`; the persistent ones stay. */
KEDGE_API int VELOC_Cleanup(const char* name);

KEDGE_API int VELOC_Checkpoint_begin(const char* name, int version);
KEDGE_API int VELOC_Checkpoint_selective(int mode, int* ids, int id_count);
KEDGE_API int VELOC_Checkpoint_mem(void);
KEDGE_API int VELOC_Checkpoint_end(int success);
/* Until the last checkpoint has reached the last level scheduled for it. VELOC_FAILURE when its flush failed. */
KEDGE_API int VELOC_Checkpoint_wait(void);
/* VELOC_SUCCESS when nothing is pending, VELOC_FAILURE while a flush runs. */
KEDGE_API int VELOC_Checkpoint_finished(void);
/* begin, mem, end. A version equal to or below the newest replaces it once it is complete. */
KEDGE_API int VELOC_Checkpoint(const char* name, int version);

/* The newest version at or below `version` (0: no limit) that can be restored; VELOC_FAILURE when there is none. VELOC has one
 * code for "never was" and "is lost": the latter is an error in the log, and kedge run stops before such a launch. Collective
 * under VELOC_Init; the process's own under VELOC_Init_single. */
KEDGE_API int VELOC_Restart_test(const char* name, int version);
KEDGE_API int VELOC_Restart_begin(const char* name, int version);
KEDGE_API int VELOC_Recover_selective(int mode, int* ids, int id_count);
/* The saved size of region `id` in bytes; 0 when unknown, VELOC_FAILURE above INT_MAX. */
KEDGE_API int VELOC_Recover_size(int id);
KEDGE_API int VELOC_Recover_mem(void);
KEDGE_API int VELOC_Restart_end(int success);
KEDGE_API int VELOC_Restart(const char* name, int version);

#ifdef __cplusplus
}
#endif
#endif
