// What happens in one turn of the agent's loop, in orders that processes meet only by chance.

#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "agent/door/sessions.h"
#include "agent/space/assignment.h"
#include "agent/tables/run_folder.h"
#include "agent/tables/session.h"
#include "agent/testing/local_agent.h"
#include "base/crc32c.h"
#include "format/image_record.h"
#include "format/wire.h"
#include "os/files/files.h"
#include "schedule/schedule.h"

namespace kedge {
namespace {

using testing::LocalAgent;

constexpr uint64_t kSlotBytes = 64 << 10;

// A rank that takes a slot for each image, which consists of its record alone.
class Rank {
 public:
  Rank(LocalAgent& agent, uint32_t rank, const JobKeys& keys) : agent_(agent) {
    session_ = &agent.Attach(rank, 2, keys);
    session_id_ = session_->id;
    to_agent_ = ClientRingProducer(&session_->box().from_client);
    from_agent_ = AgentRingConsumer(&session_->box().from_agent);
  }
  ~Rank() {
    Session* session = agent_->core().sessions().Find(session_id_);  // that of the agent's successor, perhaps
    if (session != nullptr) agent_->sessions().End(*session, "the test is over");
  }

  void RequestSlot() { Push(RequestPlace{.place = PlaceKind::kFullChunk, .bytes = kSlotBytes}); }
  // Requests a slot, and takes what is assigned; no slot when there is none.
  SlotRange TakeSlot() {
    RequestSlot();
    agent_->sessions().DrainAll();
    AgentMessage message{};
    if (from_agent_.Peek(&message) != RingPeek::kMessage) return SlotRange{};
    from_agent_.Advance();
    return message.kind() == AgentMessageKind::kAssignPlace ? message.As<AssignPlace>().range : SlotRange{};
  }
  // Announces the end of an image in `slot` and gives the slot back, for the agent to read when it next looks.
  void PushImage(int64_t version, SlotRange slot, std::optional<uint32_t> due_levels = std::nullopt) {
    ImageRecord record;
    record.identity = {{agent_.store_id(), "job", "name", version, 1, 1}, session_->hello.rank, 2};
    PlacementTable table;
    table.identity = record.identity;
    Buffer bytes;
    KEDGE_CHECK(EncodeImageRecord(record, &bytes).ok());
    const uint64_t record_bytes = bytes.size();
    KEDGE_CHECK(EncodePlacementTable(table, &bytes).ok());
    std::memcpy(agent_.pool().tier->SlotMemory(slot.slot), bytes.data(), bytes.size());
    slot.offset = 0;
    slot.bytes = bytes.size();
    const auto turn = static_cast<uint32_t>(version) - 1;  // in the attempt
    const uint32_t counted_levels = EncodeDueLevels(LevelsByCount(ConfiguredLevels(session_->hello.keys), turn));
    Push(ImageEnd{.due_levels = due_levels.value_or(counted_levels),
                  .image_serial = ++serial_,
                  .range = slot,
                  .record_bytes = record_bytes,
                  .crc32c = crc32c::Compute(bytes.data(), bytes.size())});
    Push(ReturnSlot{.slot = slot});
  }
  // `due_levels`: what the message says, else what the configured counts make of it.
  void Capture(int64_t version, std::optional<uint32_t> due_levels = std::nullopt) {
    const SlotRange slot = TakeSlot();
    KEDGE_CHECK(slot.slot_generation != 0);
    PushImage(version, slot, due_levels);
    agent_->sessions().DrainAll();
  }

 private:
  void Push(const ClientMessage& message) { KEDGE_CHECK(to_agent_.TryPush(message)); }

  LocalAgent& agent_;
  Session* session_ = nullptr;
  uint32_t session_id_ = 0;
  ClientRingProducer to_agent_;
  AgentRingConsumer from_agent_;
  uint64_t serial_ = 0;
};

FlushState FlushOf(LocalAgent& agent, int64_t version) {
  const Version* found = agent->core().FindVersion({agent.store_id(), "job", "name", version, 1, 1});
  return found == nullptr ? FlushState::kNone : found->images.begin()->second->flush;
}

// An image that a successor would not find is at no level, and nothing older goes for it.
TEST(Images, AnImageCountsOnceItsLocalRecordIsWritten) {
  LocalAgent agent(4, kSlotBytes);
  JobKeys keys;
  keys.schedule_store = 0;
  Rank rank(agent, 0, keys), other(agent, 1, keys);
  const auto find = [&](int64_t version) { return agent->core().FindVersion({agent.store_id(), "job", "name", version, 1, 1}); };
  rank.Capture(1);
  other.Capture(1);
  ASSERT_TRUE(find(1)->IsWhole());
  const std::string records = agent->core().Path("records"), away = agent->core().Path("away");
  ASSERT_TRUE(fs().Rename(records, away).ok());
  rank.Capture(2);
  other.Capture(2);
  agent.Turn();
  ASSERT_NE(find(1), nullptr);
  EXPECT_FALSE(find(2)->IsWhole());
  EXPECT_EQ(find(2)->ReachedLevel(), Level::kNone);
  ASSERT_TRUE(fs().Rename(away, records).ok());
  EXPECT_TRUE(agent.TurnUntil([&] { return find(2)->IsWhole() && find(1) == nullptr; }));
  EXPECT_EQ(find(2)->ReachedLevel(), Level::kLocal);
}

// What has been found damaged is no copy for the successor either: nothing older goes for it, and no level is said of it.
TEST(Images, ADamagedOneIsDamagedForTheSuccessorToo) {
  LocalAgent agent(6, kSlotBytes);
  JobKeys keys;
  keys.schedule_store = 0;
  Rank rank(agent, 0, keys), other(agent, 1, keys);
  const auto find = [&](int64_t version) { return agent->core().FindVersion({agent.store_id(), "job", "name", version, 1, 1}); };
  rank.Capture(1);
  other.Capture(1);
  rank.Capture(2);
  agent->retention().OnDamaged(*find(2), 0, Status(Code::kCorrupt, "a byte of it has changed"));
  other.Capture(2);
  agent.Turn();
  for (const bool succeeded : {false, true}) {
    SCOPED_TRACE(succeeded);
    if (succeeded) agent.Succeed();
    agent.Turn();
    ASSERT_NE(find(2), nullptr);
    EXPECT_TRUE(find(2)->images.at(0)->damaged);
    EXPECT_FALSE(find(2)->IsWhole());
    EXPECT_EQ(find(2)->ReachedLevel(), Level::kNone);
    // Before, it has another failure already: all takings of this test have one number.
    EXPECT_EQ(find(2)->failure.code(), succeeded ? Code::kCorrupt : Code::kMismatch);
    ASSERT_NE(find(1), nullptr) << "it is the newest that is whole";
    EXPECT_EQ(find(1)->ReachedLevel(), Level::kLocal);
  }
}

// As if an agent of the protocol before had written the file, in which a Hello stands and whose checksum is at its end.
void WriteInFormerProtocol(const std::string& path) {
  static_assert(kProtocolVersion < 128, "it takes one byte");
  std::string bytes = os::ReadFile(fs(), path, 1 << 20).value();
  bytes.resize(bytes.size() - sizeof(uint32_t));
  const std::string kind_and_number(9, '\0');
  const size_t hello = bytes.find(kind_and_number + static_cast<char>(kProtocolVersion));
  ASSERT_NE(hello, std::string::npos);
  bytes[hello + kind_and_number.size()] = static_cast<char>(kProtocolVersion - 1);
  Buffer checksum;
  Encoder encoder(checksum);
  encoder.U32(crc32c::Compute(bytes.data(), bytes.size()));
  encoder.Finish();
  bytes += AsText(checksum);
  ASSERT_TRUE(os::WriteFileDurably(fs(), path, bytes, "test").ok());
}

// What it wrote may mean something else by now: levels, for one, have had other numbers.
TEST(Images, WhatAnAgentOfAnotherProtocolLeftIsNotTakenUp) {
  LocalAgent agent(4, kSlotBytes);
  JobKeys keys;
  keys.schedule_store = 0;
  Rank rank(agent, 0, keys);
  rank.Capture(1);
  const auto is_there = [&] { return agent->core().FindVersion({agent.store_id(), "job", "name", 1, 1, 1}) != nullptr; };
  agent.Succeed();
  ASSERT_TRUE(is_there());
  for (const char* folder : {"jobs", "sessions"}) {
    const auto entries = fs().List(agent->core().Path(folder));
    ASSERT_TRUE(entries.ok() && !entries->empty()) << folder;
    for (const auto& entry : *entries) {
      if (std::string_view(folder) == "sessions" && !entry.name.ends_with(".hello")) continue;
      ASSERT_NO_FATAL_FAILURE(WriteInFormerProtocol(agent->core().Path(std::string(folder) + "/" + entry.name)));
    }
  }
  agent.Succeed();
  EXPECT_FALSE(is_there());
  EXPECT_TRUE(agent->core().jobs().empty()) << "nor is there a job without a name";
  EXPECT_TRUE(agent->core().sessions().all().empty());
}

// The levels that a rank's message says are those that the version gets, as far as the configuration goes: whatever else the
// message says, a level that is off is not reached.
TEST(Images, AVersionGetsWhatItsRankSaysAndTheKeysAllow) {
  for (const uint32_t store : {0u, 5u}) {
    LocalAgent agent(4, kSlotBytes);
    JobKeys keys;
    keys.schedule_store = store;
    keys.keep_local = 4;
    Rank rank(agent, 0, keys);
    const auto scheduled = [&](int64_t version, uint32_t due_levels) {
      rank.Capture(version, due_levels);
      const Version* found = agent->core().FindVersion({agent.store_id(), "job", "name", version, 1, 1});
      KEDGE_CHECK(found != nullptr && !found->to_node);
      return found->scheduled();
    };
    const Level last = store > 0 ? Level::kStore : Level::kLocal;
    EXPECT_EQ(scheduled(1, 0), Level::kLocal) << "the first of an attempt, and the rank counts otherwise";
    EXPECT_EQ(scheduled(2, kDueStore), last);
    EXPECT_EQ(scheduled(3, kDueNode), Level::kLocal) << "the job does not protect across nodes";
    EXPECT_EQ(scheduled(4, ~0u), last);
  }
}

// Version 3 becomes whole, for which version 2, a half one, is dropped; its slot goes to the first of two that wait for one,
// and version 1, which the store has got a moment ago, to the second: in the middle of the walk that reaches version 1 next.
TEST(Images, RoomIsMadeAfterAWalkOverVersionsAndNotInIt) {
  LocalAgent agent(5, kSlotBytes);
  JobKeys keys;
  keys.keep_local = 2;
  keys.schedule_store = 2;  // versions 1 and 3
  Rank first(agent, 0, keys), second(agent, 1, keys);
  first.Capture(1);
  second.Capture(1);
  ASSERT_TRUE(agent.TurnUntil([&] { return FlushOf(agent, 1) == FlushState::kPublishing; }));
  ASSERT_TRUE(agent->core().WaitIdle(std::chrono::seconds(20)));  // version 1 is in the store; the loop does not know yet
  first.Capture(2);
  first.Capture(3);
  const SlotRange last = second.TakeSlot();
  ASSERT_NE(last.slot_generation, 0u);
  first.RequestSlot();
  first.RequestSlot();
  agent->sessions().DrainAll();
  ASSERT_EQ(agent->assignment().waiting(), 2u);
  second.PushImage(3, last);
  ASSERT_TRUE(agent->core().loop().RunOnce(Duration::zero()).ok());
  agent->sessions().DrainAll();
  EXPECT_TRUE(agent.TurnUntil([&] { return agent->assignment().waiting() == 0; }));
  EXPECT_EQ(agent->core().FindVersion({agent.store_id(), "job", "name", 2, 1, 1}), nullptr);
}

// An image that is written while others of its version are being published goes to the store after them: rank 1 comes when the
// time has passed for which rank 0's waits for it.
TEST(Images, OneThatIsWrittenWhileOthersArePublishedIsPublishedToo) {
  LocalAgent agent(4, kSlotBytes);
  Rank first(agent, 0, {}), second(agent, 1, {});
  first.Capture(1);
  ASSERT_TRUE(agent.TurnUntil([&] { return FlushOf(agent, 1) == FlushState::kPublishing; }));
  second.Capture(1);
  const Version* version = agent->core().FindVersion({agent.store_id(), "job", "name", 1, 1, 1});
  ASSERT_EQ(version->images.at(0)->flush, FlushState::kPublishing);
  ASSERT_EQ(version->images.at(1)->flush, FlushState::kWritten);
  EXPECT_TRUE(agent.TurnUntil([&] { return version->in_store(); }));
}

// What waits to be written by other nodes is not taken back for a rank that has a place as soon as its memory is made.
TEST(Images, MemoryThatIsBeingMadeIsNoWantOfRoom) {
  LocalAgent agent(2, kSlotBytes);
  Rank first(agent, 0, {}), second(agent, 1, {});
  for (uint32_t slot = 0; slot < 2; ++slot) agent.pool().space->SetBacked(slot, 0);
  first.RequestSlot();
  agent->sessions().DrainAll();
  ASSERT_EQ(agent->assignment().waiting(), 1u);
  EXPECT_FALSE(agent->assignment().WantsRoom());
  ASSERT_TRUE(agent.TurnUntil([&] { return agent->assignment().waiting() == 0; }));
  first.RequestSlot();
  ASSERT_TRUE(agent.TurnUntil([&] { return agent.pool().space->AssignedTo(1) == 2; }));
  second.RequestSlot();
  agent->sessions().DrainAll();
  ASSERT_EQ(agent->assignment().waiting(), 1u);
  EXPECT_TRUE(agent->assignment().WantsRoom());
}

// Who waits for room gets it when a version becomes cached, not when somebody next looks.
TEST(Images, ACachedVersionMakesRoomAtOnce) {
  LocalAgent agent(3, kSlotBytes);
  Rank first(agent, 0, {}), second(agent, 1, {});
  first.Capture(1);
  second.Capture(1);
  ASSERT_NE(second.TakeSlot().slot_generation, 0u);  // which it might give back: that is waited for
  first.RequestSlot();
  agent->sessions().DrainAll();
  ASSERT_EQ(agent->assignment().waiting(), 1u);
  ASSERT_TRUE(agent.TurnUntil([&] { return FlushOf(agent, 1) == FlushState::kPublishing; }));
  ASSERT_TRUE(agent->core().WaitIdle(std::chrono::seconds(20)));
  agent.Turn();  // hears of it
  agent.Turn();
  EXPECT_EQ(agent->assignment().waiting(), 0u);
}

// One that the ranks of this node have taken alone is no newer one to go on from: until others have it, the one before goes last.
TEST(Images, TheNewestCompleteVersionIsTheLastToMakeRoom) {
  LocalAgent agent(4, kSlotBytes);
  Rank rank(agent, 0, {}), other(agent, 1, {});
  const auto find = [&](int64_t version) { return agent->core().FindVersion({agent.store_id(), "job", "name", version, 1, 1}); };
  rank.Capture(1);
  other.Capture(1);
  ASSERT_TRUE(agent.TurnUntil([&] { return find(1)->in_store(); }));
  rank.Capture(2);
  find(2)->node_ranks = 1;  // the other rank is on another node, and has yet to take it
  ASSERT_TRUE(find(2)->IsWhole());
  ASSERT_LT(find(2)->ReachedLevel(), Level::kLocal);
  EXPECT_FALSE(agent->retention().EvictOldest(&agent.pool(), /*also_newest=*/false));
  EXPECT_NE(find(1), nullptr);
  EXPECT_TRUE(agent->retention().EvictOldest(&agent.pool(), /*also_newest=*/true));
  EXPECT_EQ(find(1), nullptr);
}

}  // namespace
}  // namespace kedge
