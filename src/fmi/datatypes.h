// The types and operations of fmi.h: sizes, and how elements are combined.
#pragma once

#include <cstddef>

#include "kedge/fmi.h"

namespace kedge::fmi {

// 0: there is no such type.
size_t BytesOf(FMI_Datatype type);
// Of a type that is there, in a struct.
size_t AlignmentOf(FMI_Datatype type);

// into[i] = into[i] op from[i]. The arrays do not overlap.
using Combine = void (*)(void* into, const void* from, size_t count);
// Null: there is no such operation, or none on this type.
Combine CombineOf(FMI_Datatype type, FMI_Op op);

}  // namespace kedge::fmi
