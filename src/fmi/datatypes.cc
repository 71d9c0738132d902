#include "fmi/datatypes.h"

#include <algorithm>

namespace kedge::fmi {
namespace {

template <typename T, typename Operation>
void Each(void* into, const void* from, size_t count) {
  T* left = static_cast<T*>(into);
  const T* right = static_cast<const T*>(from);
  for (size_t i = 0; i < count; ++i) left[i] = Operation()(left[i], right[i]);
}

struct Sum {
  template <typename T>
  T operator()(T left, T right) const {
    return static_cast<T>(left + right);
  }
};
struct Product {
  template <typename T>
  T operator()(T left, T right) const {
    return static_cast<T>(left * right);
  }
};
struct Least {
  template <typename T>
  T operator()(T left, T right) const {
    return std::min(left, right);
  }
};
struct Greatest {
  template <typename T>
  T operator()(T left, T right) const {
    return std::max(left, right);
  }
};

template <typename T>
Combine Of(FMI_Op op) {
  switch (op) {
    case FMI_SUM: return Each<T, Sum>;
    case FMI_PROD: return Each<T, Product>;
    case FMI_MIN: return Each<T, Least>;
    case FMI_MAX: return Each<T, Greatest>;
  }
  return nullptr;
}

}  // namespace

size_t BytesOf(FMI_Datatype type) {
  switch (type) {
    case FMI_BYTE:
    case FMI_CHAR: return 1;
    case FMI_INT:
    case FMI_UNSIGNED: return sizeof(int);
    case FMI_LONG:
    case FMI_UNSIGNED_LONG: return sizeof(long);
    case FMI_LONG_LONG: return sizeof(long long);
    case FMI_FLOAT: return sizeof(float);
    case FMI_DOUBLE: return sizeof(double);
  }
  return 0;
}

Combine CombineOf(FMI_Datatype type, FMI_Op op) {
  switch (type) {
    case FMI_BYTE: return nullptr;
    case FMI_CHAR: return Of<char>(op);
    case FMI_INT: return Of<int>(op);
    case FMI_LONG: return Of<long>(op);
    case FMI_LONG_LONG: return Of<long long>(op);
    case FMI_UNSIGNED: return Of<unsigned>(op);
    case FMI_UNSIGNED_LONG: return Of<unsigned long>(op);
    case FMI_FLOAT: return Of<float>(op);
    case FMI_DOUBLE: return Of<double>(op);
  }
  return nullptr;
}

}  // namespace kedge::fmi
