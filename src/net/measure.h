// What the network layer gives between two networks of this process: for `kedge doctor --net`.
//
// Both sides run the whole path of agents: progress threads that sleep, authenticated sessions, bounded buffers. On one machine
// the two share its processors and nothing leaves it, so between nodes a slower wire shows only in the numbers measured there.
#pragma once

#include <cstdint>
#include <string>

#include "base/duration.h"
#include "base/status.h"
#include "net/network.h"

namespace kedge::net {

struct NetworkMeasurement {
  std::string provider;  // libfabric's full name of it
  std::string address;   // for people
  double connect_seconds = 0;
  double round_trip_seconds = 0;     // median, of a request of 64 bytes and its reply
  double read_bytes_per_second = 0;  // kReadBytesMax at a time, as many at once as one peer may have
};
// Takes well under ten seconds unless something hangs, which is then an error.
Result<NetworkMeasurement> MeasureNetwork(const NetworkOptions& options, int requests, uint64_t read_bytes);

}  // namespace kedge::net
