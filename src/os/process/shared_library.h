// A shared library that is loaded when it is first used, by a program that is not linked with it.
#pragma once

#include "base/status.h"

namespace kedge::os {

class SharedLibrary {
 public:
  // For good, and for nobody else in this process. The error is the loader's.
  static Result<SharedLibrary> Load(const char* file);
  // The function of that name, and of that version unless it is null; false: there is none.
  template <typename Function>
  bool Find(const char* name, Function* function, const char* version = nullptr) const {
    *function = reinterpret_cast<Function>(Symbol(name, version));
    return *function != nullptr;
  }

 private:
  explicit SharedLibrary(void* handle) : handle_(handle) {}
  void* Symbol(const char* name, const char* version) const;

  void* handle_;
};

}  // namespace kedge::os
