// A store whose folder goes away while versions are on their way to it: moved, replaced by an empty folder or by another store,
// and back, or by an older copy of itself. Nothing is at level STORE for a folder that no restart will look at.
#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "store/keys.h"
#include "tests/agent/agent_client.h"

namespace kedge::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
namespace files = std::filesystem;

class StoreGone : public ::testing::Test {
 protected:
  void MoveAway() const { files::rename(scenario_.store(), away_); }
  void BringBack() const {
    files::remove_all(scenario_.store());
    files::rename(away_, scenario_.store());
  }
  void ExpectStored(AgentClient& client, const Generation& generation, size_t bytes) {
    const auto stored = client.Wait(generation, Level::kStore);
    ASSERT_TRUE(IsOk(stored));
    EXPECT_TRUE(IsOk(stored->failure));
    EXPECT_EQ(stored->level, Level::kStore);
    EXPECT_TRUE(IsOk(CheckStored(scenario_.store(), generation, 0, bytes)));
  }
  void ExpectWaiting(AgentClient& client, const Generation& generation) {
    const auto reply = client.Wait(generation, Level::kStore, seconds(1));
    ASSERT_TRUE(IsOk(reply));
    EXPECT_EQ(reply->failure.code(), Code::kTimeout) << reply->failure.ToString();
    EXPECT_NE(reply->failure.message().find(scenario_.store()), std::string::npos) << reply->failure.ToString();
    EXPECT_EQ(reply->level, Level::kLocal);
  }

  ScenarioFolder scenario_;
  const std::string away_ = scenario_.store() + ".away";
};

TEST_F(StoreGone, IsNotMadeAnewAndVersionsGetThereWhenItIsBack) {
  AgentClient client(scenario_, {});
  ASSERT_TRUE(IsOk(client.Attach()));
  for (const size_t bytes : {size_t{1000}, size_t{5} << 20}) {
    const int64_t version = bytes == 1000 ? 1 : 3;
    const Generation before = client.GenerationOf("ckpt", version);
    ASSERT_TRUE(IsOk(client.Capture(before, bytes)));
    ExpectStored(client, before, bytes);
    MoveAway();
    const Generation during = client.GenerationOf("ckpt", version + 1);
    ASSERT_TRUE(IsOk(client.Capture(during, bytes)));
    ExpectWaiting(client, during);
    EXPECT_FALSE(files::exists(scenario_.store()));
    BringBack();
    ExpectStored(client, during, bytes);
  }
}

// An unmounted file system leaves the folder that it was mounted on.
TEST_F(StoreGone, LeavesAnEmptyFolderEmpty) {
  AgentClient client(scenario_, {});
  ASSERT_TRUE(IsOk(client.Attach()));
  MoveAway();
  files::create_directory(scenario_.store());
  const Generation generation = client.GenerationOf("ckpt", 1);
  ASSERT_TRUE(IsOk(client.Capture(generation, 5 << 20)));
  ExpectWaiting(client, generation);
  EXPECT_TRUE(files::is_empty(scenario_.store()));
  BringBack();
  ExpectStored(client, generation, 5 << 20);
}

// Its object is open in the folder that is moved: what is written there afterwards counts for nothing where it lies now.
TEST_F(StoreGone, WhileAnImageIsWrittenItWaitsToo) {
  AgentClient client(scenario_, {});
  ASSERT_TRUE(IsOk(client.Attach()));
  const Generation generation = client.GenerationOf("ckpt", 1);
  constexpr size_t kStreamedBytes = 5 << 20;
  ASSERT_TRUE(IsOk(client.CaptureButEnd(generation, kStreamedBytes)));
  const std::string data = scenario_.store() + "/jobs/job/names/ckpt/1-1-1/data";
  ASSERT_TRUE(WaitFor([&] { return files::exists(data) && !files::is_empty(data); }, seconds(20)));
  MoveAway();
  ASSERT_TRUE(IsOk(client.SendEnd()));
  ExpectWaiting(client, generation);
  EXPECT_FALSE(files::exists(scenario_.store()));
  BringBack();
  ExpectStored(client, generation, kStreamedBytes);
  EXPECT_EQ(std::distance(files::directory_iterator(data), files::directory_iterator()), 1) << "one object, and no temporary";
}

TEST_F(StoreGone, ForAnotherOneIsAMismatchAndADrainTriesAgain) {
  AgentClient client(scenario_, {});
  ASSERT_TRUE(IsOk(client.Attach()));
  MoveAway();
  MakeStoreOf(scenario_.store());
  const Generation generation = client.GenerationOf("ckpt", 1);
  ASSERT_TRUE(IsOk(client.Capture(generation, 5 << 20)));
  const auto reply = client.Wait(generation, Level::kStore);
  ASSERT_TRUE(IsOk(reply));
  EXPECT_EQ(reply->failure.code(), Code::kMismatch) << reply->failure.ToString();
  EXPECT_TRUE(StoredVersions(scenario_.store(), "job", "ckpt").empty());
  EXPECT_FALSE(files::exists(scenario_.store() + "/jobs"));
  BringBack();
  const auto drained = client.Drain();
  ASSERT_TRUE(IsOk(drained));
  EXPECT_TRUE(IsOk(drained->failure));
  ExpectStored(client, generation, 5 << 20);
}

TEST_F(StoreGone, KeepsTheAgentAsLongAsItOwesIt) {
  AgentClient client(scenario_, {.node_keys = {{"agent.idle_timeout", "1s"}}});
  ASSERT_TRUE(IsOk(client.Attach()));
  MoveAway();
  const Generation generation = client.GenerationOf("ckpt", 1);
  ASSERT_TRUE(IsOk(client.Capture(generation, 1000)));
  ASSERT_TRUE(IsOk(client.Goodbye()));
  client.Disconnect();
  std::this_thread::sleep_for(seconds(3));
  EXPECT_NE(scenario_.AgentPid(), 0);
  BringBack();
  EXPECT_TRUE(WaitFor([&] { return IsOk(CheckStored(scenario_.store(), generation, 0, 1000)); }, seconds(20)));
  EXPECT_TRUE(WaitFor([&] { return scenario_.AgentPid() == 0; }, seconds(20)));
  EXPECT_FALSE(files::exists(scenario_.run_folder() + "/records")) << "everything is in the store";
}

// What was safe in the store is all that is left when that has gone.
TEST_F(StoreGone, AfterwardsKeepsTheCopiesOnTheNode) {
  AgentClient client(scenario_, {.node_keys = {{"agent.idle_timeout", "1s"}}});
  ASSERT_TRUE(IsOk(client.Attach()));
  const Generation generation = client.GenerationOf("ckpt", 1);
  ASSERT_TRUE(IsOk(client.Capture(generation, 1000)));
  ExpectStored(client, generation, 1000);
  MoveAway();
  ASSERT_TRUE(IsOk(client.Goodbye()));
  client.Disconnect();
  ASSERT_TRUE(WaitFor([&] { return scenario_.AgentPid() == 0; }, seconds(20)));
  EXPECT_FALSE(files::exists(scenario_.store()));
  EXPECT_FALSE(files::is_empty(scenario_.run_folder() + "/records"));
  BringBack();
}

// The store fails over to a copy of itself from before: its id is the same.
class StoreOfBefore : public StoreGone {
 protected:
  void Copy() const { files::copy(scenario_.store(), copy_, files::copy_options::recursive); }
  void FailOver() const {
    MoveAway();
    files::rename(copy_, scenario_.store());
  }
  void Leave(AgentClient& client) {
    ASSERT_TRUE(IsOk(client.Goodbye()));
    client.Disconnect();
    ASSERT_TRUE(WaitFor([&] { return scenario_.AgentPid() == 0; }, seconds(20)));
  }
  std::string PartsOf(const Generation& generation) const {
    return scenario_.store() + "/jobs/job/names/ckpt/" + std::to_string(generation.version) + "-1-" +
           std::to_string(generation.take) + "/parts";
  }

  const std::string copy_ = scenario_.store() + ".copy";
};

TEST_F(StoreOfBefore, GetsWhatItHasNotGotBeforeTheCopiesOnTheNodeGo) {
  AgentClient client(scenario_, {.node_keys = {{"agent.idle_timeout", "1s"}}});
  ASSERT_TRUE(IsOk(client.Attach()));
  const Generation first = client.GenerationOf("ckpt", 1), second = client.GenerationOf("ckpt", 2);
  ASSERT_TRUE(IsOk(client.Capture(first, 1000)));
  ExpectStored(client, first, 1000);
  Copy();
  // The job has gone on from it, and noted that in the store.
  const RestoredRecord restored{first, 1, second.take, 1};
  ASSERT_TRUE(IsOk(client.connection().Call<DoneReply>(RestoredRequest{restored, true}, seconds(10))));
  ASSERT_TRUE(IsOk(client.Capture(second, 5 << 20)));
  ExpectStored(client, second, 5 << 20);
  FailOver();
  Leave(client);
  EXPECT_TRUE(files::exists(scenario_.store() + "/" + keys::RestoredKey("job", "ckpt", 1, second.take)));
  EXPECT_TRUE(IsOk(CheckStored(scenario_.store(), first, 0, 1000)));
  EXPECT_TRUE(IsOk(CheckStored(scenario_.store(), second, 0, 5 << 20)));
  EXPECT_FALSE(files::exists(scenario_.run_folder() + "/records")) << "everything is in the store";
}

TEST_F(StoreOfBefore, WhereItTakesNothingTheCopiesOnTheNodeStay) {
  AgentClient client(scenario_, {.node_keys = {{"agent.idle_timeout", "1s"}}});
  ASSERT_TRUE(IsOk(client.Attach()));
  Copy();
  const Generation generation = client.GenerationOf("ckpt", 1);
  ASSERT_TRUE(IsOk(client.Capture(generation, 1000)));
  ExpectStored(client, generation, 1000);
  files::create_directories(copy_ + "/jobs/job/names");
  files::copy_file(copy_ + "/kedge-store", copy_ + "/jobs/job/names/ckpt");  // no folder can be made there
  FailOver();
  Leave(client);
  EXPECT_FALSE(files::is_empty(scenario_.run_folder() + "/records"));
}

TEST_F(StoreOfBefore, GetsWhatItHasNotGotWhileTheJobGoesOn) {
  AgentClient client(scenario_, {.ranks = 2});
  ASSERT_TRUE(IsOk(client.Attach()));
  Copy();
  // Half of a version: the other rank is on another node.
  const Generation generation = client.GenerationOf("ckpt", 1);
  ASSERT_TRUE(IsOk(client.Capture(generation, 5 << 20)));
  const std::string parts = PartsOf(generation);
  const auto has_part = [&] { return files::exists(parts) && !files::is_empty(parts); };
  ASSERT_TRUE(WaitFor(has_part, seconds(20)));
  FailOver();
  EXPECT_FALSE(has_part());
  // Whatever the agent has to do with the store makes it see where that lies now.
  ASSERT_TRUE(IsOk(client.Wait(generation, Level::kStore, seconds(1))));
  EXPECT_TRUE(WaitFor(has_part, seconds(20)));
}

TEST_F(StoreOfBefore, IsLookedThroughByTheAgentsSuccessor) {
  AgentClient client(scenario_, {.node_keys = {{"agent.idle_timeout", "1s"}}});
  ASSERT_TRUE(IsOk(client.Attach()));
  Copy();
  const Generation generation = client.GenerationOf("ckpt", 1);
  ASSERT_TRUE(IsOk(client.Capture(generation, 1000)));
  ExpectStored(client, generation, 1000);
  ASSERT_TRUE(scenario_.KillAgent());
  FailOver();
  ASSERT_TRUE(IsOk(client.Attach()));
  EXPECT_TRUE(WaitFor([&] { return IsOk(CheckStored(scenario_.store(), generation, 0, 1000)); }, seconds(20)));
}

// A job that goes on on other nodes, from an older version than this node has.
class JobElsewhere : public StoreOfBefore {};

TEST_F(JobElsewhere, LeavesNothingHereOfWhatItHasAbandoned) {
  JobKeys keys;
  keys.schedule_store = 2;
  AgentClient client(scenario_, {.keys = keys, .node_keys = {{"agent.idle_timeout", "1s"}}});
  ASSERT_TRUE(IsOk(client.Attach()));
  const Generation first = client.GenerationOf("ckpt", 1), left = client.GenerationOf("ckpt", 2);
  ASSERT_TRUE(IsOk(client.Capture(first, 1000)));
  ExpectStored(client, first, 1000);
  ASSERT_TRUE(IsOk(client.Capture(left, 1000)));
  const auto local = client.Wait(left, Level::kLast);
  ASSERT_TRUE(IsOk(local));
  ASSERT_EQ(local->level, Level::kLocal);

  ScenarioFolder elsewhere;
  keys.store_path = scenario_.store();
  AgentClient other(elsewhere, {.attempt = 2, .keys = keys});
  ASSERT_TRUE(IsOk(other.Attach()));
  const RestoredRecord restored{first, 2, 1, 1};
  ASSERT_TRUE(IsOk(other.connection().Call<DoneReply>(RestoredRequest{restored, false}, seconds(10))));
  const Generation next = other.GenerationOf("ckpt", 3, 1);
  ASSERT_TRUE(IsOk(other.Capture(next, 1000)));
  ExpectStored(other, next, 1000);
  ASSERT_TRUE(IsOk(other.Goodbye()));

  Leave(client);
  EXPECT_FALSE(files::exists(scenario_.run_folder() + "/records")) << "nobody will restore it";
  EXPECT_EQ(StoredVersions(scenario_.store(), "job", "ckpt"), (std::vector<int64_t>{1, 3}));
}

}  // namespace
}  // namespace kedge::testing
