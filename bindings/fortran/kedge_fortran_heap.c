/* Pointers to blocks of the heap for the module kedge (kedge_heap.f90): what they are associated with is made here. */
#include "kedge_fortran.h"

/* The extents that `shape` holds, integers of 4 or 8 bytes, and how many elements that is. */
static int read_extents(const CFI_cdesc_t* array, const CFI_cdesc_t* shape, CFI_index_t* extents, size_t* count) {
  const int type = shape->type & CFI_type_mask;
  if (type != CFI_type_Integer || (shape->elem_len != 4 && shape->elem_len != 8) || shape->dim[0].extent != array->rank)
    return kedge_fortran_refuse_text("the shape: expected %d integers of 4 or 8 bytes, one for each dimension of the array",
                                     array->rank);
  *count = 1;
  for (int dimension = 0; dimension < array->rank; ++dimension) {
    const char* const at = (const char*)shape->base_addr + dimension * shape->dim[0].sm;
    int32_t narrow = 0;
    int64_t extent = 0;
    if (shape->elem_len == 4) {
      memcpy(&narrow, at, sizeof narrow);
      extent = narrow;
    } else {
      memcpy(&extent, at, sizeof extent);
    }
    if (extent < 0) extent = 0; /* as where an array is declared */
    extents[dimension] = extent;
    if (__builtin_mul_overflow(*count, (size_t)extent, count))
      return kedge_fortran_refuse_text("the shape has more elements than there are addresses");
  }
  return KEDGE_OK;
}

static int associate(CFI_cdesc_t* array, void* block, const CFI_index_t* extents) {
  CFI_CDESC_T(CFI_MAX_RANK) target;
  CFI_index_t from_one[CFI_MAX_RANK];
  for (int dimension = 0; dimension < CFI_MAX_RANK; ++dimension) from_one[dimension] = 1;
  CFI_cdesc_t* const whole = (CFI_cdesc_t*)&target;
  int failed = CFI_establish(whole, block, CFI_attribute_other, array->type, array->elem_len, array->rank, extents);
  if (failed == CFI_SUCCESS) failed = CFI_setpointer(array, whole, from_one);
  return failed == CFI_SUCCESS ? KEDGE_OK : kedge_fortran_refuse_text("the pointer cannot be associated (%d)", failed);
}

static int allocate(kedge_context* context, const CFI_cdesc_t* name, CFI_cdesc_t* array, const CFI_cdesc_t* shape) {
  char text[1024];
  CFI_index_t extents[CFI_MAX_RANK];
  size_t count = 0;
  int status = kedge_fortran_name(text, name, "a block");
  if (status == KEDGE_OK) status = read_extents(array, shape, extents, &count);
  if (status != KEDGE_OK) return status;
  kedge_region_info info = {
      .struct_size = sizeof info, .type = kedge_fortran_element_type(array), .column_major = 1, .dimensions = array->rank};
  for (int dimension = 0; dimension < array->rank; ++dimension) info.shape[dimension] = extents[dimension];
  void* block = NULL;
  status = kedge_fortran_told(kedge_alloc(context, text, count, array->elem_len, &info, &block));
  return status == KEDGE_OK ? associate(array, block, extents) : status;
}

static int find(kedge_context* context, const CFI_cdesc_t* name, CFI_cdesc_t* array) {
  char text[1024];
  int status = kedge_fortran_name(text, name, "a block");
  if (status != KEDGE_OK) return status;
  kedge_region_info info = {.struct_size = sizeof info};
  void* block = NULL;
  status = kedge_fortran_told(kedge_find(context, text, &block, NULL, &info));
  if (status != KEDGE_OK) return status;
  if (info.type != kedge_fortran_element_type(array) || info.dimensions != array->rank) {
    (void)kedge_fortran_refuse_text("block '%s' has another type, or %d dimensions, and the pointer %d", text, info.dimensions,
                                    array->rank);
    return KEDGE_ERROR_MISMATCH;
  }
  CFI_index_t extents[CFI_MAX_RANK];
  for (int dimension = 0; dimension < info.dimensions; ++dimension) extents[dimension] = info.shape[dimension];
  return associate(array, block, extents);
}

/* kedge_alloc and kedge_find of the module kedge: for C they are alike, whatever the array's type. */
#define KEDGE_FORTRAN_KIND(kind)                                                                                        \
  KEDGE_API void kedge_fortran_alloc_##kind(kedge_context* const* context, const CFI_cdesc_t* name, CFI_cdesc_t* array, \
                                            const CFI_cdesc_t* shape, int* stat) {                                      \
    *stat = allocate(*context, name, array, shape);                                                                     \
  }                                                                                                                     \
  KEDGE_API void kedge_fortran_find_##kind(kedge_context* const* context, const CFI_cdesc_t* name, CFI_cdesc_t* array,  \
                                           int* stat) {                                                                 \
    *stat = find(*context, name, array);                                                                                \
  }
KEDGE_FORTRAN_KIND(int32)
KEDGE_FORTRAN_KIND(int64)
KEDGE_FORTRAN_KIND(real32)
KEDGE_FORTRAN_KIND(real64)
KEDGE_FORTRAN_KIND(complex32)
KEDGE_FORTRAN_KIND(complex64)

KEDGE_API void kedge_fortran_free(kedge_context* const* context, const CFI_cdesc_t* array, int* stat) {
  *stat = kedge_fortran_told(kedge_free(*context, array->base_addr));
}
