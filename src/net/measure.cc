#include "net/measure.h"

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "base/clock.h"

namespace kedge::net {
namespace {

constexpr const char* kJob = "doctor";
constexpr uint16_t kEcho = 1;
constexpr size_t kRequestBytes = 64;
constexpr uint64_t kMemoryBytes = uint64_t{64} << 20;
constexpr Duration kTimeout = std::chrono::seconds(20);

double SecondsSince(int64_t begin_ns) {
  return static_cast<double>(SystemClock().NowNs() - begin_ns) * 1e-9;
}

// A count that callbacks on another thread raise, and its first error; kept alive by the callbacks.
struct Progress {
  std::mutex mutex;
  std::condition_variable changed;
  uint64_t done = 0;
  Status error;

  void Add(const Status& status) {
    const std::lock_guard<std::mutex> lock(mutex);
    ++done;
    if (error.ok()) error = status;
    changed.notify_all();
  }
  // The network's own timeouts end every call, so this wait ends too.
  Status WaitFor(uint64_t count) {
    std::unique_lock<std::mutex> lock(mutex);
    if (!changed.wait_for(lock, 3 * kTimeout, [&] { return done >= count; }))
      return Status(Code::kTimeout, "the network does not answer its own calls");
    return error;
  }
};

Result<double> OneRoundTrip(Network* from, const Peer& to) {
  const auto progress = std::make_shared<Progress>();
  const int64_t begin_ns = SystemClock().NowNs();
  from->Call(to, kEcho, Buffer(kRequestBytes), kTimeout,
             [progress](const Result<Buffer>& reply) { progress->Add(reply.status()); });
  KEDGE_RETURN_IF_ERROR(progress->WaitFor(1));
  return SecondsSince(begin_ns);
}

Result<double> ReadBytesPerSecond(Network* from, const Peer& to, const RemoteMemory& memory, uint64_t bytes) {
  const auto progress = std::make_shared<Progress>();
  const uint64_t reads = std::max<uint64_t>(1, bytes / kReadBytesMax);
  const int64_t begin_ns = SystemClock().NowNs();
  for (uint64_t i = 0; i < reads; ++i) {
    from->Read(to, memory, i * kReadBytesMax % kMemoryBytes, kReadBytesMax, kTimeout,
               [progress](const Result<ReadBuffer>& read) { progress->Add(read.status()); });
  }
  KEDGE_RETURN_IF_ERROR(progress->WaitFor(reads));
  return static_cast<double>(reads * kReadBytesMax) / SecondsSince(begin_ns);
}

}  // namespace

Result<NetworkMeasurement> MeasureNetwork(const NetworkOptions& options, int requests, uint64_t read_bytes) {
  std::vector<std::byte> memory(kMemoryBytes, std::byte{1});  // outlives the network that leases it
  KEDGE_ASSIGN_OR_RETURN(const std::unique_ptr<Network> owner, Network::Open(options));
  KEDGE_ASSIGN_OR_RETURN(const std::unique_ptr<Network> reader, Network::Open(options));
  Membership membership;
  membership.job = kJob;
  membership.secret = Secret::Generate();
  membership.members = {{"owner", owner->address()}, {"reader", reader->address()}};
  membership.self = "owner";
  KEDGE_RETURN_IF_ERROR(owner->Join(membership));
  membership.self = "reader";
  KEDGE_RETURN_IF_ERROR(reader->Join(membership));
  owner->Serve(kEcho, [](const Peer&, ByteSpan body, const Answer& answer) { answer(Buffer(body.begin(), body.end())); });

  const Peer peer{kJob, "owner"};
  NetworkMeasurement measured;
  measured.provider = owner->address().provider;
  measured.address = owner->address().ToDisplay();
  KEDGE_ASSIGN_OR_RETURN(measured.connect_seconds, OneRoundTrip(reader.get(), peer));
  std::vector<double> seconds;
  for (int i = 0; i < requests; ++i) {
    KEDGE_ASSIGN_OR_RETURN(const double one, OneRoundTrip(reader.get(), peer));
    seconds.push_back(one);
  }
  std::nth_element(seconds.begin(), seconds.begin() + requests / 2, seconds.end());
  measured.round_trip_seconds = seconds[static_cast<size_t>(requests) / 2];
  KEDGE_ASSIGN_OR_RETURN(const RemoteMemory lease, owner->Lease(kJob, memory, 3 * kTimeout, nullptr));
  KEDGE_ASSIGN_OR_RETURN(measured.read_bytes_per_second, ReadBytesPerSecond(reader.get(), peer, lease, read_bytes));
  return measured;
}

}  // namespace kedge::net
