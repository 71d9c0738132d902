// Processes that share a folder find each other in it, whatever an earlier launch has left there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "kedge/kedge.h"
#include "os/testing/temporary_folder.h"

namespace kedge::testing {
namespace {

using ::testing::HasSubstr;

class RendezvousTest : public ::testing::Test {
 protected:
  std::string Folder() const { return folder_.path() + "/launch"; }
  std::vector<std::string> Files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(Folder())) {
      if (entry.is_regular_file()) names.push_back(entry.path().filename());
    }
    return names;
  }
  // Some exchanges, as one rank sees them; how many were wrong.
  static int Exchange(const kedge_bootstrap& bootstrap, int rounds) {
    int wrong = 0;
    for (int round = 0; round < rounds; ++round) {
      const int mine = 1000 * round + bootstrap.rank;
      std::vector<int> all(static_cast<size_t>(bootstrap.ranks), -1);
      wrong += bootstrap.allgather(bootstrap.user, &mine, all.data(), sizeof mine) != 0;
      for (int rank = 0; rank < bootstrap.ranks; ++rank) wrong += all[static_cast<size_t>(rank)] != 1000 * round + rank;
      const int root = round % bootstrap.ranks;
      int told = bootstrap.rank == root ? 7 * round : -1;
      wrong += bootstrap.broadcast(bootstrap.user, &told, sizeof told, root) != 0;
      wrong += told != 7 * round;
      wrong += bootstrap.barrier(bootstrap.user) != 0;
    }
    return wrong;
  }
  // All ranks as processes of their own, each `stagger_ms` after the one before it.
  void Launch(int ranks, int rounds, int stagger_ms = 0, bool last_first = false) {
    std::vector<pid_t> children;
    for (int i = 0; i < ranks; ++i) {
      const int rank = last_first ? ranks - 1 - i : i;
      const pid_t child = fork();
      ASSERT_GE(child, 0);
      if (child == 0) {
        kedge_bootstrap bootstrap{};
        if (kedge_rendezvous(Folder().c_str(), rank, ranks, 60, &bootstrap) != KEDGE_OK) _exit(100);
        const int wrong = Exchange(bootstrap, rounds);
        bootstrap.release(bootstrap.user);
        _exit(std::min(wrong, 99));
      }
      children.push_back(child);
      std::this_thread::sleep_for(std::chrono::milliseconds(stagger_ms));
    }
    for (const pid_t child : children) {
      int status = 0;
      ASSERT_EQ(waitpid(child, &status, 0), child);
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    }
  }
  os::testing::TemporaryFolder folder_;
};

TEST_F(RendezvousTest, RanksExchangeWhatTheySend) {
  Launch(1, 3);
  Launch(5, 20);
  EXPECT_LT(Files().size(), 30u) << "what all have read goes";
}

// Rank 0 sees the hellos of the launch before, and ranks see its `launch`.
TEST_F(RendezvousTest, AnEarlierLaunchsFilesAreNotTakenForThisOnes) {
  Launch(3, 2);
  for (const bool last_first : {false, true}) Launch(3, 2, /*stagger_ms=*/100, last_first);
  Launch(2, 2, /*stagger_ms=*/100, /*last_first=*/true);  // fewer ranks than before, which see the longer list first
  Launch(4, 2);
}

TEST_F(RendezvousTest, WhoDoesNotComeIsNamed) {
  Launch(3, 1);
  kedge_bootstrap bootstrap{};
  EXPECT_EQ(kedge_rendezvous(Folder().c_str(), 0, 3, 0.3, &bootstrap), KEDGE_ERROR_TIMEOUT);
  EXPECT_THAT(kedge_error_message(), HasSubstr("rank 1 of 3"));
  EXPECT_EQ(kedge_rendezvous(Folder().c_str(), 2, 3, 0.3, &bootstrap), KEDGE_ERROR_TIMEOUT);
  EXPECT_THAT(kedge_error_message(), HasSubstr("rank 0 of 3"));
}

TEST_F(RendezvousTest, NonsenseIsRefused) {
  kedge_bootstrap bootstrap{};
  EXPECT_EQ(kedge_rendezvous("", 0, 1, 1, &bootstrap), KEDGE_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kedge_rendezvous(nullptr, 0, 1, 1, &bootstrap), KEDGE_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kedge_rendezvous(Folder().c_str(), 2, 2, 1, &bootstrap), KEDGE_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kedge_rendezvous(Folder().c_str(), 0, 1, 0, &bootstrap), KEDGE_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kedge_rendezvous(Folder().c_str(), 0, 1, 1, nullptr), KEDGE_ERROR_INVALID_ARGUMENT);
}

// What the ranks exchange there, a secret among it, is theirs alone.
TEST_F(RendezvousTest, AFolderThatOthersMayWriteInIsRefused) {
  std::filesystem::create_directory(Folder());
  for (const std::string& open : {folder_.path(), Folder()}) std::filesystem::permissions(open, std::filesystem::perms::all);
  kedge_bootstrap bootstrap{};
  EXPECT_EQ(kedge_rendezvous(Folder().c_str(), 0, 1, 1, &bootstrap), KEDGE_ERROR_PERMISSION);
  EXPECT_THAT(kedge_error_message(), HasSubstr("may be written by others"));
  EXPECT_TRUE(Files().empty());
}

// A whole job over it: contexts, a checkpoint, a restart by another launch.
TEST_F(RendezvousTest, AJobRestartsOverIt) {
  const std::string overrides = "store.path=" + folder_.path() + "/store\njob.mode=sync\njob.name=rendezvous\n";
  for (int launch = 0; launch < 2; ++launch) {
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < 2; ++rank) {
      ranks.emplace_back([&, rank] {
        kedge_bootstrap bootstrap{};
        ASSERT_EQ(kedge_rendezvous(Folder().c_str(), rank, 2, 60, &bootstrap), KEDGE_OK) << kedge_error_message();
        kedge_options options = KEDGE_OPTIONS_INIT;
        options.overrides = overrides.c_str();
        kedge_context* context = nullptr;
        ASSERT_EQ(kedge_init(&options, &bootstrap, &context), KEDGE_OK) << kedge_error_message();
        int state = launch == 0 ? 40 + rank : 0;
        EXPECT_EQ(kedge_protect(context, 0, &state, 1, sizeof state, nullptr), KEDGE_OK);
        if (launch == 0) {
          EXPECT_EQ(kedge_checkpoint(context, "r", 1, 0), KEDGE_OK) << kedge_error_message();
        } else {
          int64_t version = -1;
          EXPECT_EQ(kedge_restart(context, "r", -1, &version), KEDGE_OK) << kedge_error_message();
          EXPECT_EQ(state, 40 + rank);
        }
        EXPECT_EQ(kedge_finalize(context, 1), KEDGE_OK) << kedge_error_message();
      });
    }
    for (std::thread& rank : ranks) rank.join();
  }
}

}  // namespace
}  // namespace kedge::testing
