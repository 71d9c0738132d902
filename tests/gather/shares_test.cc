// All nodes write one object of a version (store.layout = posix). Whoever of them fails, is late or is damaged: each image gets
// to the store once, as it was captured, and no node waits for another for long.
#include "store/s3/s3_store.h"
#include "store/s3/testing/s3_server.h"
#include "tests/gather/leaders_fixture.h"
#include "tests/support/point_names.h"
#include "tests/support/steered_agents.h"

namespace kedge::testing {
namespace {

constexpr char kShared[] = "store.layout=posix\nstore.stripe=64KiB\n";
// Node 3 has most, and so begins the object.
const std::vector<int> kFive = {0, 1, 2, 3, 3};

class SharesTest : public LeadersTest {
 protected:
  // Whether a version of these has that many objects: on a busy machine some plans come too late, and are not waited for.
  ::testing::AssertionResult OneHasObjects(int64_t last, size_t objects) const {
    std::set<size_t> counts;
    for (int64_t version = 1; version <= last; ++version) counts.insert(Data(version).size());
    if (counts.contains(objects)) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << ::testing::PrintToString(counts);
  }
  void ExpectWhole(int64_t version) const {
    const auto report = VerifyVersion(catalog(), At(version), {});
    ASSERT_TRUE(report.ok()) << report.status().ToString();
    EXPECT_TRUE(report->problems.empty()) << report->problems.size();
  }
  // What was begun and is not published goes, once its agent has a successor.
  static void ExpectNothingUnfinished(Store& store) {
    const auto left = [&] {
      const auto found = store.ListTemporaries("", {"test", 0, "test"});
      return found.ok() ? found->size() : size_t{1};
    };
    for (int i = 0; i < 1000 && left() > 0; ++i) std::this_thread::sleep_for(10ms);
    EXPECT_EQ(left(), 0u);
  }
};

TEST_F(SharesTest, AllNodesWriteOneObject) {
  constexpr int64_t kLast = 6;
  TakeStored(eight_, kShared + std::string("keep.versions=6\n"), kLast);
  EXPECT_TRUE(OneHasObjects(kLast, 1));
  for (const int node : all_) {
    EXPECT_EQ(Counted(node, "parts_leased"), 0) << "no image was read by another node";
    EXPECT_GT(Counted(node, "flushed_bytes"), 0);
  }
  for (int64_t version = 1; version <= kLast; ++version) ExpectWhole(version);
  ExpectStored(eight_, kLast);
}

// What is planned for each node is what it writes: nothing lies between shares but what fills a block.
TEST_F(SharesTest, OneObjectHasNoHoles) {
  constexpr int64_t kLast = 4;
  TakeStored(eight_, kShared + std::string("keep.versions=4\n"), kLast);
  ASSERT_TRUE(OneHasObjects(kLast, 1));
  for (int64_t version = 1; version <= kLast; ++version) {
    const std::set<std::string> data = Data(version);
    if (data.size() != 1) continue;
    uint64_t bytes = 0;
    for (int rank = 0; rank < 8; ++rank) bytes += Content(rank, version).size() * sizeof(uint64_t);
    const uint64_t size = files::file_size(nodes_.Store() + "/" + keys::ObjectsFolder(At(version)) + "/" + *data.begin());
    EXPECT_GE(size, bytes);
    EXPECT_LE(size, bytes + (1 << 20));
  }
}

TEST_F(SharesTest, AreOfAsManyObjectsAsAreAskedFor) {
  constexpr int64_t kLast = 6;
  TakeStored(eight_, kShared + std::string("store.leaders=2\nkeep.versions=6\n"), kLast);
  EXPECT_TRUE(OneHasObjects(kLast, 2));
  ExpectWhole(kLast);
  ExpectStored(eight_, kLast);
}

class SharesReduced : public SharesTest, public ::testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(By, SharesReduced,
                         ::testing::Values("reduce.incremental=on", "reduce.deduplicate=node", "reduce.deduplicate=job",
                                           "reduce.compress=on"),
                         NameOfPoint<const char*>);

// How long it comes out is not known before it is written.
TEST_P(SharesReduced, GoesToAnObjectOfItsNode) {
  constexpr int64_t kLast = 3;
  TakeStored(eight_, kShared + std::string(GetParam()) + "\nreduce.block=4KiB\nkeep.versions=3\n", kLast);
  EXPECT_TRUE(OneHasObjects(kLast, 4));
  ExpectWhole(kLast);
  ExpectStored(eight_, kLast);
}

TEST_F(SharesTest, AJobOnOneNodeHasOneObject) {
  TakeStored({0, 0, 0}, kShared);
  ExpectObjects(1, 1);
}

// From other nodes, and as files.
TEST_F(SharesTest, AreReadByWhoeverWantsThem) {
  TakeStored(kFive, kShared, 2);
  for (const int node : all_) {
    if (nodes_.KillAgent(node)) nodes_.DeleteFiles(node);
  }
  const std::vector<std::vector<std::string>> commands = {
      {"verify"}, {"copy", "p@2", nodes_.Store() + "-copy"}, {"export", "p@2", "-o", nodes_.Store() + "-files"}};
  for (const std::vector<std::string>& arguments : commands) {
    auto tool = nodes_.Tool(0, arguments);
    EXPECT_TRUE(tool->Succeeds(60s)) << arguments.front() << ": " << tool->Output();
  }
  ExpectStored({2, 2, 0, 0, 0}, 2);
}

// Its flush has to free slots while it is captured: nothing waits for a plan.
TEST_F(SharesTest, AnImageThatIsLargerThanThePoolGetsThere) {
  TakeMoreThanThePool(kShared);
  ExpectWhole(1);
}

// ---- Faults ----

struct Death {
  int node;  // 3 begins the object
  const char* point;
};
class SharesKilled : public SharesTest, public ::testing::WithParamInterface<Death> {};
INSTANTIATE_TEST_SUITE_P(At, SharesKilled,
                         ::testing::Values(Death{3, "share-lent"}, Death{3, "carry-asked"}, Death{3, "piece-written"},
                                           Death{3, "publish-records-written"}, Death{3, "publish-done"},
                                           Death{3, "publish-saved"}, Death{3, "ship-decided"}, Death{3, "image-end-done"},
                                           Death{0, "share-borrowed"}, Death{0, "piece-written"}, Death{0, "share-written"},
                                           Death{0, "share-finished"}, Death{0, "share-told"}, Death{0, "ship-decided"},
                                           Death{0, "ship-stored"}),
                         [](const auto& death) {
                           return AsTestName(std::to_string(death.param.node) + "_" + death.param.point);
                         });

TEST_P(SharesKilled, TheVersionIsCompleteWithoutThem) {
  nodes_.StartAgent(GetParam().node, {{"KEDGE_TEST_KILL_POINT", GetParam().point}});
  TakeStored(kFive, kShared);
  EXPECT_TRUE(nodes_.AgentWasKilled());
  ExpectWhole(1);
  ExpectNothingUnfinished(*store_);
  ExpectStored(kFive, 1);
}

class SharesPaused : public SharesTest, public ::testing::WithParamInterface<Death> {};
INSTANTIATE_TEST_SUITE_P(At, SharesPaused,
                         ::testing::Values(Death{3, "share-lent"}, Death{3, "publish-records-written"},
                                           Death{0, "share-borrowed"}, Death{0, "share-written"}, Death{0, "share-finished"}),
                         [](const auto& death) {
                           return AsTestName(std::to_string(death.param.node) + "_" + death.param.point);
                         });

// What it had begun when it was stopped it goes on with when the others have done without it.
TEST_P(SharesPaused, TheOthersDoNotWaitForLong) {
  ChildProcess& agent = nodes_.StartAgent(GetParam().node, {{"KEDGE_TEST_STOP_POINT", GetParam().point}});
  const auto begin = std::chrono::steady_clock::now();
  nodes_.Run(kFive, kShared, [&](kedge_context* context, int rank) {
    std::vector<uint64_t> memory = Content(rank, 1);
    EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
    EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", 1, 0));
    const auto lacks_its_own = [&] {
      const auto info = InspectGeneration(catalog(), At(1));
      const auto missing = GetParam().node == 3 ? std::vector<uint32_t>{3, 4} : std::vector<uint32_t>{0};
      return info.ok() && info->ranks == 5 && info->missing_ranks == missing;
    };
    if (rank == 1) {
      for (int i = 0; i < 3000 && !lacks_its_own(); ++i) std::this_thread::sleep_for(10ms);
      EXPECT_TRUE(lacks_its_own());
      EXPECT_LT(std::chrono::steady_clock::now() - begin, 30s);
      kill(agent.pid(), SIGCONT);
    }
    EXPECT_KEDGE_OK(kedge_wait(context, "p", 1, KEDGE_LEVEL_STORE, 60));
  });
  ExpectWhole(1);
  ExpectStored(kFive, 1);
}

// The whole object is worth nothing; its own images are written again and again, and get there once it can write.
TEST_F(SharesTest, AnObjectThatCannotBeWrittenIsGivenUpByAll) {
  TakeBesideAWriterThatFails(kFive, kShared, 20s);
  ExpectWhole(1);
  ExpectStored(kFive, 1);
}

// What its node could not sync is not among what the lender publishes, whose own syncs are well.
TEST_F(SharesTest, AShareThatCannotBeSyncedIsLeftOut) {
  constexpr int64_t kLast = 3;
  nodes_.StartAgent(3, {});
  const SteeredAgents agents(nodes_.RunFolder(0) + ".steering");
  agents.Fail(".n3-", os::testing::CallsOf(os::testing::Call::kFsync), EIO);
  TakeStored(kFive, kShared + std::string("keep.versions=3\n"), kLast);
  int64_t retries = 0;
  for (const int node : {0, 1, 2}) retries += Counted(node, "flush_retries");
  EXPECT_GE(retries, 1);
  EXPECT_EQ(Counted(3, "flush_retries"), 0);
  for (int64_t version = 1; version <= kLast; ++version) ExpectWhole(version);
  ExpectStored(kFive, kLast);
}

TEST_F(SharesTest, ARankThatDoesNotTakeTheVersionHoldsUpNoOther) {
  TakeWithoutTheThird(kShared, [](int rank) { return Content(rank, 1); });
}

// ---- Over a bucket ----

class SharesInBucket : public SharesTest {
 protected:
  SharesInBucket() {
    setenv("AWS_ACCESS_KEY_ID", s3::testing::kAccessKey, 1);
    setenv("AWS_SECRET_ACCESS_KEY", s3::testing::kSecretKey, 1);
  }
  ~SharesInBucket() override {
    for (const int node : all_) nodes_.KillAgent(node);
    unsetenv("AWS_ACCESS_KEY_ID");
    unsetenv("AWS_SECRET_ACCESS_KEY");
  }
  std::string Keys() const { return kShared + ("store.path=" + location_.ToText()) + "\n"; }
  std::vector<std::string> Objects(int64_t version) {
    std::vector<std::string> names;
    const auto entries = bucket_->List(keys::ObjectsFolder(At(version)));
    if (entries.ok()) {
      for (const StoreEntry& entry : *entries) names.push_back(entry.name);
    }
    return names;
  }
  Generation At(int64_t version) { return {Open().id(), "nodes", "p", version, 1, static_cast<uint32_t>(version)}; }
  Catalog Open() { return Catalog::Open(*bucket_, {"test", 0, "test"}).value(); }
  void ExpectWhole(int64_t version) {
    const auto report = VerifyVersion(Open(), At(version), {});
    ASSERT_TRUE(report.ok()) << report.status().ToString();
    EXPECT_TRUE(report->problems.empty()) << report->problems.size();
  }
  // Two chunks for each rank, and each rank compares what it gets back.
  void TakeTwoChunks(const std::vector<int>& places, int64_t last) {
    nodes_.Run(places, Keys() + "keep.versions=6\n", [&](kedge_context* context, int rank) {
      std::vector<uint64_t> memory = TwoChunks(rank, 0);
      EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
      for (int64_t version = 1; version <= last; ++version) {
        std::ranges::copy(TwoChunks(rank, version), memory.begin());
        EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", version, 0));
        EXPECT_KEDGE_OK(kedge_wait(context, "p", version, KEDGE_LEVEL_STORE, 60));
      }
    });
  }
  void ExpectRestored(const std::vector<int>& places, int64_t expected) {
    for (const int node : all_) {
      if (nodes_.KillAgent(node)) nodes_.DeleteFiles(node);
    }
    ExpectTwoChunks(places, Keys(), expected);
  }

  const std::unique_ptr<s3::testing::S3Server> server_ = s3::testing::S3Server::StartMoto();
  const s3::Location location_ = server_->At("shares", "&part=5MiB");
  const std::unique_ptr<Store> bucket_ = s3::MakeS3Store(location_, s3::testing::TestEnvironment(), {});
};

TEST_F(SharesInBucket, AllNodesUploadPartsOfOneObject) {
  constexpr int64_t kLast = 4;
  TakeTwoChunks(eight_, kLast);
  std::set<size_t> counts;
  for (int64_t version = 1; version <= kLast; ++version) {
    counts.insert(Objects(version).size());
    ExpectWhole(version);
  }
  EXPECT_TRUE(counts.contains(1)) << ::testing::PrintToString(counts);
  EXPECT_EQ(Counted(0, "parts_leased"), 0) << "no image was read by another node";
  ExpectNothingUnfinished(*bucket_);
  ExpectRestored({0, 1, 2, 3, 0, 1, 2, 3}, kLast);
}

// A part would have more of zeros than of theirs.
TEST_F(SharesInBucket, NodesWithLessThanAPartHaveTheirImagesWritten) {
  nodes_.Run(all_, Keys(), [&](kedge_context* context, int rank) {
    std::vector<uint64_t> memory = Content(rank, 1);  // less than 5 MiB
    EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
    EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", 1, 0));
    EXPECT_KEDGE_OK(kedge_wait(context, "p", 1, KEDGE_LEVEL_STORE, 60));
  });
  ExpectWhole(1);
  if (Objects(1).size() == 1) {
    const auto reader = bucket_->OpenObject(keys::ObjectsFolder(At(1)) + "/" + Objects(1).front());
    ASSERT_TRUE(reader.ok());
    EXPECT_LT((*reader)->size_bytes(), uint64_t{6} << 20);
  }
}

class SharesInBucketKilled : public SharesInBucket, public ::testing::WithParamInterface<Death> {};
INSTANTIATE_TEST_SUITE_P(At, SharesInBucketKilled,
                         ::testing::Values(Death{3, "share-lent"}, Death{3, "publish-records-written"}, Death{3, "s3-completed"},
                                           Death{0, "share-borrowed"}, Death{0, "s3-part-arrived"}, Death{0, "share-finished"},
                                           Death{0, "share-told"}),
                         [](const auto& death) {
                           return AsTestName(std::to_string(death.param.node) + "_" + death.param.point);
                         });

TEST_P(SharesInBucketKilled, TheVersionIsCompleteWithoutThem) {
  const std::vector<int> places = {0, 1, 3, 3};
  nodes_.StartAgent(GetParam().node, {{"KEDGE_TEST_KILL_POINT", GetParam().point}});
  TakeTwoChunks(places, 1);
  EXPECT_TRUE(nodes_.AgentWasKilled());
  ExpectWhole(1);
  ExpectNothingUnfinished(*bucket_);
  ExpectRestored(places, 1);
}

}  // namespace
}  // namespace kedge::testing
