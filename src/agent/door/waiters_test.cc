// What the agent does otherwise while somebody waits.
#include "agent/door/waiters.h"

#include <gtest/gtest.h>

#include <chrono>

#include "agent/tables/agent_core.h"
#include "agent/testing/local_agent.h"

namespace kedge {
namespace {

using testing::LocalAgent;

// Ranks that spin beside the one that waits leave next to nothing to threads of low priority.
TEST(Waiters, WhatIsWaitedForIsFlushedAtOrdinaryPriority) {
  LocalAgent agent(4, 64 << 10);
  AgentCore& core = agent->core();
  const auto is_awaited = [&] { return &core.flushers() == &core.publishers(); };
  const Generation generation{agent.store_id(), "job", "wave", 1, 1, 1};
  const auto wait = [&](uint64_t connection, Level level) {
    core.requests().Handle(WaitRequest{generation, level, std::chrono::seconds(60)}, nullptr,
                           Question(agent->server(), connection, 1));
  };
  EXPECT_FALSE(is_awaited());
  wait(1, Level::kLocal);
  EXPECT_FALSE(is_awaited()) << "nothing is flushed for that";
  wait(2, Level::kStore);
  wait(3, Level::kLast);
  EXPECT_TRUE(is_awaited());
  agent->waiters().DropConnection(2);
  EXPECT_TRUE(is_awaited());
  agent->waiters().DropConnection(3);
  EXPECT_FALSE(is_awaited());
}

}  // namespace
}  // namespace kedge
