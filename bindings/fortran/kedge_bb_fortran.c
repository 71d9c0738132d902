/* What the Fortran module kedge_bb cannot say in Fortran: the bytes of an array of any type, kind and rank. */
#include <ISO_Fortran_binding.h>
#include <kedge/bb.h>

#include "array_bytes.h"

_Static_assert(KEDGE_BB_READ == 1 && KEDGE_BB_WRITE == 2 && sizeof(kedge_bb_options) == 40, "kedge_bb.f90 repeats these");

static int bytes_of(const CFI_cdesc_t* array, size_t* bytes) {
  if (!CFI_is_contiguous(array))
    return kedge_bb_report_error(KEDGE_ERROR_INVALID_ARGUMENT, "the array is not contiguous: give a copy of the section");
  *bytes = kedge_array_bytes(array);
  return KEDGE_OK;
}

KEDGE_API void kedge_bb_fortran_write(kedge_bb_file* const* file, const CFI_cdesc_t* array, int* stat) {
  size_t bytes = 0;
  if ((*stat = bytes_of(array, &bytes)) == KEDGE_OK) *stat = kedge_bb_write(*file, array->base_addr, bytes);
}

KEDGE_API void kedge_bb_fortran_read(kedge_bb_file* const* file, const CFI_cdesc_t* array, int* stat) {
  size_t bytes = 0, read = 0;
  if ((*stat = bytes_of(array, &bytes)) != KEDGE_OK) return;
  *stat = kedge_bb_read(*file, array->base_addr, bytes, &read);
  if (*stat == KEDGE_OK && read < bytes) *stat = kedge_bb_report_error(KEDGE_ERROR_INCOMPLETE, "the file ends before the array");
}
