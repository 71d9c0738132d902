/* What the C sources below several modules share. */
#ifndef KEDGE_FORTRAN_ARRAY_BYTES_H
#define KEDGE_FORTRAN_ARRAY_BYTES_H

#include <ISO_Fortran_binding.h>
#include <stddef.h>

/* Of the elements of an array, or of a scalar. */
static inline size_t kedge_array_bytes(const CFI_cdesc_t* array) {
  size_t bytes = array->elem_len;
  for (int i = 0; i < array->rank; ++i) bytes *= (size_t)array->dim[i].extent;
  return bytes;
}

#endif
