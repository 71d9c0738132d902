// What all ranks hear of the store's newest versions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "client/init/newest_stored.h"
#include "client/testing/make_core.h"
#include "client/testing/ranks.h"
#include "os/testing/simulated_file_system.h"
#include "store/testing/version_maker.h"

namespace kedge::client {
namespace {

using os::testing::SimulatedFileSystem;
using ::testing::Each;
using ::testing::IsEmpty;
using testing::OnRanks;

class NewestStoredTest : public ::testing::Test {
 protected:
  void Take(const std::string& name, int64_t version, uint32_t ranks = 2) {
    const Generation generation{core_->catalog->id(), "job", name, version, 1, static_cast<uint32_t>(version) + 1};
    ASSERT_TRUE(kedge::testing::PublishRanks(*core_->catalog, generation, 0, ranks, {}).ok());
  }
  // As each of two ranks hears it; rank 1 has no way to the store.
  std::vector<std::map<std::string, int64_t>> Gather(bool is_unrecorded = false) {
    return OnRanks(2, [&](Collective ranks) {
      SimulatedFileSystem none;
      os::FileSystem& seen = ranks.rank() == 0 ? fs_ : none;
      const auto core = testing::MakeStartedCore(seen, std::move(ranks));
      core->attempt_unrecorded = is_unrecorded;
      return GatherNewestStored(*core).value();
    });
  }

  SimulatedFileSystem fs_;
  const std::unique_ptr<Core> core_ = testing::MakeStartedCore(fs_);
};

TEST_F(NewestStoredTest, AllHearOfTheNewestCompleteOneOfEachName) {
  EXPECT_THAT(Gather(), Each(IsEmpty()));
  Take("wave", 3);
  Take("wave", 7);
  Take("wave", 8, /*ranks=*/1);
  Take("partial", 1, /*ranks=*/1);
  Take("zero", 0);
  EXPECT_THAT(Gather(), Each(std::map<std::string, int64_t>{{"wave", 7}, {"zero", 0}}));
  EXPECT_THAT(Gather(/*is_unrecorded=*/true), Each(IsEmpty())) << "the store is not there, so far as is known";
}

TEST_F(NewestStoredTest, AStoreThatCannotBeLookedIntoRefusesNothing) {
  Take("wave", 3);
  fs_.faults().Add({.calls = CallsOf(os::testing::Call::kList), .count = os::testing::kForEver, .errno_value = EIO});
  EXPECT_THAT(Gather(), Each(IsEmpty()));
}

}  // namespace
}  // namespace kedge::client
