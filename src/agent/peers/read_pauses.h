// Applications say when they communicate (kedge_phase): then nobody reads this node's images for the store or for redundancy, nor
// reads this node others', for at most net.pause (pause_budget.h).
//
// Who reads here is told, and keeps its reads back (read_gates.h); what it misses of the end of a pause, it does not wait
// for. Nobody is told while nobody reads, and clients are asked to wake the agent only while somebody does. On the event loop's
// thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "agent/peers/pause_budget.h"
#include "agent/peers/peer_messages.h"
#include "agent/tables/job.h"
#include "net/network.h"

namespace kedge {

class AgentCore;
class Peers;

class ReadPauses {
 public:
  ReadPauses(AgentCore& core, Peers& peers);

  // What the ranks do now. At each turn of the loop, before it sleeps.
  void Look();
  // That node reads images here: as long as it has leases, and a moment after each block that it asked for. Before the answer.
  void OnRead(const Job& job, const std::string& node);
  void OnLease(const Job& job, const std::string& node);
  void OnLeaseEnd(const JobKey& job, const std::string& node);

 private:
  struct Reader {
    uint32_t leases = 0;
    int64_t asked_ns = 0;
  };
  using Key = std::pair<JobKey, std::string>;
  // Of another node: its application communicates, or not any more.
  void OnPause(const Job& job, const net::Peer& peer, const PauseNotice& notice, const net::Answer& answer);
  void NoteReader(const Job& job, const std::string& node, uint32_t leases);
  void Tell(const Key& reader, Duration pause);

  AgentCore& core_;
  Peers& peers_;
  PauseBudget budget_;
  std::map<Key, Reader> readers_;
  bool is_watched_ = false;
  Duration pause_{};  // that was told last; zero: reads go on
  int64_t pause_ns_ = 0;
};

}  // namespace kedge
