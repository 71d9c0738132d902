/* What the module kedge_fmi cannot say in Fortran, besides the calls that fmi_from_header.py makes. */
#include "kedge_fmi_fortran.h"

#include <limits.h>
#include <stdio.h>

#include "array_bytes.h"

/* Variables of the module. */
extern int kedge_fmi_in_place;
extern FMI_Status kedge_fmi_status_ignore, kedge_fmi_statuses_ignore[1];

/* As the module has it: what an array holds. */
typedef struct region {
  void* begin;
  size_t bytes;
} region;

static void refuse(const char* call, const char* why) {
  fprintf(stderr, "fmi: %s: %s\n", call, why);
  FMI_Abort(FMI_COMM_WORLD, 1);
}

void* kedge_fmi_bytes(const CFI_cdesc_t* array, const char* call) {
  if (array->base_addr == &kedge_fmi_in_place) return FMI_IN_PLACE;
  if (!CFI_is_contiguous(array)) refuse(call, "the array is not contiguous: give a copy of the section, or a type for it");
  return array->base_addr;
}

FMI_Status* kedge_fmi_status(FMI_Status* status) {
  return status == &kedge_fmi_status_ignore || status == kedge_fmi_statuses_ignore ? FMI_STATUS_IGNORE : status;
}

void kedge_fmi_count_from_1(int* indices, int count) {
  for (int i = 0; i < count; ++i) indices[i] += indices[i] >= 0;
}

KEDGE_API region kedge_fmi_region(const CFI_cdesc_t* array) {
  return (region){kedge_fmi_bytes(array, "FMI_Array"), kedge_array_bytes(array)};
}

enum { kArraysMax = 64 };

static void list(const char* call, const region* regions, int count, void** begins, int* sizes) {
  if (count > kArraysMax) refuse(call, "more than 64 arrays");
  for (int i = 0; i < count; ++i) {
    if (regions[i].bytes > INT_MAX) refuse(call, "an array has 2 GiB or more: give it in parts");
    begins[i] = regions[i].begin;
    sizes[i] = (int)regions[i].bytes;
  }
}

KEDGE_API int kedge_fmi_loop(const region* regions, int count) {
  void* begins[kArraysMax];
  int sizes[kArraysMax];
  list("FMI_Loop", regions, count, begins, sizes);
  return FMI_Loop(begins, sizes, count);
}

KEDGE_API int kedge_fmi_inner_loop(const char* loop, const region* regions, int count) {
  void* begins[kArraysMax];
  int sizes[kArraysMax];
  list("FMI_Inner_loop", regions, count, begins, sizes);
  return FMI_Inner_loop(loop, begins, sizes, count);
}

KEDGE_API void kedge_FMI_Init(int* ierror) {
  const int returned = FMI_Init(NULL, NULL);
  if (ierror != NULL) *ierror = returned;
}

KEDGE_API void kedge_FMI_Buffer_detach(void** buffer, int* bytes, int* ierror) {
  const int returned = FMI_Buffer_detach(buffer, bytes);
  if (ierror != NULL) *ierror = returned;
}

KEDGE_API void kedge_FMI_Get_address(const CFI_cdesc_t* array, FMI_Aint* address, int* ierror) {
  *address = (FMI_Aint)array->base_addr;
  if (ierror != NULL) *ierror = FMI_SUCCESS;
}
