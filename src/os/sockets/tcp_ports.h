// TCP ports: which to listen at, and whether anybody listens at those of other machines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/duration.h"

namespace kedge::os {

// The kernel gives a port to outgoing connections, too, if it is in net.ipv4.ip_local_port_range: whoever listens there, ends and
// wants it back may find it taken. The others, from 20000 on:
struct PortRange {
  uint16_t first = 0;
  uint16_t last = 0;
};
// Nothing when there are fewer than a thousand. `local_port_range`: as the kernel writes it, "32768\t60999\n".
std::optional<PortRange> LastingPorts(std::string_view local_port_range);
// Those of this process's network.
std::optional<PortRange> LastingPorts();
// The address, a sockaddr_in or sockaddr_in6, with another port; nothing when it is neither.
std::optional<std::string> WithPort(std::string address, uint16_t port);

// Tries to connect to all of them (each a sockaddr_in or sockaddr_in6; what is neither is passed over) and calls `answered` with
// the index of each whose machine answers, and whether somebody listens there or it refuses. Of a machine that does not answer
// nothing is said. Ends when all have answered, or after `timeout`. A listener sees a connection that ends at once. Of many only
// the first 256 are tried.
void ProbePorts(std::span<const std::string> addresses, Duration timeout,
                const std::function<void(size_t index, bool listens)>& answered);

}  // namespace kedge::os
