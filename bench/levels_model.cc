#include "levels_model.h"

namespace kedge::bench {

double ProtectModelSeconds(Scheme scheme, unsigned losses, double node_bytes, const NodeBandwidths& bandwidths) {
  const double copied = node_bytes / bandwidths.memory;
  const double read = losses * node_bytes / bandwidths.network;
  if (scheme == Scheme::kPartner) return copied + read;
  return copied + read + losses * node_bytes / bandwidths.encode;
}

double RestartModelSeconds(Scheme scheme, unsigned losses, double node_bytes, const NodeBandwidths& bandwidths) {
  const double gathered = node_bytes / bandwidths.network;
  if (scheme == Scheme::kPartner) return node_bytes / bandwidths.memory + gathered;
  return ProtectModelSeconds(scheme, losses, node_bytes, bandwidths) + gathered;
}

}  // namespace kedge::bench
