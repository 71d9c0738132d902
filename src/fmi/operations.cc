#include "fmi/operations.h"

#include <algorithm>
#include <climits>
#include <cstring>

#include "base/status.h"

namespace kedge::fmi {
namespace {

// Memory for elements of a type, with its gaps, as malloc aligns it.
class Spread {
 public:
  Spread(const TypeMap& map, uint64_t count) {
    auto [first, last] = map.Reach();
    const int64_t reach = static_cast<int64_t>(count - 1) * map.extent();
    // An element is where it is called, whether it has bytes there or not.
    first = std::min<int64_t>(first, 0) + std::min<int64_t>(reach, 0);
    last = std::max<int64_t>(last, 0) + std::max<int64_t>(reach, 0);
    const int64_t before = (kAlignment - 1 - first) / kAlignment * kAlignment;
    memory_ = std::make_unique<std::byte[]>(static_cast<size_t>(before + last));
    elements_ = memory_.get() + before;
  }
  std::byte* elements() const { return elements_; }

 private:
  static constexpr int64_t kAlignment = alignof(std::max_align_t);
  std::unique_ptr<std::byte[]> memory_;
  std::byte* elements_;
};

}  // namespace

void Operation::Call(void* in, void* inout, size_t count, FMI_Datatype type) const {
  KEDGE_CHECK(count <= INT_MAX);
  if (function_x != nullptr) return function_x(in, inout, count, type, state);
  int elements = static_cast<int>(count);
  function(in, inout, &elements, &type);
}

Combine CombineBy(const Operation& operation, FMI_Datatype type, const std::shared_ptr<const TypeMap>& map) {
  return [operation, type, map](void* into, void* from, size_t count) {
    if (count == 0) return;
    const size_t bytes = count * map->bytes();
    if (map->Place(count) == 0) {
      operation.Call(into, from, count, type);
      std::memcpy(into, from, bytes);
      return;
    }
    const Spread left(*map, count), right(*map, count);
    map->Unpack(static_cast<std::byte*>(into), bytes, left.elements());
    map->Unpack(static_cast<std::byte*>(from), bytes, right.elements());
    operation.Call(left.elements(), right.elements(), count, type);
    map->Pack(right.elements(), count, static_cast<std::byte*>(into));
  };
}

}  // namespace kedge::fmi
