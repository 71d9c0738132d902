// Answers other nodes that read what lies here: images, and the redundancy of sets. What they are made of, and their bytes.
//
// Bytes go as a message, by a remote read of memory that is leased for it, or sealed (peers/sealed_reads.h). On the event loop's
// thread, but for reads, which workers do. What is let go of meanwhile may hold something else, so readers compare checksums.
#pragma once

#include "agent/images/held_stream.h"
#include "agent/peers/peer_messages.h"
#include "agent/tables/job.h"
#include "net/network.h"

namespace kedge {

class AgentCore;
class HeldSets;
class Peers;
class ReadPauses;

class StreamServer {
 public:
  StreamServer(AgentCore& core, HeldSets& held_sets, Peers& peers, ReadPauses& pauses);

 private:
  Result<DescribeReply> OnDescribe(Job& job, const DescribeRequest& request) const;
  Result<Buffer> OnSetRecord(Job& job, const SetRequest& request) const;
  Result<Buffer> OnObjectTable(Job& job, const SetRequest& request) const;
  void OnRead(Job& job, const net::Peer& peer, const ReadRequest& request, net::Answer answer);
  void OnReadSealed(Job& job, const net::Peer& peer, const ReadRequest& request, net::Answer answer);
  void OnLease(Job& job, const net::Peer& peer, const ReadRequest& request, const net::Answer& answer);
  HeldStream StreamOf(const ReadRequest& request) const;
  // kNotFound: it does not have these bytes.
  Result<HeldStream> StreamWith(const ReadRequest& request) const;

  AgentCore& core_;
  HeldSets& held_sets_;
  Peers& peers_;
  ReadPauses& pauses_;
};

}  // namespace kedge
