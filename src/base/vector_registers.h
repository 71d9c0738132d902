// The upper halves of the processor's vector registers, which belong to the program that calls Kedge.
#pragma once

namespace kedge {

// To be called after functions in assembly that return with these halves in use, as ISA-L's for AVX-512 do. SSE instructions
// keep the halves: until they are zero, each one waits for what its register held before. Programs that are compiled without
// AVX ran at a half to a third of their speed after a checkpoint, until their end. Any thread, for itself; takes nanoseconds.
void ReleaseUpperHalves();

}  // namespace kedge
