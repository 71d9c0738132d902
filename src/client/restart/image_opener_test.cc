// Which images of the store a rank can have, and errors of a moment.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/restart/image_opener.h"
#include "client/testing/stored.h"
#include "os/testing/simulated_file_system.h"
#include "store/keys.h"
#include "store/retention.h"
#include "store/testing/version_maker.h"
#include "store/versions.h"

namespace kedge::client {
namespace {

using kedge::testing::ContentByte;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::StoredTest;

class OpenerTest : public StoredTest {
 protected:
  static std::vector<int64_t> VersionsOf(const std::vector<RestoreCandidate>& candidates) {
    std::vector<int64_t> versions;
    for (const RestoreCandidate& candidate : candidates) versions.push_back(candidate.version);
    return versions;
  }
  std::vector<int64_t> Stored(int64_t at_most = -1, const std::optional<RestoreCandidate>& known = {}) {
    const StoredCandidates stored = opener_.Stored("wave", at_most, known);
    EXPECT_TRUE(stored.status.ok()) << stored.status.ToString();
    std::vector<int64_t> versions;
    for (const StoredCandidate& one : stored.candidates) versions.push_back(one.candidate.version);
    return versions;
  }
  RestoreCandidate Candidate(int64_t version, uint32_t ranks = 2) const { return {version, 1, At(version).take, ranks}; }

  ImageOpener opener_{core_.get(), &session_};
};

TEST_F(OpenerTest, WhatTheStoreHasOfAVersionIsACandidateForThoseRanks) {
  EXPECT_THAT(Stored(), IsEmpty());
  Store(3);
  StoreRank(1, 4);
  ASSERT_TRUE(catalog().store().Remove(keys::VersionKey(Store(5))).ok());
  EXPECT_THAT(Stored(), ElementsAre(5, 4, 3));
  EXPECT_TRUE(InspectGeneration(catalog(), At(5))->complete) << "who finds all parts finishes it";
  EXPECT_THAT(Stored(/*at_most=*/4), ElementsAre(4, 3));
  EXPECT_THAT(Stored(-1, Candidate(4)), ElementsAre(5)) << "only what may be newer";
  ImageOpener::Found on_nodes = opener_.FindOnNodes("wave", 0, true);
  EXPECT_TRUE(on_nodes.agent.ok()) << "without an agent the store has what there is";
  EXPECT_THAT(on_nodes.candidates, IsEmpty());
  on_nodes.candidates = {Candidate(9), Candidate(3)};
  const StoredCandidates stored = opener_.Stored("wave", -1, {});
  EXPECT_THAT(VersionsOf(opener_.Merge("wave", -1, 0, on_nodes, stored)), ElementsAre(9, 5, 3)) << "each once";
  EXPECT_THAT(VersionsOf(opener_.Merge("wave", 8, 1, on_nodes, stored)), ElementsAre(5, 4, 3));
}

TEST_F(OpenerTest, WhatSomebodyHasRemovedIsToldOfAlsoWhereNothingElseIsLookedInto) {
  Store(3);
  Store(4);
  ASSERT_TRUE(WithdrawVersion(catalog(), At(4)).ok());
  EXPECT_THAT(Stored(), ElementsAre(3));
  const StoredCandidates stored = opener_.Stored("wave", -1, Candidate(4));
  ASSERT_EQ(stored.withdrawn.size(), 1u);
  EXPECT_EQ(stored.withdrawn.front().version, 4);
  EXPECT_THAT(stored.candidates, IsEmpty());
}

TEST_F(OpenerTest, AnErrorOfAMomentHidesNoVersion) {
  Store(3);
  Store(4);
  Fail(keys::VersionKey(At(4)), /*count=*/1);
  EXPECT_THAT(Stored(), ElementsAre(4, 3));
}

TEST_F(OpenerTest, AVersionThatCannotBeReadIsSaidBesideWhatCanBeHad) {
  Store(3);
  Store(4);
  Fail(keys::GenerationFolder(At(4)));
  const StoredCandidates stored = opener_.Stored("wave", -1, {});
  EXPECT_EQ(stored.status.code(), Code::kIo);
  ASSERT_EQ(stored.candidates.size(), 1u);
  EXPECT_EQ(stored.candidates[0].candidate, Candidate(3));
}

TEST_F(OpenerTest, AStoreThatIsNotThereHasNotGotNone) {
  ASSERT_TRUE(fs_.Rename("/store", "/away").ok());
  EXPECT_EQ(opener_.Stored("wave", -1, {}).status.code(), Code::kUnavailable);
}

TEST_F(OpenerTest, OnlyTheVeryImageIsOpened) {
  Store(3);
  StoreRank(1, 4);
  const auto image = opener_.Open("wave", Candidate(3), 1);
  ASSERT_TRUE(image.ok()) << image.status().ToString();
  EXPECT_FALSE((*image)->is_local());
  std::string memory(5000, '\0');
  ASSERT_TRUE((*image)->reader().ReadRegions({{0, reinterpret_cast<std::byte*>(memory.data())}}).ok());
  for (const size_t at : {0u, 4095u, 4999u}) EXPECT_EQ(std::byte(memory[at]), ContentByte({At(3), 1, 2}, 0, at)) << at;
  EXPECT_TRUE(opener_.Open("wave", Candidate(4), 1).ok()) << "though rank 0's is missing";
  EXPECT_EQ(opener_.Open("wave", Candidate(4), 0).status().code(), Code::kNotFound);
  EXPECT_EQ(opener_.Open("wave", Candidate(7), 1).status().code(), Code::kNotFound);
  EXPECT_EQ(opener_.Open("wave", Candidate(3), 2).status().code(), Code::kNotFound);
  EXPECT_EQ(opener_.Open("wave", Candidate(3, /*ranks=*/3), 1).status().code(), Code::kCorrupt);
  ASSERT_TRUE(fs_.Unlink("/store/" + keys::ImageKey(At(3), 1)).ok());
  EXPECT_EQ(opener_.Open("wave", Candidate(3), 1).status().code(), Code::kNotFound);
}

}  // namespace
}  // namespace kedge::client
