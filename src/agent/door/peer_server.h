// What other nodes' agents ask of this one: decoded, checked against the job in whose name they were admitted, and answered.
//
// On the event loop's thread, but for reads, which workers do.
#pragma once

#include <cstddef>
#include <memory>

#include "agent/images/held_stream.h"
#include "agent/peers/peer_messages.h"
#include "agent/peers/sealed_reads.h"
#include "agent/tables/job.h"
#include "net/measure.h"
#include "net/network.h"

namespace kedge {

class AgentCore;
class Carrier;
class Completions;
class DoneGroups;
class HeldSets;
class Inventories;
class Layouts;
class LocalLevel;
class Peers;
class Phases;
class SetExchange;
class SetProofs;
class Shipper;
class Takings;
class Turns;

class PeerServer {
 public:
  using Answer = net::Answer;

  PeerServer(AgentCore& core, Carrier& carrier, Completions& completions, DoneGroups& done_groups, HeldSets& held_sets,
             Inventories& inventories, Layouts& layouts, LocalLevel& local_level, Peers& peers, Phases& phases,
             SetExchange& set_exchange, SetProofs& set_proofs, Shipper& shipper, Takings& takings, Turns& turns)
      : core_(core),
        carrier_(carrier),
        completions_(completions),
        done_groups_(done_groups),
        held_sets_(held_sets),
        inventories_(inventories),
        layouts_(layouts),
        local_level_(local_level),
        peers_(peers),
        phases_(phases),
        set_exchange_(set_exchange),
        set_proofs_(set_proofs),
        shipper_(shipper),
        takings_(takings),
        turns_(turns) {}

  // Answers whatever comes. REQUIRES: the peers' network is open.
  void Serve();
  // The network is gone.
  void Stop();
  // Of memory here that other nodes may be reading right now.
  size_t leases() const;

 private:
  template <typename Request>
  void On(PeerKind kind, Result<Request> (*decode)(ByteSpan), void (PeerServer::*handle)(Job&, const Request&, Answer));
  // Answers with what `handle` (of the job and the request) returns: a reply, a Result with one, or nothing.
  template <typename Request, typename Handle>
  void Reply(PeerKind kind, Result<Request> (*decode)(ByteSpan), Handle handle);
  // For what depends on who asks.
  template <typename Request, typename Handle>
  void OnFrom(PeerKind kind, Result<Request> (*decode)(ByteSpan), Handle handle);
  // The job in whose name that peer was admitted, if it speaks of no other.
  Job* JobOf(const net::Peer& peer, const Generation& generation) const;
  void OnDescribe(Job& job, const DescribeRequest& request, Answer answer);
  void OnSetRecord(Job& job, const SetRequest& request, Answer answer);
  void OnObjectTable(Job& job, const SetRequest& request, Answer answer);
  void OnRead(Job& job, const net::Peer& peer, const ReadRequest& request, Answer answer);
  void OnReadSealed(Job& job, const net::Peer& peer, const ReadRequest& request, Answer answer);
  void OnLease(Job& job, const net::Peer& peer, const ReadRequest& request, Answer answer);
  void OnInvite(Job& job, const Invitation& invitation, Answer answer);
  HeldStream StreamOf(const ReadRequest& request) const;
  // kNotFound: it does not have these bytes.
  Result<HeldStream> StreamWith(const ReadRequest& request) const;

  AgentCore& core_;
  Carrier& carrier_;
  Completions& completions_;
  DoneGroups& done_groups_;
  HeldSets& held_sets_;
  Inventories& inventories_;
  Layouts& layouts_;
  LocalLevel& local_level_;
  Peers& peers_;
  Phases& phases_;
  SetExchange& set_exchange_;
  SetProofs& set_proofs_;
  Shipper& shipper_;
  Takings& takings_;
  Turns& turns_;
  size_t leases_ = 0;
  std::shared_ptr<net::MeasureServer> measured_;
  std::shared_ptr<SealedReads> sealed_;
};

}  // namespace kedge
