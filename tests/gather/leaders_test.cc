// Some nodes write the images of all of them (store.layout = leaders). Whoever of them fails, is late or is damaged: each image
// gets to the store once, as it was captured, and no node waits for another for long.
#include "tests/gather/leaders_fixture.h"
#include "tests/support/point_names.h"

namespace kedge::testing {
namespace {

// As many leaders, of versions of any size.
std::string Leaders(int leaders) {
  return "store.layout=leaders\nstore.stripe=64KiB\nstore.leaders=" + std::to_string(leaders) + "\n";
}

class LeadersCount : public LeadersTest, public ::testing::WithParamInterface<int> {};
INSTANTIATE_TEST_SUITE_P(Of, LeadersCount, ::testing::Values(1, 2, 3, 4), ::testing::PrintToStringParamName());

TEST_P(LeadersCount, WriteOneObjectEach) {
  // On a busy machine some plans come too late, and are not waited for.
  constexpr int64_t kLast = 6;
  TakeStored(eight_, Leaders(GetParam()) + "keep.versions=6\n", kLast);
  std::set<size_t> counts;
  for (int64_t version = 1; version <= kLast; ++version) counts.insert(Data(version).size());
  EXPECT_TRUE(counts.contains(static_cast<size_t>(GetParam()))) << ::testing::PrintToString(counts);
  const VerifyReport report = VerifyVersion(catalog(), At(kLast), {}).value();
  EXPECT_TRUE(report.problems.empty());
  ExpectStored(eight_, kLast);
}

TEST_F(LeadersTest, AreFewerForAVersionOfFewStripes) {
  TakeStored(all_, "store.layout=leaders\nstore.stripe=64MiB\n");
  ExpectObjects(1, 1);
  ExpectStored(all_, 1);
}

// Of the first versions, whose memory is still being made, a rank may wait for a place: then its node writes for itself.
TEST_F(LeadersTest, HaveAboutTheSame) {
  constexpr int64_t kWarm = 4;
  nodes_.Run(eight_, Leaders(2), [&](kedge_context* context, int rank) {
    std::vector<uint64_t> memory = TwoChunks(rank, 1);
    EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
    for (int64_t version = 1; version <= kWarm; ++version) {
      EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", version, 0));
      EXPECT_KEDGE_OK(kedge_wait(context, "p", version, KEDGE_LEVEL_STORE, 60));
    }
  });
  constexpr uint64_t kImageBytes = 786'432 * 8;
  for (const std::string& name : Data(kWarm)) {
    const uint64_t bytes = files::file_size(nodes_.Store() + "/" + keys::ObjectsFolder(At(kWarm)) + "/" + name);
    EXPECT_GE(bytes, 3 * kImageBytes) << name;
    EXPECT_LE(bytes, 5 * kImageBytes + (1 << 20)) << name;
  }
}

TEST_F(LeadersTest, WriteWhatIsReducedToo) {
  const std::string reduced =
      Leaders(2) + "reduce.incremental=on\nreduce.deduplicate=node\nreduce.block=4KiB\nreduce.compress=on\n";
  TakeStored(eight_, reduced, 4);
  EXPECT_LE(Data(4).size(), 2u);
  EXPECT_TRUE(VerifyVersion(catalog(), At(4), {}).value().problems.empty());
  ExpectStored(eight_, 4);
}

TEST_F(LeadersTest, ReadSealedBytes) {
  TakeStored(all_, Leaders(1) + "net.encrypt=true\n");
  ExpectObjects(1, 1);
  ExpectStored(all_, 1);
}

TEST_F(LeadersTest, AJobOnOneNodeHasOneObject) {
  TakeStored({0, 0, 0}, Leaders(0));
  ExpectObjects(1, 1);
}

// Its flush has to free slots while it is captured: nothing waits for a plan.
TEST_F(LeadersTest, AnImageThatIsLargerThanThePoolDoesNotWaitForAPlan) {
  for (const int node : {0, 1}) nodes_.StartAgent(node, {}, "8MiB");
  nodes_.Run({0, 1}, Leaders(1) + "pool.size=8MiB\n", [&](kedge_context* context, int rank) {
    std::vector<uint64_t> memory(3 << 20);  // 24 MiB
    Random(MixSeed(1, static_cast<uint64_t>(rank))).Fill(memory.data(), memory.size() * 8);
    EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
    EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", 1, 0));
    EXPECT_KEDGE_OK(kedge_wait(context, "p", 1, KEDGE_LEVEL_STORE, 60));
  });
  EXPECT_TRUE(VerifyVersion(catalog(), At(1), {}).value().problems.empty());
}

// A leader whose own ranks communicate reads nobody's images meanwhile.
TEST_F(LeadersTest, PauseWhileTheirRanksCommunicate) {
  const std::vector<int> places = {0, 1, 1};
  nodes_.Run(places, Leaders(1) + "net.pause=900ms\n", [&](kedge_context* context, int rank) {
    std::vector<uint64_t> memory = TwoChunks(rank, 1);
    EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
    for (int64_t version = 1; version <= 4; ++version) {
      const auto begin = std::chrono::steady_clock::now();
      EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", version, 0));
      EXPECT_KEDGE_OK(kedge_wait(context, "p", version, KEDGE_LEVEL_STORE, 60));
      const size_t objects = Data(version).size();
      if (version == 4 && objects == 1) {
        EXPECT_GE(std::chrono::steady_clock::now() - begin, 500ms) << "the pause may have begun a little before the version";
      }
      if (version == 3 && rank > 0) {
        EXPECT_KEDGE_OK(kedge_phase(context, KEDGE_PHASE_COMMUNICATION));
      }
      std::this_thread::sleep_for(100ms);
    }
  });
}

// ---- Faults. The version gets to the store all the same: who cannot ship writes itself. ----

struct Death {
  int node;  // 3 leads: it has most
  const char* point;
};
class LeadersKilled : public LeadersTest, public ::testing::WithParamInterface<Death> {};
INSTANTIATE_TEST_SUITE_P(At, LeadersKilled,
                         ::testing::Values(Death{3, "carry-asked"}, Death{3, "carry-piece-written"},
                                           Death{3, "publish-records-written"}, Death{3, "publish-done"},
                                           Death{3, "publish-saved"}, Death{3, "ship-decided"}, Death{3, "image-end-done"},
                                           Death{0, "ship-decided"}, Death{0, "image-end-done"}, Death{0, "serve-lease"}),
                         [](const auto& death) {
                           return AsTestName(std::to_string(death.param.node) + "_" + death.param.point);
                         });

TEST_P(LeadersKilled, TheVersionIsCompleteWithoutThem) {
  const std::vector<int> places = {0, 1, 2, 3, 3};
  nodes_.StartAgent(GetParam().node, {{"KEDGE_TEST_KILL_POINT", GetParam().point}});
  TakeStored(places, Leaders(1));
  EXPECT_TRUE(nodes_.AgentWasKilled());
  ExpectStored(places, 1);
}

TEST_F(LeadersTest, ALeaderThatDoesNotAnswerIsNotWaitedForLong) {
  const std::vector<int> places = {0, 1, 2, 3, 3};
  TakeStored(places, Leaders(1));
  const auto begin = std::chrono::steady_clock::now();
  nodes_.Run(places, Leaders(1), [&](kedge_context* context, int rank) {
    std::vector<uint64_t> memory = Content(rank, 2);
    EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
    EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", 2, 0));
    if (rank == 4) nodes_.Pause(3, 8s);
    EXPECT_KEDGE_OK(kedge_wait(context, "p", 2, KEDGE_LEVEL_STORE, 60));
  });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 40s);
  ExpectStored(places, 2);
}

TEST_F(LeadersTest, ARankThatDoesNotTakeTheVersionHoldsUpNoOther) {
  TakeWithoutTheThird(Leaders(2), [](int rank) { return Content(rank, 1); });
}

// What a node has is not what was captured: the leader finds that, and so does its own agent. No version has it.
TEST_F(LeadersTest, DamagedBytesGetIntoNoVersion) {
  const std::vector<int> places = {0, 1, 1};
  TakeStored(places, Leaders(1));
  const auto keys_of = [&](int rank) { return nodes_.Overrides(places[static_cast<size_t>(rank)], Leaders(1)); };
  ThreadRanks(3).ExpectOfFinalizeOn(0, KEDGE_ERROR_CORRUPT).Run(keys_of, [&](kedge_context* context, int rank) {
    std::vector<uint64_t> memory = Content(rank, 2);
    EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
    // Without the leader there is no plan, and nothing is pulled.
    const int leader = AgentPidAt(nodes_.RunFolder(1));
    if (rank == 0) kill(leader, SIGSTOP);
    EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", 2, 0));
    EXPECT_TRUE(rank != 0 || nodes_.FlipInPool(0, memory));
    if (rank == 0) kill(leader, SIGCONT);
    EXPECT_NE(kedge_wait(context, "p", 2, KEDGE_LEVEL_STORE, 5), KEDGE_OK);
    Fill(&memory, rank, 3);
    EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", 3, 0));
    EXPECT_KEDGE_OK(kedge_wait(context, "p", 3, KEDGE_LEVEL_STORE, 60));
    int64_t version = 2;
    EXPECT_KEDGE_OK(kedge_newest(context, "p", 2, &version));
    EXPECT_EQ(version, 1);
  });
  ExpectStored(places, 3);
}

// Its own images are written again and again, and get there once it can write; nobody else waits for that.
TEST_F(LeadersTest, ALeaderThatCannotWriteGivesTheOthersImagesBack) {
  const std::vector<int> places = {0, 1, 2, 3, 3};
  TakeBesideAWriterThatFails(places, Leaders(1), 10s);
  ExpectStored(places, 1);
}

}  // namespace
}  // namespace kedge::testing
