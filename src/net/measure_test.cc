// Networks that measure each other: figures, bounds, what it costs the one that is measured, and peers that are not there, do not
// take part or make no sense.
#include "net/measure.h"

#include <gtest/gtest.h>

#include <future>
#include <optional>
#include <thread>

#include "base/clock.h"
#include "net/testing/nodes.h"

namespace kedge::net {
namespace {

using namespace std::chrono_literals;
using testing::Ask;
using testing::Eventually;
using testing::Nodes;
using testing::TestOptions;

constexpr MeasureKinds kKinds{11, 12};

class MeasureTest : public ::testing::Test {
 protected:
  // What node 0 finds on the way to `peer`.
  PeerFigures Measure(const Peer& peer, const MeasureBounds& bounds = {}) {
    const auto measured = std::make_shared<std::promise<PeerFigures>>();
    auto figures = measured->get_future();
    MeasurePeer(nodes_[0], peer, kKinds, bounds, [measured](const PeerFigures& got) { measured->set_value(got); });
    if (figures.wait_for(60s) == std::future_status::ready) return figures.get();
    ADD_FAILURE() << "the measurement never ended";
    return {};
  }
  uint64_t BytesRead() { return nodes_[0]->Counters().bytes_read; }

  Nodes nodes_{3, TestOptions("tcp")};
};

TEST_F(MeasureTest, GivesFiguresAndLeavesNothingBehind) {
  const auto server = MeasureServer::Serve(nodes_[1], kKinds);
  for (int round = 0; round < 3; ++round) {
    const PeerFigures figures = Measure(nodes_.peer(1), {.requests = 20, .read_bytes = 16 << 20, .read_time = 30s});
    ASSERT_TRUE(figures.failure.ok()) << figures.failure.ToString();
    EXPECT_GT(figures.round_trip_seconds, 0);
    EXPECT_LT(figures.round_trip_seconds, 1);
    EXPECT_GT(figures.read_bytes_per_second, 1e6);
    EXPECT_EQ(BytesRead(), static_cast<uint64_t>(round + 1) << 24) << "as many as it was bounded to";
    EXPECT_TRUE(Eventually([&] { return server->leases() == 0 && server->memory_bytes() == 0; }));
  }
}

TEST_F(MeasureTest, IsBoundedInTime) {
  const auto server = MeasureServer::Serve(nodes_[1], kKinds);
  const PeerFigures figures =
      Measure(nodes_.peer(1), {.requests = 1 << 30, .requests_time = 50ms, .read_bytes = uint64_t{1} << 50, .read_time = 50ms});
  ASSERT_TRUE(figures.failure.ok()) << figures.failure.ToString();
  EXPECT_GT(figures.round_trip_seconds, 0);
  EXPECT_GT(figures.read_bytes_per_second, 0);
}

// A slow way has a median of one request, and the bandwidth of one round of reads.
TEST_F(MeasureTest, AtLeastOneOfEachIsTaken) {
  const auto server = MeasureServer::Serve(nodes_[1], kKinds);
  const PeerFigures figures = Measure(nodes_.peer(1), {.requests_time = 0s, .read_time = 0s});
  ASSERT_TRUE(figures.failure.ok()) << figures.failure.ToString();
  EXPECT_GT(figures.round_trip_seconds, 0);
  EXPECT_GT(figures.read_bytes_per_second, 0);
}

TEST_F(MeasureTest, HoweverOftenIsAskedOneLeaseAPeerIsOutAndOneMemory) {
  const auto server = MeasureServer::Serve(nodes_[1], kKinds);
  std::optional<RemoteMemory> first, last;
  for (int i = 0; i < 200; ++i) {
    for (const size_t asker : {size_t{0}, size_t{2}}) {
      const auto reply = Ask(nodes_[asker], nodes_.peer(1), kKinds.lease, {});
      ASSERT_TRUE(reply.ok()) << reply.status().ToString();
      Decoder in(*reply);
      last = DecodeRemoteMemory(&in);
      if (asker == 0 && !first.has_value()) first = last;
      EXPECT_LE(server->leases(), 2u);
      EXPECT_EQ(server->memory_bytes(), kMeasuredMemoryBytes) << "all leases are of one memory";
    }
  }
  EXPECT_EQ(server->leases(), 2u);
  EXPECT_FALSE(testing::Fetch(nodes_[0], nodes_.peer(1), *first, 0, 4096).ok()) << "the former lease has ended";
  const auto read = testing::Fetch(nodes_[2], nodes_.peer(1), *last, 0, 4096);
  EXPECT_TRUE(read.ok()) << read.status().ToString();
  // The memory goes with the last lease.
  nodes_[1]->Leave(testing::kJob);
  EXPECT_TRUE(Eventually([&] { return server->leases() == 0 && server->memory_bytes() == 0; }));
}

TEST_F(MeasureTest, AnEchoOfMuchIsRefused) {
  const auto server = MeasureServer::Serve(nodes_[1], kKinds);
  EXPECT_TRUE(Ask(nodes_[0], nodes_.peer(1), kKinds.echo, Buffer(kEchoBytesMax)).ok());
  EXPECT_EQ(Ask(nodes_[0], nodes_.peer(1), kKinds.echo, Buffer(kEchoBytesMax + 1)).status().code(), Code::kInvalidArgument);
}

TEST_F(MeasureTest, APeerThatIsNotThereIsNamedInTime) {
  nodes_.networks()[1].reset();
  const auto begin = std::chrono::steady_clock::now();
  const PeerFigures figures = Measure(nodes_.peer(1), {.request_timeout = 1s});
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s);
  EXPECT_FALSE(figures.failure.ok());
  EXPECT_NE(figures.failure.message().find("node n1"), std::string::npos) << figures.failure.ToString();
  EXPECT_EQ(figures.round_trip_seconds, 0);
}

TEST_F(MeasureTest, WhatCouldBeMeasuredIsToldBesideTheFailure) {
  // It echoes, and that is all.
  nodes_[1]->Serve(kKinds.echo,
                   [](const Peer&, ByteSpan body, const Answer& answer) { answer(Buffer(body.begin(), body.end())); });
  const PeerFigures figures = Measure(nodes_.peer(1));
  EXPECT_EQ(figures.failure.code(), Code::kUnsupported);
  EXPECT_GT(figures.round_trip_seconds, 0);
  EXPECT_EQ(figures.read_bytes_per_second, 0);
}

TEST_F(MeasureTest, AnswersThatMakeNoSenseAreRefused) {
  nodes_[1]->Serve(kKinds.echo, [](const Peer&, ByteSpan, const Answer& answer) { answer(Buffer(3)); });
  const Status echo = Measure(nodes_.peer(1)).failure;
  EXPECT_EQ(echo.code(), Code::kCorrupt);
  EXPECT_NE(echo.message().find("n1"), std::string::npos) << echo.ToString();

  nodes_[1]->Serve(kKinds.echo,
                   [](const Peer&, ByteSpan body, const Answer& answer) { answer(Buffer(body.begin(), body.end())); });
  nodes_[1]->Serve(kKinds.lease, [](const Peer&, ByteSpan, const Answer& answer) { answer(Buffer(3)); });
  EXPECT_EQ(Measure(nodes_.peer(1)).failure.code(), Code::kCorrupt);
}

}  // namespace
}  // namespace kedge::net
