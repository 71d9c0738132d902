// How often a bucket repeats requests: a budget that failures use up and successes fill again.
#include "store/s3/bucket.h"

#include <gtest/gtest.h>

#include "store/s3/testing/fault_fixture.h"

namespace kedge::s3 {
namespace {

using testing::Fault;

constexpr int kRepetitions = 500;
constexpr int kSuccessesForOne = 10;

TEST(RetryBudget, EndsAndComesBackWithSuccesses) {
  RetryBudget budget;
  for (int i = 0; i < kRepetitions; ++i) ASSERT_TRUE(budget.Take()) << i;
  EXPECT_FALSE(budget.Take());
  EXPECT_FALSE(budget.Take()) << "who was refused has taken nothing";
  for (int i = 1; i < kSuccessesForOne; ++i) budget.GiveBack();
  EXPECT_FALSE(budget.Take());
  budget.GiveBack();
  EXPECT_TRUE(budget.Take());
  EXPECT_FALSE(budget.Take());
}

TEST(RetryBudget, DoesNotGrowBeyondItsBeginning) {
  RetryBudget budget;
  for (int i = 0; i < 10 * kSuccessesForOne; ++i) budget.GiveBack();
  int taken = 0;
  while (taken < 2 * kRepetitions && budget.Take()) ++taken;
  EXPECT_EQ(taken, kRepetitions);
}

class S3Budget : public testing::FaultFixture {};

// Patience is left, and the bucket stops all the same.
TEST_F(S3Budget, AStoreInTroubleIsNotDrownedByRepetitions) {
  impatient_.patience = std::chrono::minutes(10);
  impatient_.pause_first = impatient_.pause_max = std::chrono::microseconds(1);
  impatient_.silence_timeout = std::chrono::seconds(60);
  Bucket bucket(At(proxy_, NewPrefix()), testing::TestEnvironment(), impatient_);
  const auto status_of = [&bucket] { return bucket.Do({.method = "PUT", .key = "x", .body = AsBytes("x")}); };
  proxy_.Use([](size_t, const std::string&) { return Fault::kError500; });
  const Reply given_up = status_of();
  EXPECT_EQ(given_up.status.code(), Code::kUnavailable);
  EXPECT_NE(given_up.status.message().find("tried 501 times"), std::string::npos) << given_up.status.ToString();
  EXPECT_EQ(proxy_.Requests().size(), 1u + kRepetitions);
  EXPECT_EQ(status_of().status.code(), Code::kUnavailable);
  EXPECT_EQ(proxy_.Requests().size(), 2u + kRepetitions) << "of no further request any more";

  const auto first_fails = [](size_t number, const std::string&) { return number == 0 ? Fault::kError500 : Fault::kNone; };
  proxy_.Use(nullptr);
  for (int i = 1; i < kSuccessesForOne; ++i) ASSERT_TRUE(status_of().status.ok());
  proxy_.Use(first_fails);
  EXPECT_EQ(status_of().status.code(), Code::kUnavailable) << "nine successes are too few";
  ASSERT_TRUE(status_of().status.ok());
  proxy_.Use(first_fails);
  const Reply repeated = status_of();
  EXPECT_TRUE(repeated.status.ok()) << repeated.status.ToString();
  EXPECT_EQ(proxy_.Requests().size(), 2u);
}

}  // namespace
}  // namespace kedge::s3
