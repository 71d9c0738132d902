// How many times a publication waits for the store's journal, one after the other: twice on a node that has all ranks, else at
// most three times, whatever the number of its ranks, and whether each has an object or all have one. What a file system commits
// together (FileSystem::SyncTogether) is one time.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "os/testing/simulated_file_system.h"
#include "store/posix/posix_store.h"
#include "store/testing/version_maker.h"

namespace kedge {
namespace {

using os::testing::Call;
using os::testing::SimulatedFileSystem;

class CommitCountingFileSystem final : public SimulatedFileSystem {
 public:
  uint64_t commits() { return faults().calls(Call::kFsync) + faults().calls(Call::kFdatasync) - together_ + steps_; }
  std::vector<Status> SyncTogether(std::span<os::File* const> files) override {
    if (!files.empty()) ++steps_;
    together_ += files.size();
    return SimulatedFileSystem::SyncTogether(files);
  }

 private:
  uint64_t together_ = 0;
  uint64_t steps_ = 0;
};

struct OnANode {
  uint32_t ranks = 1;
  bool one_object = false;
};

class CommitChain : public ::testing::TestWithParam<OnANode> {
 protected:
  CommitChain() : store_(MakePosixStore(fs_, {.path = "/store"})) {
    catalog_ = std::make_unique<Catalog>(Catalog::OpenOrCreate(*store_, {"node1", 1, "agent"}).value());
    options_.ranks = options_.ranks_per_part = GetParam().ranks;
    options_.one_object = GetParam().one_object;
    EXPECT_TRUE(testing::TakeVersion(*catalog_, At(1), options_).ok()) << "with the folders and records of job and name";
  }
  Generation At(int64_t version) { return {catalog_->id(), "job", "wave", version, 1, static_cast<uint32_t>(version)}; }
  // Of what `work` does.
  template <typename Work>
  uint64_t CommitsOf(Work work) {
    const uint64_t before = fs_.commits();
    work();
    return fs_.commits() - before;
  }

  CommitCountingFileSystem fs_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<Catalog> catalog_;
  testing::MakerOptions options_;
};

TEST_P(CommitChain, OfAVersionOnOneNodeIsTwoLong) {
  EXPECT_EQ(CommitsOf([&] { ASSERT_TRUE(testing::TakeVersion(*catalog_, At(2), options_).ok()); }), 2u);
}

// The first of two nodes waits for its objects and its part; the second sees both parts, and completes the version.
TEST_P(CommitChain, OfAVersionOfTwoNodesIsNoLongerOnEither) {
  const uint32_t on_node = GetParam().ranks;
  options_.ranks = 2 * on_node;
  const auto take = [&](uint32_t first, bool completes) {
    const auto outcome = testing::PublishRanks(*catalog_, At(2), first, on_node, options_);
    ASSERT_TRUE(outcome.ok()) << outcome.status().ToString();
    EXPECT_EQ(outcome->complete, completes);
  };
  EXPECT_EQ(CommitsOf([&] { take(0, false); }), 2u);
  EXPECT_EQ(CommitsOf([&] { take(on_node, true); }), 3u);
}

// Of a version that is written once more: what is replaced is not touched before the new objects are durable.
TEST_P(CommitChain, OfObjectsThatReplaceOthersIsFourLong) {
  const uint32_t on_node = GetParam().ranks;
  options_.ranks = 2 * on_node;
  ASSERT_TRUE(testing::PublishRanks(*catalog_, At(2), 0, on_node, options_).ok());
  EXPECT_LE(CommitsOf([&] { ASSERT_TRUE(testing::PublishRanks(*catalog_, At(2), 0, on_node, options_).ok()); }), 4u);
}

INSTANTIATE_TEST_SUITE_P(Ranks, CommitChain,
                         ::testing::Values(OnANode{1}, OnANode{2}, OnANode{8}, OnANode{64}, OnANode{1, true}, OnANode{8, true},
                                           OnANode{64, true}));

}  // namespace
}  // namespace kedge
