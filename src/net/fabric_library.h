// libfabric, loaded when the first network is opened. Debian's brings libraries of network cards that measure their clocks when
// they are loaded: 0.2 s, in which each command and each agent would sleep before it begins. They also install handlers for
// signals, which are taken back.
//
// With the CMake option KEDGE_LINK_FABRIC it is linked, for who puts the libraries that Kedge links into one package.
#pragma once

#include <rdma/fabric.h>

#include "base/status.h"

namespace kedge::net {

// What is called by name; the rest of libfabric's interface is called by way of its objects.
struct FabricLibrary {
  decltype(&::fi_getinfo) getinfo;
  decltype(&::fi_freeinfo) freeinfo;
  decltype(&::fi_dupinfo) dupinfo;
  decltype(&::fi_fabric) fabric;
  decltype(&::fi_strerror) strerror;
};

// The one of this process, for good; kUnsupported says what to install. Thread safe.
Result<const FabricLibrary*> LoadFabric();

}  // namespace kedge::net
