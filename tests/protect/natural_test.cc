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

const Scheme kWithParity[] = {{"Xor", "protect.scheme=xor\nprotect.group=4\n", 1},
                              {"ReedSolomon", "protect.scheme=rs\nprotect.losses=2\nprotect.group=4\n", 2}};

// A small region before it makes its place in the image another on each rank.
struct State {
  State(int rank, int64_t version) : small(100 + static_cast<size_t>(rank) * 3000), large(kWordsOfBlock * BlocksOf(rank)) {
    Fill(rank, version);
  }
  static uint64_t BlocksOf(int rank) { return kOfAll + kOfTwo + kOwn + static_cast<uint64_t>(rank); }
  void Fill(int rank, int64_t version) {
    std::iota(small.begin(), small.end(), MixSeed(static_cast<uint64_t>(rank), static_cast<uint64_t>(version)));
    for (uint64_t block = 0; block < BlocksOf(rank); ++block) {
      const auto number = static_cast<uint64_t>(rank);
      const uint64_t whose = block < kOfAll ? 1000 : block < kOfAll + kOfTwo ? 2000 + number / 2 : 3000 + number;
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
  void ExpectState(int64_t expected) {
    nodes_.Run(all_, Keys(), [&](kedge_context* context, int rank) {
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
INSTANTIATE_TEST_SUITE_P(Schemes, NaturalReplicasTest, ::testing::ValuesIn(kWithParity), NameOf);

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
    for (int more = 0; more < GetParam().losses; ++more) nodes_.Lose((lost + more) % 4);
    ExpectState(2 * lost + 2);
  }
}

class DamagedReplicaTest : public NaturalReplicasTest {};
INSTANTIATE_TEST_SUITE_P(Schemes, DamagedReplicaTest, ::testing::Values(kWithParity[1]), NameOf);

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

}  // namespace
}  // namespace kedge::testing
