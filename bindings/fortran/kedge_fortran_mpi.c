/* kedge_mpi_init for Fortran: turns the communicator of `use mpi` or `use mpi_f08` into that of C. Both are one default
 * integer in memory, the second inside type(MPI_Comm); anything of another size or rank is refused. */
#include <ISO_Fortran_binding.h>
#include <kedge/kedge_mpi.h>
#include <string.h>

/* kedge_fortran.c */
int kedge_fortran_refuse(int status, const char* message);
int kedge_fortran_told(int status);

KEDGE_API int kedge_fortran_mpi_init(const CFI_cdesc_t* communicator, const kedge_options* options, kedge_context** out) {
  const int type = communicator->type & CFI_type_mask;
  const int is_handle = communicator->rank == 0 && communicator->elem_len == sizeof(MPI_Fint) &&
                        (type == CFI_type_Integer || type == CFI_type_struct);
  if (!is_handle)
    return kedge_fortran_refuse(KEDGE_ERROR_INVALID_ARGUMENT,
                                "the communicator is neither a default integer (use mpi) nor a type(MPI_Comm) (use mpi_f08)");
  MPI_Fint handle;
  memcpy(&handle, communicator->base_addr, sizeof handle);
  return kedge_fortran_told(kedge_mpi_init(MPI_Comm_f2c(handle), options, out));
}
