// A node that is slow, and not dead: its link carries a megabyte a second or less, or its agent gets a tenth of a processor. Its
// group is late, and nobody else; what gets on, however slowly, is not given up; what is given up names the node.
//
// Four nodes in two groups of two. The last is slow; it has a network of its own where its link is what is slow. What is asserted
// is order (what was there before what), and lower bounds that say that the node was slow at all: nothing here fails because the
// machine is busy.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <barrier>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <thread>

#include "tests/protect/protect_fixture.h"
#include "tests/support/two_hosts.h"

namespace kedge::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kSlow = 3;
constexpr int kPartner = 1;  // in its group
constexpr char kGroupsOfTwo[] = "protect.scheme=partner\nprotect.group=2\n";
constexpr char kSlowGroup[] = "still missing: group 1 (nodes n1, n3)";

double Seconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

class SlowTest : public ProtectTest {
 protected:
  static bool IsInSlowGroup(int rank) { return rank == kSlow || rank == kPartner; }
  static std::vector<uint64_t> Image(int rank, int64_t version, size_t mebibytes) {
    std::vector<uint64_t> words(mebibytes << 17);
    Random(MixSeed(static_cast<uint64_t>(version), static_cast<uint64_t>(rank))).Fill(words.data(), words.size() * 8);
    return words;
  }
  // Waits until the node's own group has protected the version; whether that was before all had.
  static bool OwnGroupComesFirst(kedge_context* context, int64_t version) {
    for (int i = 0; i < 200; ++i) {
      const int code = kedge_wait(context, "p", version, KEDGE_LEVEL_NODE, 0.1);
      if (code != KEDGE_ERROR_TIMEOUT) return false;
      if (std::string(kedge_error_message()).find(kSlowGroup) != std::string::npos) return true;
    }
    return false;
  }
  // Of all agents.
  virtual std::string Logs() const {
    std::string all;
    for (const int node : all_) all += nodes_.Log(node);
    return all;
  }
  void ExpectNothingGivenUp() const {
    EXPECT_THAT(Logs(), HasSubstr("survives the loss of a node"));
    EXPECT_THAT(Logs(), Not(HasSubstr("has not reached level node")));
    EXPECT_THAT(Logs(), Not(HasSubstr("It is tried again"))) << "something was made in vain";
  }
};

class SlowLinkTest : public SlowTest {
 protected:
  void SetUp() override {
    hosts_ =
        std::make_unique<TwoHosts>(std::vector<std::string>{nodes_.AgentLine(0, "10.77.0.1"), nodes_.AgentLine(1, "10.77.0.1"),
                                                            nodes_.AgentLine(2, "10.77.0.1")},
                                   nodes_.AgentLine(kSlow, "10.77.0.2"));
    for (const int node : all_) ASSERT_TRUE(nodes_.WaitForAgent(node));
  }
  // They run in the foreground.
  std::string Logs() const override { return hosts_->Output("left") + hosts_->Output("right"); }
  void TearDown() override {
    if (HasFailure()) std::fprintf(stderr, "---- agents\n%s----\n", Logs().c_str());
  }
  // Takes version 1 of memory that it protects, and holds the link once all have it at level NODE.
  std::vector<uint64_t> TakeFirstThenHold(kedge_context* context, int rank, const char* rate, std::barrier<>& together) {
    std::vector<uint64_t> memory = Image(rank, 1, 8);
    EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
    EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", 1, 0));
    EXPECT_KEDGE_OK(kedge_wait(context, "p", 1, KEDGE_LEVEL_NODE, 60));
    if (rank == 0) hosts_->HoldLinkTo(rate);
    together.arrive_and_wait();
    return memory;
  }
  std::unique_ptr<TwoHosts> hosts_;
};

// Eight mebibytes each way take eight seconds, twice as long as a version may make no progress.
TEST_F(SlowLinkTest, MakesItsGroupLateAndNobodyElse) {
  std::barrier together(4);
  nodes_.Run(all_, std::string(kGroupsOfTwo) + "schedule.store=0\nprotect.timeout=4s\n", [&](kedge_context* context, int rank) {
    std::vector<uint64_t> memory = TakeFirstThenHold(context, rank, "8mbit", together);
    std::copy_n(Image(rank, 2, 8).begin(), memory.size(), memory.begin());
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", 2, 0));
    EXPECT_LT(Seconds(std::chrono::steady_clock::now() - begin), 2) << "a capture waits for the copy on the node only";
    EXPECT_KEDGE_OK(kedge_wait(context, "p", 2, KEDGE_LEVEL_LOCAL, 60)) << "rank " << rank;
    if (!IsInSlowGroup(rank)) {
      EXPECT_TRUE(OwnGroupComesFirst(context, 2)) << "rank " << rank << ": " << kedge_error_message();
    }
    EXPECT_KEDGE_OK(kedge_wait(context, "p", 2, KEDGE_LEVEL_NODE, 60)) << ", rank " << rank;
    EXPECT_GT(Seconds(std::chrono::steady_clock::now() - begin), 5) << "the link was not slow, and the test shows nothing";
  });
  ExpectNothingGivenUp();
}

// A version takes two slots of sixteen on each node, with its copy. Those that there is room for wait for nobody; more of them
// are held back as the link lets them through, and the last is protected as the first.
TEST_F(SlowLinkTest, HoldsCapturesBackOnlyWhenThePoolIsFull) {
  constexpr int64_t kFit = 4, kVersions = 14;
  std::barrier together(4);
  nodes_.Run(all_, std::string(kGroupsOfTwo) + "schedule.store=0\nprotect.timeout=10s\n", [&](kedge_context* context, int rank) {
    std::vector<uint64_t> memory = Image(rank, 1, 3);
    EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
    if (rank == 0) hosts_->HoldLinkTo("24mbit");
    together.arrive_and_wait();
    for (int64_t version = 1; version <= kVersions; ++version) {
      memory[0] = static_cast<uint64_t>(version);
      EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", version, 0)) << ", rank " << rank;
      if (version != kFit) continue;
      auto status = nodes_.Tool(rank, {"status", "--json"});
      EXPECT_TRUE(status->Succeeds(20s));
      EXPECT_THAT(status->Output(), HasSubstr(R"("places_waited":0,)")) << "rank " << rank;
    }
    EXPECT_KEDGE_OK(kedge_wait(context, "p", kVersions, KEDGE_LEVEL_NODE, 60)) << ", rank " << rank;
  });
  ExpectNothingGivenUp();
}

// The only other copy of a lost node's image lies behind a link that brings less than half a mebibyte a second.
TEST_F(SlowLinkTest, BringsWhatOnlyItHasLeft) {
  const std::string keys = std::string(kGroupsOfTwo) + "schedule.store=0\n";
  const auto content = [](int rank) { return Image(rank, 1, 5); };
  nodes_.Run(all_, keys, [&](kedge_context* context, int rank) {
    std::vector<uint64_t> memory = content(rank);
    EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
    EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", 1, 0));
    EXPECT_KEDGE_OK(kedge_wait(context, "p", 1, KEDGE_LEVEL_NODE, 60));
  });
  nodes_.Lose(kPartner);
  hosts_->StartLeft(nodes_.AgentLine(kPartner, "10.77.0.1"));
  ASSERT_TRUE(nodes_.WaitForAgent(kPartner));
  hosts_->HoldLinkTo("3200kbit");
  const auto begin = std::chrono::steady_clock::now();
  nodes_.Run(all_, keys, [&](kedge_context* context, int rank) {
    std::vector<uint64_t> memory(content(rank).size());
    EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
    int64_t version = -1;
    EXPECT_KEDGE_OK(kedge_restart(context, "p", -1, &version));
    EXPECT_EQ(version, 1);
    EXPECT_TRUE(memory == content(rank)) << "rank " << rank;
  });
  EXPECT_GT(Seconds(std::chrono::steady_clock::now() - begin), 8) << "the link was not slow, and the test shows nothing";
  EXPECT_THAT(Logs(), HasSubstr("is here again: from node n3"));
  EXPECT_THAT(Logs(), Not(HasSubstr("the next source is tried")));
}

// It goes on bringing bytes until it is cut, and is named then, in both groups.
TEST_F(SlowLinkTest, IsNamedWhenNothingComesAnyMore) {
  std::barrier together(4);
  nodes_.Run(all_, std::string(kGroupsOfTwo) + "schedule.store=0\nprotect.timeout=4s\n", [&](kedge_context* context, int rank) {
    const std::vector<uint64_t> memory = TakeFirstThenHold(context, rank, "8mbit", together);
    EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", 2, 0));
    if (rank == 0) {
      std::this_thread::sleep_for(2s);
      hosts_->Cut();
    }
    EXPECT_EQ(kedge_wait(context, "p", 2, KEDGE_LEVEL_NODE, 60), KEDGE_ERROR_UNAVAILABLE) << "rank " << rank;
    EXPECT_THAT(kedge_error_message(), HasSubstr(rank == kSlow ? "n1" : "n3")) << "rank " << rank;
  });
}

// Runs its agent for a tenth of the time, as where others have its processor.
class Throttle {
 public:
  explicit Throttle(int pid) : pid_(pid), thread_([this] { Run(); }) {}
  ~Throttle() {
    over_ = true;
    thread_.join();
    kill(pid_, SIGCONT);
  }
  Throttle(const Throttle&) = delete;
  Throttle& operator=(const Throttle&) = delete;

 private:
  void Run() {
    while (!over_) {
      kill(pid_, SIGSTOP);
      std::this_thread::sleep_for(180ms);
      kill(pid_, SIGCONT);
      std::this_thread::sleep_for(20ms);
    }
  }
  const int pid_;
  std::atomic<bool> over_{false};
  std::thread thread_;
};

TEST_F(SlowTest, AnAgentWithATenthOfItsProcessorGetsThere) {
  const std::string keys = std::string(kGroupsOfTwo) + "schedule.store=0\nprotect.timeout=10s\n";
  std::unique_ptr<Throttle> throttle;
  nodes_.Run(all_, keys, [&](kedge_context* context, int rank) {
    std::vector<uint64_t> memory = Image(rank, 1, 8);
    EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
    if (rank == kSlow) throttle = std::make_unique<Throttle>(AgentPidAt(nodes_.RunFolder(kSlow)));
    for (int64_t version = 1; version <= 3; ++version) {
      std::copy_n(Image(rank, version, 8).begin(), memory.size(), memory.begin());
      EXPECT_KEDGE_OK(kedge_checkpoint(context, "p", version, 0)) << ", rank " << rank;
      EXPECT_KEDGE_OK(kedge_wait(context, "p", version, KEDGE_LEVEL_NODE, 60)) << ", rank " << rank;
    }
  });
  throttle.reset();
  ExpectNothingGivenUp();
  nodes_.Lose(kPartner);
  nodes_.Run(all_, keys, [&](kedge_context* context, int rank) {
    std::vector<uint64_t> memory = Image(rank, 0, 8);
    EXPECT_KEDGE_OK(kedge_protect(context, 0, memory.data(), memory.size(), 8, nullptr));
    if (rank == kSlow) throttle = std::make_unique<Throttle>(AgentPidAt(nodes_.RunFolder(kSlow)));
    int64_t version = -1;
    EXPECT_KEDGE_OK(kedge_restart(context, "p", -1, &version));
    EXPECT_EQ(version, 3);
    EXPECT_TRUE(memory == Image(rank, 3, 8)) << "rank " << rank;
  });
  throttle.reset();
}

}  // namespace
}  // namespace kedge::testing
