// Operations of the program: functions by which it combines elements of any type, those of its own too.
//
// Elements come out of messages, where they lie side by side. A function wants them as they lie in the program's memory: with the
// gaps of their type. Where there are any, it works on copies that have them.
#pragma once

#include <cstddef>
#include <memory>

#include "fmi/datatypes.h"
#include "fmi/handles/type_map.h"
#include "kedge/fmi.h"

namespace kedge::fmi {

struct Operation {
  // One of the two.
  FMI_User_function* function = nullptr;
  FMI_User_function_x* function_x = nullptr;
  void* state = nullptr;  // of the second
  bool commutes = false;

  // inout[i] = in[i] op inout[i], of elements in the program's memory, no more than an int counts.
  void Call(void* in, void* inout, size_t count, FMI_Datatype type) const;
};

// The same of elements in messages.
Combine CombineBy(const Operation& operation, FMI_Datatype type, const std::shared_ptr<const TypeMap>& map);

}  // namespace kedge::fmi
