// Claims, learning, judging and averages, through the mailboxes of clients that say what a test lets them.
#include "agent/space/throughput.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "agent/daemon/agent_status.h"
#include "agent/door/sessions.h"
#include "agent/space/assignment.h"
#include "agent/space/tiers.h"
#include "agent/tables/session.h"
#include "agent/testing/local_agent.h"
#include "os/testing/temporary_folder.h"
#include "tier/calibration_folder.h"

namespace kedge {
namespace {

using testing::LocalAgent;

constexpr uint64_t kMeasuredSlotBytes = 64 << 10;
constexpr int64_t kMillisecond = 1'000'000;

// A client that asks for places of whole chunks, and says that they are written.
class Writer {
 public:
  Writer(LocalAgent& agent, uint32_t rank) : agent_(agent) {
    session_ = &agent.Attach(rank, 4);
    to_agent_ = ClientRingProducer(&session_->box().from_client);
    from_agent_ = AgentRingConsumer(&session_->box().from_agent);
  }
  ~Writer() {
    if (session_ != nullptr) End();
  }
  void End() { agent_->sessions().End(*std::exchange(session_, nullptr), "the test is over"); }

  SlotRange Take(uint64_t bytes_to_come = 0) {
    Push(RequestPlace{.place = PlaceKind::kFullChunk, .bytes = kMeasuredSlotBytes, .bytes_to_come = bytes_to_come});
    AgentMessage message{};
    KEDGE_CHECK(from_agent_.Peek(&message) == RingPeek::kMessage);
    from_agent_.Advance();
    const auto answer = message.As<AssignPlace>();
    KEDGE_CHECK(answer.outcome == AssignOutcome::kSlot);
    return answer.range;
  }
  void Written(const SlotRange& slot, int64_t took_ns) {
    Push(ChunkWritten{.range = slot, .took_ns = static_cast<uint64_t>(took_ns)});
  }
  void Return(const SlotRange& slot) { Push(ReturnSlot{.slot = slot}); }
  // Takes, writes and returns `chunks` slots, one after the other.
  void Write(int chunks, int64_t took_ns) {
    for (int i = 0; i < chunks; ++i) {
      const SlotRange slot = Take();
      Written(slot, took_ns);
      Return(slot);
    }
  }
  Session& session() { return *session_; }

 private:
  void Push(const ClientMessage& message) {
    KEDGE_CHECK(to_agent_.TryPush(message));
    agent_->sessions().DrainAll();
  }

  LocalAgent& agent_;
  Session* session_ = nullptr;
  ClientRingProducer to_agent_;
  AgentRingConsumer from_agent_;
};

// What one writer is predicted to get in the pool; 0 when nothing is known.
double PredictedOf(LocalAgent& agent) {
  const auto& curve = agent.pool().throughput.curve;
  return curve.has_value() ? curve->PerWriter(1) : 0;
}

// The number after a metric's name and labels.
double MetricOf(Agent& agent, const std::string& name) {
  const std::string metrics = MetricsText(agent);
  const size_t at = metrics.find("\n" + name + " ");
  EXPECT_NE(at, std::string::npos) << name << " is not in\n" << metrics;
  return at == std::string::npos ? -1 : std::atof(metrics.c_str() + at + name.size() + 2);
}

Calibration CalibrationOf(LocalAgent& agent, uint64_t bytes_per_second) {
  const CalibrationKey key = CalibrationKeyOf(TierKind::kMemory, agent.pool().info().path);
  Calibration calibration{CalibrationOrigin::kMeasured, key.kind, key.device, kMeasuredSlotBytes, "6.1", 0, {}};
  for (const uint32_t writers : {1u, 4u, 7u}) calibration.samples.push_back({writers, bytes_per_second, 5, 10});
  return calibration;
}

TEST(Throughput, WritersAreTheChunksThatHaveAPlaceAndAreNotWritten) {
  LocalAgent agent(8, kMeasuredSlotBytes);
  Writer first(agent, 0), second(agent, 1);
  const TierUnit& pool = agent.pool();
  const auto seen_by = [&](Writer& writer) { return Throughput::WritersFor(writer.session(), pool); };
  EXPECT_EQ(seen_by(second), 0u);
  const SlotRange one = first.Take();
  const SlotRange ahead = first.Take();
  EXPECT_EQ(seen_by(second), 2u);
  EXPECT_EQ(seen_by(first), 1u) << "by the time that it writes the next, the first is done";
  EXPECT_EQ(pool.throughput.writing, 1u) << "a client writes one chunk after the other";
  first.Written(one, kMillisecond);
  EXPECT_EQ(seen_by(second), 1u);
  EXPECT_EQ(pool.throughput.writing, 1u) << "the one ahead";
  first.Written(one, kMillisecond);
  EXPECT_EQ(seen_by(second), 1u) << "said twice";
  first.Return(ahead);
  EXPECT_EQ(seen_by(second), 0u);
  EXPECT_EQ(pool.throughput.writing, 0u);
  first.Take();
  second.Take();
  EXPECT_EQ(pool.throughput.writing, 2u);
  first.End();
  EXPECT_EQ(pool.throughput.claims, 1u) << "a process that ends leaves no writer behind";
  EXPECT_EQ(pool.throughput.writing, 1u);
}

TEST(Throughput, WhatWritersWillAskForCountsOnceUntilTheyAreDone) {
  LocalAgent agent(8, kMeasuredSlotBytes);
  Writer first(agent, 0), second(agent, 1);
  const auto to_come = [&] { return agent->tiers().LoadOf(agent.pool()).bytes_to_come; };
  const SlotRange one = first.Take(3 * kMeasuredSlotBytes);
  second.Take(5 * kMeasuredSlotBytes);
  EXPECT_EQ(to_come(), 8 * kMeasuredSlotBytes);
  const SlotRange ahead = first.Take(2 * kMeasuredSlotBytes);
  EXPECT_EQ(to_come(), 7 * kMeasuredSlotBytes) << "the newest request says it";
  first.Written(one, kMillisecond);
  EXPECT_EQ(to_come(), 7 * kMeasuredSlotBytes);
  first.Written(ahead, kMillisecond);
  EXPECT_EQ(to_come(), 5 * kMeasuredSlotBytes);
  first.Take(UINT64_MAX);
  second.Take(UINT64_MAX);
  EXPECT_GT(to_come(), 5 * kMeasuredSlotBytes);
  EXPECT_LT(to_come(), UINT64_MAX / 2) << "a broken client's claim is bounded";
  first.End();
  second.End();
  EXPECT_EQ(to_come(), 0u);
}

TEST(Throughput, AnUncalibratedTierIsLearnedAndWhatWasLearnedIsKeptForTheNextAgent) {
  const os::testing::TemporaryFolder folder;
  {
    LocalAgent agent(4, kMeasuredSlotBytes, folder / "calibrations");
    EXPECT_EQ(PredictedOf(agent), 0);
    Writer writer(agent, 0);
    writer.Write(LearnedCurve::kTrusted - 1, kMillisecond);
    EXPECT_EQ(PredictedOf(agent), 0) << "too few";
    writer.Write(1, kMillisecond);
    EXPECT_NEAR(PredictedOf(agent), kMeasuredSlotBytes * 1e3, 1);
    EXPECT_EQ(agent->throughput().totals().judged, 0u) << "nothing was predicted yet";
    writer.Write(40, 2 * kMillisecond);
    agent->throughput().Tick();
    EXPECT_LT(PredictedOf(agent), kMeasuredSlotBytes * 0.75e3);
    EXPECT_EQ(agent->throughput().totals().judged, 40u);
    ASSERT_TRUE(agent->core().workers().WaitIdle(std::chrono::seconds(20))) << "what the tick has given to a worker to save";
    agent->throughput().SaveNow();
  }
  LocalAgent next(4, kMeasuredSlotBytes, folder / "calibrations");
  EXPECT_GT(PredictedOf(next), kMeasuredSlotBytes * 0.45e3);
  EXPECT_LT(PredictedOf(next), kMeasuredSlotBytes * 0.75e3);
  EXPECT_FALSE(next.pool().throughput.is_measured);
}

TEST(Throughput, ACalibrationIsReadAtTheStartAndJudgedByWhatIsObserved) {
  const os::testing::TemporaryFolder folder;
  const std::string calibrations = folder / "calibrations";
  {
    LocalAgent agent(4, kMeasuredSlotBytes);
    ASSERT_TRUE(SaveCalibration(os::SystemFileSystem(), calibrations, CalibrationOf(agent, kMeasuredSlotBytes * 1000)).ok());
  }
  LocalAgent agent(4, kMeasuredSlotBytes, calibrations);
  EXPECT_TRUE(agent.pool().throughput.is_measured);
  EXPECT_NEAR(PredictedOf(agent), kMeasuredSlotBytes * 1e3, 1);
  Writer writer(agent, 0);
  writer.Write(10, 2 * kMillisecond);  // half of what was predicted
  const PlacementCounts& totals = agent->throughput().totals();
  ASSERT_EQ(totals.judged, 10u);
  EXPECT_NEAR(totals.error / 10, 1.0, 1e-6);
  EXPECT_NEAR(totals.predicted / totals.observed, 2.0, 1e-6);
  agent->throughput().Tick();
  EXPECT_NEAR(PredictedOf(agent), kMeasuredSlotBytes * 1e3, 1) << "what was measured is not overruled";
  EXPECT_EQ(agent.pool().throughput.learned.observations(), 0u);
  EXPECT_EQ(MetricOf(*agent, "kedge_tier_judged_chunks_total{tier=\"pool\",unit=\"1\"}"), 10);
  EXPECT_NEAR(MetricOf(*agent, "kedge_tier_model_error_sum{tier=\"pool\",unit=\"1\"}"), 10, 1e-5);
  EXPECT_NE(StatusJson(*agent).find("\"calibration\":\"measured\""), std::string::npos);
}

TEST(Throughput, ACalibrationWithOtherChunksIsPassedOver) {
  const os::testing::TemporaryFolder folder;
  const std::string calibrations = folder / "calibrations";
  {
    LocalAgent agent(4, kMeasuredSlotBytes);
    Calibration calibration = CalibrationOf(agent, 1'000'000);
    calibration.chunk_bytes = 64 * kMeasuredSlotBytes;
    ASSERT_TRUE(SaveCalibration(os::SystemFileSystem(), calibrations, calibration).ok());
  }
  LocalAgent agent(4, kMeasuredSlotBytes, calibrations);
  EXPECT_EQ(PredictedOf(agent), 0);
}

TEST(Throughput, NonsenseIsRefusedAndTeachesNothing) {
  LocalAgent agent(4, kMeasuredSlotBytes);
  Writer writer(agent, 0), other(agent, 1);
  const SlotRange slot = writer.Take();
  SlotRange wrong = slot;
  wrong.tier = 9;
  writer.Written(wrong, kMillisecond);
  EXPECT_EQ(agent->core().counters().messages_refused, 1u);
  other.Written(slot, kMillisecond);
  EXPECT_EQ(agent.pool().throughput.claims, 1u) << "another session's slot";
  writer.Written(slot, 0);
  EXPECT_EQ(agent.pool().throughput.claims, 0u);
  EXPECT_EQ(agent.pool().throughput.learned.observations(), 0u) << "it says no time";
  writer.Write(10, 1);
  EXPECT_EQ(agent.pool().throughput.learned.observations(), 0u) << "faster than any memory";
}

TEST(Throughput, AFlushIsAveragedForEachStore) {
  const os::testing::TemporaryFolder folder;
  const StoreId fast{1, 2}, slow{3, 4};
  {
    LocalAgent agent(4, kMeasuredSlotBytes, folder / "calibrations");
    Throughput& throughput = agent->throughput();
    EXPECT_EQ(throughput.FlushBytesPerSecond(fast), 0u);
    for (int i = 0; i < 10; ++i) {
      throughput.OnPieceFlushed(fast, 8 << 20, std::chrono::milliseconds(8), 4);
      throughput.OnPieceFlushed(slow, 8 << 20, std::chrono::milliseconds(80), 4);
      throughput.OnPieceFlushed(slow, 100, std::chrono::seconds(1), 4);  // too small to count
    }
    EXPECT_NEAR(static_cast<double>(throughput.FlushBytesPerSecond(fast)), 1000.0 * (1 << 20), 1e6);
    EXPECT_NEAR(static_cast<double>(throughput.FlushBytesPerSecond(slow)), 100.0 * (1 << 20), 1e6);
    // A store behind a page cache took the pieces at once, and the sync takes the time.
    throughput.OnImageStored(fast, 800 << 20, std::chrono::milliseconds(800), std::chrono::milliseconds(7200));
    EXPECT_LT(throughput.FlushBytesPerSecond(fast), uint64_t{150} << 20);
    throughput.Publish();
    std::map<uint64_t, uint64_t> shown;
    for (const ControlStore& store : agent->core().control().stores) shown[store.id_high] = store.flush_bytes_per_second;
    EXPECT_EQ(shown[fast.high], throughput.FlushBytesPerSecond(fast));
    EXPECT_EQ(shown[slow.high], throughput.FlushBytesPerSecond(slow));
    throughput.SaveNow();
  }
  LocalAgent next(4, kMeasuredSlotBytes, folder / "calibrations");
  next->throughput().LoadStore(slow);
  EXPECT_TRUE(next.TurnUntil([&] { return next->throughput().FlushBytesPerSecond(slow) > 0; }));
  EXPECT_NEAR(static_cast<double>(next->throughput().FlushBytesPerSecond(slow)), 100.0 * (1 << 20), 1e6)
      << "defined before its first flush";
}

TEST(Throughput, WhatTheStoreTakesIsKeptWithoutWhatReducingTook) {
  LocalAgent agent(4, kMeasuredSlotBytes);
  Throughput& throughput = agent->throughput();
  const StoreId store{5, 6};
  EXPECT_EQ(throughput.WrittenBytesPerSecond(store), 0);
  for (int i = 0; i < 4; ++i) {
    throughput.OnPieceFlushed(store, 8 << 20, std::chrono::milliseconds(20), 1);
    throughput.OnPieceWritten(store, 4 << 20, std::chrono::milliseconds(4), 1);
    throughput.OnPieceWritten(store, 100, std::chrono::seconds(1), 1);  // too small to count
  }
  EXPECT_NEAR(throughput.WrittenBytesPerSecond(store), 1000.0 * (1 << 20), 1e6);
  throughput.OnImageWritten(store, 400 << 20, std::chrono::milliseconds(400), std::chrono::milliseconds(3600));
  EXPECT_LT(throughput.WrittenBytesPerSecond(store), 150.0 * (1 << 20));
  LocalAgent limited(4, kMeasuredSlotBytes, "", uint64_t{100} << 20);
  EXPECT_EQ(limited->throughput().WrittenBytesPerSecond(store), 100.0 * (1 << 20)) << "known before anything was written";
}

TEST(Throughput, UnderARateLimitAFlushIsAsSlowAsItMayBe) {
  LocalAgent agent(4, kMeasuredSlotBytes, "", uint64_t{100} << 20);
  const StoreId store{5, 6};
  for (int i = 0; i < 4; ++i) agent->throughput().OnPieceFlushed(store, 8 << 20, std::chrono::milliseconds(1), 1);
  EXPECT_NEAR(static_cast<double>(agent->throughput().FlushBytesPerSecond(store)), 100.0 * (1 << 20), 1e6);
}

}  // namespace
}  // namespace kedge
