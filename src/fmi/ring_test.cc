#include "fmi/ring.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <thread>

namespace kedge::fmi {
namespace {

std::unique_ptr<RingMemory> Empty() {
  return std::make_unique<RingMemory>();
}

bool Put(RingWriter& writer, const std::string& text) {
  MessageHead head;
  head.kind = MessageKind::kEager;
  head.bytes = head.bytes_in_ring = static_cast<uint32_t>(text.size());
  return writer.Write(head, text.data());
}

// Nothing: there is none.
std::string Take(RingReader& reader) {
  const std::byte* data = nullptr;
  bool broken = false;
  const MessageHead* head = reader.Front(&data, &broken);
  EXPECT_FALSE(broken);
  if (head == nullptr) return "nothing";
  std::string text(reinterpret_cast<const char*>(data), head->bytes_in_ring);
  reader.Pop();
  return text;
}

TEST(Ring, GivesRecordsInTheirOrder) {
  const auto memory = Empty();
  RingWriter writer(memory.get());
  RingReader reader(memory.get());
  EXPECT_EQ(Take(reader), "nothing");
  EXPECT_TRUE(Put(writer, "one"));
  EXPECT_TRUE(Put(writer, ""));
  EXPECT_TRUE(Put(writer, std::string(kEagerBytesMax, 'x')));
  EXPECT_EQ(Take(reader), "one");
  EXPECT_EQ(Take(reader), "");
  EXPECT_EQ(Take(reader), std::string(kEagerBytesMax, 'x'));
  EXPECT_EQ(Take(reader), "nothing");
}

TEST(Ring, TellsTheReaderWhoWaitsForRoom) {
  const auto memory = Empty();
  RingWriter writer(memory.get());
  RingReader reader(memory.get());
  const std::string text(kEagerBytesMax, 'x');
  size_t put = 0;
  while (Put(writer, text)) ++put;
  EXPECT_GE(put, kRingBytes / kEagerBytesMax / 2);
  EXPECT_TRUE(reader.TakeWriterWaits());
  EXPECT_FALSE(reader.TakeWriterWaits());
  EXPECT_EQ(Take(reader), text);
  EXPECT_EQ(Take(reader), text);
  EXPECT_TRUE(Put(writer, text));
}

TEST(Ring, GoesOnWithSuccessorsOfBothSides) {
  const auto memory = Empty();
  std::mt19937 random(1);
  auto writer = std::make_unique<RingWriter>(memory.get());
  auto reader = std::make_unique<RingReader>(memory.get());
  uint64_t next = 0;
  uint64_t expected = 0;
  for (int i = 0; i < 100'000; ++i) {
    if (random() % 50 == 0) writer = std::make_unique<RingWriter>(memory.get());
    if (random() % 50 == 0) reader = std::make_unique<RingReader>(memory.get());
    if (random() % 2 == 0) {
      const std::string text = std::to_string(next) + std::string(random() % 9000, ' ');
      if (Put(*writer, text)) ++next;
    } else if (const std::string text = Take(*reader); text != "nothing") {
      ASSERT_EQ(std::stoull(text), expected++);
    }
  }
  EXPECT_GT(expected, 1000u);
}

TEST(Ring, CarriesWhatAnotherThreadWrites) {
  const auto memory = Empty();
  constexpr uint64_t kMessages = 200'000;
  std::thread writing([&] {
    RingWriter writer(memory.get());
    for (uint64_t i = 0; i < kMessages; ++i) {
      while (!Put(writer, std::to_string(i))) std::this_thread::yield();
    }
  });
  RingReader reader(memory.get());
  for (uint64_t i = 0; i < kMessages;) {
    const std::string text = Take(reader);
    if (text == "nothing") {
      std::this_thread::yield();
      continue;
    }
    EXPECT_EQ(text, std::to_string(i));
    ++i;
  }
  writing.join();
}

TEST(Ring, IsNotReadWhereItsLengthsMakeNoSense) {
  const auto memory = Empty();
  RingWriter writer(memory.get());
  RingReader reader(memory.get());
  ASSERT_TRUE(Put(writer, "text"));
  reinterpret_cast<MessageHead*>(memory->data)->bytes_in_ring = 1 << 20;
  const std::byte* data = nullptr;
  bool broken = false;
  EXPECT_EQ(reader.Front(&data, &broken), nullptr);
  EXPECT_TRUE(broken);
}

}  // namespace
}  // namespace kedge::fmi
