// What fmirun is told on its command line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/duration.h"

namespace kedge::fmi {

struct LaunchOptions {
  uint32_t ranks = 1;
  std::vector<std::string> nodes;  // names; empty: this one, whatever its name
  bool is_virtual = false;         // they are names on one machine (KEDGE_NODE)
  // What starts a command on a node when the node and the command's words follow, for sh: "ssh". Empty: all is on this machine.
  std::string shell;
  uint32_t address = 0;        // of this machine, for nodes that a shell reaches; 0: the one from which they find it reaches them
  uint32_t spares = 0;         // the last ones of them, without ranks at first
  std::string more;            // asked for another node where no spare is left (node_request.h); empty: nobody is
  uint64_t interval = 1;       // steps, or kWhenDue (environment.h)
  uint32_t failures_max = 10;  // without a new checkpoint between them
  Duration timeout = std::chrono::minutes(10);
  bool seals_messages = false;                         // between nodes
  Duration orphan_timeout = std::chrono::minutes(10);  // so long tasks wait for a successor; 0: they do not outlive fmirun
  std::string program;                                 // fmirun itself
  std::vector<std::string> command;                    // of the ranks
};

}  // namespace kedge::fmi
