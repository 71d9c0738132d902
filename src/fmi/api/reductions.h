// How calls of the C ABI combine elements.
#pragma once

#include <cstddef>
#include <memory>

#include "fmi/datatypes.h"
#include "fmi/objects.h"
#include "fmi/operations.h"
#include "kedge/fmi.h"

namespace kedge::fmi {

// Of elements as messages have them.
struct Reduction {
  Combine combine;
  size_t element_bytes = 0;
  bool commutes = true;
};

// The operation must be there for the type.
Reduction CheckedReduction(const char* call, FMI_Datatype type, FMI_Op op);
// Of the program.
Operation& OperationIn(const char* call, FMI_Op op);
inline bool IsOfProgram(FMI_Op op) {
  return op >= Objects::kFirstOperation;
}

}  // namespace kedge::fmi
