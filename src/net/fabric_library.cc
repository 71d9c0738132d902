#include "net/fabric_library.h"

#include <fmt/format.h>

#include "net/network.h"
#include "os/process/shared_library.h"
#include "os/process/signals.h"

namespace kedge::net {
namespace {

#ifdef KEDGE_LINKS_FABRIC

Result<FabricLibrary> Load() {
  return FabricLibrary{&::fi_getinfo, &::fi_freeinfo, &::fi_dupinfo, &::fi_fabric, &::fi_strerror};
}

#else

constexpr char kFile[] = "libfabric.so.1";

Result<FabricLibrary> Load() {
  const os::KeptSignalHandlers kept(kSignalTakers);
  const auto library = os::SharedLibrary::Load(kFile);
  if (!library.ok()) {
    return Status(Code::kUnsupported, fmt::format("nodes that speak with each other need {} (Debian: libfabric1): {}", kFile,
                                                  library.status().message()));
  }
  FabricLibrary fabric{};
  // In the versions that Kedge is compiled for.
  const bool has_all = library->Find("fi_getinfo", &fabric.getinfo, "FABRIC_1.3") &&
                       library->Find("fi_freeinfo", &fabric.freeinfo, "FABRIC_1.3") &&
                       library->Find("fi_dupinfo", &fabric.dupinfo, "FABRIC_1.3") &&
                       library->Find("fi_fabric", &fabric.fabric, "FABRIC_1.1") &&
                       library->Find("fi_strerror", &fabric.strerror, "FABRIC_1.0");
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
