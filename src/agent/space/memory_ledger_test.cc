// What is backed of memory tiers, and when it goes back. LocalAgent's own pool is backed as a whole; the tests use a scratch.
#include "agent/space/memory_ledger.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "agent/daemon/agent.h"
#include "agent/door/sessions.h"
#include "agent/space/tiers.h"
#include "agent/tables/session.h"
#include "agent/testing/local_agent.h"
#include "base/clock.h"
#include "os/files/files.h"
#include "os/testing/temporary_folder.h"

namespace kedge {
namespace {

using namespace std::chrono_literals;

using LedgerFound = MemoryLedger::Found;
constexpr uint32_t kLedgerSlots = 8;
constexpr uint64_t kLedgerSlotBytes = uint64_t{2} << 20;
constexpr uint32_t kLedgerOwner = 7;

class MemoryLedgerTest : public ::testing::Test {
 protected:
  MemoryLedgerTest() { keys_.scratch = folder_.path(); }

  MemoryLedger& memory() { return agent_->memory(); }
  TierUnit& Scratch() { return *agent_->tiers().ForJob(keys_).value().at(0); }
  // Gives back what the pool has spare: it counts under the same ceiling.
  void EmptyPool() {
    TierUnit& pool = agent_.pool();
    for (uint32_t slot = 0; slot < kLedgerSlots; ++slot) {
      ASSERT_TRUE(pool.tier->Release(slot).ok());
      pool.space->SetBacked(slot, 0);
    }
  }
  LedgerFound Ask(TierUnit& unit, uint64_t bytes = kLedgerSlotBytes, uint32_t* slot = nullptr) {
    uint32_t ignored = 0;
    return memory().Find(&unit, kLedgerOwner, bytes, MemoryLedger::Use::kWhole, slot == nullptr ? &ignored : slot);
  }
  void TurnFor(Duration time) {
    const Deadline deadline(SystemClock(), time);
    while (!deadline.Passed()) {
      agent_.Turn();
      std::this_thread::sleep_for(1ms);
    }
  }
  // Asks as somebody does who waits, until there is one.
  uint32_t Get(TierUnit& unit) {
    uint32_t slot = UINT32_MAX;
    EXPECT_TRUE(agent_.TurnUntil([&] {
      memory().BeginAsking();
      return Ask(unit, kLedgerSlotBytes, &slot) == LedgerFound::kReady;
    }));
    return slot;
  }

  const os::testing::TemporaryFolder folder_{"/dev/shm"};
  JobKeys keys_;
  testing::LocalAgent agent_{kLedgerSlots, kLedgerSlotBytes};
};

TEST_F(MemoryLedgerTest, NothingIsTakenBeforeSomebodyAsks) {
  EmptyPool();
  TierUnit& unit = Scratch();
  for (int i = 0; i < 20; ++i) agent_.Turn();
  EXPECT_EQ(unit.tier->SpaceBytes().value(), 0u);
  EXPECT_EQ(Ask(unit), LedgerFound::kSoon);
  const uint32_t slot = Get(unit);
  EXPECT_EQ(unit.space->BackedIn(slot), kLedgerSlotBytes);
  EXPECT_EQ(unit.tier->SpaceBytes().value(), kLedgerSlotBytes);
  EXPECT_EQ(memory().backed_bytes(), kLedgerSlotBytes);
}

TEST_F(MemoryLedgerTest, WhatIsBeingMadeIsForTheFirstWhoAsks) {
  EmptyPool();
  TierUnit& unit = Scratch();
  memory().BeginAsking();
  EXPECT_EQ(Ask(unit), LedgerFound::kSoon);
  EXPECT_EQ(Ask(unit), LedgerFound::kSoon);
  EXPECT_EQ(unit.memory.making, 2u) << "two ask";
  memory().BeginAsking();
  EXPECT_EQ(Ask(unit), LedgerFound::kSoon);
  EXPECT_EQ(unit.memory.making, 2u) << "one of them asks again";
}

TEST_F(MemoryLedgerTest, OneCeilingIsOverAllTiers) {
  TierUnit& unit = Scratch();
  EXPECT_EQ(memory().ceiling_bytes(), kLedgerSlots * kLedgerSlotBytes);
  EXPECT_EQ(memory().Room().bytes, 0) << "the pool has all of it";
  EXPECT_EQ(memory().FreeSlots(unit), kLedgerSlots) << "to spare";
  for (uint32_t i = 1; i <= kLedgerSlots; ++i) {
    unit.space->Assign(Get(unit), kLedgerOwner);
    EXPECT_LE(memory().backed_bytes(), memory().ceiling_bytes());
    EXPECT_EQ(agent_.pool().space->backed_bytes(), (kLedgerSlots - i) * kLedgerSlotBytes);
  }
  EXPECT_EQ(memory().FreeSlots(agent_.pool()), 0u);
  memory().BeginAsking();
  EXPECT_EQ(Ask(agent_.pool()), LedgerFound::kNone);
}

TEST_F(MemoryLedgerTest, WhatTheSessionsShowIsMadeAhead) {
  EmptyPool();
  Session& session = agent_.Attach(0, 1, keys_);
  TierUnit& unit = *session.tiers.at(0);
  ASSERT_NE(&unit, &agent_.pool());
  session.box().declared_bytes.store(2 * kLedgerSlotBytes);
  const uint64_t wanted_bytes = (keys_.keep_local + 1) * 2 * kLedgerSlotBytes;
  EXPECT_TRUE(agent_.TurnUntil([&] { return unit.space->spare_bytes() == wanted_bytes; })) << unit.space->spare_bytes();
  EXPECT_EQ(unit.memory.wanted_bytes, wanted_bytes);
  session.box().declared_bytes.store(100 * kLedgerSlotBytes);
  EXPECT_TRUE(agent_.TurnUntil([&] { return unit.space->spare_bytes() == kLedgerSlots * kLedgerSlotBytes; }))
      << "no more than the ceiling";
}

TEST_F(MemoryLedgerTest, WhatIsMadeAheadRestsWhileSomebodyWaitsForBytes) {
  EmptyPool();
  memory().HoldAhead();
  memory().HoldAhead();
  Session& session = agent_.Attach(0, 1, keys_);
  session.box().declared_bytes.store(kLedgerSlotBytes);
  const TierUnit& unit = *session.tiers.at(0);
  EXPECT_TRUE(agent_.TurnUntil([&] { return unit.memory.making > 0; }));
  const auto rests = [&] {
    for (int i = 0; i < 50; ++i) {
      agent_.Turn();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return unit.tier->SpaceBytes().value() == 0;
  };
  EXPECT_TRUE(rests());
  memory().ReleaseAhead();
  EXPECT_TRUE(rests()) << "somebody else still waits";
  memory().ReleaseAhead();
  EXPECT_TRUE(agent_.TurnUntil([&] { return unit.space->spare_bytes() > 0; }));
}

TEST_F(MemoryLedgerTest, ASlotInUseGrowsUnlessThereIsNoRoom) {
  EmptyPool();
  TierUnit& unit = Scratch();
  const uint32_t slot = Get(unit);
  unit.space->Assign(slot, kLedgerOwner);
  unit.space->SetBacked(slot, 4096);
  std::optional<bool> grown;
  EXPECT_TRUE(memory().Grow(&unit, slot, kLedgerSlotBytes, [&](bool did) { grown = did; }));
  EXPECT_FALSE(grown.has_value()) << "in a later turn";
  EXPECT_TRUE(agent_.TurnUntil([&] { return grown.has_value(); }));
  EXPECT_TRUE(*grown);
  EXPECT_EQ(unit.space->BackedIn(slot), kLedgerSlotBytes);
  for (uint32_t i = 1; i < kLedgerSlots; ++i) unit.space->Assign(Get(unit), kLedgerOwner);
  unit.space->SetBacked(slot, 4096);
  agent_.pool().space->SetBacked(0, kLedgerSlotBytes);
  EXPECT_FALSE(memory().Grow(&unit, slot, kLedgerSlotBytes, [&](bool) { FAIL() << "there is none"; }));
  agent_.Turn();
}

// Memory that nobody has a use for goes back after some seconds, and not before: the next job may come soon.
TEST_F(MemoryLedgerTest, WhatIsOfNoUseGoesAfterAWhile) {
  const TierUnit& unit = agent_.pool();
  ASSERT_EQ(unit.space->spare_bytes(), kLedgerSlots * kLedgerSlotBytes);
  TurnFor(2s);
  EXPECT_EQ(unit.space->spare_bytes(), kLedgerSlots * kLedgerSlotBytes);
  TurnFor(6s);
  EXPECT_EQ(unit.space->backed_bytes(), 0u);
  EXPECT_EQ(unit.tier->SpaceBytes().value(), 0u);
}

// A session's next version may need what its last one did not: the steady state of a job meets no fresh page.
TEST_F(MemoryLedgerTest, WhatASessionMayNeedAgainStaysLonger) {
  Session& session = agent_.Attach(0, 1);
  const TierUnit& unit = *session.tiers.at(0);
  ASSERT_EQ(&unit, &agent_.pool());
  session.box().declared_bytes.store(kLedgerSlotBytes);
  TurnFor(7s);
  EXPECT_EQ(unit.space->spare_bytes(), kLedgerSlots * kLedgerSlotBytes);
  agent_->sessions().End(session, "test");
  EXPECT_TRUE(agent_.TurnUntil([&] { return unit.space->spare_bytes() < kLedgerSlots * kLedgerSlotBytes; })) << "nobody may";
}

// What a predecessor left in slots that nobody uses.
TEST_F(MemoryLedgerTest, WhatAPredecessorLeftGoesBack) {
  const std::string pool = agent_.pool().info().path;
  ASSERT_GE(agent_.pool().tier->SpaceBytes().value(), kLedgerSlots * kLedgerSlotBytes);
  TierUnit& unit = agent_.pool();
  for (uint32_t slot = 0; slot < kLedgerSlots; ++slot) unit.space->SetUnknown(slot, kLedgerSlotBytes);
  EXPECT_TRUE(agent_.TurnUntil([&] { return unit.space->backed_bytes() == 0; }));
  EXPECT_EQ(unit.tier->SpaceBytes().value(), 0u);
  Get(unit);
}

TEST_F(MemoryLedgerTest, AScratchOfWhichNobodyHasAnythingGoesWithItsFile) {
  TierUnit& unit = Scratch();
  const std::string pool = unit.info().path;
  Get(unit);
  EXPECT_TRUE(os::Exists(os::SystemFileSystem(), pool).value());
  EXPECT_TRUE(agent_.TurnUntil([&] { return agent_->tiers().units().size() == 1; }));
  EXPECT_FALSE(os::Exists(os::SystemFileSystem(), pool).value());
  EXPECT_NE(Get(Scratch()), UINT32_MAX) << "and comes back when it is wanted";
}

TEST_F(MemoryLedgerTest, AScratchThatWasDeletedGoesAtOnceWhenItsSessionHasEnded) {
  Session& session = agent_.Attach(0, 1, keys_);
  TierUnit& unit = *session.tiers.at(0);
  Get(unit);
  ASSERT_TRUE(os::SystemFileSystem().Unlink(unit.info().path).ok());
  EXPECT_TRUE(agent_.TurnUntil([&] { return unit.lost; }));
  for (int i = 0; i < 1500 && agent_->tiers().units().size() > 1; ++i) {
    agent_.Turn();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(agent_->tiers().units().size(), 2u) << "its session still knows it";
  agent_->sessions().End(session, "test");
  EXPECT_TRUE(agent_.TurnUntil([&] { return agent_->tiers().units().size() == 1; }));
}

}  // namespace
}  // namespace kedge
