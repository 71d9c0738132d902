#include "agent/peers/read_gates.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace kedge {
namespace {

using namespace std::chrono_literals;
using SteadyClock = std::chrono::steady_clock;
const ReadGates::Node kThis, kFirst{"job", "n1"}, kSecond{"job", "n2"};

Duration WaitTime(ReadGates& gates, const ReadGates::Node& node) {
  const auto begin = SteadyClock::now();
  gates.WaitFor(node);
  return SteadyClock::now() - begin;
}

TEST(ReadGatesTest, AGateThatIsClosedOpensByItself) {
  ReadGates gates;
  gates.Close(kFirst, 200ms);
  EXPECT_GE(WaitTime(gates, kFirst), 190ms);
  EXPECT_LT(WaitTime(gates, kFirst), 190ms);
}

TEST(ReadGatesTest, AnotherNodeIsReadMeanwhile) {
  ReadGates gates;
  gates.Close(kFirst, 900ms);
  EXPECT_LT(WaitTime(gates, kSecond), 800ms);
}

TEST(ReadGatesTest, ThisNodesClosesForAll) {
  ReadGates gates;
  gates.Close(kThis, 200ms);
  EXPECT_GE(WaitTime(gates, kSecond), 190ms);
}

TEST(ReadGatesTest, WhoeverWaitsGoesOnWhenItOpens) {
  ReadGates gates;
  gates.Close(kFirst, 1s);
  gates.Close(kThis, 1s);
  std::thread opener([&] {
    std::this_thread::sleep_for(50ms);
    gates.Close(kThis, 0ms);
    gates.Close(kFirst, 0ms);
  });
  EXPECT_LT(WaitTime(gates, kFirst), 900ms);
  opener.join();
}

TEST(ReadGatesTest, NobodyClosesOneForEver) {
  ReadGates gates;
  gates.Close(kFirst, 24h);
  EXPECT_LE(WaitTime(gates, kFirst), 10s);
}

TEST(ReadGatesTest, KnowsWhetherSomebodyReads) {
  const auto gates = std::make_shared<ReadGates>();
  EXPECT_FALSE(gates->HasUsers());
  {
    const ReadGates::User first(gates), second(gates);
    EXPECT_TRUE(gates->HasUsers());
  }
  EXPECT_FALSE(gates->HasUsers());
}

}  // namespace
}  // namespace kedge
