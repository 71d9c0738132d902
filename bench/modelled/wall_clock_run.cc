#include "modelled/wall_clock_run.h"

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "modelled/parts.h"
#include "os/testing/paced_device.h"

namespace kedge::bench {
namespace {

using os::testing::PacedDevice;

class ScaledClock final : public Clock {
 public:
  explicit ScaledClock(double time_scale) : time_scale_(time_scale), start_ns_(SystemClock().NowNs()) {}
  int64_t NowNs() const override {
    return kStartNs + static_cast<int64_t>(static_cast<double>(SystemClock().NowNs() - start_ns_) / time_scale_);
  }
  int64_t start_ns() const { return start_ns_; }

 private:
  const double time_scale_;
  const int64_t start_ns_;
};

// One node's threads. Everything but the transfers happens under the lock.
class ThreadedNode final : ModelledNode::Driver {
 public:
  ThreadedNode(const Scenario& scenario, std::string_view policy, const ScaledClock& clock, PacedDevice& store, uint32_t index)
      : scenario_(scenario),
        clock_(clock),
        store_(store),
        index_(index),
        policy_(MakePlacementPolicy(policy, clock)),
        model_(scenario, CapacitiesFor(scenario, policy), *policy_, clock, *this),
        assigned_(scenario.writers) {
    for (auto& device : TierDevices(scenario)) {
      devices_.push_back(std::make_unique<PacedDevice>(std::move(device), scenario.time_scale, clock.start_ns()));
    }
  }

  void Start() {
    const std::lock_guard lock(mutex_);
    for (uint32_t i = 0; i < scenario_.writers; ++i) threads_.emplace_back([this, i] { Write(i); });
    for (uint32_t i = 0; i < scenario_.store_workers_max; ++i) threads_.emplace_back([this] { Flush(); });
    threads_.emplace_back([this] { AskWhenDue(); });
    model_.Start();
  }

  ModelledNode::Counts Join() {
    for (std::thread& thread : threads_) thread.join();
    return model_.counts();
  }

 private:
  void BeginWrite(uint32_t writer, uint64_t chunk, size_t tier) override {
    assigned_[writer] = {chunk, tier};
    changed_.notify_all();
  }
  void BeginFlush(uint64_t flush, uint64_t chunk) override {
    flushes_.emplace_back(flush, chunk);
    changed_.notify_all();
  }
  void AskAgain(Duration after) override {
    const int64_t due_ns = clock_.NowNs() + after.count();
    if (ask_again_ns_ == 0 || due_ns < ask_again_ns_) ask_again_ns_ = due_ns;
    changed_.notify_all();
  }

  void Write(uint32_t writer) {
    for (uint32_t chunk = 0; chunk < scenario_.chunks_per_writer; ++chunk) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return assigned_[writer].has_value(); });
      const auto [number, tier] = *assigned_[writer];
      assigned_[writer].reset();
      lock.unlock();
      const bool through = tier == ModelledNode::kThrough;
      const double noise = through ? scenario_.store_noise : scenario_.tiers[tier].noise;
      (through ? store_ : *devices_[tier]).Transfer(TransferBytes(scenario_, noise, index_, number, Transfer::kWrite));
      lock.lock();
      model_.OnWritten(writer);
      changed_.notify_all();
    }
  }

  void Flush() {
    for (std::unique_lock lock(mutex_);;) {
      changed_.wait(lock, [&] { return model_.done() || !flushes_.empty(); });
      if (model_.done()) return;
      const auto [flush, chunk] = flushes_.front();
      flushes_.pop_front();
      lock.unlock();
      store_.Transfer(TransferBytes(scenario_, scenario_.store_noise, index_, chunk, Transfer::kFlush));
      lock.lock();
      model_.OnFlushed(flush);
      changed_.notify_all();
    }
  }

  void AskWhenDue() {
    std::unique_lock lock(mutex_);
    while (!model_.done()) {
      if (ask_again_ns_ == 0) {
        changed_.wait(lock);
      } else if (const int64_t left_ns = ask_again_ns_ - clock_.NowNs(); left_ns > 0) {
        changed_.wait_for(lock, FromSeconds(static_cast<double>(left_ns) * 1e-9 * scenario_.time_scale));
      } else {
        ask_again_ns_ = 0;
        model_.OnAskAgain();
      }
    }
  }

  const Scenario& scenario_;
  const ScaledClock& clock_;
  PacedDevice& store_;
  const uint32_t index_;
  std::unique_ptr<PlacementPolicy> policy_;
  ModelledNode model_;
  std::vector<std::unique_ptr<PacedDevice>> devices_;
  std::mutex mutex_;
  std::condition_variable changed_;
  struct Assigned {
    uint64_t chunk = 0;
    size_t tier = 0;
  };
  std::vector<std::optional<Assigned>> assigned_;      // by writer: what it may write now, and where
  std::deque<std::pair<uint64_t, uint64_t>> flushes_;  // and their chunks
  int64_t ask_again_ns_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace

std::vector<ModelledNode::Counts> RunAgainstTheWallClock(const Scenario& scenario, std::string_view policy) {
  const ScaledClock clock(scenario.time_scale);
  PacedDevice store(StoreDevice(scenario), scenario.time_scale, clock.start_ns());
  std::vector<std::unique_ptr<ThreadedNode>> nodes;
  for (uint32_t i = 0; i < scenario.nodes; ++i) {
    nodes.push_back(std::make_unique<ThreadedNode>(scenario, policy, clock, store, i));
  }
  for (auto& node : nodes) node->Start();
  std::vector<ModelledNode::Counts> counts;
  for (auto& node : nodes) counts.push_back(node->Join());
  return counts;
}

}  // namespace kedge::bench
