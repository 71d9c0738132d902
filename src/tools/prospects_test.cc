// What a launch would go on from, against what a restart does: nodes and store together, by lineage.
#include "tools/prospects.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kedge::tools {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

Generation At(int64_t version, uint32_t attempt = 1, uint32_t take = 1, const std::string& name = "wave") {
  return {StoreId{1, 1}, "job", name, version, attempt, take};
}
std::vector<RankRun> Ranks(const std::vector<uint32_t>& ranks) {
  return RunsOf(ranks);
}

class ProspectsTest : public ::testing::Test {
 protected:
  void OnNodes(const Generation& generation, const std::vector<uint32_t>& ranks = {0, 1}, bool was_safe = true) {
    on_nodes_.versions.push_back({generation, 2, Ranks(ranks), Ranks(ranks), was_safe, ranks.size() < 2 ? "its node n1" : ""});
  }
  void OnOtherNodes(const Generation& generation) { on_nodes_.versions.push_back({generation, 2, Ranks({0, 1}), {}, false, ""}); }
  void InStore(const Generation& generation, const std::vector<uint32_t>& ranks = {0, 1}) {
    stored_.names = {"wave"};
    stored_.versions.push_back({generation, 2, Ranks(ranks)});
  }
  Prospect Wave(const AskedVersion& asked = {}, Asker asker = Asker::kLaunch) {
    const Prospects prospects = Foresee(on_nodes_, stored_, asker, asked);
    EXPECT_EQ(prospects.size(), 1u);
    return prospects.contains("wave") ? prospects.at("wave") : Prospect{};
  }

  RebuildReply on_nodes_;
  StoredJob stored_;
};

TEST_F(ProspectsTest, OfNothingNothingIsKnown) {
  EXPECT_THAT(Foresee(on_nodes_, stored_, Asker::kLaunch, {}), IsEmpty());
  stored_.names = {"wave"};
  EXPECT_FALSE(Wave().generation.has_value());
  EXPECT_EQ(Wave().WhatWasLost(), "");
}

TEST_F(ProspectsTest, TheNewestIsWhereverItIs) {
  InStore(At(1, 1, 1));
  OnNodes(At(2, 1, 2));
  EXPECT_EQ(Wave().generation, At(2, 1, 2));
  EXPECT_TRUE(Wave().on_nodes && !Wave().in_store);
  InStore(At(3, 1, 3));
  EXPECT_EQ(Wave().generation, At(3, 1, 3));
  EXPECT_TRUE(Wave().in_store && !Wave().on_nodes);
  OnNodes(At(3, 1, 3));
  EXPECT_TRUE(Wave().in_store && Wave().on_nodes);
}

// An attempt that begins anew, and whose versions are on the nodes alone, overwrites what the store has.
TEST_F(ProspectsTest, AGreaterNumberInTheStoreIsNotTheNewest) {
  InStore(At(49, 1, 1));
  InStore(At(50, 1, 2));
  OnNodes(At(5, 2, 1));
  EXPECT_EQ(Wave().generation, At(5, 2, 1));
}

TEST_F(ProspectsTest, AnAbandonedVersionThatIsAskedForComesBackOnce) {
  InStore(At(49, 1, 1));
  InStore(At(50, 1, 2));
  OnNodes(At(5, 2, 1));
  EXPECT_EQ(Wave({50, 1}).generation, At(50, 1, 2));
  EXPECT_EQ(Wave({49, 1}).generation, At(49, 1, 1));
  EXPECT_EQ(Wave({5, 2}).generation, At(5, 2, 1));
  EXPECT_EQ(Wave({50, 2}).generation, At(5, 2, 1)) << "there is none of that attempt";
  on_nodes_.restored = {{At(50, 1, 2), 3, 1, 0}};
  OnNodes(At(60, 3, 1));
  EXPECT_EQ(Wave({50, 1}).generation, At(60, 3, 1)) << "the job has gone on from it";
}

TEST_F(ProspectsTest, AnAskedForVersionThatIsNotWholeIsNotPassedOver) {
  OnNodes(At(50, 1, 2), {0});
  OnNodes(At(5, 2, 1));
  EXPECT_FALSE(Wave({50, 1}).generation.has_value());
  EXPECT_THAT(Wave({50, 1}).WhatWasLost(), HasSubstr("asked for by restart.version"));
}

// The nodes alone know of it: the store was away.
TEST_F(ProspectsTest, WhatTheJobHasGoneBackFromIsNotTheNewest) {
  InStore(At(40, 1, 1));
  InStore(At(50, 1, 2));
  on_nodes_.restored = {{At(40, 1, 1), 2, 1, 0}};
  EXPECT_EQ(Wave().generation, At(40, 1, 1));
  OnNodes(At(42, 2, 1));
  EXPECT_EQ(Wave().generation, At(42, 2, 1));
  std::swap(on_nodes_.restored, stored_.restored);
  EXPECT_EQ(Wave().generation, At(42, 2, 1));
}

TEST_F(ProspectsTest, OfAVersionEachRankIsHadFromWhereItIs) {
  InStore(At(1, 1, 1));
  InStore(At(2, 1, 2), {0});
  EXPECT_EQ(Wave().generation, At(1, 1, 1));
  OnNodes(At(2, 1, 2), {1});
  EXPECT_EQ(Wave().generation, At(2, 1, 2));
  EXPECT_FALSE(Wave().on_nodes || Wave().in_store);
}

// Without protect.scheme: the ranks have changed their nodes.
TEST_F(ProspectsTest, WhatLiesOnOtherNodesThanItsRanksIsForTheStoreAlone) {
  OnOtherNodes(At(2, 1, 2));
  EXPECT_FALSE(Wave().generation.has_value());
  EXPECT_THAT(Wave().WhatWasLost(), HasSubstr("not on the nodes of its ranks"));
  EXPECT_EQ(Wave({}, Asker::kStore).generation, At(2, 1, 2));
  InStore(At(1, 1, 1));
  EXPECT_EQ(Wave().generation, At(1, 1, 1));
}

TEST_F(ProspectsTest, WhatCannotBeHadIsSaid) {
  OnNodes(At(2, 1, 2), {0}, false);
  EXPECT_EQ(Wave().WhatWasLost(), "") << "it may never have been whole";
  OnNodes(At(1, 1, 1), {0});
  EXPECT_THAT(Wave().WhatWasLost(), HasSubstr("version 1"));
  EXPECT_EQ(Wave().lost.size(), 2u);
  InStore(At(0, 1, 0));
  EXPECT_EQ(Wave().WhatWasLost(), "") << "there is one";
  EXPECT_EQ(Wave().lost.size(), 2u);
}

TEST_F(ProspectsTest, WhatTheNodesDoNotKnowAnyMoreTheStoreWasTold) {
  stored_.names = {"wave"};
  stored_.safe.emplace("wave", At(7));
  EXPECT_THAT(Wave().WhatWasLost(), HasSubstr("was safe on its nodes"));
  InStore(At(6));
  EXPECT_EQ(Wave().WhatWasLost(), "");
}

TEST_F(ProspectsTest, WhatSilentNodesMayHaveIsNotLost) {
  OnNodes(At(2, 1, 2), {0}, false);
  OnNodes(At(1, 1, 1), {0});
  EXPECT_EQ(Wave().WhatSilentNodesMayHave(), "");
  on_nodes_.silent_nodes = {"n1"};
  EXPECT_EQ(Wave().WhatWasLost(), "");
  EXPECT_THAT(Wave().WhatSilentNodesMayHave(), HasSubstr("version 1"));
  InStore(At(0, 1, 0));
  EXPECT_EQ(Wave().WhatSilentNodesMayHave(), "") << "there is one";
  EXPECT_EQ(Wave().WhatWasLost(), "");
}

TEST_F(ProspectsTest, SilentNodesMayHaveWhatTheStoreWasTold) {
  stored_.names = {"wave"};
  stored_.safe.emplace("wave", At(7));
  on_nodes_.silent_nodes = {"n1"};
  EXPECT_EQ(Wave().WhatWasLost(), "");
  EXPECT_THAT(Wave().WhatSilentNodesMayHave(), HasSubstr("was safe on its nodes"));
}

TEST_F(ProspectsTest, WhatSomebodyHasRemovedIsNotGoneOnFromNorLost) {
  InStore(At(1, 1, 1));
  OnNodes(At(2, 1, 2));
  stored_.withdrawn = {At(2, 1, 2)};
  EXPECT_EQ(Wave().generation, At(1, 1, 1));
  EXPECT_EQ(Wave({}, Asker::kStore).generation, At(1, 1, 1)) << "nor carried to the store";
  stored_.versions.clear();
  on_nodes_.versions.clear();
  OnNodes(At(2, 1, 2), {0});
  EXPECT_FALSE(Wave().generation.has_value());
  EXPECT_EQ(Wave().WhatWasLost(), "");
}

TEST_F(ProspectsTest, NamesAreApart) {
  InStore(At(1));
  OnNodes(At(9, 1, 1, "other"));
  const Prospects prospects = Foresee(on_nodes_, stored_, Asker::kLaunch, {});
  ASSERT_EQ(prospects.size(), 2u);
  EXPECT_EQ(prospects.at("wave").generation, At(1));
  EXPECT_EQ(prospects.at("other").generation, At(9, 1, 1, "other"));
}

}  // namespace
}  // namespace kedge::tools
