#include <cmath>
#include <queue>

#include "modelled/node.h"
#include "modelled/parts.h"
#include "modelled/runner.h"
#include "modelled/wall_clock_run.h"

namespace kedge::bench {
namespace {

using os::testing::ModelledDevice;

class VirtualClock final : public Clock {
 public:
  int64_t NowNs() const override { return kStartNs + std::llround(seconds_ * 1e9); }
  double seconds() const { return seconds_; }
  void Set(double seconds) { seconds_ = std::max(seconds_, seconds); }

 private:
  double seconds_ = 0;
};

// Every device of every node, and the store, in one virtual time: the next thing that ends is the next event.
class VirtualRun {
 public:
  VirtualRun(const Scenario& scenario, std::string_view policy) : scenario_(scenario), store_(StoreDevice(scenario)) {
    for (uint32_t i = 0; i < scenario.nodes; ++i) nodes_.push_back(std::make_unique<Node>(*this, i, policy));
  }

  void Run() {
    for (auto& node : nodes_) node->model->Start();
    for (;;) {
      double next = store_.NextEnd();
      if (!timers_.empty()) next = std::min(next, timers_.top().second);
      while (!ends_.empty() && ends_.top().epoch != nodes_[ends_.top().node]->epoch) ends_.pop();
      if (!ends_.empty()) next = std::min(next, ends_.top().second);
      if (next == ModelledDevice::kNever) return;
      Step(next);
    }
  }

  std::vector<const ModelledNode::Counts*> Counts() const {
    std::vector<const ModelledNode::Counts*> counts;
    for (const auto& node : nodes_) {
      KEDGE_CHECK(node->model->done());  // nobody waits for ever
      counts.push_back(&node->model->counts());
    }
    return counts;
  }

 private:
  struct Node final : ModelledNode::Driver {
    Node(VirtualRun& owner, uint32_t at, std::string_view policy_name)
        : run(owner), index(at), devices(TierDevices(owner.scenario_)), policy(MakePlacementPolicy(policy_name, owner.clock_)) {
      model = std::make_unique<ModelledNode>(owner.scenario_, CapacitiesFor(owner.scenario_, policy_name), *policy, owner.clock_,
                                             *this);
    }
    void BeginWrite(uint32_t writer, uint64_t chunk, size_t tier) override {
      if (tier == ModelledNode::kThrough) return run.BeginStore(Pack(index, writer, false), index, chunk, Transfer::kWrite);
      devices[tier].Advance(run.clock_.seconds());
      devices[tier].Begin(writer, TransferBytes(run.scenario_, run.scenario_.tiers[tier].noise, index, chunk, Transfer::kWrite));
      Changed();
    }
    void BeginFlush(uint64_t flush, uint64_t chunk) override {
      run.BeginStore(Pack(index, flush, true), index, chunk, Transfer::kFlush);
    }
    void AskAgain(Duration after) override {
      const double at = run.clock_.seconds() + ToSeconds(after);
      if (asked_again > run.clock_.seconds() && asked_again <= at) return;  // asked before that anyway
      asked_again = at;
      run.timers_.push({at, index, 0});
    }
    // The node's next end has moved: what was noted of it before is void.
    void Changed() {
      ++epoch;
      double next = ModelledDevice::kNever;
      for (const auto& device : devices) next = std::min(next, device.NextEnd());
      if (next != ModelledDevice::kNever) run.ends_.push({next, index, epoch});
    }

    VirtualRun& run;
    const uint32_t index;
    std::vector<ModelledDevice> devices;
    std::unique_ptr<PlacementPolicy> policy;
    std::unique_ptr<ModelledNode> model;
    uint64_t epoch = 0;
    double asked_again = -1;
  };
  struct Event {
    double second;
    uint32_t node;
    uint64_t epoch;
    bool operator>(const Event& other) const { return second != other.second ? second > other.second : node > other.node; }
  };
  using Events = std::priority_queue<Event, std::vector<Event>, std::greater<>>;

  // The store's transfers: node, and flush or writer.
  static uint64_t Pack(uint32_t node, uint64_t number, bool is_flush) {
    return uint64_t{node} << 40 | number << 1 | static_cast<uint64_t>(is_flush);
  }

  void BeginStore(uint64_t id, uint32_t node, uint64_t chunk, Transfer what) {
    store_.Advance(clock_.seconds());
    store_.Begin(id, TransferBytes(scenario_, scenario_.store_noise, node, chunk, what));
  }

  void Step(double second) {
    clock_.Set(second);
    store_.Advance(second);
    uint64_t id = 0;
    while (store_.TakeEnded(&id)) {
      ModelledNode& node = *nodes_[id >> 40]->model;
      const uint64_t number = (id & ((uint64_t{1} << 40) - 1)) >> 1;
      if ((id & 1) != 0) {
        node.OnFlushed(number);
      } else {
        node.OnWritten(static_cast<uint32_t>(number));
      }
    }
    while (!ends_.empty() && ends_.top().second <= second) {
      const Event event = ends_.top();
      ends_.pop();
      Node& node = *nodes_[event.node];
      if (event.epoch != node.epoch) continue;
      for (ModelledDevice& device : node.devices) {
        device.Advance(second);
        while (device.TakeEnded(&id)) node.model->OnWritten(static_cast<uint32_t>(id));
      }
      node.Changed();
    }
    while (!timers_.empty() && timers_.top().second <= second) {
      Node& node = *nodes_[timers_.top().node];
      timers_.pop();
      node.model->OnAskAgain();
    }
  }

  const Scenario& scenario_;
  VirtualClock clock_;
  ModelledDevice store_;
  std::vector<std::unique_ptr<Node>> nodes_;
  Events ends_;
  Events timers_;
};

}  // namespace

PlacementResult RunScenario(const Scenario& scenario, std::string_view policy) {
  if (scenario.time_scale > 0) return Summary(scenario, policy, RunAgainstTheWallClock(scenario, policy));
  VirtualRun run(scenario, policy);
  run.Run();
  std::vector<ModelledNode::Counts> counts;
  for (const auto* of_node : run.Counts()) counts.push_back(*of_node);
  return Summary(scenario, policy, counts);
}

}  // namespace kedge::bench
