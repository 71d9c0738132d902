// How a tier is made ready in the background.
#include "agent/tiers.h"

#include <gtest/gtest.h>

#include <thread>

#include "agent/testing/local_agent.h"
#include "os/testing/temporary_folder.h"

namespace kedge {
namespace {

TEST(TiersTest, PreparationRestsWhileSomebodyWaitsForWrites) {
  constexpr uint32_t kSlots = 16;
  const os::testing::TemporaryFolder scratch("/dev/shm");
  testing::LocalAgent agent(kSlots, 64 << 10);
  JobKeys keys;
  keys.scratch = scratch.path();
  agent->tiers().HoldPreparing();
  agent->tiers().HoldPreparing();
  const auto tiers = agent->tiers().ForJob(keys);
  ASSERT_TRUE(tiers.ok()) << tiers.status().ToString();
  const TierUnit& unit = *tiers->at(0);
  const auto rests = [&] {
    for (int i = 0; i < 50; ++i) {
      agent.Turn();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return unit.reserving && unit.space->usable() == 0;
  };
  EXPECT_TRUE(rests());
  agent->tiers().ReleasePreparing();
  EXPECT_TRUE(rests()) << "somebody else still waits";
  agent->tiers().ReleasePreparing();
  EXPECT_TRUE(agent.TurnUntil([&] { return !unit.reserving && unit.space->usable() == kSlots; }));
}

}  // namespace
}  // namespace kedge
