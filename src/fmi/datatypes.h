// The types and operations of fmi.h: sizes, and how elements are combined.
#pragma once

#include <cstddef>
#include <functional>

#include "kedge/fmi.h"

namespace kedge::fmi {

// 0: there is no such type.
size_t BytesOf(FMI_Datatype type);
// Of a type that is there, in a struct.
size_t AlignmentOf(FMI_Datatype type);

// into[i] = into[i] op from[i]; then `from` may have anything. The arrays do not overlap.
using Combine = std::function<void(void* into, void* from, size_t count)>;
// Of the language, which leaves `from` alone.
using CombineNumbers = void (*)(void* into, const void* from, size_t count);
// Null: there is no such operation, or none on this type.
CombineNumbers CombineOf(FMI_Datatype type, FMI_Op op);

}  // namespace kedge::fmi
