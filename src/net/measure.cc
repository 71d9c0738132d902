#include "net/measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <utility>

#include "base/clock.h"

namespace kedge::net {
namespace {

constexpr size_t kRequestBytes = 64;
// Under way or next in the network's queue, so that there is always one to begin; what others want to read waits behind so many.
constexpr size_t kReadsAhead = 8;
// The reader ends its lease when it is done; one that dies leaves it for so long.
constexpr Duration kLeaseDuration = std::chrono::seconds(60);

// A peer being measured, step by step; kept alive by the callback that comes next.
class Measuring : public std::enable_shared_from_this<Measuring> {
 public:
  Measuring(Network* network, Peer peer, const MeasureKinds& kinds, const MeasureBounds& bounds,
            std::function<void(const PeerFigures&)> done)
      : network_(network), peer_(std::move(peer)), kinds_(kinds), bounds_(bounds), done_(std::move(done)) {}

  void Echo() {
    begin_ns_ = SystemClock().NowNs();
    network_->Call(peer_, kinds_.echo, Buffer(kRequestBytes), bounds_.request_timeout,
                   [self = shared_from_this()](const Result<Buffer>& reply) { self->OnEcho(reply); });
  }

 private:
  static double Seconds(int64_t nanoseconds) { return static_cast<double>(nanoseconds) * 1e-9; }

  void Fail(const Status& why) {
    figures_.failure = why;
    done_(figures_);
  }

  void OnEcho(const Result<Buffer>& reply) {
    const int64_t now_ns = SystemClock().NowNs();
    if (!reply.ok()) return Fail(reply.status());
    if (reply->size() != kRequestBytes) return Fail(Wrong("an echo of another length"));
    if (echoes_begin_ns_ == 0) {
      figures_.connect_seconds = Seconds(now_ns - begin_ns_);
      echoes_begin_ns_ = now_ns;
    } else {
      echoes_.push_back(Seconds(now_ns - begin_ns_));
    }
    const bool in_time = now_ns - echoes_begin_ns_ < bounds_.requests_time.count();
    if (echoes_.empty() || (in_time && echoes_.size() < static_cast<size_t>(bounds_.requests))) return Echo();
    const auto middle = echoes_.begin() + static_cast<std::ptrdiff_t>(echoes_.size() / 2);
    std::nth_element(echoes_.begin(), middle, echoes_.end());
    figures_.round_trip_seconds = *middle;
    network_->Call(peer_, kinds_.lease, {}, bounds_.request_timeout,
                   [self = shared_from_this()](const Result<Buffer>& lease) { self->OnLease(lease); });
  }

  void OnLease(const Result<Buffer>& reply) {
    if (!reply.ok()) return Fail(reply.status());
    Decoder in(*reply);
    memory_ = DecodeRemoteMemory(&in);
    const Status decoded = in.Finish("lease");
    if (!decoded.ok() || memory_.bytes == 0) return Fail(Wrong("a lease that makes no sense"));
    piece_bytes_ = std::min<uint64_t>(kReadBytesMax, memory_.bytes);
    const std::lock_guard<std::mutex> lock(mutex_);
    begin_ns_ = SystemClock().NowNs();
    BeginReads();
  }

  // With the lock. Once nothing is under way after it, all is done.
  void BeginReads() {
    while (reads_under_way_ < kReadsAhead && read_failure_.ok() && MoreToRead()) {
      const uint64_t pieces = memory_.bytes / piece_bytes_;
      const uint64_t offset = reads_begun_++ % pieces * piece_bytes_;
      ++reads_under_way_;
      network_->Read(peer_, memory_, offset, piece_bytes_, bounds_.read_timeout,
                     [self = shared_from_this()](const Result<ReadBuffer>& read) { self->OnRead(read.status()); });
    }
  }

  bool MoreToRead() const {
    if (reads_begun_ == 0) return true;
    return reads_begun_ * piece_bytes_ < bounds_.read_bytes && SystemClock().NowNs() - begin_ns_ < bounds_.read_time.count();
  }

  void OnRead(const Status& status) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      --reads_under_way_;
      if (read_failure_.ok()) read_failure_ = status;
      BeginReads();
      if (reads_under_way_ > 0) return;
    }
    const int64_t now_ns = SystemClock().NowNs();
    network_->EndLease(peer_, memory_);
    if (!read_failure_.ok()) return Fail(read_failure_);
    figures_.read_bytes_per_second = static_cast<double>(reads_begun_ * piece_bytes_) / Seconds(now_ns - begin_ns_);
    done_(figures_);
  }

  Status Wrong(const char* what) const {
    return Status(Code::kCorrupt, fmt::format("node {} answered with {}", peer_.node, what));
  }

  Network* const network_;
  const Peer peer_;
  const MeasureKinds kinds_;
  const MeasureBounds bounds_;
  const std::function<void(const PeerFigures&)> done_;
  PeerFigures figures_;
  int64_t begin_ns_ = 0;         // of the request under way, then of the reads
  int64_t echoes_begin_ns_ = 0;  // 0: the first is not back yet
  std::vector<double> echoes_;
  RemoteMemory memory_;
  uint64_t piece_bytes_ = 0;
  std::mutex mutex_;  // guards what follows: reads come back while the first ones are begun
  uint64_t reads_begun_ = 0;
  size_t reads_under_way_ = 0;
  Status read_failure_;
};

}  // namespace

void MeasurePeer(Network* network, const Peer& peer, const MeasureKinds& kinds, const MeasureBounds& bounds,
                 std::function<void(const PeerFigures&)> done) {
  std::make_shared<Measuring>(network, peer, kinds, bounds, std::move(done))->Echo();
}

// --- being measured -----------------------------------------------------------------------------------------------------------

std::shared_ptr<MeasureServer> MeasureServer::Serve(Network* network, const MeasureKinds& kinds,
                                                    std::function<void()> on_request) {
  const std::shared_ptr<MeasureServer> server(new MeasureServer(network));
  network->Serve(kinds.echo, [on_request](const Peer&, ByteSpan body, const Answer& answer) {
    if (on_request) on_request();
    if (body.size() > kEchoBytesMax) return answer(Status(Code::kInvalidArgument, "too much for an echo"));
    answer(Buffer(body.begin(), body.end()));
  });
  network->Serve(kinds.lease, [server, on_request](const Peer& peer, ByteSpan, const Answer& answer) {
    if (on_request) on_request();
    answer(server->Lend(peer));
  });
  return server;
}

MeasureServer::Memory::Memory(std::shared_ptr<std::atomic<uint64_t>> count)
    : bytes(kMeasuredMemoryBytes), held_bytes(std::move(count)) {
  *held_bytes += bytes.size();
}

MeasureServer::Memory::~Memory() {
  *held_bytes -= bytes.size();
}

Result<Buffer> MeasureServer::Lend(const Peer& peer) {
  const std::lock_guard<std::mutex> lock(mutex_);
  auto memory = memory_.lock();
  if (memory == nullptr) memory_ = memory = std::make_shared<const Memory>(memory_bytes_);
  // Whoever asks again has lost count of the former: it ends, and its end, told later, is not taken for the new one's.
  if (const auto former = lent_.find(peer); former != lent_.end()) network_->EndLease(former->second.lease);
  const uint64_t number = ++last_number_;
  // The lease's end is the memory's, when it was the last: it lives in what is called then.
  const auto lease = network_->Lease(peer.job, memory->bytes, kLeaseDuration,
                                     [self = shared_from_this(), peer, number, memory] { self->OnEnded(peer, number); });
  if (!lease.ok()) {
    lent_.erase(peer);
    return lease.status();
  }
  lent_[peer] = {number, lease->lease};
  Buffer reply;
  {
    Encoder out(reply);
    EncodeRemoteMemory(*lease, &out);
  }
  return reply;
}

void MeasureServer::OnEnded(const Peer& peer, uint64_t number) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto lent = lent_.find(peer);
  if (lent != lent_.end() && lent->second.number == number) lent_.erase(lent);
}

size_t MeasureServer::leases() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return lent_.size();
}

// --- two networks of this process ---------------------------------------------------------------------------------------------

Result<NetworkMeasurement> MeasureNetwork(const NetworkOptions& options, const MeasureBounds& bounds) {
  constexpr MeasureKinds kKinds{1, 2};
  const Peer peer{"doctor", "owner"};
  KEDGE_ASSIGN_OR_RETURN(const std::unique_ptr<Network> owner, Network::Open(options));
  KEDGE_ASSIGN_OR_RETURN(const std::unique_ptr<Network> reader, Network::Open(options));
  Membership membership;
  membership.job = peer.job;
  membership.secret = Secret::Generate();
  membership.members = {{peer.node, owner->address()}, {"reader", reader->address()}};
  membership.self = peer.node;
  KEDGE_RETURN_IF_ERROR(owner->Join(membership));
  membership.self = "reader";
  KEDGE_RETURN_IF_ERROR(reader->Join(membership));
  MeasureServer::Serve(owner.get(), kKinds);

  const auto measured = std::make_shared<std::promise<PeerFigures>>();
  auto figures = measured->get_future();
  MeasurePeer(reader.get(), peer, kKinds, bounds, [measured](const PeerFigures& got) { measured->set_value(got); });
  // The network's own timeouts end every call, so this wait ends too.
  const Duration patience = 3 * bounds.request_timeout + bounds.requests_time + bounds.read_time + 2 * bounds.read_timeout;
  if (figures.wait_for(patience) != std::future_status::ready)
    return Status(Code::kTimeout, "the network does not answer its own calls");
  NetworkMeasurement result{owner->address().provider, owner->address().ToDisplay(), figures.get()};
  if (!result.figures.failure.ok()) return result.figures.failure;
  return result;
}

}  // namespace kedge::net
