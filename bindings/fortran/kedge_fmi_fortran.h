/* What the C sources below the module kedge_fmi share. */
#ifndef KEDGE_FMI_FORTRAN_H
#define KEDGE_FMI_FORTRAN_H

#include <ISO_Fortran_binding.h>
#include <kedge/fmi.h>

#pragma GCC visibility push(hidden)
/* Where the array begins; FMI_IN_PLACE for the module's variable of that name. An array that is not contiguous ends the job, with
 * the name of the call. */
void* kedge_fmi_bytes(const CFI_cdesc_t* array, const char* call);
/* FMI_STATUS_IGNORE for the module's variables FMI_STATUS_IGNORE and FMI_STATUSES_IGNORE. */
FMI_Status* kedge_fmi_status(FMI_Status* status);
/* Those that are numbers of requests, and not FMI_UNDEFINED. */
void kedge_fmi_count_from_1(int* indices, int count);
#pragma GCC visibility pop

#endif
