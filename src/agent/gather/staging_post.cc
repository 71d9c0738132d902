#include "agent/gather/staging_post.h"

#include <fmt/format.h>

#include <utility>

#include "agent/peers/peers.h"
#include "agent/tables/agent_core.h"
#include "base/log.h"

namespace kedge {
namespace {

// Nodes of all jobs together.
constexpr size_t kNodesAtOnceMax = 4096;

}  // namespace

void StagingPost::Close() {
  if (std::exchange(is_open_, false)) WithdrawStaging(core_.settings().staging_folder, core_.settings().node);
}

void StagingPost::Open(Enlisted enlisted, Failed failed) {
  enlisted_ = std::move(enlisted);
  failed_ = std::move(failed);
  peers_.OpenThen([this] {
    if (!peers_.is_open()) return failed_(Status(Code::kUnavailable, "without a network it cannot write for other nodes"));
    core_.Background([folder = core_.settings().staging_folder, node = core_.settings().node,
                      address = peers_.address()] { return AnnounceStaging(folder, node, address); },
                     [this](const Result<StagingNetwork>& network) { Serve(network); });
  });
}

void StagingPost::Serve(const Result<StagingNetwork>& network) {
  Status status = network.status();
  if (status.ok()) {
    peers_.network()->Serve(static_cast<uint16_t>(PeerKind::kEnlist),
                            [this, name = network->Name()](const net::Peer& peer, ByteSpan body, net::Answer answer) {
                              if (peer.job != name)
                                return answer(Status(Code::kPermission, "jobs are enlisted by the staging folder's secret"));
                              const auto request = DecodeEnlistRequest(body);
                              if (!request.ok()) return answer(request.status());
                              const Status enlisted = enlisted_(request->hello, request->members);
                              answer(enlisted.ok() ? Result<Buffer>(Buffer()) : Result<Buffer>(enlisted));
                            });
    net::Membership staging = network->MembershipOf(core_.settings().node);
    staging.guests_max = kNodesAtOnceMax;
    status = peers_.network()->Join(std::move(staging));
  }
  is_open_ = status.ok();
  if (!status.ok()) return failed_(Status(status.code(), "it cannot write for other nodes: " + status.message()));
  LogInfo("agent", "this agent writes for other nodes, which find it in {}", core_.settings().staging_folder);
}

}  // namespace kedge
