// What the standard has and FMI has not: a program that calls it ends with its name.
//
// All names of the standard are here, weakly: where one is implemented, that counts.
#include "fmi/abi/abi.h"

#define KEDGE_MPI_NAME(name)                                                                          \
  extern "C" __attribute__((visibility("default"), weak)) void MPI_##name() {                         \
    kedge::fmi::abi::Die("MPI_" #name, "FMI does not have this call (docs/fmi.md says what it has)"); \
  }
#include "fmi/abi/names.inc"
