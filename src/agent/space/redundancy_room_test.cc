#include "agent/space/redundancy_room.h"

#include <gtest/gtest.h>

#include "agent/testing/protected_job.h"

namespace kedge {
namespace {

// The job's pool has four slots.
constexpr uint64_t kRoomSlotBytes = testing::ProtectedJob::kSlotBytes;

TEST(RedundancyRoomTest, IsTakenForAllObjectsOrForNone) {
  testing::ProtectedJob nodes(2);
  RedundancyRoom& room = nodes->redundancy_room();
  const Version& version = nodes.Put(1);
  EXPECT_TRUE(room.Take(version, {}).has_value()) << "nothing is to be taken";
  const auto three = room.Take(version, {kRoomSlotBytes, 2 * kRoomSlotBytes});
  ASSERT_TRUE(three.has_value());
  ASSERT_EQ(three->size(), 2u);
  EXPECT_EQ((*three)[1].size(), 2u);
  EXPECT_FALSE(room.TakeWant());
  EXPECT_FALSE(room.Take(version, {kRoomSlotBytes, kRoomSlotBytes}).has_value());
  EXPECT_TRUE(room.TakeWant()) << "it is told when some may have come free";
  const auto last = room.Take(version, {kRoomSlotBytes});
  ASSERT_TRUE(last.has_value()) << "what was taken for one of two was given back";
  room.Release(*three);
  EXPECT_TRUE(room.Take(version, {3 * kRoomSlotBytes}).has_value());
}

TEST(RedundancyRoomTest, IsTheOldestVersionsFirst) {
  testing::ProtectedJob nodes(2);
  RedundancyRoom& room = nodes->redundancy_room();
  Version& older = nodes.Put(1);
  nodes.Begin(older);
  older.protection->sets[0].room_bytes = 2 * kRoomSlotBytes;
  const Version& newer = nodes.Put(2);
  EXPECT_FALSE(room.Take(newer, {3 * kRoomSlotBytes}).has_value());
  EXPECT_TRUE(room.Take(newer, {2 * kRoomSlotBytes}).has_value());
  EXPECT_TRUE(room.Take(older, {2 * kRoomSlotBytes}).has_value());
}

}  // namespace
}  // namespace kedge
