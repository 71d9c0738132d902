#include "modelled/node.h"

#include <cmath>

namespace kedge::bench {

ModelledNode::ModelledNode(const Scenario& scenario, std::vector<uint32_t> capacities, PlacementPolicy& policy,
                           const Clock& clock, Driver& driver)
    : scenario_(scenario),
      capacities_(std::move(capacities)),
      policy_(policy),
      clock_(clock),
      driver_(driver),
      queue_(*this, clock),
      writers_(scenario.writers, Writer{scenario.chunks_per_writer, 0, 0, 0}),
      tiers_(scenario.tiers.size()) {
  counts_.chunks.resize(tiers_.size());
  KEDGE_CHECK(capacities_.size() == tiers_.size());
}

const ThroughputCurve* ModelledNode::CurveOf(size_t tier) const {
  const auto& calibration = scenario_.tiers[tier].calibration;
  return calibration ? &*calibration : nullptr;
}

uint64_t ModelledNode::ChunkOf(uint32_t writer) const {
  return uint64_t{writer + 1} * scenario_.chunks_per_writer - writers_[writer].chunks_left - 1;
}

NodeLoad ModelledNode::Load(std::vector<TierLoad>* loads) const {
  for (size_t i = 0; i < tiers_.size(); ++i) {
    TierLoad load;
    load.slots = capacities_[i];
    load.free_slots = capacities_[i] - tiers_[i].used;
    load.writers = tiers_[i].writers;
    load.flushing_chunks = tiers_[i].flushing;
    load.flushes_in_flight = meter_.InFlightOf(static_cast<uint32_t>(i));
    load.next_flush_seconds = meter_.SecondsToNextEndOf(static_cast<uint32_t>(i), clock_.NowNs());
    load.slot_bytes = scenario_.chunk_bytes;
    load.backlog_bytes = tiers_[i].flushes.size() * scenario_.chunk_bytes;
    load.bytes_to_come = tiers_[i].chunks_to_come * scenario_.chunk_bytes;
    load.curve = CurveOf(i);
    loads->push_back(load);
  }
  NodeLoad load;
  load.tiers = *loads;
  load.flush_bytes_per_second = static_cast<uint64_t>(meter_.average());
  load.flush_total_bytes_per_second = static_cast<uint64_t>(meter_.total(clock_.NowNs()));
  load.flushes_in_flight = meter_.in_flight();
  queue_.AddWaiting(&load);
  return load;
}

NodeLoad ModelledNode::LoadFor(const AssignmentQueue::Request&, std::vector<TierLoad>* tiers) {
  return Load(tiers);
}

void ModelledNode::Start() {
  for (uint32_t writer = 0; writer < writers_.size(); ++writer) Ask(writer);
  queue_.Pump(policy_);
}

void ModelledNode::Ask(uint32_t writer) {
  --writers_[writer].chunks_left;
  AssignmentQueue::Request request;
  request.writer = writer;
  request.bytes = scenario_.chunk_bytes;
  request.bytes_to_come = writers_[writer].chunks_left * scenario_.chunk_bytes;
  queue_.Add(request);
}

void ModelledNode::Answer(const AssignmentQueue::Request& request, size_t tier) {
  counts_.wait_seconds += static_cast<double>(clock_.NowNs() - request.since_ns) * 1e-9;
  Writer& writer = writers_[request.writer];
  writer.tier = tier;
  writer.begin_ns = clock_.NowNs();
  const auto index = static_cast<uint32_t>(request.writer);
  driver_.BeginWrite(index, ChunkOf(index), tier);
}

AssignmentQueue::Outcome ModelledNode::Assign(const AssignmentQueue::Request& request, size_t index) {
  Tier& tier = tiers_[index];
  KEDGE_CHECK(tier.used < capacities_[index]);  // no slot is claimed twice
  tier.predicted.Advance(CurveOf(index), tier.writers, clock_.NowNs());
  writers_[request.writer].predicted_begin = tier.predicted.bytes();
  ++tier.used;
  ++tier.writers;
  tier.chunks_to_come += writers_[request.writer].chunks_left;
  ++counts_.chunks[index];
  Answer(request, index);
  return AssignmentQueue::Outcome::kAssigned;
}

AssignmentQueue::Refusal ModelledNode::NotPlaced(AssignmentQueue::Request& request, const PlaceDecision& decision) {
  if (decision.kind == PlaceDecision::Kind::kWait) {
    if (!request.waited) ++counts_.waits;
    request.waited = true;
    return AssignmentQueue::Refusal::kStays;
  }
  ++counts_.through;
  Answer(request, kThrough);
  return AssignmentQueue::Refusal::kAnswered;
}

void ModelledNode::OnWritten(uint32_t index) {
  Writer& writer = writers_[index];
  const int64_t now_ns = clock_.NowNs();
  if (writer.tier != kThrough) {
    Tier& tier = tiers_[writer.tier];
    tier.predicted.Advance(CurveOf(writer.tier), tier.writers, now_ns);
    if (CurveOf(writer.tier) != nullptr) {
      const double predicted = tier.predicted.bytes() - writer.predicted_begin;
      counts_.error_sum += std::abs(predicted / static_cast<double>(scenario_.chunk_bytes) - 1);
      ++counts_.errors;
    }
    --tier.writers;
    tier.chunks_to_come -= writer.chunks_left;
    ++tier.flushing;
    ++chunks_unflushed_;
    tier.flushes.push_back({++last_sequence_, ChunkOf(index)});
  } else {
    counts_.flush_end_ns = std::max(counts_.flush_end_ns, now_ns);
  }
  if (writer.chunks_left > 0) {
    Ask(index);
  } else if (++writers_done_ == writers_.size()) {
    counts_.local_end_ns = now_ns;
  }
  Dispatch();
  queue_.Pump(policy_);
  Dispatch();
}

void ModelledNode::Dispatch() {
  while (meter_.in_flight() < scenario_.store_workers_max) {
    candidates_.clear();
    for (size_t i = 0; i < tiers_.size(); ++i) {
      if (!tiers_[i].flushes.empty()) candidates_.push_back({i, tiers_[i].flushes.front().sequence, scenario_.chunk_bytes});
    }
    if (candidates_.empty()) return;
    flush_loads_.clear();
    const auto chosen = policy_.NextFlush(Load(&flush_loads_), candidates_);
    if (!chosen) {
      KEDGE_CHECK(meter_.in_flight() > 0);  // or nobody would ask again
      return;
    }
    const FlushCandidate& candidate = candidates_[*chosen];
    const uint64_t chunk = tiers_[candidate.tier].flushes.front().chunk;
    tiers_[candidate.tier].flushes.pop_front();
    const uint64_t flush = meter_.Begin(scenario_.chunk_bytes, static_cast<uint32_t>(candidate.tier), clock_.NowNs());
    flush_tiers_[flush] = candidate.tier;
    driver_.BeginFlush(flush, chunk);
  }
}

void ModelledNode::OnFlushed(uint64_t flush) {
  meter_.End(flush, true, clock_.NowNs());
  Tier& tier = tiers_[flush_tiers_.at(flush)];
  flush_tiers_.erase(flush);
  --tier.flushing;
  --tier.used;
  --chunks_unflushed_;
  counts_.flush_end_ns = std::max(counts_.flush_end_ns, clock_.NowNs());
  queue_.Pump(policy_);
  Dispatch();
}

}  // namespace kedge::bench
