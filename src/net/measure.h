// How fast the way from one network to another is: round trips of small requests, and one-sided reads of memory that the other
// side leases for it. For `kedge doctor --net`.
//
// A measurement is a chain of callbacks: nothing blocks, one request is under way at a time, then a few reads, so that what else
// goes over the network waits for little. It is bounded in requests, bytes and time: a slow way gives fewer samples, and a peer
// that says nothing costs the timeout of one call. Who is measured serves one lease to each peer, and all leases are of the same
// few MiB, which are there only while a lease is: no number of requests makes it hold more.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/duration.h"
#include "base/status.h"
#include "net/network.h"

namespace kedge::net {

// The kinds of request by which a network lets itself be measured.
struct MeasureKinds {
  uint16_t echo = 0;   // answered with its body, of at most kEchoBytesMax
  uint16_t lease = 0;  // answered with the RemoteMemory of a lease that the asker ends
};
inline constexpr size_t kEchoBytesMax = 4096;
inline constexpr size_t kMeasuredMemoryBytes = size_t{4} << 20;

struct MeasureBounds {
  int requests = 200;                                       // one after the other; the first makes the session and does not count
  Duration requests_time = std::chrono::milliseconds(500);  // after it no more begin
  uint64_t read_bytes = uint64_t{64} << 20;
  Duration read_time = std::chrono::seconds(1);  // after it no more begin
  Duration request_timeout = std::chrono::seconds(3);
  Duration read_timeout = std::chrono::seconds(20);  // what ends the session with a peer: as patient as who reads images
};

struct PeerFigures {
  double connect_seconds = 0;        // of the first request, with all that was not there before it
  double round_trip_seconds = 0;     // median, of a request of 64 bytes and its reply; 0: not measured
  double read_bytes_per_second = 0;  // kReadBytesMax at a time, several under way; 0: not measured
  Status failure;                    // why the rest is missing; names the peer
};
// Measures the way to a peer that lets itself be measured by these kinds. `done` is called once, on the network's thread or its
// executor's, and must not block; not at all once the network is closed.
void MeasurePeer(Network* network, const Peer& peer, const MeasureKinds& kinds, const MeasureBounds& bounds,
                 std::function<void(const PeerFigures&)> done);

// Lets the members of the network's jobs measure it, as long as the network lives. Thread safe.
class MeasureServer : public std::enable_shared_from_this<MeasureServer> {
 public:
  // Replaces the handlers of these kinds; they keep the server alive. `on_request` is called with each request, where it arrives.
  static std::shared_ptr<MeasureServer> Serve(Network* network, const MeasureKinds& kinds,
                                              std::function<void()> on_request = nullptr);
  // Memory here that others may be reading right now.
  size_t leases() const;
  uint64_t memory_bytes() const { return memory_bytes_->load(); }

 private:
  struct Lent {
    uint64_t number = 0;
    uint64_t lease = 0;
  };
  // What leases are of; counts itself for memory_bytes.
  struct Memory {
    explicit Memory(std::shared_ptr<std::atomic<uint64_t>> count);
    ~Memory();
    const std::vector<std::byte> bytes;
    const std::shared_ptr<std::atomic<uint64_t>> held_bytes;
  };
  explicit MeasureServer(Network* network)
      : network_(network), memory_bytes_(std::make_shared<std::atomic<uint64_t>>(uint64_t{0})) {}
  Result<Buffer> Lend(const Peer& peer);
  void OnEnded(const Peer& peer, uint64_t number);

  Network* const network_;
  const std::shared_ptr<std::atomic<uint64_t>> memory_bytes_;
  mutable std::mutex mutex_;            // guards what follows
  std::weak_ptr<const Memory> memory_;  // held by the leases
  std::map<Peer, Lent> lent_;
  uint64_t last_number_ = 0;
};

// What the network layer gives between two networks of this process. Both sides run the whole path of agents: progress threads
// that sleep, authenticated sessions, bounded buffers. They share this machine's processors and nothing leaves it, so that a slow
// wire does not show.
struct NetworkMeasurement {
  std::string provider;  // libfabric's full name of it
  std::string address;   // for people
  PeerFigures figures;
};
// Takes well under ten seconds unless something hangs, which is then an error.
Result<NetworkMeasurement> MeasureNetwork(const NetworkOptions& options, const MeasureBounds& bounds);

}  // namespace kedge::net
