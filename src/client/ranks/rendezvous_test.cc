// A bootstrap over a folder: who stays away, what an earlier launch left, what goes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <set>
#include <string>
#include <thread>

#include "client/ranks/rendezvous.h"
#include "os/files/files.h"
#include "os/files/private_files.h"
#include "os/testing/simulated_file_system.h"
#include "os/testing/temporary_folder.h"

namespace kedge::client {
namespace {

using os::testing::SimulatedFileSystem;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

class RendezvousExchange : public ::testing::Test {
 protected:
  using Opened = Result<std::unique_ptr<Rendezvous>>;
  Opened Open(const std::string& folder, uint32_t rank, Duration timeout) {
    return Rendezvous::Open(os::PrivateFileSystem(), {folder, rank, 2, timeout});
  }
  // Both ranks. Their waits are short, so that a busy machine may need several tries.
  std::array<std::unique_ptr<Rendezvous>, 2> OpenTwo(Duration timeout) {
    for (int tries = 0; tries < 50; ++tries) {
      folder_ = parent_ / std::to_string(tries);
      auto other = std::async(std::launch::async, [&] { return Open(folder_, 1, timeout); });
      Opened first = Open(folder_, 0, timeout), second = other.get();
      if (first.ok() && second.ok()) return {std::move(*first), std::move(*second)};
    }
    KEDGE_CHECK(false);
  }
  std::set<std::string> Files() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_)) {
      if (entry.is_regular_file()) names.insert(entry.path().filename());
    }
    return names;
  }

  const os::testing::TemporaryFolder parent_{"/dev/shm"};
  std::string folder_;
};

TEST_F(RendezvousExchange, WhoStaysAwayIsNamedAndEveryWaitEnds) {
  const auto ranks = OpenTwo(milliseconds(60));
  const Status first = ranks[0]->AllGather("a").status();
  EXPECT_EQ(first.code(), Code::kTimeout);
  EXPECT_THAT(first.message(), AllOf(HasSubstr("rank 1 of 2"), HasSubstr(folder_)));
  const Status second = ranks[1]->Broadcast("b", 0, 1).status();
  EXPECT_EQ(second.code(), Code::kTimeout);
  EXPECT_THAT(second.message(), HasSubstr("rank 0 of 2"));
}

TEST_F(RendezvousExchange, PartsOfOtherLengthsAreAMismatch) {
  const auto ranks = OpenTwo(milliseconds(60));
  EXPECT_EQ(ranks[1]->AllGather("abcd").status().code(), Code::kTimeout) << "its part lies there";
  const Status status = ranks[0]->AllGather("abc").status();
  EXPECT_EQ(status.code(), Code::kMismatch);
  EXPECT_THAT(status.message(), HasSubstr("rank 1"));
  ASSERT_TRUE(ranks[1]->Broadcast("abc", 1, 3).ok());
  EXPECT_EQ(ranks[0]->Broadcast("", 1, 4).status().code(), Code::kMismatch);
}

TEST_F(RendezvousExchange, WhatAllHaveReadGoes) {
  const auto ranks = OpenTwo(seconds(10));
  for (const std::string text : {"ab", "cd"}) {
    ASSERT_TRUE(ranks[0]->Broadcast(text, 0, 2).ok());
    EXPECT_EQ(ranks[1]->Broadcast("", 0, 2).value(), text);
  }
  auto other = std::async(std::launch::async, [&] { return ranks[1]->AllGather("yz").value(); });
  EXPECT_EQ(ranks[0]->AllGather("wx").value(), "wxyz");
  EXPECT_EQ(other.get(), "wxyz");
  EXPECT_THAT(Files(), UnorderedElementsAre("hello.1", "launch", "ready.1", "begin", "3.1", "3.all"));
}

TEST_F(RendezvousExchange, BroadcastsAloneDoNotFillTheFolder) {
  const auto ranks = OpenTwo(seconds(10));
  const auto broadcast = [&](size_t rank) {
    for (int i = 0; i < 350; ++i) {
      const std::string text = std::to_string(1000 + i);
      EXPECT_EQ(ranks[rank]->Broadcast(rank == 0 ? text : "", 0, 4).value(), text);
    }
  };
  auto other = std::async(std::launch::async, [&] { broadcast(1); });
  broadcast(0);
  other.get();
  EXPECT_LT(Files().size(), 150u);
}

// Whichever comes first: rank 0 takes an earlier launch's rank 1 for this one's, or rank 1 finds another launch's words.
TEST_F(RendezvousExchange, WhatAnEarlierLaunchLeftIsSeenThrough) {
  const std::string old_nonce(32, 'a');
  const auto read = [&](const char* name) { return os::ReadFile(os::SystemFileSystem(), folder_ + "/" + name, 1000).value(); };
  for (const uint32_t early : {0u, 1u}) {
    folder_ = parent_ / std::to_string(early);
    std::filesystem::create_directories(folder_ + "/exchange.old");
    std::filesystem::permissions(folder_, std::filesystem::perms::owner_all);
    const auto write = [&](const std::string& name, const std::string& text) { std::ofstream(folder_ + "/" + name) << text; };
    write("hello.1", old_nonce);
    write("launch", "nonsense");
    write("exchange.old/begin", "");
    auto first = std::async(std::launch::async, [&] { return Open(folder_, early, seconds(10)); });
    const auto is_there = [&] {
      return early == 0 ? read("launch").find(old_nonce) != std::string::npos : read("hello.1") != old_nonce;
    };
    while (!is_there() && first.wait_for(milliseconds(1)) != std::future_status::ready) {
    }
    std::this_thread::sleep_for(milliseconds(5));
    const auto second = Open(folder_, 1 - early, seconds(10));
    ASSERT_TRUE(second.ok()) << second.status().ToString();
    ASSERT_TRUE(first.get().ok());
    EXPECT_EQ(read("launch").find(old_nonce), std::string::npos);
    EXPECT_FALSE(std::filesystem::exists(folder_ + "/exchange.old"));
  }
}

TEST_F(RendezvousExchange, AFailedExchangeIsACodeAndLeavesWhatWasThere) {
  SimulatedFileSystem fs;
  auto alone = Rendezvous::Open(fs, {"/launch", 0, 1, seconds(10)}).value();
  const kedge_bootstrap bootstrap = Rendezvous::ToBootstrap(std::move(alone));
  int sent = 7, received = -1;
  EXPECT_EQ(bootstrap.allgather(bootstrap.user, &sent, &received, sizeof sent), 0);
  EXPECT_EQ(received, 7);
  fs.faults().Add({.calls = CallsOf(os::testing::Call::kPwrite), .count = os::testing::kForEver, .errno_value = ENOSPC});
  sent = 8;
  EXPECT_EQ(bootstrap.allgather(bootstrap.user, &sent, &received, sizeof sent), KEDGE_ERROR_NO_SPACE);
  EXPECT_EQ(received, 7);
  bootstrap.release(bootstrap.user);
  const Status status = Rendezvous::Open(fs, {"/another", 0, 1, seconds(10)}).status();
  EXPECT_EQ(status.code(), Code::kNoSpace);
  EXPECT_THAT(status.message(), HasSubstr("/another"));
}

}  // namespace
}  // namespace kedge::client
