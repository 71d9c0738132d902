// The time that protection across nodes, and a restart from it, should take: [Sato 5.5.2] for parity that is pulled by its
// holders. Every node copies its s bytes, reads what its parity is made of (k times s: k parity segments, each of n - k
// data segments of s / (n - k)), and encodes as much. A restart after a loss decodes the same amounts and then gathers the
// lost image. Bandwidths are those of one node while all nodes do the same at once.
#pragma once

#include "format/set_records.h"

namespace kedge::bench {

struct NodeBandwidths {  // bytes per second
  double memory = 0;
  double network = 0;
  double encode = 0;
};

// s / mem + k s / net + k s / encode. Partner: s / mem + copies s / net.
double ProtectModelSeconds(Scheme scheme, unsigned losses, double node_bytes, const NodeBandwidths& bandwidths);

// The same with the extra gather, s / net. Partner: s / mem + s / net.
double RestartModelSeconds(Scheme scheme, unsigned losses, double node_bytes, const NodeBandwidths& bandwidths);

}  // namespace kedge::bench
