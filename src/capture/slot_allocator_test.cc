// The client's slots over a real mailbox, with the test on the agent's end: packing, asking ahead, giving back, loss.
#include "capture/slot_allocator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "capture/slot_sink.h"
#include "format/image_record.h"
#include "os/events/event_fd.h"
#include "os/testing/temporary_folder.h"
#include "tier/tier.h"

namespace kedge {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr uint64_t kSlotBytes = 64 << 10;
constexpr LayoutLimits kSlotLimits{kSlotBytes, 16 << 10};

class SlotAllocatorTest : public ::testing::Test {
 protected:
  SlotAllocatorTest()
      : mailbox_(std::make_unique<Mailbox>()), control_(std::make_unique<ControlBlock>()), wake_(os::EventFd::Create().value()) {
    channel_.Attach(mailbox_.get(), control_.get(), &wake_);
    agent_in_ = ClientRingConsumer(&mailbox_->from_client);
    agent_out_ = AgentRingProducer(&mailbox_->from_agent);
  }

  void Pump() {
    AgentMessage message;
    while (channel_.Poll(&message)) {
      if (message.kind() == AgentMessageKind::kRecallSlots) {
        slots_.ReturnUnused();
      } else {
        slots_.OnAssigned(message.As<AssignPlace>());
      }
    }
  }
  // What the client has sent since the last call.
  std::vector<ClientMessage> Sent() {
    std::vector<ClientMessage> sent;
    ClientMessage message;
    while (agent_in_.Peek(&message) == RingPeek::kMessage) {
      sent.push_back(message);
      agent_in_.Advance();
    }
    return sent;
  }
  // The request that is all of it.
  RequestPlace Asked() {
    const auto sent = Sent();
    EXPECT_EQ(sent.size(), 1u);
    return sent.at(0).As<RequestPlace>();
  }
  void Answer(const RequestPlace& asked, AssignOutcome outcome, uint32_t slot = 0, uint64_t bytes = kSlotBytes) {
    const SlotRange range{0, slot, 7, 0, bytes};
    ASSERT_TRUE(agent_out_.TryPush(AssignPlace{.outcome = outcome, .number = asked.number, .range = range}));
    ++mailbox_->client_wake;
  }
  Deadline In(Duration duration) const { return Deadline(SystemClock(), duration); }
  // Asks for an open slot ahead, and gets `slot`.
  void OpenSlot(uint32_t slot) {
    slots_.ExpectOpen();
    const RequestPlace asked = Asked();
    ASSERT_EQ(asked.place, PlaceKind::kOpenSlot);
    Answer(asked, AssignOutcome::kSlot, slot);
  }

  std::unique_ptr<Mailbox> mailbox_;
  std::unique_ptr<ControlBlock> control_;
  os::EventFd wake_;
  AgentChannel channel_;
  ClientRingConsumer agent_in_;
  AgentRingProducer agent_out_;
  SlotAllocator slots_{&channel_, kSlotLimits, [this] { Pump(); }};
};

TEST_F(SlotAllocatorTest, SmallChunksArePackedForward) {
  OpenSlot(3);
  for (uint64_t i = 0; i < 4; ++i) {
    const auto place = slots_.TakeOpen(100, In(seconds(1)));
    ASSERT_TRUE(place.ok()) << place.status().ToString();
    EXPECT_FALSE(place->through);
    EXPECT_EQ(place->range.slot, 3u);
    EXPECT_EQ(place->range.slot_generation, 7u);
    EXPECT_EQ(place->range.offset, i * kChunkAlignment);
    EXPECT_EQ(place->range.bytes, 100u);
  }
  EXPECT_TRUE(Sent().empty()) << "there is room: nothing is asked for";
  EXPECT_EQ(slots_.TakeWaited(), Duration::zero());
}

// It is backed a little at first.
TEST_F(SlotAllocatorTest, TheOpenSlotGrows) {
  slots_.ExpectOpen();
  Answer(Asked(), AssignOutcome::kSlot, 3, 2 * kChunkAlignment);
  EXPECT_EQ(slots_.TakeOpen(kChunkAlignment, In(seconds(1)))->range.offset, 0u);
  const auto sent = Sent();
  ASSERT_EQ(sent.size(), 1u) << "less than a piece is left";
  const auto asked = sent[0].As<RequestPlace>();
  EXPECT_EQ(asked.grow.slot, 3u);
  EXPECT_EQ(asked.grow.slot_generation, 7u);
  EXPECT_EQ(asked.grow.bytes, kChunkAlignment + kSlotLimits.piece_bytes) << "as far as it is wanted";
  Answer(asked, AssignOutcome::kSlot, 3);
  const auto place = slots_.TakeOpen(2 * kChunkAlignment, In(seconds(1)));
  ASSERT_TRUE(place.ok()) << place.status().ToString();
  EXPECT_EQ(place->range.slot, 3u);
  EXPECT_EQ(place->range.offset, kChunkAlignment);
  slots_.ReturnFilled();
  EXPECT_TRUE(Sent().empty()) << "it is the open one still";
}

TEST_F(SlotAllocatorTest, ASlotThatGrowsAfterItWasReturnedIsNotUsed) {
  slots_.ExpectOpen();
  Answer(Asked(), AssignOutcome::kSlot, 3, kChunkAlignment);
  std::vector<ClientMessage> sent;
  const auto await = [&](size_t messages) {
    while (sent.size() < messages) {
      for (const ClientMessage& message : Sent()) sent.push_back(message);
      std::this_thread::sleep_for(milliseconds(1));
    }
  };
  std::thread agent([&] {
    await(1);
    EXPECT_TRUE(agent_out_.TryPush(RecallSlots{}));
    Answer(sent[0].As<RequestPlace>(), AssignOutcome::kSlot, 3);
    await(3);
    Answer(sent[2].As<RequestPlace>(), AssignOutcome::kSlot, 4);
  });
  const auto place = slots_.TakeOpen(2 * kChunkAlignment, In(seconds(10)));
  agent.join();
  ASSERT_TRUE(place.ok()) << place.status().ToString();
  EXPECT_EQ(place->range.slot, 4u);
  EXPECT_EQ(sent[0].As<RequestPlace>().grow.slot_generation, 7u) << "it is asked for more of that slot";
  EXPECT_EQ(sent[1].kind(), ClientMessageKind::kReturnSlot);
  EXPECT_EQ(sent[2].As<RequestPlace>().grow.slot_generation, 0u) << "and then for another one";
}

TEST_F(SlotAllocatorTest, TheNextSlotIsAskedForAheadAndTheOldOneReturned) {
  OpenSlot(1);
  ASSERT_TRUE(slots_.TakeOpen(kSlotBytes / 2, In(seconds(1))).ok());
  EXPECT_TRUE(Sent().empty());
  ASSERT_TRUE(slots_.TakeOpen(kSlotBytes / 2 - kChunkAlignment, In(seconds(1))).ok());
  const auto sent = Sent();
  ASSERT_EQ(sent.size(), 1u) << "less than half is left";
  slots_.ExpectOpen();
  EXPECT_TRUE(Sent().empty()) << "once";
  Answer(sent[0].As<RequestPlace>(), AssignOutcome::kSlot, 2);
  const auto place = slots_.TakeOpen(2 * kChunkAlignment, In(seconds(1)));
  ASSERT_TRUE(place.ok());
  EXPECT_EQ(place->range.slot, 2u);
  EXPECT_EQ(place->range.offset, 0u);
  EXPECT_TRUE(Sent().empty()) << "the image under way may have chunks in the full slot";
  slots_.ReturnFilled();
  const auto returned = Sent();
  ASSERT_EQ(returned.size(), 1u);
  EXPECT_EQ(returned[0].As<ReturnSlot>().slot.slot, 1u);
}

TEST_F(SlotAllocatorTest, TheLastPlaceGrowsWhileThereIsRoom) {
  OpenSlot(0);
  auto place = slots_.TakeOpen(100, In(seconds(1)));
  ASSERT_TRUE(place.ok());
  SlotRange first = place->range;
  EXPECT_TRUE(slots_.GrowOpen(&first, kChunkAlignment));
  EXPECT_EQ(first.bytes, 100 + kChunkAlignment);
  const auto next = slots_.TakeOpen(10, In(seconds(1)));
  ASSERT_TRUE(next.ok());
  EXPECT_EQ(next->range.offset, 2 * kChunkAlignment);
  EXPECT_FALSE(slots_.GrowOpen(&first, 1)) << "it is not the last one any more";
  SlotRange second = next->range;
  EXPECT_FALSE(slots_.GrowOpen(&second, kSlotBytes));
  EXPECT_EQ(second.bytes, 10u);
}

TEST_F(SlotAllocatorTest, AFullMailboxDelaysTheRequestOnly) {
  while (channel_.TryPush(ClientMessage{})) {
  }
  std::thread agent([&] {
    std::this_thread::sleep_for(milliseconds(20));  // the client waits by now
    for (bool answered = false; !answered; std::this_thread::sleep_for(milliseconds(1))) {
      for (const ClientMessage& message : Sent()) {
        if (message.kind() != ClientMessageKind::kRequestPlace) continue;
        Answer(message.As<RequestPlace>(), AssignOutcome::kSlot, 3);
        answered = true;
      }
    }
  });
  const auto place = slots_.TakeOpen(100, In(seconds(10)));
  EXPECT_TRUE(place.ok()) << place.status().ToString();
  if (!place.ok()) slots_.ExpectOpen();  // the agent waits for a request
  agent.join();
}

TEST_F(SlotAllocatorTest, WaitsForItsSlotAndSaysHowLong) {
  std::thread agent([this] {
    std::this_thread::sleep_for(milliseconds(30));
    const RequestPlace asked = Asked();
    EXPECT_EQ(asked.place, PlaceKind::kFullChunk);
    EXPECT_EQ(asked.bytes, 5000u);
    Answer(asked, AssignOutcome::kSlot, 9);
  });
  const auto place = slots_.TakeFull({5000}, In(seconds(20)));
  agent.join();
  ASSERT_TRUE(place.ok()) << place.status().ToString();
  EXPECT_EQ(place->range.slot, 9u);
  EXPECT_EQ(place->range.bytes, 5000u);
  EXPECT_GE(slots_.TakeWaited(), milliseconds(20));
}

TEST_F(SlotAllocatorTest, ARequestSaysWhatIsToCome) {
  slots_.ExpectFull({10, 7000});
  const RequestPlace asked = Asked();
  EXPECT_EQ(asked.bytes, 10u);
  EXPECT_EQ(asked.bytes_to_come, 7000u);
}

TEST_F(SlotAllocatorTest, ThroughAndTimeout) {
  slots_.ExpectFull({10});
  Answer(Asked(), AssignOutcome::kThrough);
  // Refused ahead of time: asked again, since there may be room by now.
  EXPECT_EQ(slots_.TakeFull({10}, In(milliseconds(20))).status().code(), Code::kTimeout);
  const RequestPlace asked = Asked();
  std::thread agent([&] {
    std::this_thread::sleep_for(milliseconds(20));
    Answer(asked, AssignOutcome::kThrough);
  });
  const auto place = slots_.TakeFull({10}, In(seconds(20)));
  agent.join();
  ASSERT_TRUE(place.ok());
  EXPECT_TRUE(place->through);
}

TEST_F(SlotAllocatorTest, ARecallGivesBackWhatIsUnused) {
  OpenSlot(1);
  slots_.ExpectFull({10});
  Answer(Asked(), AssignOutcome::kSlot, 2);
  Pump();
  ASSERT_TRUE(agent_out_.TryPush(RecallSlots{}));
  Pump();
  std::vector<uint32_t> returned;
  for (const ClientMessage& message : Sent()) returned.push_back(message.As<ReturnSlot>().slot.slot);
  EXPECT_THAT(returned, ::testing::UnorderedElementsAre(1u, 2u));
  EXPECT_TRUE(slots_.HeldAfterAgentLoss().empty());
}

TEST_F(SlotAllocatorTest, AfterALossTheHeldSlotsAreNamedAndRequestsForgotten) {
  OpenSlot(4);
  ASSERT_TRUE(slots_.TakeOpen(100, In(seconds(1))).ok());
  slots_.ExpectFull({10});
  const RequestPlace lost_request = Asked();
  const auto held = slots_.HeldAfterAgentLoss();
  ASSERT_EQ(held.size(), 1u);
  EXPECT_EQ(held[0].slot, 4u);
  slots_.ExpectFull({10});
  const auto again = Sent();
  ASSERT_EQ(again.size(), 1u) << "asked anew";
  // A late answer to the forgotten request is given back.
  Answer(lost_request, AssignOutcome::kSlot, 8);
  Pump();
  const auto returned = Sent();
  ASSERT_EQ(returned.size(), 1u);
  EXPECT_EQ(returned[0].As<ReturnSlot>().slot.slot, 8u);
}

TEST_F(SlotAllocatorTest, AChunkGreaterThanASlotIsRefused) {
  OpenSlot(1);
  EXPECT_EQ(slots_.TakeOpen(kSlotBytes + 1, In(milliseconds(20))).status().code(), Code::kNoSpace);
}

TEST_F(SlotAllocatorTest, TheAgentIsWokenOnlyWhenItSleeps) {
  slots_.ExpectFull({10});
  EXPECT_FALSE(wake_.Drain());
  control_->agent_sleeping = 1;
  slots_.ExpectOpen();
  EXPECT_TRUE(wake_.Drain());
}

class SlotSinkTest : public SlotAllocatorTest {
 protected:
  void SetUp() override {
    TierInfo info{"pool", "pool", TierKind::kMemory, folder_ / "pool", kSlotBytes, 8};
    auto pool = CreateMemoryTier(os::SystemFileSystem(), info);
    ASSERT_TRUE(pool.ok()) << pool.status().ToString();
    pool_ = std::move(pool->tier);
    SlotSinkContext context;
    context.channel = &channel_;
    context.slots = &slots_;
    context.tiers = {pool_.get()};
    context.tier_keys = {"pool"};
    context.limits = kSlotLimits;
    context.wait_timeout = seconds(1);
    sink_ = std::make_unique<SlotSink>(context);
  }

  const os::testing::TemporaryFolder folder_;
  std::unique_ptr<Tier> pool_;
  std::unique_ptr<SlotSink> sink_;
};

TEST_F(SlotSinkTest, SaysHowMuchOfItsImageIsToComeAndWhatWasWritten) {
  OpenSlot(0);  // for the image's identity
  constexpr uint64_t kRest = 20000;
  ASSERT_TRUE(sink_->Begin(ImageIdentity{}, 2 * kSlotBytes + kRest).ok());
  ImageRecord record;
  uint64_t to_come = 2 * kSlotBytes + kRest;
  for (const uint64_t bytes : {kSlotBytes, kSlotBytes, kRest}) {
    SCOPED_TRACE(to_come);
    sink_->ExpectChunk(bytes);
    const RequestPlace asked = Asked();
    to_come -= bytes;
    EXPECT_EQ(asked.bytes_to_come, to_come);
    Answer(asked, AssignOutcome::kSlot, 1 + static_cast<uint32_t>(record.chunks.size()));
    ASSERT_TRUE(sink_->OpenChunk(static_cast<uint32_t>(record.chunks.size()), bytes).ok());
    std::this_thread::sleep_for(milliseconds(2));
    ASSERT_TRUE(sink_->CloseChunk(bytes, &record).ok());
    const auto sent = Sent();
    ASSERT_FALSE(sent.empty());
    const auto written = sent.back().As<ChunkWritten>();
    EXPECT_EQ(written.range.bytes, bytes);
    EXPECT_GE(written.took_ns, 2'000'000u);
  }
  EXPECT_EQ(to_come, 0u);
  // An image of unknown size has nothing known to come.
  ASSERT_TRUE(sink_->Begin(ImageIdentity{}, 0).ok());
  sink_->ExpectChunk(kSlotBytes);
  EXPECT_EQ(Asked().bytes_to_come, 0u);
}

// A successor frees what it is not told of; so it is told also of a slot that was assigned and is not written yet.
TEST_F(SlotSinkTest, HoldsItsSlotsFromTheirAssignmentToTheImagesEnd) {
  const auto held = [this] {
    std::vector<uint32_t> slots;
    for (const HeldSlot& slot : sink_->HeldSlots()) {
      EXPECT_TRUE(slot.is_full_chunk);
      EXPECT_EQ(slot.slot_generation, 7u);
      slots.push_back(slot.slot);
    }
    return slots;
  };
  OpenSlot(0);
  ImageRecord record;
  record.identity = {{StoreId::Generate(), "job", "state", 1, 1, 1}, 0, 1};
  ASSERT_TRUE(sink_->Begin(record.identity, 2 * kSlotBytes).ok());
  std::vector<uint32_t> expected;
  for (uint32_t chunk = 0; chunk < 2; ++chunk) {
    sink_->ExpectChunk(kSlotBytes);
    Answer(Asked(), AssignOutcome::kSlot, 3 + chunk);
    ASSERT_TRUE(sink_->OpenChunk(chunk, kSlotBytes).ok());
    expected.push_back(3 + chunk);
    EXPECT_EQ(held(), expected) << "open";
    ASSERT_TRUE(sink_->CloseChunk(kSlotBytes, &record).ok());
    EXPECT_EQ(held(), expected) << "closed";
    (void)Sent();
  }
  const Status ended = sink_->End(record);
  ASSERT_TRUE(ended.ok()) << ended.ToString();
  EXPECT_EQ(held(), std::vector<uint32_t>()) << "the agent's by now";
}

TEST_F(SlotSinkTest, AnImageWhoseSessionWasReplacedEndsAtOnce) {
  ASSERT_TRUE(sink_->Begin(ImageIdentity{}, kSlotBytes).ok());
  channel_.MarkReplaced();
  EXPECT_EQ(sink_->OpenChunk(0, kSlotBytes).status().code(), Code::kUnavailable);
  EXPECT_LT(slots_.TakeWaited(), milliseconds(500)) << "no successor brings it back";
}

}  // namespace
}  // namespace kedge
