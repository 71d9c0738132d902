#include "agent/protect/stream_server.h"

#include <fmt/format.h>

#include <functional>
#include <utility>

#include "agent/peers/peers.h"
#include "agent/peers/read_pauses.h"
#include "agent/protect/held_sets.h"
#include "agent/tables/agent_core.h"
#include "os/process/kill_point.h"

namespace kedge {
namespace {

constexpr Duration kLeaseDuration = std::chrono::seconds(60);

}  // namespace

StreamServer::StreamServer(AgentCore& core, HeldSets& held_sets, Peers& peers, ReadPauses& pauses)
    : core_(core), held_sets_(held_sets), peers_(peers), pauses_(pauses) {
  PeerService& service = peers.service();
  service.On(PeerKind::kDescribe, DecodeDescribeRequest, std::bind_front(&StreamServer::OnDescribe, this));
  service.On(PeerKind::kSetRecord, DecodeSetRequest, std::bind_front(&StreamServer::OnSetRecord, this));
  service.On(PeerKind::kObjectTable, DecodeSetRequest, std::bind_front(&StreamServer::OnObjectTable, this));
  service.On(PeerKind::kRead, DecodeReadRequest, std::bind_front(&StreamServer::OnRead, this));
  service.On(PeerKind::kReadSealed, DecodeReadRequest, std::bind_front(&StreamServer::OnReadSealed, this));
  service.On(PeerKind::kLease, DecodeReadRequest, std::bind_front(&StreamServer::OnLease, this));
}

Result<DescribeReply> StreamServer::OnDescribe(Job&, const DescribeRequest& request) const {
  const Image* image = core_.FindWhole(request.generation, request.rank);
  const Buffer* record = nullptr;
  if (const HeldObject* copy = image == nullptr ? held_sets_.FindCopy(request.generation, request.rank, &record) : nullptr) {
    return DescribeReply{*record, copy->record.blocks.bytes};
  }
  if (image == nullptr) {
    return Status(Code::kNotFound, fmt::format("{} rank {} is not on node {}", request.generation.ToString(), request.rank,
                                               core_.settings().node));
  }
  const HeldStream stream = HeldStream::Of(*image);
  DescribeReply reply;
  reply.stream_bytes = stream.bytes();
  reply.image_record.resize(image->record_bytes);
  KEDGE_RETURN_IF_ERROR(stream.Read(image->record_object_offset, image->record_bytes, reply.image_record.data()));
  return reply;
}

Result<Buffer> StreamServer::OnSetRecord(Job&, const SetRequest& request) const {
  const HeldSet* set = held_sets_.Find(request.set);
  if (set == nullptr) return Status(Code::kNotFound, request.set.ToString() + " is not known");
  return set->encoded;
}

Result<Buffer> StreamServer::OnObjectTable(Job&, const SetRequest& request) const {
  const HeldObject* object = held_sets_.FindObject(request.set, request.member);
  if (object == nullptr) {
    return Status(Code::kNotFound, fmt::format("{}: nothing for member {} here", request.set.ToString(), request.member));
  }
  return Encode(object->record.blocks);
}

HeldStream StreamServer::StreamOf(const ReadRequest& request) const {
  if (request.of_object) {
    const HeldObject* object = held_sets_.FindObject(request.set, request.member);
    return object == nullptr ? HeldStream() : HeldStream::Of(object->ranges);
  }
  if (const Image* image = core_.FindWhole(request.generation, request.rank)) return HeldStream::Of(*image);
  const Buffer* record = nullptr;
  const HeldObject* copy = held_sets_.FindCopy(request.generation, request.rank, &record);
  return copy == nullptr ? HeldStream() : HeldStream::Of(copy->ranges);
}

Result<HeldStream> StreamServer::StreamWith(const ReadRequest& request) const {
  HeldStream stream = StreamOf(request);
  if (request.offset > stream.bytes() || request.bytes > stream.bytes() - request.offset) {
    return Status(Code::kNotFound,
                  fmt::format("{} bytes at {} are not on node {}", request.bytes, request.offset, core_.settings().node));
  }
  return stream;
}

// The memory stays mapped as long as the lease.
void StreamServer::OnLease(Job& job, const net::Peer& peer, const ReadRequest& request, const net::Answer& answer) {
  LeaseReply reply;
  reply.sealed = core_.settings().net_encrypt;
  os::KillPoint("serve-lease");
  pauses_.OnRead(job, peer.node);
  if (reply.sealed) return answer(Encode(reply));
  for (const HeldStream::MemoryPart& part : StreamOf(request).InMemory()) {
    auto memory =
        peers_.service().Lease(job, part.memory, kLeaseDuration,
                               [this, tier = part.tier, key = job.key(), node = peer.node] { pauses_.OnLeaseEnd(key, node); });
    if (!memory.ok()) continue;
    pauses_.OnLease(job, peer.node);
    ++core_.counters().parts_leased;
    reply.parts.push_back({part.offset, *memory});
  }
  answer(Encode(reply));
}

void StreamServer::OnReadSealed(Job& job, const net::Peer& peer, const ReadRequest& request, net::Answer answer) {
  pauses_.OnRead(job, peer.node);
  auto stream = StreamWith(request);
  if (!stream.ok()) return answer(stream.status());
  if (request.bytes == 0) return answer(Status(Code::kInvalidArgument, "no bytes to read"));
  const auto read = [stream = std::move(*stream), offset = request.offset, bytes = request.bytes](std::byte* out) {
    return stream.Read(offset, bytes, out);
  };
  ++core_.counters().blocks_sealed;
  peers_.service().sealed_reads().Ask(peer, request.bytes, read, std::move(answer));
}

void StreamServer::OnRead(Job& job, const net::Peer& peer, const ReadRequest& request, net::Answer answer) {
  pauses_.OnRead(job, peer.node);
  auto stream = StreamWith(request);
  if (!stream.ok()) return answer(stream.status());
  core_.servers().Submit(
      [stream = std::move(*stream), offset = request.offset, bytes = request.bytes, answer = std::move(answer)] {
        Buffer out(bytes);
        Status read = stream.Read(offset, bytes, out.data());
        answer(read.ok() ? Result<Buffer>(std::move(out)) : Result<Buffer>(read));
      });
}

}  // namespace kedge
