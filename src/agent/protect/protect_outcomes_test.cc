#include "agent/protect/protect_outcomes.h"

#include <gtest/gtest.h>

namespace kedge {
namespace {

Generation GenerationOf(int64_t version) {
  Generation generation;
  generation.name = "p";
  generation.version = version;
  generation.attempt = 1;
  generation.take = static_cast<uint32_t>(version);
  return generation;
}

TEST(ProtectOutcomesTest, TheNewestOfALayoutIsFound) {
  ProtectOutcomes outcomes;
  EXPECT_EQ(outcomes.Find(GenerationOf(1), 7), nullptr);
  outcomes.Add(GenerationOf(1), 7, Status(Code::kIncomplete, "node n1: damaged"));
  outcomes.Add(GenerationOf(1), 8, Status::Ok());
  ASSERT_NE(outcomes.Find(GenerationOf(1), 7), nullptr);
  EXPECT_EQ(outcomes.Find(GenerationOf(1), 7)->message(), "node n1: damaged");
  EXPECT_TRUE(outcomes.Find(GenerationOf(1), 8)->ok());
  EXPECT_EQ(outcomes.Find(GenerationOf(2), 7), nullptr);
  outcomes.Add(GenerationOf(1), 7, Status::Ok());
  EXPECT_TRUE(outcomes.Find(GenerationOf(1), 7)->ok());
}

TEST(ProtectOutcomesTest, AFailureCountsWhereNoLayoutHasTheVersion) {
  ProtectOutcomes outcomes;
  EXPECT_TRUE(outcomes.FailureOf(GenerationOf(1)).ok());
  outcomes.Add(GenerationOf(1), 7, Status(Code::kIncomplete, "node n1: damaged"));
  EXPECT_EQ(outcomes.FailureOf(GenerationOf(1)).message(), "node n1: damaged");
  EXPECT_TRUE(outcomes.FailureOf(GenerationOf(2)).ok());
  outcomes.Add(GenerationOf(1), 8, Status::Ok());
  EXPECT_TRUE(outcomes.FailureOf(GenerationOf(1)).ok());
  outcomes.Add(GenerationOf(2), 7, Status(Code::kIncomplete, "node n1: damaged"), /*to_store=*/true);
  EXPECT_TRUE(outcomes.FailureOf(GenerationOf(2)).ok()) << "it may get to the store";
}

TEST(ProtectOutcomesTest, ANewerVersionOfTheNameOutlivesIt) {
  ProtectOutcomes outcomes;
  Generation other = GenerationOf(9);
  other.name = "q";
  outcomes.Add(other, 7, Status::Ok());
  outcomes.Add(GenerationOf(3), 7, Status::Ok());
  outcomes.Add(GenerationOf(4), 7, Status(Code::kIncomplete, "node n1: damaged"));
  const Lineage whole({}, {});
  EXPECT_TRUE(outcomes.IsOutlived(GenerationOf(2), whole));
  EXPECT_FALSE(outcomes.IsOutlived(GenerationOf(3), whole)) << "the newer one has failed";
  EXPECT_FALSE(outcomes.IsOutlived(GenerationOf(5), whole)) << "the newer one has another name";
  RestoredRecord back;
  back.attempt = 2;
  back.origin = GenerationOf(2);
  EXPECT_FALSE(outcomes.IsOutlived(GenerationOf(2), Lineage({back}, {}))) << "the job went back to it";
}

TEST(ProtectOutcomesTest, TheOldestIsForgotten) {
  ProtectOutcomes outcomes;
  for (int64_t version = 0; version <= 4096; ++version) outcomes.Add(GenerationOf(version), 7, Status::Ok());
  EXPECT_EQ(outcomes.Find(GenerationOf(0), 7), nullptr);
  EXPECT_NE(outcomes.Find(GenerationOf(1), 7), nullptr);
}

}  // namespace
}  // namespace kedge
