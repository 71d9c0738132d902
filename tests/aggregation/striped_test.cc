// The parts of the model, against what can be computed by hand.
#include <gtest/gtest.h>

#include "striped/collective.h"
#include "striped/events.h"
#include "striped/streams.h"

namespace kedge::bench {
namespace {

// Everything takes round numbers of seconds, and nothing varies.
Machine SimpleMachine() {
  Machine machine;
  machine.targets = 2;
  machine.peak_bytes_per_second = 200;  // 100 each
  machine.stripe_bytes = 100;
  machine.metadata_seconds = 1;
  machine.hand_over_seconds = 10;
  machine.service_noise = 0;
  machine.stream_bytes_per_second = 50;
  machine.node_bytes_per_second = 100;
  machine.read_bytes_per_second = 100;
  machine.network_bytes_per_second = 25;
  machine.hop_seconds = 0;
  machine.exchange_bytes_per_second = 100;
  machine.sync_hop_seconds = 1;
  machine.sync_process_seconds = 0;
  return machine;
}

class Listed final : public RequestSource {
 public:
  explicit Listed(std::vector<std::deque<Request>> requests) : requests_(std::move(requests)) {}
  bool Next(uint32_t stream, Request* request) override {
    if (requests_[stream].empty()) return false;
    *request = requests_[stream].front();
    requests_[stream].pop_front();
    return true;
  }

 private:
  std::vector<std::deque<Request>> requests_;
};

double RunListed(std::vector<std::deque<Request>> requests, const std::vector<uint32_t>& nodes, uint64_t* hand_overs = nullptr) {
  const Machine machine = SimpleMachine();
  Listed source(std::move(requests));
  Streams streams(machine, nodes, 4, 4, 1, source);
  const double end = streams.Run(0);
  if (hand_overs != nullptr) *hand_overs = streams.hand_overs();
  return end;
}

Request Own(uint32_t target, uint32_t lock = kNoLock) {
  return {target, lock, 100, {}};
}

TEST(Streams, OneAfterTheOther) {
  // Open 1; then each: read 1, copy 2, served 1.
  EXPECT_DOUBLE_EQ(RunListed({{Own(0), Own(1)}}, {0}), 1 + 2 * 4);
}

TEST(Streams, TargetsAndTheMetadataServerServeInOrder) {
  // Opened at 1, 2, 3; at the target at 4, 5, 6: it is never idle and nobody waits.
  EXPECT_DOUBLE_EQ(RunListed({{Own(0)}, {Own(0)}, {Own(0)}}, {0, 1, 2}), 7);
}

TEST(Streams, ShareTheirNode) {
  // The node takes 1 second for each copy, so that the second one ends when its own thread has.
  EXPECT_DOUBLE_EQ(RunListed({{Own(0)}, {Own(1)}}, {0, 0}), 2 + 1 + 2 + 1);
  // Four of them: opened at 1 to 4, read by 2 to 5; copied at the node's pace from then on.
  EXPECT_DOUBLE_EQ(RunListed({{Own(0)}, {Own(1)}, {Own(0)}, {Own(1)}}, {0, 0, 0, 0}), 4 + 1 + 2 + 1);
}

TEST(Streams, ALockIsHandedOverBetweenNodesOnly) {
  uint64_t hand_overs = 0;
  // Stream 0 has it from 2 to 5. The other waits from 3, then copies and is served: 3 seconds after its turn comes.
  EXPECT_DOUBLE_EQ(RunListed({{Own(0, 0)}, {Own(0, 0)}}, {0, 0}, &hand_overs), 5 + 3);
  EXPECT_EQ(hand_overs, 0u);
  EXPECT_DOUBLE_EQ(RunListed({{Own(0, 0)}, {Own(0, 0)}}, {0, 1}, &hand_overs), 5 + 10 + 3);
  EXPECT_EQ(hand_overs, 1u);
  EXPECT_DOUBLE_EQ(RunListed({{Own(0, 0)}, {Own(0, 1)}}, {0, 1}, &hand_overs), 6 + 0);
  EXPECT_EQ(hand_overs, 0u);
}

TEST(Streams, PullWhileTheOneBeforeIsWritten) {
  const Request pulled{1, kNoLock, 0, {{1, 100}}};
  // The pull of the only request begins at once and takes 4 seconds: copy 2, served 1.
  EXPECT_DOUBLE_EQ(RunListed({{pulled}}, {0}), 4 + 3);
  // That of the second begins with the first one's read at 1, and ends at 5, as that does.
  EXPECT_DOUBLE_EQ(RunListed({{Own(0), pulled}}, {0}), 5 + 3);
  // Two nodes pull from one: its network serves them in turn.
  EXPECT_DOUBLE_EQ(RunListed({{pulled}, {pulled}}, {0, 2}), 8 + 3);
}

TEST(Collective, RoundsOfAnAggregatorForEachTarget) {
  const Machine machine = SimpleMachine();
  // One process: no exchange, no synchronization; copy 2, served 1, for each of 3 stripes.
  EXPECT_DOUBLE_EQ(RunCollective(machine, {1, 1, 300}, 1, 0), 9);
  // Four nodes, two aggregators: 2 rounds, each 2 to synchronize, 0.75 to gather, 2 to copy, 1 to serve.
  EXPECT_DOUBLE_EQ(RunCollective(machine, {4, 4, 400}, 1, 0), 2 * (2 + 0.75 + 2 + 1));
  // Every second round without data.
  EXPECT_DOUBLE_EQ(RunCollective(machine, {4, 4, 400, 2}, 1, 5), 5 + 2 * (2 * 2 + 0.75 + 2 + 1));
}

}  // namespace
}  // namespace kedge::bench
