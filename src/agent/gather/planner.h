// Who writes what of a version, for store.layout = leaders or posix and reduce.deduplicate = job: one scan along the tree of the
// job's nodes, after which each node knows what all of them have, and decides alone (aggregation/election.h,
// reduce/common_blocks.h).
//
// A node tells its parent what its subtree has; the answer, which comes when the root has heard all, brings what all have and how
// many bytes lie before the subtree. A node that does not answer leaves those above it without a plan, and all that wait for the
// root's answer: each of them writes its own images after a while (shipper.h). On the event loop's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agent/peers/peer_messages.h"
#include "agent/tables/job.h"
#include "aggregation/election.h"
#include "aggregation/scan_tree.h"
#include "aggregation/summary.h"
#include "net/network.h"
#include "reduce/popular_blocks.h"

namespace kedge {

class AgentCore;
class Flush;
class Peers;

// What a node does of a version.
struct WritePlan {
  // Where runs of this node's bytes go, in their order.
  struct Run {
    std::string node;
    uint64_t from = 0;
    uint64_t bytes = 0;
  };
  std::vector<Run> runs;              // none without leaders
  std::optional<uint64_t> led_bytes;  // of all nodes, that this one is to write; nothing: it leads nothing
  reduce::PopularBlocks common;       // that several nodes have
  uint32_t self = 0;                  // this node's place among them
};

class Planner {
 public:
  // `decided` is called once for each version that was offered and planned in time.
  using Decided = std::function<void(const Generation& generation, const WritePlan& plan)>;
  Planner(AgentCore& core, Flush& flush, Peers& peers, Decided decided);

  // Whether nodes write their images to one object together; else who has store.layout = posix has an object for each node.
  static bool SharesObjects(const Job& job);
  // Whether the nodes plan the job's versions together.
  bool Plans(const Job& job, const Generation& generation) const { return LineFor(job, generation).has_value(); }
  // This node's place among them; nothing: it is none of them.
  std::optional<uint32_t> PlaceOf(const Job& job, const Generation& generation);
  // What this node has of the version; `popular`: as the member of its place. Once.
  void Offer(const Job& job, const Generation& generation, uint64_t bytes, reduce::PopularBlocks popular);
  // Scans that have not come to an end for long are let go of.
  void Tick();

 private:
  struct Child {
    aggregation::Summary summary;
    reduce::PopularBlocks popular;
    net::Answer answer;
  };
  struct Scan {
    aggregation::Line line;
    aggregation::ElectionOptions options;
    uint32_t self = 0;
    aggregation::TreePlace place;
    int64_t begun_ns = 0;
    bool has_leaders = false;
    uint32_t common_most = 1;
    uint32_t block_bytes = 0;
    std::optional<uint64_t> offered;
    reduce::PopularBlocks popular;
    std::map<uint32_t, Child> children;
    bool is_told = false;  // the parent
    std::optional<ScanReply> answer;
  };
  // Of a child, which waits for the answer.
  void OnScan(const Job& job, const net::Peer& peer, const ScanRequest& request, net::Answer answer);
  static bool HasLeaders(const Job& job);
  // Nothing: they do not.
  std::optional<aggregation::Line> LineFor(const Job& job, const Generation& generation) const;
  // Null: this node is not among those of the version's attempt.
  Scan* Find(const Job& job, const Generation& generation);
  void Advance(const Job& job, const Generation& generation, Scan& scan);
  void OnAnswer(const Generation& generation, const Result<ScanReply>& answer);
  void Finish(const Generation& generation, Scan& scan, const Result<ScanReply>& answer);

  AgentCore& core_;
  Flush& flush_;
  Peers& peers_;
  const Decided decided_;
  std::map<Generation, Scan> scans_;
};

}  // namespace kedge
