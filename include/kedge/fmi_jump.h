/* FMI for programs in C that ignore what calls return: a call that a failure has ended does not return, but goes on where the
 * program has called FMI_Loop last, which goes back to the last checkpoint.
 *
 *   #include <kedge/fmi_jump.h>
 *   while ((n = FMI_Loop(arrays, sizes, 2)) < steps) step();
 *   print_result();                                            a call that fails here goes back to the loop, too
 *
 * Include it instead of fmi.h where FMI_Loop is called; the calls may be anywhere, also in programs for MPI. docs/fmi.md says
 * what is destroyed by such a jump, and what leaks.
 *
 * - What setjmp asks for holds for the function that calls FMI_Loop: its local variables that have changed since that call are
 *   undefined after a jump, unless they lie in the arrays, or are volatile.
 * - Once that function has returned, calls return FMI_ERR_PROC_FAILED, until FMI_Loop is called again. So do they before its
 *   first call.
 * - All functions between that one and the call are unwound. Compilers give them what that takes (-fasynchronous-unwind-tables is
 *   the default); in C++, catch (...) must throw again. Objects of the function that calls FMI_Loop stay, and those of
 *   what the compiler has put into it. */
#ifndef KEDGE_FMI_JUMP_H
#define KEDGE_FMI_JUMP_H

#include <setjmp.h>

#include "fmi.h"

#ifdef __cplusplus
extern "C" {
#endif
/* From now on broken calls jump into the function that has called it, as long as that has not returned. For setjmp. */
KEDGE_API jmp_buf* FMI_Jump_to_here(void);
#ifdef __cplusplus
}
#endif

#define FMI_Loop(ckpts, sizes, len) ((void)setjmp(*FMI_Jump_to_here()), FMI_Loop(ckpts, sizes, len))

#endif
