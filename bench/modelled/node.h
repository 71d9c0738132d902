// A node on paper: writers, tiers, flushes. Which tier takes a chunk, who waits and which chunk is flushed next is decided by
// the code of the product: its queue, its policies, its meter of flushes. Here is what the agent and the clients do around it.
//
// The node decides and counts; its driver moves the bytes, in virtual time or behind threads, and reports what has ended.
//
// Threads: everything under one lock of the driver's.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "model/flush_meter.h"
#include "model/predicted_service.h"
#include "modelled/scenario.h"
#include "placement/assignment_queue.h"

namespace kedge::bench {

class ModelledNode final : private AssignmentQueue::Host {
 public:
  // `tier` kThrough: straight to the store, by the writer.
  static constexpr size_t kThrough = SIZE_MAX;
  struct Driver {
    virtual ~Driver() = default;
    // `chunk` numbers the node's chunks, by writer and then in its order.
    virtual void BeginWrite(uint32_t writer, uint64_t chunk, size_t tier) = 0;
    virtual void BeginFlush(uint64_t flush, uint64_t chunk) = 0;
    virtual void AskAgain(Duration after) = 0;
  };
  struct Counts {
    std::vector<uint64_t> chunks;  // by tier
    uint64_t through = 0;
    uint64_t waits = 0;  // requests that were not answered at once
    double wait_seconds = 0;
    double error_sum = 0;  // of predicted against observed throughput, relative, over the writes to tiers with a curve
    uint64_t errors = 0;
    int64_t local_end_ns = 0;
    int64_t flush_end_ns = 0;
  };

  // `capacities` in chunks, by tier. The policy and all else must outlive the node.
  ModelledNode(const Scenario& scenario, std::vector<uint32_t> capacities, PlacementPolicy& policy, const Clock& clock,
               Driver& driver);

  // All writers ask for their first place.
  void Start();
  void OnWritten(uint32_t writer);
  void OnFlushed(uint64_t flush);
  void OnAskAgain() { queue_.Pump(policy_); }
  bool local_done() const { return writers_done_ == writers_.size(); }
  bool done() const { return local_done() && chunks_unflushed_ == 0; }
  const Counts& counts() const { return counts_; }

 private:
  struct Writer {
    uint32_t chunks_left = 0;  // not asked for yet
    size_t tier = 0;           // that it writes to
    int64_t begin_ns = 0;
    double predicted_begin = 0;
  };
  struct Tier {
    uint32_t used = 0;
    uint32_t writers = 0;
    uint64_t chunks_to_come = 0;  // that its writers will ask for
    uint32_t flushing = 0;        // captured chunks that lie here: queued or under way
    struct Queued {
      uint64_t sequence = 0;
      uint64_t chunk = 0;
    };
    std::deque<Queued> flushes;  // queued, by sequence
    PredictedService predicted;
  };

  // AssignmentQueue::Host
  bool IsThere(uint64_t) override { return true; }
  bool SameTiers(uint64_t, uint64_t) override { return true; }
  NodeLoad LoadFor(const AssignmentQueue::Request& request, std::vector<TierLoad>* tiers) override;
  AssignmentQueue::Outcome Assign(const AssignmentQueue::Request& request, size_t tier) override;
  AssignmentQueue::Refusal NotPlaced(AssignmentQueue::Request& request, const PlaceDecision& decision) override;
  void AskAgain(Duration after) override { driver_.AskAgain(after); }

  const ThroughputCurve* CurveOf(size_t tier) const;
  // That the writer has asked for last.
  uint64_t ChunkOf(uint32_t writer) const;
  NodeLoad Load(std::vector<TierLoad>* tiers) const;
  void Ask(uint32_t writer);
  void Answer(const AssignmentQueue::Request& request, size_t tier);
  void Dispatch();

  const Scenario& scenario_;
  const std::vector<uint32_t> capacities_;
  PlacementPolicy& policy_;
  const Clock& clock_;
  Driver& driver_;
  AssignmentQueue queue_;
  FlushMeter meter_;
  std::vector<Writer> writers_;
  std::vector<Tier> tiers_;
  std::map<uint64_t, size_t> flush_tiers_;  // of those under way
  std::vector<TierLoad> flush_loads_;
  std::vector<FlushCandidate> candidates_;
  uint64_t last_sequence_ = 0;
  uint64_t chunks_unflushed_ = 0;
  size_t writers_done_ = 0;
  Counts counts_;
};

}  // namespace kedge::bench
