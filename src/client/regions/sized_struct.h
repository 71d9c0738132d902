// Structs of the caller, whose first field says how much of the rest its program knows: programs that were built against older
// headers work.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "base/status.h"

namespace kedge::client {

// kInvalidArgument: it says that there is nothing in it, as one does whose field was forgotten. Null is as good as any.
template <typename T>
Status CheckSized(const T* given, const char* type) {
  if (given == nullptr || given->struct_size > sizeof(given->struct_size)) return Status::Ok();
  return Status(Code::kInvalidArgument, fmt::format("{}.struct_size is {}: set it to sizeof({}), or nothing else in it is seen",
                                                    type, given->struct_size, type));
}

// As far as the program knows it, the rest zero; `type`: its name.
template <typename T>
Result<T> CopySized(const T& given, const char* type) {
  KEDGE_RETURN_IF_ERROR(CheckSized(&given, type));
  T copy{};
  std::memcpy(static_cast<void*>(&copy), static_cast<const void*>(&given), std::min(given.struct_size, sizeof(T)));
  return copy;
}

}  // namespace kedge::client
