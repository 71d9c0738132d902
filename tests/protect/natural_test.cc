// Blocks that more nodes have than may be lost need no redundancy (reduce.deduplicate = job, redundancy/natural.h): it is so much
// smaller, and what it is for comes back all the same.
#include <gmock/gmock.h>

#include <numeric>
#include <string>
#include <vector>

#include "tests/protect/protect_fixture.h"

namespace kedge::testing {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kBlockBytes = 16 << 10;
constexpr uint64_t kWordsOfBlock = kBlockBytes / 8;
// Of each rank: blocks that all have, that it has in common with one other, and that are its own.
constexpr uint64_t kOfAll = 160, kOfTwo = 32, kOwn = 32;

const Scheme kOfFour[] = {{"Xor", "protect.scheme=xor\nprotect.group=4\n", 1},
                          {"ReedSolomon", "protect.scheme=rs\nprotect.losses=2\nprotect.group=4\n", 2},
                          {"Partner", "protect.scheme=partner\nprotect.group=4\n", 1},
                          {"PartnerTwoCopies", "protect.scheme=partner\nprotect.copies=2\nprotect.group=4\n", 2}};

// A small region before it makes its place in the image another on each rank. `times` as large where one needs more.
struct State {
  State(int rank, int64_t version, uint64_t times = 1)
      : small(100 + static_cast<size_t>(rank) * 3000), large(kWordsOfBlock * BlocksOf(rank) * times) {
    Fill(rank, version);
  }
  static uint64_t BlocksOf(int rank) { return kOfAll + kOfTwo + kOwn + static_cast<uint64_t>(rank); }
  void Fill(int rank, int64_t version) {
    std::iota(small.begin(), small.end(), MixSeed(static_cast<uint64_t>(rank), static_cast<uint64_t>(version)));
    for (uint64_t block = 0; block < large.size() / kWordsOfBlock; ++block) {
      const auto number = static_cast<uint64_t>(rank);
      const uint64_t in_turn = block % BlocksOf(rank);
      const uint64_t whose = in_turn < kOfAll ? 1000 : in_turn < kOfAll + kOfTwo ? 2000 + number / 2 : 3000 + number;
      Random(MixSeed(MixSeed(whose, static_cast<uint64_t>(version)), block)).Fill(&large[block * kWordsOfBlock], kBlockBytes);
    }
  }
  void Protect(kedge_context* context) {
    EXPECT_KEDGE_OK(kedge_protect(context, 0, small.data(), small.size(), 8, nullptr));
    EXPECT_KEDGE_OK(kedge_protect(context, 1, large.data(), large.size(), 8, nullptr));
  }
  bool operator==(const State&) const = default;

  std::vector<uint64_t> small;
  std::vector<uint64_t> large;
};

class NaturalReplicasTest : public ProtectTest, public ::testing::WithParamInterface<Scheme> {
 protected:
  std::string PlainKeys() const { return std::string(GetParam().keys) + kNoStore; }
  std::string Keys() const { return PlainKeys() + "reduce.deduplicate=job\nreduce.block=16KiB\n"; }
  void TakeStates(int64_t first, int64_t last) { TakeStates(Keys(), first, last); }
  void TakeStates(const std::string& keys, int64_t first, int64_t last) {
    nodes_.Run(all_, keys, [&](kedge_context* context, int rank) {
      State state(rank, 0);
      state.Protect(context);
      for (int64_t version = first; version <= last; ++version) {
        state.Fill(rank, version);
        EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", version, 0));
        EXPECT_KEDGE_OK(kedge_wait(context, "p", version, KEDGE_LEVEL_NODE, 60));
      }
    });
  }
  void ExpectState(int64_t expected) { ExpectState(all_, expected); }
  void ExpectState(const std::vector<int>& places, int64_t expected) {
    nodes_.Run(places, Keys(), [&](kedge_context* context, int rank) {
      State state(rank, 0);
      state.Protect(context);
      int64_t version = -1;
      EXPECT_KEDGE_OK(kedge_restart(context, "p", -1, &version));
      EXPECT_EQ(version, expected) << "rank " << rank;
      EXPECT_TRUE(state == State(rank, expected)) << "rank " << rank;
    });
  }
  // Of images of four ranks: blocks that need no redundancy.
  uint64_t NaturalBlocks() const { return GetParam().losses == 1 ? kOfAll + kOfTwo : kOfAll; }
};
INSTANTIATE_TEST_SUITE_P(Schemes, NaturalReplicasTest, ::testing::ValuesIn(kOfFour), NameOf);

TEST_P(NaturalReplicasTest, NeedNoRedundancy) {
  TakeStates(PlainKeys(), 1, 2);
  const int64_t plain = Counted(0, "net_bytes_read");
  EXPECT_EQ(Counted(0, "natural_bytes"), 0);
  TakeStates(3, 4);
  EXPECT_LT(Counted(0, "net_bytes_read") - plain, plain / 2) << "the others are not read for it";
  for (const int node : all_) {
    EXPECT_EQ(Counted(node, "natural_bytes"), static_cast<int64_t>(2 * NaturalBlocks() * kBlockBytes)) << "node " << node;
    EXPECT_THAT(nodes_.Log(node), HasSubstr("lie on enough nodes anyway"));
  }
}

TEST_P(NaturalReplicasTest, ComeBackFromTheNodesThatAreLeft) {
  for (int lost = 0; lost < 4; ++lost) {
    SCOPED_TRACE(lost);
    TakeStates(2 * lost + 1, 2 * lost + 2);
    // Neighbours, or nodes that face each other: with an image, a copy of it or a member that has the same blocks goes.
    for (int more = 0; more < GetParam().losses; ++more) nodes_.Lose((lost + more * (1 + lost % 2)) % 4);
    ExpectState(2 * lost + 2);
  }
}

// Parts of an image for which the node has no room begin and end within such blocks.
TEST_P(NaturalReplicasTest, AreShownPartByPart) {
  constexpr uint64_t kTimes = 5;  // over two windows
  const auto overrides = [this](int node) { return nodes_.Overrides(node, Keys() + (node == 0 ? "pool.size=4MiB\n" : "")); };
  nodes_.Run(all_, Keys(), [&](kedge_context* context, int rank) {
    State state(rank, 1, kTimes);
    state.Protect(context);
    EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", 1, 0));
    EXPECT_KEDGE_OK(kedge_wait(context, "p", 1, KEDGE_LEVEL_NODE, 60));
  });
  EXPECT_GT(Counted(0, "natural_bytes"), 0);
  nodes_.Lose(0);
  ThreadRanks(4).Run(overrides, [&](kedge_context* context, int rank) {
    State state(rank, 0, kTimes);
    state.Protect(context);
    int64_t version = -1;
    EXPECT_KEDGE_OK(kedge_restart(context, "p", -1, &version));
    EXPECT_TRUE(state == State(rank, 1, kTimes)) << "rank " << rank;
  });
  EXPECT_THAT(nodes_.Log(0), HasSubstr("was shown for want of room"));
}

class DamagedReplicaTest : public NaturalReplicasTest {};
INSTANTIATE_TEST_SUITE_P(Schemes, DamagedReplicaTest, ::testing::Values(kOfFour[1], kOfFour[3]), NameOf);

// A byte of a replica flips where it would be read from first: its fingerprint tells, and another node has it, too.
TEST_P(DamagedReplicaTest, IsPassedOver) {
  TakeStates(1, 1);
  const State next(1, 1);
  ASSERT_TRUE(nodes_.FlipInPool(1, {next.large.begin(), next.large.begin() + kOfAll * kWordsOfBlock}));
  nodes_.Lose(0);
  ExpectState(1);
}

TEST_P(NaturalReplicasTest, MoreLossesThanThatAreSaid) {
  TakeStates(1, 1);
  for (int node = 0; node <= GetParam().losses; ++node) nodes_.Lose(node);
  nodes_.Run(all_, Keys(), [&](kedge_context* context, int rank) {
    State state(rank, 0);
    state.Protect(context);
    int64_t version = -1;
    EXPECT_EQ(kedge_restart(context, "p", -1, &version), KEDGE_ERROR_LOST);
  });
}

// An agent that was killed at a step of it goes on with what was agreed on.
TEST_P(NaturalReplicasTest, ASuccessorLeavesTheSameBlocksOut) {
  int64_t version = 0;
  for (const char* point : {"protect-measured", "protect-block", "protect-made", "protect-kept"}) {
    SCOPED_TRACE(point);
    (void)nodes_.KillAgent(1);
    nodes_.StartAgent(1, {{"KEDGE_TEST_KILL_POINT", point}});
    ++version;
    TakeStates(version, version);
    nodes_.Lose(2);
    ExpectState(version);
  }
}

// Partners keep of an image what too few other nodes have.
class ThinCopyTest : public NaturalReplicasTest {
 protected:
  void ExpectBroughtFrom(int node, const char* from) const { EXPECT_THAT(nodes_.Log(node), HasSubstr(from)); }
  // What is its own of an image: its first or its second half.
  static std::vector<uint64_t> OwnBlocks(int rank, int half) {
    const State state(rank, 1);
    const auto begin = state.large.begin() + static_cast<std::ptrdiff_t>((kOfAll + kOfTwo + half * kOwn / 2) * kWordsOfBlock);
    return {begin, begin + kOwn / 2 * kWordsOfBlock};
  }
};
INSTANTIATE_TEST_SUITE_P(Schemes, ThinCopyTest, ::testing::Values(kOfFour[2], kOfFour[3]), NameOf);

TEST_P(ThinCopyTest, HasWhatIsOnTooFewNodes) {
  TakeStates(1, 1);
  for (const int node : all_) {
    int64_t rest = 0;
    for (int copy = 1; copy <= GetParam().losses; ++copy) {
      const int owner = (node + 4 - copy) % 4;
      const uint64_t large = (State::BlocksOf(owner) - NaturalBlocks()) * kBlockBytes;
      rest += static_cast<int64_t>(large + State(owner, 1).small.size() * 8);
    }
    const int64_t copied = Counted(node, "redundancy_bytes");
    EXPECT_GE(copied, rest) << "node " << node;
    // Image records, and what fills gaps.
    EXPECT_LT(copied, rest + GetParam().losses * (64 << 10)) << "node " << node;
  }
  nodes_.Lose(0);
  ExpectState(1);
  ExpectBroughtFrom(0, "is here again: from the copy on node n");
}

// What no other node has is copied whole, and comes from one node.
TEST_P(ThinCopyTest, IsWholeWhereNodesHaveNothingInCommon) {
  const std::string keys = Keys() + "reduce.block=4KiB\n";
  Take(all_, keys, 1);
  nodes_.Lose(0);
  EXPECT_EQ(ExpectRestart(all_, keys, 1), 0u);
  ExpectBroughtFrom(0, "is here again: from node n");
  EXPECT_EQ(Counted(1, "natural_bytes"), 0);
}

// Its rank has come to the node that has it. The version is protected again there, and survives the next loss.
TEST_P(ThinCopyTest, IsReadWhereItLies) {
  TakeStates(1, 1);
  nodes_.Lose(0);
  const std::vector<int> places = {1, 2, 3, 0};
  nodes_.Run(places, Keys(), [&](kedge_context* context, int rank) {
    State state(rank, 0);
    state.Protect(context);
    int64_t version = -1;
    EXPECT_KEDGE_OK(kedge_restart(context, "p", -1, &version));
    EXPECT_TRUE(state == State(rank, 1)) << "rank " << rank;
    EXPECT_KEDGE_OK(kedge_wait(context, "p", 1, KEDGE_LEVEL_NODE, 60));
  });
  ExpectBroughtFrom(1, "is here again: from the copy on node n1 and its replicas");
  nodes_.Lose(1);
  ExpectState(places, 1);
}

// It dies while it gives its copy, and the node that gets it while it has a part of it.
TEST_P(ThinCopyTest, IsReadFromASuccessorByASuccessor) {
  TakeStates(1, 1);
  nodes_.Lose(0);
  nodes_.StartAgent(0, {{"KEDGE_TEST_KILL_POINT", "bring-rebuilt"}});
  ExpectState(1);
  EXPECT_TRUE(nodes_.AgentWasKilled());
  nodes_.Lose(0);
  (void)nodes_.KillAgent(1);
  nodes_.StartAgent(1, {{"KEDGE_TEST_KILL_POINT", "serve-lease"}});
  ExpectState(1);
  EXPECT_TRUE(nodes_.AgentWasKilled());
}

class DamagedCopyTest : public ThinCopyTest {};
INSTANTIATE_TEST_SUITE_P(Schemes, DamagedCopyTest, ::testing::Values(kOfFour[3]), NameOf);

// Each of two copies has a block right that the other has not.
TEST_P(DamagedCopyTest, IsPassedOver) {
  TakeStates(1, 1);
  for (const int half : {0, 1}) ASSERT_TRUE(nodes_.FlipInPool(1 + half, OwnBlocks(0, half)));
  nodes_.Lose(0);
  ExpectState(1);
  ExpectBroughtFrom(0, "fails its checksum; the next source is tried");
  ExpectBroughtFrom(0, "from the copy on node n1 and its replicas, from the copy on node n2 and its replicas");
}

// Its other copy went with its owner.
TEST_P(DamagedCopyTest, IsNeverTakenForTheImage) {
  TakeStates(1, 1);
  ASSERT_TRUE(nodes_.FlipInPool(1, OwnBlocks(0, 0)));
  nodes_.Lose(0);
  nodes_.Lose(2);
  nodes_.Run(all_, Keys(), [&](kedge_context* context, int rank) {
    State state(rank, 0);
    state.Protect(context);
    int64_t version = -1;
    EXPECT_NE(kedge_restart(context, "p", -1, &version), KEDGE_OK) << "rank " << rank;
  });
}

}  // namespace
}  // namespace kedge::testing
