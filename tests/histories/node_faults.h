// Faults of one virtual node that its real processes meet, ranks and agent alike: its clock on the wall steps, and the agent's
// connections to other nodes carry nothing. Those to a store (kStorePortVariable) do.
//
// The files of a node's faults lie beside its run folder, whose path a process finds in its own command line. The functions of
// node_faults.cc stand in for those of base/clock.h (by the linker's --wrap) and of the C library.
#pragma once

#include <string>

namespace kedge::histories {

// Holds by how many seconds the node's clock has been stepped.
inline std::string ClockStepFile(const std::string& run_folder) {
  return run_folder + ".clock";
}
// While it is there the node is cut off.
inline std::string CutFile(const std::string& run_folder) {
  return run_folder + ".cut";
}

// Names the port of loopback that a bucket's server has; a variable of the environment.
inline constexpr const char kStorePortVariable[] = "KEDGE_TEST_STORE_PORT";

}  // namespace kedge::histories
