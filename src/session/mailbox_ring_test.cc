// The rings in order, across threads, and with a peer that writes nonsense.
#include "session/mailbox_ring.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <thread>

#include "base/random.h"

namespace kedge {
namespace {

using TestRing = Ring<ClientMessage, kClientRingEntries>;

ClientMessage Numbered(uint64_t number) {
  return ChunkProgress{.image_serial = number, .captured_bytes = ~number};
}

TEST(RingEntry, HoldsOneOfItsStructs) {
  ClientMessage message = ImageEnd{.due_levels = kDueStore, .image_serial = 5, .record_bytes = 6, .crc32c = 7};
  ASSERT_EQ(message.kind(), ClientMessageKind::kImageEnd);
  const auto end = message.As<ImageEnd>();
  EXPECT_EQ(end.due_levels, kDueStore);
  EXPECT_EQ(end.image_serial, 5u);
  EXPECT_EQ(end.record_bytes, 6u);
  EXPECT_EQ(end.crc32c, 7u);
  std::memset(static_cast<void*>(&message), 0xff, sizeof message);
  EXPECT_EQ(message.kind(), static_cast<ClientMessageKind>(UINT32_MAX)) << "whatever lies there";
}

TEST(RingEntry, TextEndsWithItsField) {
  EXPECT_EQ(RingText("no space").view(), "no space");
  RingText text;
  std::memset(static_cast<void*>(&text), 'y', sizeof text);
  EXPECT_EQ(text.view(), std::string(sizeof text, 'y'));
}

TEST(Ring, DeliversInOrderAndRefusesWhenFull) {
  auto ring = std::make_unique<TestRing>();
  ClientRingProducer producer(ring.get());
  ClientRingConsumer consumer(ring.get());
  ClientMessage message;
  EXPECT_EQ(consumer.Peek(&message), RingPeek::kEmpty);
  for (uint64_t i = 0; i < kClientRingEntries; ++i) EXPECT_TRUE(producer.TryPush(Numbered(i)));
  EXPECT_FALSE(producer.TryPush(Numbered(0)));
  for (uint64_t i = 0; i < kClientRingEntries; ++i) {
    ASSERT_EQ(consumer.Peek(&message), RingPeek::kMessage);
    EXPECT_EQ(message.As<ChunkProgress>().image_serial, i);
    consumer.Advance();
  }
  EXPECT_EQ(consumer.Peek(&message), RingPeek::kEmpty);
  EXPECT_EQ(producer.Room(), kClientRingEntries);
}

TEST(Ring, PeekLeavesTheEntryForASuccessor) {
  auto ring = std::make_unique<TestRing>();
  ClientRingProducer producer(ring.get());
  producer.TryPush(Numbered(7));
  ClientMessage message;
  {
    ClientRingConsumer first(ring.get());
    ASSERT_EQ(first.Peek(&message), RingPeek::kMessage);
  }
  ClientRingConsumer successor(ring.get());
  ASSERT_EQ(successor.Peek(&message), RingPeek::kMessage);
  EXPECT_EQ(message.As<ChunkProgress>().image_serial, 7u);
  successor.Advance();
  EXPECT_EQ(successor.Peek(&message), RingPeek::kEmpty);
}

TEST(Ring, IndexThatRunsAheadOrBackIsBroken) {
  auto ring = std::make_unique<TestRing>();
  ClientRingProducer producer(ring.get());
  ClientRingConsumer consumer(ring.get());
  ClientMessage message;
  ring->produced.store(kClientRingEntries + 1);
  EXPECT_EQ(consumer.Peek(&message), RingPeek::kBroken);
  ring->produced.store(3);
  EXPECT_EQ(consumer.Peek(&message), RingPeek::kMessage);
  consumer.Advance();
  ring->produced.store(2);
  EXPECT_EQ(consumer.Peek(&message), RingPeek::kBroken) << "produced went back from 3 to 2";
  ring->produced.store(0);
  EXPECT_EQ(consumer.Peek(&message), RingPeek::kBroken) << "produced is behind consumed";
}

TEST(Ring, ProducerSurvivesAnyConsumedIndex) {
  auto ring = std::make_unique<TestRing>();
  ClientRingProducer producer(ring.get());
  Random random(1);
  for (int i = 0; i < 10000; ++i) {
    ring->consumed.store(random.Next());
    EXPECT_LE(producer.Room(), kClientRingEntries);
    producer.TryPush(Numbered(1));
  }
  ring->consumed.store(~uint64_t{0});
  ring->produced.store(0);
  ClientRingProducer fresh(ring.get());
  EXPECT_EQ(fresh.Room(), kClientRingEntries - 1);
}

TEST(Ring, ThreadsSeeWholeMessages) {
  auto ring = std::make_unique<TestRing>();
  constexpr uint64_t kMessages = 200000;
  std::thread writer([&] {
    ClientRingProducer producer(ring.get());
    for (uint64_t i = 0; i < kMessages;) {
      if (producer.TryPush(Numbered(i)))
        ++i;
      else
        std::this_thread::yield();
    }
  });
  ClientRingConsumer consumer(ring.get());
  uint64_t wrong = 0;
  for (uint64_t i = 0; i < kMessages;) {
    ClientMessage message;
    if (consumer.Peek(&message) != RingPeek::kMessage) {
      std::this_thread::yield();
      continue;
    }
    const auto progress = message.As<ChunkProgress>();
    wrong += progress.image_serial != i || progress.captured_bytes != ~i;
    consumer.Advance();
    ++i;
  }
  writer.join();
  EXPECT_EQ(wrong, 0u);
}

TEST(RingEntry, TextThatIsTooLongKeepsBeginAndEnd) {
  EXPECT_EQ(RingText("flush: No space left on device").view(), "flush: No space left on device");
  const std::string longest(200, 'x');
  EXPECT_EQ(RingText(longest).view(), longest);
  const std::string text = "pwrite /scratch/" + std::string(300, 'x') + ": No space left on device";
  const RingText kept(text);
  EXPECT_EQ(kept.view().size(), 200u);
  EXPECT_TRUE(kept.view().starts_with("pwrite /scratch/xx"));
  EXPECT_TRUE(kept.view().ends_with("xx: No space left on device"));
  EXPECT_NE(kept.view().find("x ... x"), std::string_view::npos);
}

}  // namespace
}  // namespace kedge
