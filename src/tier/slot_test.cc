// The slot table survives its agent at every point; the slot space agrees with a plain model under random use.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <memory>

#include "base/random.h"
#include "os/files/files.h"
#include "os/testing/temporary_folder.h"
#include "tier/slot_space.h"

namespace kedge {
namespace {

class Slots : public ::testing::Test {
 protected:
  SlotTable Open(uint32_t slots = 8, const std::string& boot = "boot", bool discard = false) {
    auto table = SlotTable::Open(path_, slots, 4096, boot, discard, &fresh_);
    EXPECT_TRUE(table.ok()) << table.status().ToString();
    return std::move(*table);
  }
  SlotSpace OpenSpace() {
    SlotSpace space(Open());
    for (uint32_t slot = 0; slot < 8; ++slot) space.SetBacked(slot, 4096);
    return space;
  }
  const os::testing::TemporaryFolder folder_{"/dev/shm"};
  const std::string path_ = folder_ / "slots";
  bool fresh_ = false;
};

TEST_F(Slots, AssignmentSurvivesTheAgent) {
  uint64_t generation = 0;
  {
    SlotTable table = Open();
    EXPECT_TRUE(fresh_);
    generation = table.Assign(3, 77);
    table.Assign(4, 78);
    table.SetState(4, SlotState::kCached);
  }
  SlotTable table = Open();
  EXPECT_FALSE(fresh_);
  EXPECT_EQ(table.Get(3), (SlotEntry{SlotState::kAssigned, 77, generation}));
  EXPECT_EQ(table.Get(4), (SlotEntry{SlotState::kCached, 0, 1}));
  table.SetState(3, SlotState::kFree);
  EXPECT_EQ(table.Assign(3, 1), generation + 1) << "the generation grows with every use";
}

TEST_F(Slots, AnotherBootCutOrDamageBeginsAnew) {
  Open().Assign(0, 1);
  Open(8, "another boot");
  EXPECT_TRUE(fresh_);
  Open(9);
  EXPECT_TRUE(fresh_);
  Open(8, "boot", true);
  EXPECT_TRUE(fresh_);
  {
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(64);
    file.put('\x0f');  // no such state
  }
  Open();
  EXPECT_TRUE(fresh_);
}

TEST_F(Slots, SharedSlotIsFreeWhenReturnedAndEmpty) {
  SlotSpace space = OpenSpace();
  EXPECT_EQ(space.free_slots(), 8u);
  uint32_t slot = *space.PickFree(1, 1);
  uint64_t generation = space.Assign(slot, 1);
  space.AddChunk(slot);
  space.AddChunk(slot);
  EXPECT_EQ(space.free_slots(), 7u);
  EXPECT_FALSE(space.Return(slot, generation, 2)) << "not the owner";
  EXPECT_FALSE(space.Return(slot, generation + 1, 1)) << "not the generation";
  EXPECT_TRUE(space.Return(slot, generation, 1));
  EXPECT_FALSE(space.Return(slot, generation, 1)) << "twice";
  space.Unpin(slot);
  EXPECT_EQ(space.evictable_slots(), 0u) << "one chunk is still pinned";
  space.Unpin(slot);
  EXPECT_EQ(space.evictable_slots(), 1u);
  space.Pin(slot);
  EXPECT_EQ(space.evictable_slots(), 0u) << "a reader came";
  space.Unpin(slot);
  space.RemoveChunk(slot, false);
  EXPECT_TRUE(space.IsCurrent(slot, generation));
  space.RemoveChunk(slot, false);
  EXPECT_FALSE(space.IsCurrent(slot, generation));
  EXPECT_EQ(space.free_slots(), 8u);
}

TEST_F(Slots, OwnersGetTheSlotsTheyHadBefore) {
  SlotSpace space = OpenSpace();
  uint32_t first = *space.PickFree(1, 1);
  uint64_t first_generation = space.Assign(first, 1);
  uint32_t second = *space.PickFree(2, 1);
  uint64_t second_generation = space.Assign(second, 2);
  space.Return(first, first_generation, 1);
  space.Return(second, second_generation, 2);
  EXPECT_EQ(space.PickFree(2, 1), second);
  EXPECT_EQ(space.PickFree(1, 1), first);
}

TEST_F(Slots, OnlyWhatIsBackedForItIsGivenOut) {
  SlotSpace space(Open());
  EXPECT_EQ(space.free_slots(), 8u);
  EXPECT_FALSE(space.PickFree(1, 1).has_value());
  space.SetBacked(3, 100);
  space.SetBacked(5, 50);
  EXPECT_EQ(space.PickFree(1, 60), 3u);
  EXPECT_EQ(space.PickFree(1, 40), 5u) << "the one that is backed least, if that will do";
  EXPECT_FALSE(space.PickFree(1, 101).has_value());
  EXPECT_EQ(space.PickToBack(4096), 3u) << "least is missing there";
  EXPECT_EQ(space.PickToRelease(), 5u);
  EXPECT_EQ(space.backed_bytes(), 150u);
  EXPECT_EQ(space.spare_bytes(), 150u);
  space.Assign(3, 1);
  EXPECT_EQ(space.backed_bytes(), 150u);
  EXPECT_EQ(space.spare_bytes(), 50u) << "what nobody uses";
}

TEST_F(Slots, WhoseBackingChangesIsGivenToNobody) {
  SlotSpace space(Open(1));
  space.SetBacked(0, 100);
  space.Hold(0);
  EXPECT_EQ(space.free_slots(), 1u);
  EXPECT_FALSE(space.PickFree(1, 1).has_value());
  EXPECT_FALSE(space.PickToBack(4096).has_value());
  EXPECT_FALSE(space.PickToRelease().has_value());
  space.Unhold(0);
  EXPECT_EQ(space.PickFree(1, 1), 0u);
}

TEST_F(Slots, OfWhichNothingIsKnownAreReleasedFirst) {
  SlotSpace space(Open(2));
  space.SetUnknown(0, 4096);
  space.SetUnknown(1, 4096);
  EXPECT_EQ(space.backed_bytes(), 8192u) << "as if all of them were";
  EXPECT_FALSE(space.PickFree(1, 1).has_value());
  EXPECT_FALSE(space.PickToBack(4096).has_value());
  EXPECT_EQ(space.PickToRelease(), 1u);
  space.SetBacked(1, 0);
  EXPECT_EQ(space.PickToBack(4096), 1u);
  EXPECT_EQ(space.PickToRelease(), 0u);
}

TEST_F(Slots, RandomUseAgreesWithAModel) {
  struct Model {
    uint32_t owner = 0;
    uint64_t generation = 0;
    uint32_t pinned = 0, cached = 0;
  };
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    ASSERT_TRUE(os::UnlinkIfPresent(os::SystemFileSystem(), path_).ok());
    auto space = std::make_unique<SlotSpace>(OpenSpace());
    std::map<uint32_t, Model> model;
    for (int step = 0; step < 400; ++step) {
      uint32_t slot = static_cast<uint32_t>(random.Below(8));
      Model& m = model[slot];
      switch (random.Below(7)) {
        case 0:
          if (auto free = space->PickFree(1 + slot, 1); free.has_value()) {
            Model& f = model[*free];
            ASSERT_TRUE(f.owner == 0 && f.pinned + f.cached == 0) << "a slot in use was given out";
            f.owner = 1 + slot;
            f.generation = space->Assign(*free, f.owner);
          }
          break;
        case 1:
          ASSERT_EQ(space->Return(slot, m.generation, m.owner == 0 ? 9 : m.owner), m.owner != 0);
          m.owner = 0;
          break;
        case 2:
          if (m.owner != 0) space->AddChunk(slot), ++m.pinned;
          break;
        case 3:
          if (m.pinned > 0) space->Unpin(slot), --m.pinned, ++m.cached;
          break;
        case 4:
          if (m.cached > 0) space->Pin(slot), --m.cached, ++m.pinned;
          break;
        case 5:
          if (m.pinned > 0) space->RemoveChunk(slot, true), --m.pinned;
          break;
        case 6:
          if (m.cached > 0) space->RemoveChunk(slot, false), --m.cached;
          break;
      }
      uint32_t free = 0, evictable = 0, assigned = 0;
      for (uint32_t i = 0; i < 8; ++i) {
        const Model& c = model[i];
        assigned += c.owner != 0;
        free += c.owner == 0 && c.pinned + c.cached == 0;
        evictable += c.owner == 0 && c.pinned == 0 && c.cached > 0;
      }
      ASSERT_EQ(space->free_slots(), free);
      ASSERT_EQ(space->evictable_slots(), evictable);
      ASSERT_EQ(space->assigned_slots(), assigned);
      ASSERT_EQ(space->occupied_slots(), 8 - free - evictable);
      // The agent dies and its successor rebuilds the counts from records.
      if (random.Chance(0.02)) {
        space.reset();
        space = std::make_unique<SlotSpace>(OpenSpace());
        for (auto& [index, c] : model) {
          for (uint32_t i = 0; i < c.pinned + c.cached; ++i) space->AddChunk(index);
          for (uint32_t i = 0; i < c.cached; ++i) space->Unpin(index);
        }
        space->FreeUnreferenced();
      }
    }
  }
}

}  // namespace
}  // namespace kedge
