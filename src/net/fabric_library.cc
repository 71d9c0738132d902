#include "net/fabric_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "net/network.h"
#include "os/process/signals.h"

namespace kedge::net {
namespace {

#ifdef KEDGE_LINKS_FABRIC

Result<FabricLibrary> Load() {
  return FabricLibrary{&::fi_getinfo, &::fi_freeinfo, &::fi_dupinfo, &::fi_fabric, &::fi_strerror};
}

#else

constexpr char kFile[] = "libfabric.so.1";

// In the version that Kedge is compiled for.
template <typename Function>
bool Find(void* library, const char* name, const char* version, Function* function) {
  *function = reinterpret_cast<Function>(dlvsym(library, name, version));
  return *function != nullptr;
}

Result<FabricLibrary> Load() {
  const os::KeptSignalHandlers kept(kSignalTakers);
  void* const library = dlopen(kFile, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = dlerror();
    return Status(Code::kUnsupported, fmt::format("nodes that speak with each other need {} (Debian: libfabric1): {}", kFile,
                                                  why == nullptr ? "not found" : why));
  }
  FabricLibrary fabric{};
  const bool has_all = Find(library, "fi_getinfo", "FABRIC_1.3", &fabric.getinfo) &&
                       Find(library, "fi_freeinfo", "FABRIC_1.3", &fabric.freeinfo) &&
                       Find(library, "fi_dupinfo", "FABRIC_1.3", &fabric.dupinfo) &&
                       Find(library, "fi_fabric", "FABRIC_1.1", &fabric.fabric) &&
                       Find(library, "fi_strerror", "FABRIC_1.0", &fabric.strerror);
  if (!has_all) return Status(Code::kUnsupported, fmt::format("{} lacks what Kedge is compiled for: libfabric 1.17", kFile));
  return fabric;
}

#endif

}  // namespace

Result<const FabricLibrary*> LoadFabric() {
  static const Result<FabricLibrary> kLoaded = Load();
  if (!kLoaded.ok()) return kLoaded.status();
  return &*kLoaded;
}

}  // namespace kedge::net
