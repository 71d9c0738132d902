#include "net/network.h"

#include <fmt/format.h>

#include "base/clock.h"
#include "net/engine.h"

namespace kedge::net {

void EncodeRemoteMemory(const RemoteMemory& memory, Encoder* out) {
  out->U64(memory.lease);
  out->U64(memory.address);
  out->U64(memory.key);
  out->U64(memory.bytes);
  out->U32(memory.milliseconds);
}

RemoteMemory DecodeRemoteMemory(Decoder* in) {
  RemoteMemory memory;
  memory.lease = in->U64();
  memory.address = in->U64();
  memory.key = in->U64();
  memory.bytes = in->U64();
  memory.milliseconds = in->U32();
  in->Require(memory.bytes > 0 && memory.bytes <= UINT64_MAX - memory.address, "the memory's bounds are wrong");
  memory.end_ns = SystemClock().NowNs() + int64_t{memory.milliseconds} * 1'000'000;
  return memory;
}

Result<std::unique_ptr<Network>> Network::Open(NetworkOptions options) {
  KEDGE_ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine, Engine::Open(std::move(options)));
  return std::unique_ptr<Network>(new Network(std::move(engine)));
}

Network::Network(std::unique_ptr<Engine> engine) : engine_(std::move(engine)) {}
Network::~Network() = default;

void Network::Close() {
  engine_->Close();
}

const NodeAddress& Network::address() const {
  return engine_->address();
}

Status Network::Join(Membership membership) {
  return engine_->Join(std::move(membership));
}

void Network::Leave(const std::string& job) {
  engine_->Leave(job);
}

void Network::Connect(const Peer& peer) {
  engine_->Connect(peer);
}

void Network::Serve(uint16_t kind, Handler handler) {
  engine_->Serve(kind, std::move(handler));
}

void Network::Call(const Peer& peer, uint16_t kind, Buffer body, Duration timeout, std::function<void(Result<Buffer>)> done) {
  engine_->Call(peer, kind, std::move(body), timeout, std::move(done));
}

Result<RemoteMemory> Network::Lease(const std::string& job, std::span<const std::byte> memory, Duration duration,
                                    std::function<void()> ended) {
  return engine_->Lease(job, memory, duration, std::move(ended));
}

void Network::EndLease(uint64_t lease) {
  engine_->EndLease(lease);
}

void Network::EndLease(const Peer& peer, const RemoteMemory& memory) {
  engine_->EndLease(peer, memory);
}

void Network::Read(const Peer& peer, const RemoteMemory& memory, uint64_t offset, size_t bytes, Duration timeout,
                   std::function<void(Result<ReadBuffer>)> done) {
  engine_->Read(peer, {memory, offset, bytes, SystemClock().NowNs(), timeout, std::move(done)});
}

std::vector<PeerState> Network::Peers() const {
  return engine_->Peers();
}

NetworkCounters Network::Counters() const {
  return engine_->Counters();
}

}  // namespace kedge::net
