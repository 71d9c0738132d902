// Which versions are taken, which number each taking has, and what is remembered.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "client/core/ledger.h"

namespace kedge::client {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class LedgerTest : public ::testing::Test {
 protected:
  // A checkpoint that is called for and begins; its capture may fail.
  Result<TakenVersion*> Begin(int64_t version, bool overwrite = false, const std::string& name = "wave") {
    ledger_.Count(name);
    return ledger_.Begin(name, version, overwrite);
  }
  TakenVersion* Take(int64_t version, bool overwrite = false, const std::string& name = "wave") {
    TakenVersion* const taken = Begin(version, overwrite, name).value();
    ledger_.Captured(taken);
    return taken;
  }

  Ledger ledger_{StoreId{.high = 1, .low = 2}, "job", 3, {{"wave", 10}}};
};

TEST_F(LedgerTest, VersionsGrowFromWhatTheStoreHad) {
  EXPECT_EQ(Begin(-1).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(Begin(10).status().code(), Code::kAlreadyExists);
  EXPECT_TRUE(Begin(0, false, "new").ok()) << "the store had none of that name";
  EXPECT_TRUE(Begin(11).ok());
  EXPECT_TRUE(Begin(11).ok()) << "that capture failed";
  Take(11);
  const Status again = Begin(11).status();
  EXPECT_EQ(again.code(), Code::kAlreadyExists);
  EXPECT_THAT(again.message(), AllOf(HasSubstr("version 11"), HasSubstr("newest, 11"), HasSubstr("KEDGE_OVERWRITE")));
  Take(5, /*overwrite=*/true);
  EXPECT_TRUE(Begin(6).ok()) << "the newest is what was taken last";
  ledger_.Restored({{}, "job", "wave", 40, 1, 1});
  EXPECT_EQ(Begin(40).status().code(), Code::kAlreadyExists);
}

// Generation::take is the same on all ranks, whatever becomes of a taking on one of them.
TEST_F(LedgerTest, EveryCallCountsAndNoTwoTakingsHaveOneNumber) {
  EXPECT_EQ(ledger_.TakesOf("wave"), 0u);
  EXPECT_FALSE(Begin(3).ok());
  const Generation taken = Take(12)->generation;
  EXPECT_EQ(taken, (Generation{{.high = 1, .low = 2}, "job", "wave", 12, 3, 2}));
  EXPECT_EQ(Take(1, false, "other")->generation.take, 1u) << "each name has its own";
  ledger_.CatchUp("wave", 7);
  EXPECT_EQ(Take(13)->generation.take, 8u) << "other ranks had made five more calls";
  ledger_.CatchUp("wave", 2);
  EXPECT_EQ(ledger_.TakesOf("wave"), 8u) << "whoever has counted more goes on";
}

TEST_F(LedgerTest, EachRestartComesBeforeATakingOfItsOwn) {
  Take(11);
  const Generation origin{{}, "job", "wave", 9, 1, 4};
  const RestoredRecord first = ledger_.Restored(origin);
  EXPECT_EQ(first.origin, origin);
  EXPECT_EQ(first.attempt, 3u);
  EXPECT_EQ(first.take, 2u);
  EXPECT_EQ(ledger_.Restored(origin).take, 3u) << "the record of the first stands";
  EXPECT_EQ(Take(10)->generation.take, 3u) << "what the second restart comes before";
  EXPECT_EQ(ledger_.Restored({{}, "job", "wave", 8, 1, 3}).take, 4u);
  EXPECT_EQ(ledger_.FindRestored("wave", 9), nullptr) << "only the last one counts";
  EXPECT_NE(ledger_.FindRestored("wave", 8), nullptr);
  EXPECT_EQ(ledger_.FindRestored("other", 8), nullptr);
}

TEST_F(LedgerTest, AVersionThatIsTakenAgainIsNotTheOldOne) {
  TakenVersion* taken = Take(11);
  taken->session = 1;
  taken->serial = 4;
  taken->in_store = true;
  taken->flush_failure = Status(Code::kIo, "full");
  EXPECT_EQ(ledger_.FindSerial(1, 4), taken);
  EXPECT_EQ(ledger_.FindSerial(2, 4), nullptr) << "another session's fourth";
  EXPECT_EQ(ledger_.Newest(), taken);
  TakenVersion* const again = Begin(11, /*overwrite=*/true).value();
  EXPECT_EQ(ledger_.Newest(), nullptr) << "its content is given up, and the new one is not captured";
  EXPECT_EQ(ledger_.Find("wave", 11), again);
  EXPECT_FALSE(again->captured || again->in_store || !again->flush_failure.ok());
  EXPECT_EQ(ledger_.FindSerial(1, 4), nullptr);
}

TEST_F(LedgerTest, AVersionThatHasStartedIsTheNewestAndNotCaptured) {
  Take(11);
  TakenVersion* const started = Begin(12).value();
  ledger_.Started(started);
  EXPECT_EQ(ledger_.Newest(), started);
  EXPECT_TRUE(started->started && !started->captured);
  EXPECT_EQ(Begin(12).status().code(), Code::kAlreadyExists);
  ledger_.Captured(started);
  EXPECT_TRUE(!started->started && started->captured);
}

TEST_F(LedgerTest, OfEachNameTheVersionsTakenLastAreRemembered) {
  Take(1, false, "other");
  Take(11);
  for (int64_t version = 12; version < 11 + 256; ++version) Take(version);
  Take(11, /*overwrite=*/true);
  EXPECT_NE(ledger_.Find("wave", 12), nullptr);
  Take(300);
  EXPECT_NE(ledger_.Find("wave", 11), nullptr) << "it was taken again since";
  EXPECT_EQ(ledger_.Find("wave", 12), nullptr);
  EXPECT_NE(ledger_.Find("other", 1), nullptr);
  // The newest captured is forgotten by 256 others that are not.
  for (int64_t version = 301; version < 301 + 256; ++version) ASSERT_TRUE(Begin(version).ok());
  EXPECT_EQ(ledger_.Find("wave", 300), nullptr);
  EXPECT_EQ(ledger_.Newest(), nullptr);
}

}  // namespace
}  // namespace kedge::client
