#include "agent/door/peer_server.h"

#include <fmt/format.h>

#include <type_traits>

#include "agent/bring/inventories.h"
#include "agent/gather/carrier.h"
#include "agent/gather/phases.h"
#include "agent/gather/shipper.h"
#include "agent/peers/peers.h"
#include "agent/protect/done_groups.h"
#include "agent/protect/held_sets.h"
#include "agent/protect/layouts.h"
#include "agent/protect/set_exchange.h"
#include "agent/protect/set_proofs.h"
#include "agent/schedule/completions.h"
#include "agent/schedule/local_level.h"
#include "agent/schedule/takings.h"
#include "agent/schedule/turns.h"
#include "agent/tables/agent_core.h"
#include "agent/tables/members.h"
#include "base/log.h"
#include "os/process/kill_point.h"

namespace kedge {
namespace {

constexpr Duration kLeaseDuration = std::chrono::seconds(60);
constexpr Duration kGoodbyeTime = std::chrono::milliseconds(100);

const Generation& GenerationOf(const ReadRequest& request) {
  return request.of_object ? request.set.generation : request.generation;
}
// What is asked for of a whole job has its name alone.
template <typename Request>
decltype(auto) GenerationOf(const Request& request) {
  if constexpr (requires { request.generation; }) {
    return (request.generation);
  } else if constexpr (requires { request.set; }) {
    return (request.set.generation);
  } else if constexpr (requires { request.call; }) {
    return GenerationOf(request.call);
  } else {
    Generation generation;
    generation.store_id = request.store_id;
    generation.job = request.job;
    return generation;
  }
}

template <typename Reply>
Result<Buffer> Encoded(const Reply& reply) {
  return Encode(reply);
}
template <typename Reply>
Result<Buffer> Encoded(const Result<Reply>& reply) {
  return reply.ok() ? Result<Buffer>(Encode(*reply)) : Result<Buffer>(reply.status());
}

}  // namespace

void PeerServer::Stop() {
  measured_.reset();
  sealed_.reset();
  leases_ = 0;
}

size_t PeerServer::leases() const {
  return leases_ + (measured_ == nullptr ? 0 : measured_->leases()) + (sealed_ == nullptr ? 0 : sealed_->leases());
}

Job* PeerServer::JobOf(const net::Peer& peer, const Generation& generation) const {
  return peer.job == Peers::NetworkName(generation.store_id, generation.job) ? core_.FindJobOf(generation) : nullptr;
}

template <typename Request>
void PeerServer::On(PeerKind kind, Result<Request> (*decode)(ByteSpan),
                    void (PeerServer::*handle)(Job&, const Request&, Answer)) {
  OnFrom<Request>(kind, decode, [this, handle](Job& job, const net::Peer&, const Request& request, Answer answer) {
    (this->*handle)(job, request, std::move(answer));
  });
}

template <typename Request, typename Handle>
void PeerServer::Reply(PeerKind kind, Result<Request> (*decode)(ByteSpan), Handle handle) {
  OnFrom<Request>(kind, decode, [handle](Job& job, const net::Peer&, const Request& request, const Answer& answer) {
    if constexpr (std::is_void_v<decltype(handle(job, request))>) {
      handle(job, request);
      answer(Buffer());
    } else {
      answer(Encoded(handle(job, request)));
    }
  });
}

template <typename Request, typename Handle>
void PeerServer::OnFrom(PeerKind kind, Result<Request> (*decode)(ByteSpan), Handle handle) {
  peers_.network()->Serve(
      static_cast<uint16_t>(kind), [this, decode, handle](const net::Peer& peer, ByteSpan body, Answer answer) {
        auto request = decode(body);
        if (!request.ok()) return answer(request.status());
        core_.Touch();
        Job* job = JobOf(peer, GenerationOf(*request));
        if (job == nullptr)
          return answer(Status(Code::kNotFound, fmt::format("node {} knows no such job", core_.settings().node)));
        handle(*job, peer, *request, std::move(answer));
      });
}

void PeerServer::Serve() {
  Reply<ExchangeRequest>(PeerKind::kExchange, DecodeExchangeRequest,
                         [this](Job& job, const auto& request) { return set_exchange_.OnAsked(job, request); });
  Reply<GroupsNotice>(PeerKind::kGroups, DecodeGroupsNotice,
                      [this](Job& job, const auto& notice) { return done_groups_.OnTold(job, notice); });
  Reply<InventoryRequest>(PeerKind::kInventory, DecodeInventoryRequest,
                          [this](Job& job, const auto& request) { return inventories_.Own(job, request.name); });
  On<DescribeRequest>(PeerKind::kDescribe, DecodeDescribeRequest, &PeerServer::OnDescribe);
  On<SetRequest>(PeerKind::kSetRecord, DecodeSetRequest, &PeerServer::OnSetRecord);
  On<SetRequest>(PeerKind::kObjectTable, DecodeSetRequest, &PeerServer::OnObjectTable);
  OnFrom<ReadRequest>(PeerKind::kRead, DecodeReadRequest,
                      [this](Job& job, const net::Peer& peer, const ReadRequest& request, Answer answer) {
                        OnRead(job, peer, request, std::move(answer));
                      });
  OnFrom<ReadRequest>(PeerKind::kLease, DecodeReadRequest,
                      [this](Job& job, const net::Peer& peer, const ReadRequest& request, Answer answer) {
                        OnLease(job, peer, request, std::move(answer));
                      });
  On<Invitation>(PeerKind::kInvite, DecodeInvitation, &PeerServer::OnInvite);
  OnFrom<SetRequest>(PeerKind::kProve, DecodeSetRequest,
                     [this](Job&, const net::Peer&, const SetRequest& request, Answer answer) {
                       set_proofs_.OnAsked(request, std::move(answer));
                     });
  Reply<TurnRequest>(PeerKind::kTurn, DecodeTurnRequest,
                     [this](Job& job, const auto& request) { return turns_.OnAsked(job, request); });
  Reply<LocalPromise>(PeerKind::kPromise, DecodeLocalPromise,
                      [this](Job& job, const auto& promise) { return local_level_.OnPromise(job, promise); });
  Reply<LocalNews>(PeerKind::kPromiseNews, DecodeLocalNews,
                   [this](Job& job, const auto& news) { local_level_.OnNews(job, news); });
  Reply<ImageIdentity>(PeerKind::kTaken, DecodeImageIdentity,
                       [this](Job& job, const auto& taking) { takings_.OnTold(job, taking); });
  OnFrom<CompletedNotice>(PeerKind::kCompleted, DecodeCompletedNotice,
                          [this](Job& job, const net::Peer& peer, const CompletedNotice& notice, const Answer& answer) {
                            answer(Buffer());
                            completions_.OnTold(job, peer.node, notice.generation);
                          });
  OnFrom<ReadRequest>(PeerKind::kReadSealed, DecodeReadRequest,
                      [this](Job& job, const net::Peer& peer, const ReadRequest& request, Answer answer) {
                        OnReadSealed(job, peer, request, std::move(answer));
                      });
  OnFrom<ScanRequest>(PeerKind::kScan, DecodeScanRequest,
                      [this](Job& job, const net::Peer& peer, const ScanRequest& request, Answer answer) {
                        shipper_.OnScan(job, peer.node, request, std::move(answer));
                      });
  OnFrom<CarryRequest>(PeerKind::kCarry, DecodeCarryRequest,
                       [this](Job& job, const net::Peer& peer, const CarryRequest& request, Answer answer) {
                         carrier_.OnCarry(job, peer.node, request, std::move(answer));
                       });
  OnFrom<ShareRequest>(PeerKind::kShare, DecodeShareRequest,
                       [this](Job& job, const net::Peer&, const ShareRequest& request, Answer answer) {
                         carrier_.OnShare(job, request, std::move(answer));
                       });
  OnFrom<PauseNotice>(PeerKind::kPause, DecodePauseNotice,
                      [this](Job& job, const net::Peer& peer, const PauseNotice& notice, const Answer& answer) {
                        phases_.OnPause(job, peer.node, notice);
                        answer(Buffer());
                      });
  sealed_ = std::make_shared<SealedReads>(peers_.network(), &core_.servers(),
                                          [this](std::function<void()> work) { core_.loop().Post(std::move(work)); });
  measured_ = net::MeasureServer::Serve(peers_.network(), kMeasureKinds, [this] { core_.Touch(); });
}

void PeerServer::OnDescribe(Job&, const DescribeRequest& request, Answer answer) {
  const Image* image = core_.FindWhole(request.generation, request.rank);
  const Buffer* record = nullptr;
  if (const HeldObject* copy = image == nullptr ? held_sets_.FindCopy(request.generation, request.rank, &record) : nullptr) {
    return answer(Encode(DescribeReply{*record, copy->record.blocks.bytes}));
  }
  if (image == nullptr) {
    return answer(Status(Code::kNotFound, fmt::format("{} rank {} is not on node {}", request.generation.ToString(), request.rank,
                                                      core_.settings().node)));
  }
  const HeldStream stream = HeldStream::Of(*image);
  DescribeReply reply;
  reply.stream_bytes = stream.bytes();
  reply.image_record.resize(image->record_bytes);
  Status read = stream.Read(image->record_object_offset, image->record_bytes, reply.image_record.data());
  if (!read.ok()) return answer(read);
  answer(Encode(reply));
}

void PeerServer::OnSetRecord(Job&, const SetRequest& request, Answer answer) {
  const HeldSet* set = held_sets_.Find(request.set);
  if (set == nullptr) return answer(Status(Code::kNotFound, request.set.ToString() + " is not known"));
  answer(set->encoded);
}

void PeerServer::OnObjectTable(Job&, const SetRequest& request, Answer answer) {
  const HeldObject* object = held_sets_.FindObject(request.set, request.member);
  if (object == nullptr) {
    return answer(Status(Code::kNotFound, fmt::format("{}: nothing for member {} here", request.set.ToString(), request.member)));
  }
  answer(Encode(object->record.blocks));
}

HeldStream PeerServer::StreamOf(const ReadRequest& request) const {
  if (request.of_object) {
    const HeldObject* object = held_sets_.FindObject(request.set, request.member);
    return object == nullptr ? HeldStream() : HeldStream::Of(object->ranges);
  }
  if (const Image* image = core_.FindWhole(request.generation, request.rank)) return HeldStream::Of(*image);
  const Buffer* record = nullptr;
  const HeldObject* copy = held_sets_.FindCopy(request.generation, request.rank, &record);
  return copy == nullptr ? HeldStream() : HeldStream::Of(copy->ranges);
}

// The memory stays mapped as long as the lease; what is let go of meanwhile may hold something else, so readers compare
// checksums.
void PeerServer::OnLease(Job& job, const net::Peer& peer, const ReadRequest& request, Answer answer) {
  LeaseReply reply;
  reply.sealed = core_.settings().net_encrypt;
  os::KillPoint("serve-lease");
  phases_.OnRead(job, peer.node);
  if (reply.sealed) return answer(Encode(reply));
  for (const HeldStream::MemoryPart& part : StreamOf(request).InMemory()) {
    auto memory = peers_.network()->Lease(Peers::NetworkName(job.store_id, job.name), part.memory, kLeaseDuration,
                                          [this, tier = part.tier, key = job.key(), node = peer.node] {
                                            --leases_;
                                            phases_.OnLeaseEnd(key, node);
                                          });
    if (!memory.ok()) continue;
    ++leases_;
    phases_.OnLease(job, peer.node);
    ++core_.counters().parts_leased;
    reply.parts.push_back({part.offset, *memory});
  }
  answer(Encode(reply));
}

Result<HeldStream> PeerServer::StreamWith(const ReadRequest& request) const {
  HeldStream stream = StreamOf(request);
  if (request.offset > stream.bytes() || request.bytes > stream.bytes() - request.offset) {
    return Status(Code::kNotFound,
                  fmt::format("{} bytes at {} are not on node {}", request.bytes, request.offset, core_.settings().node));
  }
  return stream;
}

void PeerServer::OnReadSealed(Job& job, const net::Peer& peer, const ReadRequest& request, Answer answer) {
  phases_.OnRead(job, peer.node);
  auto stream = StreamWith(request);
  if (!stream.ok()) return answer(stream.status());
  if (request.bytes == 0) return answer(Status(Code::kInvalidArgument, "no bytes to read"));
  const auto read = [stream = std::move(*stream), offset = request.offset, bytes = request.bytes](std::byte* out) {
    return stream.Read(offset, bytes, out);
  };
  ++core_.counters().blocks_sealed;
  sealed_->Ask(peer, request.bytes, read, std::move(answer));
}

void PeerServer::OnRead(Job& job, const net::Peer& peer, const ReadRequest& request, Answer answer) {
  phases_.OnRead(job, peer.node);
  auto stream = StreamWith(request);
  if (!stream.ok()) return answer(stream.status());
  // What is let go of meanwhile may hold something else: the reader compares checksums.
  core_.servers().Submit(
      [stream = std::move(*stream), offset = request.offset, bytes = request.bytes, answer = std::move(answer)] {
        Buffer out(bytes);
        Status read = stream.Read(offset, bytes, out.data());
        answer(read.ok() ? Result<Buffer>(std::move(out)) : Result<Buffer>(read));
      });
}

void PeerServer::OnInvite(Job& job, const Invitation& invitation, Answer answer) {
  const Membership& members = invitation.members;
  if (members.attempt <= job.members.attempt || IsAmong(members.nodes, core_.settings().node)) {
    return answer(Status(Code::kMismatch, "the invitation is not to a later attempt without this node"));
  }
  answer(Buffer());
  LogInfo("agent", "job {} goes on in attempt {} without this node, which serves what it holds", job.name, members.attempt);
  // After the answer, which goes out in the name of the attempt that ends here.
  core_.loop().AddTimer(kGoodbyeTime, [this, key = job.key(), members] {
    Job* found = core_.FindJob(key);
    if (found == nullptr || members.attempt <= found->members.attempt) return;
    found->members = members;
    found->guests.clear();
    core_.events().job_changed(*found);
    Status joined = layouts_.OnMembers(*found);
    if (!joined.ok()) LogWarning("agent", "job {}: {}", found->name, joined.ToString());
  });
}

}  // namespace kedge
