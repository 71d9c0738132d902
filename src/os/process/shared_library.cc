#include "os/process/shared_library.h"

#include <dlfcn.h>

namespace kedge::os {

Result<SharedLibrary> SharedLibrary::Load(const char* file) {
  if (void* const handle = dlopen(file, RTLD_NOW | RTLD_LOCAL); handle != nullptr) return SharedLibrary(handle);
  const char* const why = dlerror();
  return Status(Code::kUnsupported, why == nullptr ? "not found" : why);
}

void* SharedLibrary::Symbol(const char* name, const char* version) const {
  return version == nullptr ? dlsym(handle_, name) : dlvsym(handle_, name, version);
}

}  // namespace kedge::os
