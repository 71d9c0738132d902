/* What the Fortran module kedge cannot say in Fortran: it takes an array of any type, kind and rank apart.
 *
 * kedge_protect is called straight from the application with a C descriptor (TS 29113), not through a Fortran wrapper:
 * a wrapper would let the compiler pack a component section such as z%re into a temporary, whose address would dangle
 * after the call. Here such a section arrives as what it is, not contiguous, and is refused.
 *
 * The message of a refusal made here and that of the library's last error are both per thread; kedge_fortran_told and
 * kedge_fortran_refuse keep track of which of them came last.
 */
#include "kedge_fortran.h"

#include <stdarg.h>
#include <stdio.h>

_Static_assert(KEDGE_ERROR_INTERNAL == 15 && KEDGE_ERROR_LOST == 16 && KEDGE_TYPE_BOOL == 15 && KEDGE_TYPE_COMPLEX128 == 14 &&
                   KEDGE_TYPE_FLOAT64 == 12 && KEDGE_TYPE_INT64 == 4,
               "kedge_c.f90 repeats these values");
_Static_assert(KEDGE_LEVEL_BUFFER == 3 && KEDGE_LEVEL_STORE == 4 && KEDGE_LEVEL_LAST == 100 && KEDGE_REST == 2 &&
                   KEDGE_OVERWRITE == 1 && KEDGE_PHASE_COMMUNICATION == 1 && KEDGE_MAX_DIMENSIONS == 15,
               "kedge_c.f90 repeats these values");
_Static_assert(sizeof(kedge_statistics) == 160 && sizeof(kedge_options) == 32 && sizeof(kedge_object) == 40 &&
                   sizeof(kedge_region_info) == 16 + 16 + 3 * 8 * KEDGE_MAX_DIMENSIONS + 2 * 8 + 8 * KEDGE_MAX_DIMENSIONS + 3 * 8,
               "kedge_c.f90 repeats these structs");

static _Thread_local char refusal[512]; /* "": the library's own message is the last one */

KEDGE_API int kedge_fortran_told(int status) {
  refusal[0] = '\0';
  return status;
}

KEDGE_API int kedge_fortran_refuse(int status, const char* message) {
  snprintf(refusal, sizeof refusal, "%s", message);
  return status;
}

KEDGE_API const char* kedge_fortran_error_message(void) {
  return refusal[0] != '\0' ? refusal : kedge_error_message();
}

int kedge_fortran_refuse_text(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(refusal, sizeof refusal, format, arguments);
  va_end(arguments);
  return KEDGE_ERROR_INVALID_ARGUMENT;
}

/* The element type that a saved region is shown and exported with. What Kedge has no name for is plain bytes. A logical
 * of more than one byte is an integer of its size, which is how it lies in memory. */
kedge_type kedge_fortran_element_type(const CFI_cdesc_t* array) {
  static const kedge_type integers[9] = {
      [1] = KEDGE_TYPE_INT8, [2] = KEDGE_TYPE_INT16, [4] = KEDGE_TYPE_INT32, [8] = KEDGE_TYPE_INT64};
  const size_t bytes = array->elem_len;
  switch (array->type & CFI_type_mask) {
    case CFI_type_Integer: return bytes <= 8 ? integers[bytes] : KEDGE_TYPE_BYTES;
    case CFI_type_Logical: return bytes == 1 ? KEDGE_TYPE_BOOL : bytes <= 8 ? integers[bytes] : KEDGE_TYPE_BYTES;
    case CFI_type_Real: return bytes == 4 ? KEDGE_TYPE_FLOAT32 : bytes == 8 ? KEDGE_TYPE_FLOAT64 : KEDGE_TYPE_BYTES;
    case CFI_type_Complex: return bytes == 8 ? KEDGE_TYPE_COMPLEX64 : bytes == 16 ? KEDGE_TYPE_COMPLEX128 : KEDGE_TYPE_BYTES;
    default: return KEDGE_TYPE_BYTES;
  }
}

static int is_plain(const CFI_cdesc_t* array) {
  switch (array->type & CFI_type_mask) {
    case CFI_type_Integer:
    case CFI_type_Logical:
    case CFI_type_Real:
    case CFI_type_Complex:
    case CFI_type_Character: return 1;
    default: return 0;
  }
}

/* The number of elements, and a refusal when the array has no memory that can be pointed at for longer than the call.
 */
static int count_elements(const CFI_cdesc_t* array, const char* what, size_t* count) {
  *count = 1;
  for (int dimension = 0; dimension < array->rank; ++dimension) {
    const CFI_index_t extent = array->dim[dimension].extent;
    if (extent < 0)
      return kedge_fortran_refuse_text(
          "%s is an assumed-size array, whose size is unknown: pass a section with its last bound, such as "
          "a(:, 1:n)",
          what);
    *count *= (size_t)extent;
  }
  if (*count == 0 || array->elem_len == 0) {
    *count = 0;
    return KEDGE_OK;
  }
  if (array->base_addr == NULL)
    return kedge_fortran_refuse_text("%s is not allocated or not associated: allocate it first", what);
  if (!CFI_is_contiguous(array))
    return kedge_fortran_refuse_text(
        "%s is not contiguous in memory (a section with gaps, or a component of an array of a type): pass the "
        "whole array, or copy the section to an array of its own that lives as long as the region",
        what);
  return KEDGE_OK;
}

/* Fills one of the per-dimension fields from an optional rank-1 array. */
static int copy_extents(int64_t* out, const CFI_cdesc_t* given, int dimensions, int id, const char* what) {
  if (given == NULL) return KEDGE_OK;
  if (given->dim[0].extent != dimensions)
    return kedge_fortran_refuse_text("%s of region %d has %ld entries, but the array has %d dimensions", what, id,
                                     (long)given->dim[0].extent, dimensions);
  for (int dimension = 0; dimension < dimensions; ++dimension)
    memcpy(&out[dimension], (const char*)given->base_addr + dimension * given->dim[0].sm, sizeof out[dimension]);
  return KEDGE_OK;
}

int kedge_fortran_name(char out[1024], const CFI_cdesc_t* name, const char* what) {
  size_t length = name->elem_len;
  const char* text = name->base_addr;
  while (length > 0 && text[length - 1] == ' ') --length;
  if (length == 0 || length > 1023)
    return kedge_fortran_refuse_text("the name of %s has %zu bytes; allowed are 1 to 1,023", what, length);
  memcpy(out, text, length);
  out[length] = '\0';
  return KEDGE_OK;
}

/* kedge_protect of the module kedge (its comment there). `context` points at the handle in type(kedge_context). */
KEDGE_API void kedge_fortran_protect(kedge_context* const* context, const int* id, const CFI_cdesc_t* array, int* stat,
                                     const CFI_cdesc_t* name, const CFI_cdesc_t* global_shape, const CFI_cdesc_t* global_offset,
                                     const CFI_cdesc_t* halo, const int* replicated) {
  char what[64];
  snprintf(what, sizeof what, "the array of region %d", *id);
  if (!is_plain(array)) {
    *stat = kedge_fortran_refuse_text(
        "%s is of a derived type, which may hold pointers: protect its components, or its memory as it is with "
        "kedge_protect_address(context, %d, c_loc(x), ...)",
        what, *id);
    return;
  }
  size_t count = 0;
  if ((*stat = count_elements(array, what, &count)) != KEDGE_OK) return;
  kedge_region_info info = {.struct_size = sizeof info, .type = kedge_fortran_element_type(array), .column_major = 1};
  if (array->elem_len > 0) info.dimensions = array->rank; /* texts of length 0 have no bytes to give a shape to */
  for (int dimension = 0; dimension < info.dimensions; ++dimension) info.shape[dimension] = array->dim[dimension].extent;
  if ((*stat = copy_extents(info.global_shape, global_shape, array->rank, *id, "global_shape")) != KEDGE_OK) return;
  if ((*stat = copy_extents(info.global_offset, global_offset, array->rank, *id, "global_offset")) != KEDGE_OK) return;
  if ((*stat = copy_extents(info.halo, halo, array->rank, *id, "halo")) != KEDGE_OK) return;
  info.replicated = replicated != NULL && *replicated != 0;
  char text[1024], region[32];
  snprintf(region, sizeof region, "region %d", *id);
  if (name != NULL) {
    if ((*stat = kedge_fortran_name(text, name, region)) != KEDGE_OK) return;
    info.name = text;
  }
  const size_t element_bytes = array->elem_len == 0 ? 1 : array->elem_len;
  *stat = kedge_fortran_told(kedge_protect(*context, *id, array->base_addr, count, element_bytes, &info));
}

/* kedge_write and kedge_read of the module: the bytes of an array, inside the call-backs of an object. */
KEDGE_API void kedge_fortran_write(kedge_writer* const* writer, const CFI_cdesc_t* array, int* stat) {
  size_t count = 0;
  if ((*stat = count_elements(array, "the array to write", &count)) != KEDGE_OK) return;
  *stat = kedge_fortran_told(kedge_write(*writer, array->base_addr, count * array->elem_len));
}

KEDGE_API void kedge_fortran_read(kedge_reader* const* reader, const CFI_cdesc_t* array, int* stat) {
  size_t count = 0;
  if ((*stat = count_elements(array, "the array to read into", &count)) != KEDGE_OK) return;
  *stat = kedge_fortran_told(kedge_read(*reader, array->base_addr, count * array->elem_len));
}
