// A store that cannot be reached: a relaunch goes on with what its nodes have, the store is used again when it is back, and what
// only the store knows is never taken for nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/protect/protect_fixture.h"

namespace kedge::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

class WithoutStore : public ProtectTest {
 protected:
  ~WithoutStore() override {
    if (is_away_) ComeBack();
  }
  std::string AwayPath() const { return nodes_.Store() + ".away"; }
  // What lies at its path meanwhile.
  enum class Place { kFile, kNothing, kEmptyFolder };
  // Every call to the store fails, as when its file system is not mounted and its path is something else.
  void GoAway(Place place = Place::kFile) {
    std::filesystem::create_directories(nodes_.Store());
    std::filesystem::rename(nodes_.Store(), AwayPath());
    if (place == Place::kFile) std::ofstream(nodes_.Store()) << "not a folder";
    if (place == Place::kEmptyFolder) std::filesystem::create_directory(nodes_.Store());
    is_away_ = true;
  }
  void ComeBack() {
    std::filesystem::remove_all(nodes_.Store());
    std::filesystem::rename(AwayPath(), nodes_.Store());
    is_away_ = false;
  }
  // Whether the store knows of an attempt with a greater number.
  bool HasAttemptBeyond(uint32_t attempt) const {
    std::error_code ignored;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(nodes_.Store(), ignored)) {
      const std::string name = entry.path().filename();
      if (entry.path().parent_path().filename() == "attempts" && std::atoll(name.c_str()) > attempt) return true;
    }
    return false;
  }
  // What kedge_init of one rank returns; a context that it made is ended.
  int Init(const std::string& keys) const {
    const std::string overrides = nodes_.Overrides(0, keys);
    kedge_options options = KEDGE_OPTIONS_INIT;
    options.overrides = overrides.c_str();
    kedge_context* context = nullptr;
    const int code = kedge_init(&options, nullptr, &context);
    if (context != nullptr) {
      EXPECT_KEDGE_OK(kedge_finalize(context, 0));
    }
    return code;
  }

 private:
  bool is_away_ = false;
};

class WithoutStoreByScheme : public WithoutStore, public ::testing::WithParamInterface<Scheme> {};
INSTANTIATE_TEST_SUITE_P(Every, WithoutStoreByScheme, ::testing::ValuesIn(kSchemes), NameOf);

TEST_P(WithoutStoreByScheme, AJobLosesNodesAndComesBackTimeAndAgain) {
  const std::string keys = GetParam().keys + std::string(kNoStore);
  Take(all_, keys, 2);
  GoAway();
  for (int node = 0; node < GetParam().losses; ++node) nodes_.Lose(node);
  ExpectRestart(all_, keys, 2, [](kedge_context* context, int rank) {
    std::vector<uint64_t> memory = Content(rank, 3);
    EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
    EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", 3, 0));
    EXPECT_KEDGE_OK(kedge_wait(context, "p", 3, KEDGE_LEVEL_NODE, 60));
  });
  nodes_.Lose(3);
  ExpectRestart(all_, keys, 3);
  // The next launch has the store again, which has never heard of the attempts between.
  ComeBack();
  ExpectRestart(all_, keys, 3);
}

TEST_F(WithoutStore, VersionsGetToItWhenItIsBack) {
  Take(all_, kXorOfFour + std::string(kNoStore), 1);
  GoAway();
  nodes_.Lose(1);
  nodes_.Run(all_, kXorOfFour, [&](kedge_context* context, int rank) {
    std::vector<uint64_t> memory = Content(rank, 0);
    EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
    int64_t version = -1;
    EXPECT_KEDGE_OK(kedge_restart(context, "p", -1, &version));
    EXPECT_EQ(version, 1);
    EXPECT_TRUE(memory == Content(rank, 1));
    Fill(&memory, rank, 2);
    EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", 2, 0));
    EXPECT_KEDGE_OK(kedge_wait(context, "p", 2, KEDGE_LEVEL_NODE, 60));
    EXPECT_EQ(kedge_wait(context, "p", 2, KEDGE_LEVEL_STORE, 2), KEDGE_ERROR_TIMEOUT) << kedge_error_message();
    EXPECT_THAT(kedge_error_message(), HasSubstr(nodes_.Store())) << "what it waits for";
    int64_t newest = -1;
    EXPECT_KEDGE_OK(kedge_newest(context, "p", -1, &newest)) << "until all ranks are here";
    if (rank == 0) {
      ComeBack();
      // Before rank 0 has noted the attempt there nothing of it is published.
      for (int i = 0; i < 1000 && !HasAttemptBeyond(2); ++i) std::this_thread::sleep_for(20ms);
      EXPECT_TRUE(HasAttemptBeyond(2));
    }
    EXPECT_KEDGE_OK(kedge_newest(context, "p", -1, &newest)) << "until the store is there";
    EXPECT_EQ(newest, 2);
    Fill(&memory, rank, 3);
    EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", 3, 0));
    EXPECT_KEDGE_OK(kedge_wait(context, "p", 2, KEDGE_LEVEL_STORE, 60)) << "it has waited for the store";
    EXPECT_KEDGE_OK(kedge_wait(context, "p", 3, KEDGE_LEVEL_STORE, 60));
    EXPECT_KEDGE_OK(kedge_last_flush_error(context, nullptr, 0, nullptr));
  });
  for (const int node : all_) nodes_.Lose(node);
  EXPECT_GT(ExpectRestart(all_, kXorOfFour, 3), 0u);
}

TEST_F(WithoutStore, WhoTakesNothingThereAbandonsNothingThatOthersTakeMeanwhile) {
  Take({0}, "", 1, KEDGE_LEVEL_STORE);
  GoAway();
  for (int launch = 0; launch < 2; ++launch) ExpectRestart({0}, "", 1);
  ComeBack();
  ExpectRestart({1}, "", 1, [](kedge_context* context, int rank) {
    std::vector<uint64_t> memory = Content(rank, 2);
    EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
    EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", 2, 0));
    EXPECT_KEDGE_OK(kedge_wait(context, "p", 2, KEDGE_LEVEL_STORE, 60));
  });
  ExpectRestart({0}, "", 2);
  ExpectRestart({1}, "", 2);
}

TEST_F(WithoutStore, WhatANodeHadIsRebuilt) {
  const std::string keys = std::string(kXorOfFour) + kNoStore;
  Take(all_, keys, 1);
  GoAway();
  nodes_.Lose(1);
  std::vector<std::unique_ptr<ChildProcess>> rebuilds;
  for (const int node : {0, 2, 3}) rebuilds.push_back(nodes_.Tool(node, {"rebuild", "--job", "nodes", "--patience", "3s"}));
  int brought = 0;
  for (auto& rebuild : rebuilds) {
    EXPECT_TRUE(rebuild->Succeeds(60s)) << rebuild->Output();
    brought += rebuild->Output().find("; 1 image came to this node") != std::string::npos ? 1 : 0;
  }
  EXPECT_EQ(brought, 1);
  auto drain = nodes_.Tool(0, {"drain", "--job", "nodes"});
  const auto drained = drain->Wait(60s);
  ASSERT_TRUE(drained.has_value());
  EXPECT_TRUE(drained->exited && drained->exit_code != 0) << "there is nowhere to drain to";
}

TEST_F(WithoutStore, WhatWasTakenMeanwhileIsDrainedWhenItIsBack) {
  const std::string keys = std::string(kXorOfFour) + kNoStore;
  Take(all_, keys, 1);
  GoAway();
  Take(all_, keys, 2);
  ComeBack();
  nodes_.Lose(1);
  std::vector<std::unique_ptr<ChildProcess>> drains;
  for (const int node : {0, 2, 3}) drains.push_back(nodes_.Tool(node, {"drain", "--job", "nodes", "--patience", "3s"}));
  for (auto& drain : drains) EXPECT_TRUE(drain->Succeeds(60s));
  for (const int node : {0, 2, 3}) nodes_.Lose(node);
  EXPECT_GT(ExpectRestart(all_, keys, 2), 0u);
}

TEST_F(WithoutStore, WhoKnowsNothingOfTheJobCannotStartIt) {
  GoAway();
  EXPECT_NE(Init(kNoStore), KEDGE_OK);
  EXPECT_THAT(kedge_error_message(), HasSubstr(nodes_.Store()));
}

TEST_F(WithoutStore, WhatTheNodesHaveLostIsNotTakenForNothing) {
  const std::string keys = kXorOfFour;
  Take(all_, keys, 1, KEDGE_LEVEL_STORE);
  GoAway();
  for (const int node : {0, 1}) nodes_.Lose(node);
  nodes_.Run(all_, keys, [&](kedge_context* context, int rank) {
    std::vector<uint64_t> memory = Content(rank, 0);
    EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
    int64_t version = -1;
    EXPECT_EQ(kedge_newest(context, "p", -1, &version), KEDGE_ERROR_UNAVAILABLE) << "an application would begin anew";
    EXPECT_EQ(kedge_restart(context, "p", -1, &version), KEDGE_ERROR_UNAVAILABLE);
    EXPECT_THAT(kedge_error_message(), HasSubstr(nodes_.Store()));
  });
}

TEST_F(WithoutStore, TwoLaunchesDoNotHoldTheJobAtOnce) {
  const std::string keys = std::string("job.lease=1s\n") + kNoStore;
  const std::string overrides = nodes_.Overrides(0, keys);
  kedge_options options = KEDGE_OPTIONS_INIT;
  options.overrides = overrides.c_str();
  kedge_context* first = nullptr;
  ASSERT_EQ(kedge_init(&options, nullptr, &first), KEDGE_OK) << kedge_error_message();
  EXPECT_KEDGE_OK(kedge_checkpoint(first, "p", 1, 0));
  EXPECT_KEDGE_OK(kedge_finalize(first, 0));
  GoAway();
  ASSERT_EQ(kedge_init(&options, nullptr, &first), KEDGE_OK) << kedge_error_message();
  EXPECT_EQ(Init(keys), KEDGE_ERROR_BUSY);
  EXPECT_THAT(kedge_error_message(), HasSubstr("1 live ranks"));
  int64_t newest = -1;
  EXPECT_KEDGE_OK(kedge_newest(first, "p", -1, &newest)) << "also without protection across nodes";
  EXPECT_EQ(newest, 1);
  EXPECT_KEDGE_OK(kedge_finalize(first, 0));
  EXPECT_EQ(Init(keys), KEDGE_OK) << kedge_error_message();
}

TEST_F(WithoutStore, AnotherStoreInItsPlaceIsSaid) {
  Take({0}, kNoStore, 1, KEDGE_LEVEL_LOCAL);
  // The agent has nothing more to write there.
  const std::string reached = nodes_.Store() + "/jobs/nodes/names/p/reached";
  for (int i = 0; i < 1000 && !std::filesystem::exists(reached); ++i) std::this_thread::sleep_for(20ms);
  std::filesystem::rename(nodes_.Store(), AwayPath());
  EXPECT_EQ(Init(std::string(kNoStore) + "job.name=other\n"), KEDGE_OK) << kedge_error_message();
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(Init(kNoStore), KEDGE_OK) << kedge_error_message();
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("these nodes have versions of it for another store"));
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(Init(kNoStore), KEDGE_OK) << kedge_error_message();
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "") << "once is enough";
}

// Moved away, or unmounted so that its mount folder is left.
class NothingInItsPlace : public WithoutStore, public ::testing::WithParamInterface<const char*> {
 protected:
  void GoAway() { WithoutStore::GoAway(GetParam() == std::string("Nothing") ? Place::kNothing : Place::kEmptyFolder); }
  void ExpectNothingMade() const {
    std::error_code missing;
    const std::filesystem::directory_iterator there(nodes_.Store(), missing);
    EXPECT_EQ(there, std::filesystem::directory_iterator()) << there->path() << " was made";
    EXPECT_EQ(!missing, GetParam() == std::string("AnEmptyFolder"));
  }
};
INSTANTIATE_TEST_SUITE_P(Every, NothingInItsPlace, ::testing::Values("Nothing", "AnEmptyFolder"),
                         [](const auto& place) { return std::string(place.param); });

TEST_P(NothingInItsPlace, TheJobGoesOnWithWhatItsNodesHave) {
  const std::string keys = std::string(kXorOfFour) + kNoStore;
  Take(all_, keys, 2);
  GoAway();
  ::testing::internal::CaptureStderr();
  ExpectRestart(all_, keys, 2, [](kedge_context* context, int rank) {
    std::vector<uint64_t> memory = Content(rank, 3);
    EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
    EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", 3, 0));
    EXPECT_KEDGE_OK(kedge_wait(context, "p", 3, KEDGE_LEVEL_NODE, 60));
  });
  const std::string said = ::testing::internal::GetCapturedStderr();
  for (const std::string part : {"the store cannot be had", "nothing is made", "store.create = \"anew\""}) {
    const size_t first = said.find(part);
    EXPECT_NE(first, std::string::npos) << part << " in: " << said;
    EXPECT_EQ(said.find(part, first + 1), std::string::npos) << "one rank says it, once: " << said;
  }
  ExpectNothingMade();
  nodes_.Lose(1);
  ExpectRestart(all_, keys, 3);
  ExpectNothingMade();
  ComeBack();
  ExpectRestart(all_, keys, 3);
}

TEST_P(NothingInItsPlace, VersionsGetToTheStoreWhenItIsBack) {
  Take({0}, "", 1, KEDGE_LEVEL_LOCAL);
  GoAway();
  ExpectRestart({0}, "store.create=parents\n", 1, [&](kedge_context* context, int) {
    EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", 2, 0));
    EXPECT_EQ(kedge_wait(context, "p", 2, KEDGE_LEVEL_STORE, 1), KEDGE_ERROR_TIMEOUT) << kedge_error_message();
    ExpectNothingMade();
    ComeBack();
    EXPECT_KEDGE_OK(kedge_wait(context, "p", 2, KEDGE_LEVEL_STORE, 60));
  });
}

TEST_P(NothingInItsPlace, AnotherStoreIsMadeThereWhenAskedFor) {
  Take({0}, kNoStore, 1, KEDGE_LEVEL_LOCAL);
  GoAway();
  const std::string anew = std::string(kNoStore) + "store.create=anew\n";
  nodes_.Run({0}, anew, [](kedge_context* context, int) {
    int64_t version = -1;
    EXPECT_EQ(kedge_restart(context, "p", -1, &version), KEDGE_ERROR_NOT_FOUND) << "the job begins anew";
    EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", 1, 0));
  });
  // Now the nodes have something of two stores that lay there.
  const std::string other = nodes_.Store() + ".other";
  std::filesystem::rename(nodes_.Store(), other);
  EXPECT_EQ(Init(kNoStore), KEDGE_ERROR_UNAVAILABLE) << kedge_error_message();
  EXPECT_THAT(kedge_error_message(), HasSubstr("from 2 stores"));
  EXPECT_THAT(kedge_error_message(), HasSubstr("store.create"));
  EXPECT_FALSE(std::filesystem::exists(nodes_.Store()));
  std::filesystem::rename(other, nodes_.Store());
  EXPECT_EQ(Init(anew), KEDGE_OK) << kedge_error_message();
}

// Else the job would begin anew, and hear that it never had one.
TEST_P(NothingInItsPlace, NoneIsMadeThereWhereTheNodesHadAVersionOfItAndHaveLostIt) {
  Take({0}, "", 1, KEDGE_LEVEL_STORE);
  std::filesystem::remove(nodes_.RunFolder(0) + "/pool/pool");
  for (const bool restarts : {false, true}) {
    if (restarts) {
      ExpectRestart({0}, "", 1);
    } else {
      EXPECT_EQ(Init(""), KEDGE_OK) << kedge_error_message();
    }
    GoAway();
    nodes_.Run({0}, "store.create=parents\n", [](kedge_context* context, int) {
      int64_t version = -1;
      EXPECT_EQ(kedge_restart(context, "p", -1, &version), KEDGE_ERROR_UNAVAILABLE) << kedge_error_message();
    });
    ExpectNothingMade();
    ComeBack();
  }
}

TEST_P(NothingInItsPlace, AStoreIsMadeThereForAJobOfWhichTheNodesHaveNothing) {
  GoAway();
  EXPECT_EQ(Init(""), KEDGE_OK) << kedge_error_message();
  std::filesystem::remove_all(nodes_.Store());
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(Init(""), KEDGE_OK) << kedge_error_message();
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "") << "an attempt that took nothing leaves nothing to go on from";
  EXPECT_TRUE(std::filesystem::exists(nodes_.Store()));
}

}  // namespace
}  // namespace kedge::testing
