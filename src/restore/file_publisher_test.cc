// Routed files at their paths: whole or not at all, with their bits, and nothing beside them that a dead publisher left.
#include "restore/file_publisher.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "os/files/files.h"
#include "os/testing/simulated_file_system.h"

namespace kedge {
namespace {

using os::testing::SimulatedFileSystem;

class FilePublisherTest : public ::testing::Test {
 protected:
  FilePublisherTest() { EXPECT_TRUE(fs_.Mkdir("/out", 0755).ok()); }

  FileOrigin Origin(const TemporaryOwner& owner, const std::string& job = "job") const {
    return {store_id_,
            job,
            owner,
            [this](uint32_t attempt) { return attempt <= silent_attempts_; },
            {owner.attempt, 1},
            [this] { return is_taken_over_; }};
  }
  std::string Content(const std::string& path = "/out/result.h5") { return os::ReadFile(fs_, path, 100).value(); }
  static Status Write(os::File& to, const std::string& text) { return os::WriteAll(to, text.data(), text.size(), 0); }
  Status Publish(FilePublisher& publisher, const FileOrigin& origin, const std::string& path = "/out/result.h5") {
    return publisher.Publish(origin, path, 0640, [](os::File& to) { return Write(to, "content"); });
  }
  // A publisher of that origin dies between writing and renaming.
  void DieOf(const FileOrigin& origin) {
    FilePublisher publisher(fs_);
    const auto calls = CallsOf(os::testing::Call::kRename, os::testing::Call::kUnlink);
    fs_.faults().Add({.calls = calls, .count = os::testing::kForEver, .errno_value = EIO});
    EXPECT_FALSE(Publish(publisher, origin).ok());
    fs_.Restart();
  }
  std::vector<std::string> Names() {
    std::vector<std::string> names;
    const auto entries = fs_.List("/out").value();
    for (const auto& entry : entries) names.push_back(entry.name);
    std::sort(names.begin(), names.end());
    return names;
  }

  SimulatedFileSystem fs_;
  const StoreId store_id_ = StoreId::Generate();
  uint32_t silent_attempts_ = 0;
  Result<bool> is_taken_over_ = false;
  const std::vector<std::string> only_result_ = {"result.h5"};
};

TEST_F(FilePublisherTest, GivesTheApplicationsBits) {
  FilePublisher publisher(fs_);
  ASSERT_TRUE(Publish(publisher, Origin({"n0", 1, "agent"})).ok());
  EXPECT_EQ(Names(), only_result_);
  EXPECT_EQ(fs_.Stat("/out/result.h5")->mode, 0640u);
  EXPECT_EQ(*os::ReadFile(fs_, "/out/result.h5", 100), "content");
}

TEST_F(FilePublisherTest, AnOlderVersionsFileReplacesNoLaterOne) {
  FilePublisher publisher(fs_);
  const auto publish = [&](uint32_t attempt, uint32_t take) {
    FileOrigin origin = Origin({"n0", attempt, "agent"});
    origin.taken = {attempt, take};
    return publisher.Publish(origin, "/out/result.h5", 0640,
                             [&](os::File& to) { return Write(to, fmt::format("{}.{}", attempt, take)); });
  };
  ASSERT_TRUE(publish(1, 2).ok());
  ASSERT_TRUE(publish(1, 1).ok());
  EXPECT_EQ(Content(), "1.2");
  ASSERT_TRUE(publish(1, 3).ok());
  EXPECT_EQ(Content(), "1.3");
  // The job has gone on elsewhere, and that attempt has put its file there.
  FilePublisher elsewhere(fs_);
  ASSERT_TRUE(Publish(elsewhere, Origin({"n1", 2, "agent"})).ok());
  is_taken_over_ = true;
  ASSERT_TRUE(publish(1, 4).ok());
  EXPECT_EQ(Content(), "content");
  ASSERT_TRUE(fs_.Unlink("/out/result.h5").ok());
  ASSERT_TRUE(publish(1, 4).ok()) << "nobody has put one there";
  EXPECT_EQ(Content(), "1.4");
  // It cannot be told whether another one has.
  is_taken_over_ = Status(Code::kIo, "no look");
  EXPECT_EQ(publish(1, 5).code(), Code::kIo);
  EXPECT_EQ(Content(), "1.4");
  is_taken_over_ = false;
  ASSERT_TRUE(publish(1, 5).ok());
  EXPECT_EQ(Content(), "1.5");
  EXPECT_EQ(Names(), only_result_);
}

TEST_F(FilePublisherTest, OfTwoAtATimeTheLaterOneStays) {
  FilePublisher publisher(fs_);
  std::atomic<bool> writes{false};
  std::thread older([&] {
    EXPECT_TRUE(publisher
                    .Publish(Origin({"n0", 1, "agent"}), "/out/result.h5", 0640,
                             [&](os::File& to) {
                               writes = true;
                               std::this_thread::sleep_for(std::chrono::milliseconds(50));
                               return Write(to, "older");
                             })
                    .ok());
  });
  while (!writes) std::this_thread::yield();
  FileOrigin later = Origin({"n0", 1, "agent"});
  later.taken = {1, 2};
  ASSERT_TRUE(publisher.Publish(later, "/out/result.h5", 0640, [](os::File& to) { return Write(to, "later"); }).ok());
  older.join();
  EXPECT_EQ(Content(), "later");
  EXPECT_EQ(Names(), only_result_);
}

TEST_F(FilePublisherTest, TakesNamesOfAnyLength) {
  FilePublisher publisher(fs_);
  const std::string name(250, 'n');
  const auto write = [&](os::File& to) {
    EXPECT_LE(os::BaseName(to.path()).size(), 255u);
    return Write(to, "content");
  };
  EXPECT_TRUE(publisher.Publish(Origin({std::string(64, 'n'), 4000000000, "agent"}), "/out/" + name, 0600, write).ok());
}

TEST_F(FilePublisherTest, ASuccessorRemovesWhatItsPredecessorLeft) {
  for (const TemporaryOwner& owner : {TemporaryOwner{"n0", 1, "agent"}, TemporaryOwner{"n0", 1, "r3"}}) {
    DieOf(Origin(owner));
    EXPECT_EQ(Names().size(), 1u) << "nothing was left to remove";
    FilePublisher successor(fs_);
    ASSERT_TRUE(Publish(successor, Origin(owner)).ok());
    EXPECT_EQ(Names(), only_result_);
    ASSERT_TRUE(fs_.Unlink("/out/result.h5").ok());
  }
}

TEST_F(FilePublisherTest, TheNextLaunchRemovesWhatRanksOfTheFormerLeft) {
  DieOf(Origin({"n0", 1, "r3"}));
  FilePublisher next(fs_);
  ASSERT_TRUE(Publish(next, Origin({"n1", 2, "r0"})).ok());
  EXPECT_EQ(Names(), only_result_);
}

TEST_F(FilePublisherTest, AnotherNodesAgentIsDisturbedOnlyWhenItsAttemptIsSilent) {
  DieOf(Origin({"n0", 1, "agent"}));
  FilePublisher next(fs_);
  ASSERT_TRUE(Publish(next, Origin({"n1", 2, "agent"})).ok());
  EXPECT_EQ(Names().size(), 2u) << "it may still carry files";
  silent_attempts_ = 1;
  ASSERT_TRUE(Publish(next, Origin({"n1", 2, "agent"})).ok());
  EXPECT_EQ(Names(), only_result_) << "it was not looked at again";
}

TEST_F(FilePublisherTest, OthersTemporariesStay) {
  DieOf(Origin({"n0", 1, "r0"}, "another job"));
  DieOf(Origin({"n0", 2, "r1"}));
  DieOf(Origin({"n0", 3, "r0"}));
  ASSERT_TRUE(os::WriteFileDurably(fs_, "/out/notes.user.0123456789abcdef.tmp", "", "test").ok());
  silent_attempts_ = 9;
  FilePublisher publisher(fs_);
  ASSERT_TRUE(Publish(publisher, Origin({"n0", 2, "r0"})).ok());
  EXPECT_EQ(Names().size(), 5u) << "of another job, another rank of this attempt, a newer attempt, and of somebody else";
}

TEST_F(FilePublisherTest, WhatIsInHandIsNoLeftover) {
  FilePublisher publisher(fs_);
  const FileOrigin origin = Origin({"n0", 1, "agent"});
  const Status outer = publisher.Publish(origin, "/out/large.h5", 0600, [&](os::File& to) {
    EXPECT_TRUE(Publish(publisher, origin).ok());
    return Write(to, "content");
  });
  EXPECT_TRUE(outer.ok()) << outer.ToString();
  EXPECT_EQ(Names(), (std::vector<std::string>{"large.h5", "result.h5"}));
}

TEST_F(FilePublisherTest, AfterDeathAtAnyCallTheNextOneLeavesNothing) {
  for (uint64_t calls = 1; calls < 40; ++calls) {
    SCOPED_TRACE(calls);
    fs_.faults().KillAfter(calls);
    FilePublisher killed(fs_);
    const bool finished = Publish(killed, Origin({"n0", 1, "agent"})).ok();
    fs_.Restart();
    FilePublisher successor(fs_);
    ASSERT_TRUE(Publish(successor, Origin({"n0", 1, "agent"})).ok());
    ASSERT_EQ(Names(), only_result_);
    if (finished) return;
  }
  FAIL() << "it takes more calls than that";
}

}  // namespace
}  // namespace kedge
