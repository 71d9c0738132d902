/* What the C sources of the module kedge share (kedge_fortran.c). */
#ifndef KEDGE_FORTRAN_H
#define KEDGE_FORTRAN_H

#include <ISO_Fortran_binding.h>
#include <kedge/kedge.h>
#include <stdint.h>
#include <string.h>

/* The status of a call that reached the library, whose message is then the one to show. */
KEDGE_API int kedge_fortran_told(int status);

#pragma GCC visibility push(hidden)
/* KEDGE_ERROR_INVALID_ARGUMENT, with this message. */
__attribute__((format(printf, 1, 2))) int kedge_fortran_refuse_text(const char* format, ...);
/* The element type that a saved region is shown and exported with. */
kedge_type kedge_fortran_element_type(const CFI_cdesc_t* array);
/* The name without trailing blanks, as everywhere in Fortran; `what` has it. */
int kedge_fortran_name(char out[1024], const CFI_cdesc_t* name, const char* what);
#pragma GCC visibility pop

#endif
