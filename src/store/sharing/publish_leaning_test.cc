// Images with blocks in each other's objects, or with one object: a part names none without those that it needs.
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "os/testing/simulated_file_system.h"
#include "store/posix/posix_store.h"
#include "store/publish.h"
#include "store/versions.h"

namespace kedge {
namespace {

class PublishLeaning : public ::testing::Test {
 protected:
  static constexpr uint32_t kRanks = 5;

  PublishLeaning()
      : store_(MakePosixStore(fs_, {.path = "/store"})),
        catalog_(Catalog::OpenOrCreate(*store_, {"node1", 1, "agent"}).value()),
        generation_{catalog_.id(), "job", "grid", 1, 1, 1} {
    EXPECT_TRUE(PrepareGeneration(catalog_, generation_).ok());
  }

  // One of the images that are published next.
  void Add(uint32_t rank, const std::string& object, LeansOn leans_on = {}) {
    const std::string key = keys::GenerationFolder(generation_) + '/' + object;
    writers_.push_back(store_->CreateObject(key, catalog_.owner(), 0).value());
    EXPECT_TRUE(writers_.back()->WriteAt(0, Buffer(100)).ok());
    part_.images.push_back({rank, object, 0, 10, 0, 100, 10, 0});
    leans_on_.push_back(std::move(leans_on));
  }
  // Another one, which lies in the object of the one before.
  void AddThere(uint32_t rank, LeansOn leans_on = {}) {
    beside_.insert(part_.images.size());
    part_.images.push_back(part_.images.back());
    part_.images.back().rank = rank;
    leans_on_.push_back(std::move(leans_on));
  }
  PublishOutcome Publish() {
    std::vector<ObjectWriter*> writers;
    auto writer = writers_.begin();
    for (size_t i = 0; i < part_.images.size(); ++i) {
      writers.push_back(beside_.contains(i) ? writers.back() : (writer++)->get());
    }
    part_.generation = generation_;
    part_.ranks = kRanks;
    PublishOutcome outcome = PublishImages(catalog_, writers, part_, leans_on_);
    writers_.clear();
    beside_.clear();
    leans_on_.clear();
    part_.images.clear();
    return outcome;
  }
  static std::vector<Code> CodesOf(const PublishOutcome& outcome) {
    std::vector<Code> codes;
    for (const Status& status : outcome.images) codes.push_back(status.code());
    return codes;
  }
  std::vector<std::string> Objects() {
    std::vector<std::string> names;
    for (const StoreEntry& entry : store_->List(keys::ObjectsFolder(generation_)).value()) names.push_back(entry.name);
    return names;
  }
  using Names = std::vector<std::string>;

  os::testing::SimulatedFileSystem fs_{{.seed = 1}};
  const std::unique_ptr<Store> store_;
  const Catalog catalog_;
  const Generation generation_;
  std::vector<std::unique_ptr<ObjectWriter>> writers_;
  std::set<size_t> beside_;  // images that have the writer of the one before
  PartRecord part_;
  std::vector<LeansOn> leans_on_;
};

TEST_F(PublishLeaning, WithoutAnObjectNothingIsPublishedThatLeansOnIt) {
  Add(0, "data/r0.b1");
  Add(1, "data/r1.b1", {"data/r0.b1"});
  Add(2, "data/r2.b1", {"data/r1.b1", "data/r3.b1"});
  Add(3, "data/r3.b1");
  Add(4, "data/r4.b1", {"data/r3.b1"});
  EXPECT_TRUE(writers_.front()->Abandon().ok());
  const PublishOutcome outcome = Publish();
  EXPECT_EQ(CodesOf(outcome),
            (std::vector<Code>{Code::kFailedPrecondition, Code::kIncomplete, Code::kIncomplete, Code::kOk, Code::kOk}));
  ASSERT_EQ(outcome.published.images.size(), 2u);
  EXPECT_TRUE(outcome.commit.ok()) << outcome.commit.ToString();
  EXPECT_EQ(Objects(), (Names{"r3.b1", "r4.b1"})) << "what was published for nothing has gone";
}

TEST_F(PublishLeaning, OnWhatIsNotOfThePartIsNotPublishedAtAll) {
  Add(0, "data/r0.b1");
  Add(1, "data/r1.b1", {"data/r2.b1"});
  const PublishOutcome outcome = Publish();
  EXPECT_EQ(CodesOf(outcome), (std::vector<Code>{Code::kOk, Code::kIncomplete}));
  EXPECT_EQ(Objects(), Names{"r0.b1"});
}

TEST_F(PublishLeaning, AllOfThemFailTogether) {
  Add(0, "data/r0.b1", {"data/r1.b1"});
  Add(1, "data/r1.b1", {"data/r0.b1"});
  EXPECT_TRUE(writers_.back()->Abandon().ok());
  const PublishOutcome outcome = Publish();
  EXPECT_EQ(CodesOf(outcome), (std::vector<Code>{Code::kIncomplete, Code::kFailedPrecondition}));
  EXPECT_TRUE(outcome.published.images.empty());
  EXPECT_TRUE(Objects().empty());
}

TEST_F(PublishLeaning, ImagesOfOneObjectStandAndFallWithIt) {
  Add(0, "data/n1");
  AddThere(1);
  AddThere(2);
  Add(3, "data/n2");
  AddThere(4, {"data/n1"});
  EXPECT_TRUE(writers_.back()->Abandon().ok());
  const PublishOutcome outcome = Publish();
  EXPECT_EQ(CodesOf(outcome),
            (std::vector<Code>{Code::kOk, Code::kOk, Code::kOk, Code::kFailedPrecondition, Code::kFailedPrecondition}));
  EXPECT_EQ(outcome.published.images.size(), 3u);
  EXPECT_EQ(Objects(), Names{"n1"});
}

TEST_F(PublishLeaning, AnObjectStaysForTheImagesThatAreNamedThere) {
  Add(0, "data/n1");
  AddThere(1, {"data/r9.b1"});
  AddThere(2, {"data/n1"});
  const PublishOutcome outcome = Publish();
  EXPECT_EQ(CodesOf(outcome), (std::vector<Code>{Code::kOk, Code::kIncomplete, Code::kOk}));
  EXPECT_EQ(Objects(), Names{"n1"});
  // Nobody else needs it.
  Add(3, "data/n2", {"data/r9.b1"});
  AddThere(4, {"data/r9.b1"});
  EXPECT_EQ(CodesOf(Publish()), (std::vector<Code>{Code::kIncomplete, Code::kIncomplete}));
  EXPECT_EQ(Objects(), Names{"n1"});
}

// An agent was killed when it had published some images alone; its successor has written all of them.
TEST_F(PublishLeaning, AnObjectStaysWhereSomeOfItsImagesCount) {
  Add(0, "data/n1");
  Publish();
  Add(0, "data/n2");
  AddThere(1);
  EXPECT_EQ(CodesOf(Publish()), (std::vector<Code>{Code::kOk, Code::kOk}));
  EXPECT_EQ(Objects(), (Names{"n1", "n2"}));
  // Its part is committed once more, because it was not told of the first.
  PartRecord again{generation_, kRanks, {}, {}};
  for (const uint32_t rank : {0u, 1u}) again.images.push_back({rank, "data/n2", 0, 10, 0, 100, 10, 0});
  EXPECT_TRUE(CommitPart(catalog_, again).ok());
  EXPECT_EQ(Objects(), (Names{"n1", "n2"})) << "rank 1 lies there";
  // Written again by another successor, which all parts there cover by now.
  Add(0, "data/n3");
  AddThere(1);
  EXPECT_EQ(CodesOf(Publish()), (std::vector<Code>{Code::kOk, Code::kOk}));
  EXPECT_EQ(Objects(), (Names{"n1", "n2"}));
}

// Of an agent that was killed, by its successor.
TEST_F(PublishLeaning, WhatAPredecessorHasPublishedStandsAndWhatTheOthersNeedStays) {
  Add(0, "data/r0.b1");
  Add(2, "data/r2.b1");
  Publish();
  Add(0, "data/r0.b2");
  Add(1, "data/r1.b2", {"data/r0.b2"});
  PublishOutcome outcome = Publish();
  EXPECT_EQ(CodesOf(outcome), (std::vector<Code>{Code::kOk, Code::kOk}));
  EXPECT_EQ(Objects(), (Names{"r0.b1", "r0.b2", "r1.b2", "r2.b1"})) << "rank 1 has blocks in one that no part names";
  const auto object_of = [&](uint32_t rank) {
    for (const PartRecord& part : ReadParts(catalog_, generation_, nullptr).value()) {
      for (const ImageEntry& entry : part.images) {
        if (entry.rank == rank) return entry.object;
      }
    }
    return std::string();
  };
  EXPECT_EQ(object_of(0), "data/r0.b1");
  EXPECT_EQ(object_of(1), "data/r1.b2");
  // Once more: all of it is there.
  Add(0, "data/r0.b3");
  Add(1, "data/r1.b3", {"data/r0.b3"});
  outcome = Publish();
  EXPECT_EQ(CodesOf(outcome), (std::vector<Code>{Code::kOk, Code::kOk}));
  EXPECT_EQ(Objects(), (Names{"r0.b1", "r0.b2", "r1.b2", "r2.b1"}));
}

}  // namespace
}  // namespace kedge
