// Images that leave out what the one before has: filled before anybody sees them, by whichever agent, and their base kept for it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "agent/door/sessions.h"
#include "agent/space/assignment.h"
#include "agent/tables/session.h"
#include "agent/testing/local_agent.h"
#include "base/crc32c.h"
#include "format/image_record.h"

namespace kedge {
namespace {

using testing::LocalAgent;

constexpr uint64_t kGapSlotBytes = 64 << 10;
constexpr uint64_t kGapChunkBytes = 16 << 10;
constexpr uint64_t kGapRecordOffset = 32 << 10;

// A rank whose images are one chunk and their record, in one slot.
class BuildingRank {
 public:
  explicit BuildingRank(LocalAgent& agent, bool to_store = false) : agent_(agent), to_store_(to_store) {
    JobKeys keys;
    keys.schedule_store = to_store ? 1 : 0;
    session_id_ = agent.Attach(0, 1, keys).id;
    to_agent_ = ClientRingProducer(&box().from_client);
    from_agent_ = AgentRingConsumer(&box().from_agent);
  }
  ~BuildingRank() {
    if (Session* session = agent_->core().sessions().Find(session_id_)) agent_->sessions().End(*session, "the test is over");
  }

  Mailbox& box() { return agent_->core().sessions().Find(session_id_)->box(); }
  SlotRange TakeSlot() {
    Push(RequestPlace{.place = PlaceKind::kFullChunk, .bytes = kGapSlotBytes});
    agent_->sessions().DrainAll();
    AgentMessage message{};
    if (from_agent_.Peek(&message) != RingPeek::kMessage) return SlotRange{};
    from_agent_.Advance();
    KEDGE_CHECK(message.kind() == AgentMessageKind::kAssignPlace);
    return message.As<AssignPlace>().range;
  }
  // The end of an image whose chunk is to hold `content`: what `gaps` leave out is other bytes in the slot.
  void PushEnd(const SlotRange& slot, const std::string& content, const GapTable& gaps) {
    std::byte* const memory = agent_.pool().tier->SlotMemory(slot.slot);
    std::memcpy(memory, content.data(), kGapChunkBytes);
    for (const Gap& gap : gaps.gaps) {
      if (gap.offset + gap.bytes <= kGapChunkBytes) std::memset(memory + gap.offset, 0xEE, gap.bytes);
    }
    ImageRecord record;
    record.identity = {{agent_.store_id(), "job", "name", ++version_, 1, static_cast<uint32_t>(version_)}, 0, 1};
    Region region;
    region.id = 1;
    region.bytes = kGapChunkBytes;
    record.regions = {region};
    record.chunks = {Chunk{0, 0, kGapChunkBytes}};
    record.extents = {Extent{0, 0, kGapChunkBytes, 0, 0, crc32c::Compute(content.data(), kGapChunkBytes)}};
    PlacementTable table;
    table.identity = record.identity;
    table.tiers = {agent_.pool().info().key};
    table.chunks = {Placement{PlacementKind::kSlot, 0, slot.slot, slot.slot_generation, 0, kGapChunkBytes}};
    Buffer bytes;
    KEDGE_CHECK(EncodeImageRecord(record, &bytes).ok());
    const uint64_t record_bytes = bytes.size();
    KEDGE_CHECK(EncodePlacementTable(table, &bytes).ok());
    const uint64_t tables_bytes = bytes.size();
    EncodeGapTable(gaps, &bytes);
    std::memcpy(memory + kGapRecordOffset, bytes.data(), bytes.size());
    SlotRange range = slot;
    range.offset = kGapRecordOffset;
    range.bytes = bytes.size();
    Push(ImageEnd{.due_levels = to_store_ ? kDueStore : 0u,
                  .image_serial = static_cast<uint64_t>(version_),
                  .range = range,
                  .record_bytes = record_bytes,
                  .crc32c = crc32c::Compute(bytes.data(), bytes.size()),
                  .gap_table_bytes = static_cast<uint32_t>(bytes.size() - tables_bytes)});
    Push(ReturnSlot{.slot = slot});
  }
  // As a client does that finds the base there.
  bool ClaimBase(uint64_t serial) {
    box().building_on = serial;
    return box().base_serial == serial;
  }
  bool IsThere(int64_t version) {
    const Image* image = agent_->core().FindWhole(GenerationOf(version), 0);
    return image != nullptr && !image->doomed;
  }
  // It is in the store, and may be let go of here.
  bool IsStored(int64_t version) {
    const Version* found = agent_->core().FindVersion(GenerationOf(version));
    return found != nullptr && found->in_store() && !found->images.at(0)->pinned;
  }
  std::string ContentOf(int64_t version) {
    const Image* image = agent_->core().FindWhole(GenerationOf(version), 0);
    if (image == nullptr) return "there is none";
    const ImageChunk& chunk = image->chunks[0];
    return {reinterpret_cast<const char*>(chunk.unit->tier->SlotMemory(chunk.slot) + chunk.offset), chunk.bytes};
  }
  int failures() {
    int failures = 0;
    for (AgentMessage message{}; from_agent_.Peek(&message) == RingPeek::kMessage; from_agent_.Advance()) {
      failures += message.kind() == AgentMessageKind::kFlushFailed ? 1 : 0;
    }
    return failures;
  }

 private:
  Generation GenerationOf(int64_t version) const {
    return {agent_.store_id(), "job", "name", version, 1, static_cast<uint32_t>(version)};
  }
  void Push(const ClientMessage& message) { KEDGE_CHECK(to_agent_.TryPush(message)); }

  LocalAgent& agent_;
  const bool to_store_;
  uint32_t session_id_ = 0;
  ClientRingProducer to_agent_;
  AgentRingConsumer from_agent_;
  int64_t version_ = 0;
};

std::string Filled(char with) {
  return std::string(kGapChunkBytes, with);
}

// The second of two images has a changed page at 4 KiB.
std::string SecondContent() {
  std::string content = Filled('a');
  std::fill_n(content.begin() + 4096, 4096, 'b');
  return content;
}
const GapTable kSecondGaps{1, {{0, 0, 4096}, {0, 8192, 8192}}};

TEST(ImageGaps, AreFilledFromTheBaseBeforeTheImageIsThere) {
  LocalAgent agent(4, kGapSlotBytes);
  BuildingRank rank(agent);
  rank.PushEnd(rank.TakeSlot(), Filled('a'), {});
  agent.Turn();
  ASSERT_TRUE(rank.IsThere(1));
  ASSERT_TRUE(rank.ClaimBase(1)) << "an image with a gap table is the base of the next";
  rank.PushEnd(rank.TakeSlot(), SecondContent(), kSecondGaps);
  agent->sessions().DrainAll(/*may_wait=*/true);
  EXPECT_EQ(rank.ContentOf(2), SecondContent());
  EXPECT_EQ(rank.box().base_serial, 2u);
  // The same with the agent's own turns.
  ASSERT_TRUE(rank.ClaimBase(2));
  rank.PushEnd(rank.TakeSlot(), SecondContent(), {2, {{0, 0, kGapChunkBytes}}});
  ASSERT_TRUE(agent.TurnUntil([&] { return rank.IsThere(3); }));
  EXPECT_EQ(rank.ContentOf(3), SecondContent());
  EXPECT_EQ(rank.failures(), 0);
}

TEST(ImageGaps, ASuccessorFillsWhatItFindsInTheMailbox) {
  LocalAgent agent(4, kGapSlotBytes);
  BuildingRank rank(agent);
  rank.PushEnd(rank.TakeSlot(), Filled('a'), {});
  agent.Turn();
  ASSERT_TRUE(rank.ClaimBase(1));
  rank.PushEnd(rank.TakeSlot(), SecondContent(), kSecondGaps);
  agent.Succeed();
  EXPECT_EQ(rank.ContentOf(2), SecondContent()) << "before anybody could want the base's slot";
  EXPECT_EQ(rank.box().base_serial, 2u);
  agent.Succeed();
  EXPECT_EQ(rank.ContentOf(2), SecondContent());
  EXPECT_EQ(rank.box().base_serial, 2u) << "it is the base for the next agent, too";
}

// Of versions that are in the store, and so may be let go of.
TEST(ImageGaps, TheBaseStaysWhileAnImageIsBuiltOnIt) {
  LocalAgent agent(3, kGapSlotBytes);
  BuildingRank rank(agent, /*to_store=*/true);
  rank.PushEnd(rank.TakeSlot(), Filled('a'), {});
  ASSERT_TRUE(agent.TurnUntil([&] { return rank.IsStored(1); }));
  ASSERT_TRUE(rank.ClaimBase(1));
  EXPECT_FALSE(agent->retention().EvictOldest(&agent.pool(), /*also_newest=*/true));
  EXPECT_TRUE(rank.IsThere(1));
  EXPECT_EQ(rank.box().base_serial, 1u);
  rank.PushEnd(rank.TakeSlot(), SecondContent(), kSecondGaps);
  ASSERT_TRUE(agent.TurnUntil([&] { return rank.IsStored(2) && !rank.IsThere(1); })) << "the base goes as any older one does";
  EXPECT_EQ(rank.ContentOf(2), SecondContent());
  // With nobody at work on it the agent may let go of it, and says so.
  EXPECT_TRUE(agent->retention().EvictOldest(&agent.pool(), /*also_newest=*/true));
  EXPECT_FALSE(rank.IsThere(2));
  EXPECT_FALSE(rank.ClaimBase(2));
}

TEST(ImageGaps, ADamagedImageIsNoBase) {
  LocalAgent agent(3, kGapSlotBytes);
  BuildingRank rank(agent);
  rank.PushEnd(rank.TakeSlot(), Filled('a'), {});
  agent.Turn();
  Version* version = agent->core().FindVersion({agent.store_id(), "job", "name", 1, 1, 1});
  ASSERT_NE(version, nullptr);
  agent->retention().OnDamaged(*version, 0, Status(Code::kCorrupt, "a byte of it has changed"));
  EXPECT_FALSE(rank.ClaimBase(1));
}

// A client may write anything there.
TEST(ImageGaps, ThatCannotBeAreRefusedAndTheClientIsTold) {
  const GapTable impossible[] = {
      {1, {{1, 0, 10}}}, {1, {{0, kGapChunkBytes, 1}}}, {1, {{0, kGapChunkBytes - 1, 2}}}, {7, {{0, 0, 10}}}, {0, {{0, 0, 10}}}};
  for (const GapTable& gaps : impossible) {
    LocalAgent agent(4, kGapSlotBytes);
    BuildingRank rank(agent);
    rank.PushEnd(rank.TakeSlot(), Filled('a'), {});
    agent.Turn();
    rank.PushEnd(rank.TakeSlot(), SecondContent(), gaps);
    agent->sessions().DrainAll(/*may_wait=*/true);
    EXPECT_FALSE(rank.IsThere(2));
    EXPECT_EQ(rank.failures(), 1);
    EXPECT_EQ(rank.ContentOf(1), Filled('a'));
    rank.PushEnd(rank.TakeSlot(), Filled('c'), {});
    agent->sessions().DrainAll();
    EXPECT_EQ(rank.ContentOf(3), Filled('c')) << "the session goes on";
  }
}

}  // namespace
}  // namespace kedge
