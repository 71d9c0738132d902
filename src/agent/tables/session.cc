#include "agent/tables/session.h"

namespace kedge {

bool Session::CloseWindow(uint64_t handle) {
  if (shown.window == nullptr || shown.handle != handle) return false;
  shown.window = nullptr;
  return true;
}

}  // namespace kedge
