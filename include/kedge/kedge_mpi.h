/* Kedge for MPI programs: the collective bootstrap over a communicator. Link -lkedge-mpi -lkedge.
 *
 * libkedge itself links no MPI; this thin library does, so there is one for each MPI implementation (docs/how-to.md).
 * Every other call is that of kedge.h.
 */
#ifndef KEDGE_KEDGE_MPI_H
#define KEDGE_KEDGE_MPI_H

#include <mpi.h>

#include "kedge.h"

#ifdef __cplusplus
extern "C" {
#endif

/* kedge_init over the ranks of `communicator`. Collective over it. MPI must be initialised. The communicator is
 * duplicated and stays the caller's: Kedge's messages never meet the application's. The duplicate is freed by
 * kedge_finalize, which therefore comes before MPI_Finalize. Collective calls of one context must not run on two threads
 * at once; with several contexts on several threads MPI must be initialised with MPI_THREAD_MULTIPLE.
 * KEDGE_ERROR_FAILED_PRECONDITION: MPI is not initialised, or is finalised; or MPI_COMM_WORLD has one rank where kedge run
 * has launched several, because the program uses another MPI than the launcher. */
KEDGE_API int kedge_mpi_init(MPI_Comm communicator, const kedge_options* options, kedge_context** out);

#ifdef __cplusplus
}
#endif
#endif
