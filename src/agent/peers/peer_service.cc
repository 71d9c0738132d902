#include "agent/peers/peer_service.h"

#include <fmt/format.h>

#include "agent/peers/peers.h"
#include "agent/tables/agent_core.h"
#include "base/log.h"

namespace kedge {

void PeerService::Register(PeerKind kind, net::Handler handler) {
  KEDGE_CHECK(network_ == nullptr);
  const bool is_first = handlers_.emplace(kind, std::move(handler)).second;
  KEDGE_CHECK(is_first);
}

Result<Job*> PeerService::Admit(const net::Peer& peer, const JobKey& key) {
  core_.Touch();
  Job* const job = peer.job == Peers::NetworkName(key.first, key.second) ? core_.FindJob(key) : nullptr;
  if (job == nullptr) return Status(Code::kNotFound, fmt::format("node {} knows no such job", core_.settings().node));
  return job;
}

void PeerService::Open(net::Network* network) {
  network_ = network;
  for (const auto& [kind, handler] : handlers_) network_->Serve(static_cast<uint16_t>(kind), handler);
  sealed_reads_ = std::make_shared<SealedReads>(network_, &core_.servers(),
                                                [this](std::function<void()> work) { core_.loop().Post(std::move(work)); });
  measured_ = net::MeasureServer::Serve(network_, kMeasureKinds, [this] { core_.Touch(); });
}

void PeerService::Close() {
  measured_.reset();
  sealed_reads_.reset();
  network_ = nullptr;
  leases_ = 0;
}

Result<net::RemoteMemory> PeerService::Lease(const Job& job, std::span<const std::byte> memory, Duration duration,
                                             std::function<void()> ended) {
  auto lent = network_->Lease(Peers::NetworkName(job.store_id, job.name), memory, duration, [this, ended = std::move(ended)] {
    --leases_;
    ended();
  });
  if (lent.ok()) ++leases_;
  return lent;
}

size_t PeerService::leases() const {
  return leases_ + (measured_ == nullptr ? 0 : measured_->leases()) + (sealed_reads_ == nullptr ? 0 : sealed_reads_->leases());
}

}  // namespace kedge
