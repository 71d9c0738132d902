// What the ranks agree on before and beside their checkpoints, and what one rank's error, silence or other mind makes of it.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <barrier>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "client/checkpoint/pace.h"
#include "client/core/ledger.h"
#include "client/init/known_jobs.h"
#include "client/init/newest_stored.h"
#include "client/init/start.h"
#include "client/ranks/collective.h"
#include "client/ranks/rendezvous.h"
#include "client/session/session.h"
#include "client/testing/core.h"
#include "client/testing/fake_agent.h"
#include "client/testing/ranks.h"
#include "os/files/files.h"
#include "os/testing/simulated_file_system.h"
#include "os/testing/temporary_folder.h"
#include "store/testing/version_maker.h"

namespace kedge::client {
namespace {

using os::testing::SimulatedFileSystem;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::OnRanks;
using ::testing::UnorderedElementsAre;

TEST(Collective, TextsOfAnyLengthComeToAllInRankOrder) {
  std::atomic<int> arrived{0};
  OnRanks(3, [&](Collective ranks) {
    const std::vector<std::string> texts = {"", std::string("\0x", 2), std::string(70'000, 'z')};
    EXPECT_EQ(ranks.AllGather(texts[ranks.rank()]).value(), texts);
    EXPECT_EQ(ranks.AllGather("").value(), std::vector<std::string>(3));
    EXPECT_EQ(ranks.BroadcastFromFirst(texts[2 - ranks.rank()]).value(), texts[2]);
    EXPECT_EQ(ranks.BroadcastFromFirst(ranks.rank() == 0 ? "" : "mine").value(), "");
    EXPECT_EQ(ranks.BroadcastFromFirst(Collective::Words{ranks.rank(), 7, 8}).value(), (Collective::Words{0, 7, 8}));
    ++arrived;
    const Status status = ranks.Barrier();
    EXPECT_EQ(arrived, 3);
    return status.ok();
  });
}

TEST(Collective, AllHearTheMostTellingErrorOfTheLowestRank) {
  const Status io(Code::kIo, "disk"), corrupt(Code::kCorrupt, "bits"), argument(Code::kInvalidArgument, "slip"),
      mismatch(Code::kMismatch, "other");
  struct Case {
    std::vector<Status> of_ranks;
    Code code;
    std::string message;
  };
  const std::vector<Case> cases = {
      {{{}, {}, {}}, Code::kOk, ""},
      {{{}, io, {}}, Code::kIo, "rank 1: disk"},
      {{{}, {}, Status(Code::kIo, "")}, Code::kIo, "rank 2: "},
      {{{}, corrupt, io}, Code::kCorrupt, "rank 1: bits"},
      {{io, argument, corrupt}, Code::kInvalidArgument, "rank 1: slip"},
      {{argument, io, mismatch}, Code::kMismatch, "rank 2: other"},
  };
  OnRanks(3, [&](Collective ranks) {
    for (const Case& one : cases) {
      const Status agreed = ranks.Agree(one.of_ranks[ranks.rank()]);
      EXPECT_EQ(agreed.code(), one.code) << one.message;
      EXPECT_EQ(agreed.message(), one.message);
    }
    return true;
  });
}

// A bootstrap of which the call number `failure` fails, and all ranks say the same.
struct BadBootstrap {
  int failure = 1;
  int calls = 0;
  int released = 0;

  kedge_bootstrap Face(int ranks) {
    kedge_bootstrap face{};
    face.struct_size = sizeof face;
    face.user = this;
    face.ranks = ranks;
    face.allgather = [](void* user, const void* send, void* receive, size_t bytes) {
      std::memcpy(receive, send, bytes);
      std::memcpy(static_cast<char*>(receive) + bytes, send, bytes);
      return static_cast<BadBootstrap*>(user)->Call();
    };
    face.broadcast = [](void* user, void*, size_t, int) { return static_cast<BadBootstrap*>(user)->Call(); };
    face.barrier = [](void* user) { return static_cast<BadBootstrap*>(user)->Call(); };
    face.release = [](void* user) { ++static_cast<BadBootstrap*>(user)->released; };
    return face;
  }
  int Call() { return ++calls == failure ? 7 : 0; }
};

TEST(Collective, ABootstrapThatFailsIsUnavailableAtAnyOfItsCalls) {
  for (const int call : {1, 2}) {
    BadBootstrap bad;
    const Collective ranks(bad.Face(2));
    const auto failed = [&](const Status& status, const char* name) {
      EXPECT_EQ(status.code(), Code::kUnavailable) << name << ", call " << call;
      EXPECT_THAT(status.message(), AllOf(HasSubstr(name), HasSubstr("code 7")));
      bad.calls = 0;
    };
    bad.failure = call;
    failed(ranks.AllGather("mine").status(), "allgather");
    failed(ranks.Agree(Status(Code::kIo, "disk")), "allgather");
    failed(ranks.BroadcastFromFirst("mine").status(), "broadcast");
    bad.failure = 1;
    failed(ranks.BroadcastFromFirst(Collective::Words{}).status(), "broadcast");
    failed(ranks.Barrier(), "barrier");
  }
}

TEST(Collective, OneRankCallsNothingAndUserIsReleasedOnce) {
  BadBootstrap alone, other;
  {
    Collective first(alone.Face(1));
    Collective second(std::move(first));
    Collective third(other.Face(2));
    third = std::move(second);
    EXPECT_EQ(third.ranks(), 1u);
    EXPECT_EQ(third.AllGather("mine").value(), std::vector<std::string>{"mine"});
    EXPECT_EQ(third.BroadcastFromFirst("mine").value(), "mine");
    EXPECT_EQ(third.Agree(Status(Code::kIo, "disk")).message(), "disk");
    EXPECT_TRUE(third.Barrier().ok());
  }
  EXPECT_EQ(alone.calls + other.calls, 0);
  EXPECT_EQ(alone.released, 1);
  EXPECT_EQ(other.released, 1);
}

// Ranks that are threads, and a broadcast of which the first rank waits for nobody, as over MPI.
class PaceTest : public ::testing::Test {
 protected:
  static constexpr int kRanks = 3;

  // What a rank has of Kedge where it has no agent.
  struct Rank {
    std::unique_ptr<Core> core;
    std::unique_ptr<Ledger> ledger;
    std::unique_ptr<Session> session;
    std::unique_ptr<Pace> pace;

    bool IsDue() {
      std::unique_lock lock(core->mutex);
      return pace->IsDue(lock).value();
    }
    Status Ask() {
      std::unique_lock lock(core->mutex);
      return pace->IsDue(lock).status();
    }
  };

  // On each rank what `body` makes of it, after init. The interval is that of rank 0; the others have other ones.
  void Run(Duration interval, const std::function<void(Rank&)>& body) {
    std::vector<std::thread> threads;
    for (uint32_t number = 0; number < kRanks; ++number) {
      threads.emplace_back([&, number] {
        Rank rank = MakeRank(number, interval);
        ASSERT_TRUE(rank.pace->Start().ok());
        if (number == 0) init_broadcasts_ = broadcasts();
        meeting_.arrive_and_wait();
        body(rank);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  // Since init.
  size_t asked() const { return broadcasts() - init_broadcasts_; }
  bool AllHaveHeardAll() const { return places_[1].heard == broadcasts() && places_[2].heard == broadcasts(); }

  std::barrier<> meeting_{kRanks};
  // Of which rank a broadcast fails, and every later one with it; kRanks: of none.
  std::atomic<uint32_t> broken_{kRanks};

 private:
  struct Place {
    PaceTest* all;
    uint32_t rank;
    size_t heard = 0;
  };

  Rank MakeRank(uint32_t number, Duration interval) {
    kedge_bootstrap face{};
    face.struct_size = sizeof face;
    face.user = &places_[number];
    face.rank = static_cast<int>(number);
    face.ranks = kRanks;
    face.allgather = [](void* user, const void* send, void* receive, size_t bytes) {
      return static_cast<Place*>(user)->all->Gather(static_cast<Place*>(user)->rank, send, receive, bytes);
    };
    face.broadcast = [](void* user, void* data, size_t bytes, int) {
      auto& place = *static_cast<Place*>(user);
      return place.all->Broadcast(place, data, bytes);
    };
    face.barrier = [](void*) { return 0; };
    Rank rank;
    rank.core = testing::MakeStartedCore(folders_[number], Collective(face));
    rank.core->job.keys.schedule_interval = number == 0 ? interval : number * std::chrono::hours(1);
    rank.ledger = std::make_unique<Ledger>(rank.core->catalog->id(), "job", 1, std::map<std::string, int64_t>());
    rank.session = std::make_unique<Session>(rank.core.get(), rank.ledger.get());
    rank.pace = std::make_unique<Pace>(rank.core.get(), rank.session.get());
    return rank;
  }
  int Broadcast(Place& place, void* data, size_t bytes) {
    if (place.rank == broken_) return 7;
    std::unique_lock lock(mutex_);
    if (place.rank == 0) {
      sent_.emplace_back(static_cast<const char*>(data), bytes);
      changed_.notify_all();
      return 0;
    }
    if (!changed_.wait_for(lock, seconds(30), [&] { return sent_.size() > place.heard; })) return 8;
    std::memcpy(data, sent_[place.heard++].data(), bytes);
    return 0;
  }
  int Gather(uint32_t rank, const void* send, void* receive, size_t bytes) {
    parts_[rank].assign(static_cast<const char*>(send), bytes);
    meeting_.arrive_and_wait();
    for (uint32_t from = 0; from < kRanks; ++from)
      std::memcpy(static_cast<char*>(receive) + from * bytes, parts_[from].data(), bytes);
    meeting_.arrive_and_wait();
    return 0;
  }
  size_t broadcasts() const {
    const std::lock_guard lock(mutex_);
    return sent_.size();
  }

  SimulatedFileSystem folders_[kRanks];
  Place places_[kRanks] = {{this, 0}, {this, 1}, {this, 2}};
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> sent_;
  std::string parts_[kRanks];
  size_t init_broadcasts_ = 0;
};

TEST_F(PaceTest, RanksOfAnySpeedHearTheSameAtTheSameCall) {
  std::vector<int> due[kRanks];
  Run(milliseconds(15), [&](Rank& rank) {
    const uint32_t number = rank.core->rank();
    for (int call = 0; call < 600; ++call) {
      if (call % (7 + number) == 0) std::this_thread::sleep_for(milliseconds(1));
      if (!rank.IsDue()) continue;
      due[number].push_back(call);
      EXPECT_TRUE(rank.IsDue()) << "until a checkpoint is begun";
      rank.pace->OnCheckpointBegin();
      rank.pace->OnCheckpointEnd();
    }
  });
  EXPECT_GE(due[0].size(), 2u);
  EXPECT_EQ(due[1], due[0]);
  EXPECT_EQ(due[2], due[0]);
}

TEST_F(PaceTest, CallsThatComeFastAskSeldom) {
  constexpr size_t kCalls = 100'000;
  Run(std::chrono::hours(1), [&](Rank& rank) {
    for (size_t call = 0; call < kCalls; ++call) EXPECT_FALSE(rank.IsDue());
    EXPECT_EQ(rank.core->statistics.checkpoints_not_due, kCalls);
  });
  EXPECT_LT(asked(), kCalls / 16);
  EXPECT_GT(asked(), 0u);
}

TEST_F(PaceTest, ARankWhoseCheckpointWasNotBegunStaysInStep) {
  std::vector<size_t> due(kRanks);
  bool was_taken_back = false;
  Run(milliseconds(100), [&](Rank& rank) {
    const uint32_t number = rank.core->rank();
    for (int call = 0; call < 300; ++call) {
      std::this_thread::sleep_for(milliseconds(1));
      const bool fails = number == 1 && call < 200;
      if (!rank.IsDue()) {
        if (fails && due[1] > 0) was_taken_back = true;  // written by rank 1 alone
        continue;
      }
      ++due[number];
      if (fails) continue;
      rank.pace->OnCheckpointBegin();
      rank.pace->OnCheckpointEnd();
    }
  });
  EXPECT_GE(due[0], 2u);
  EXPECT_EQ(due[2], due[0]);
  EXPECT_TRUE(was_taken_back) << "the others have begun it";
  EXPECT_TRUE(AllHaveHeardAll());
}

TEST_F(PaceTest, WithoutAnIntervalNobodyIsAsked) {
  Run(Duration::zero(), [&](Rank& rank) {
    // Nor does a rank wait for others that do not ask.
    for (int call = 0; rank.core->rank() == 1 && call < 1000; ++call) EXPECT_TRUE(rank.IsDue());
  });
  EXPECT_EQ(asked(), 0u);
}

TEST_F(PaceTest, AfterABroadcastThatFailedEachCallFailsAndWaitsForNobody) {
  Run(std::chrono::hours(1), [&](Rank& rank) {
    const uint32_t number = rank.core->rank();
    EXPECT_TRUE(rank.Ask().ok());
    meeting_.arrive_and_wait();
    if (number == 1) broken_ = 1;
    meeting_.arrive_and_wait();
    Status status;
    for (int call = 0; call < 1000 && (status.ok() || number != 1); ++call) status = rank.Ask();
    EXPECT_EQ(status.code(), number == 1 ? Code::kUnavailable : Code::kOk) << status.ToString();
    meeting_.arrive_and_wait();
    broken_ = kRanks;
    meeting_.arrive_and_wait();
    // Rank 0 says nothing any more; who would ask it now would wait.
    if (number == 1) {
      for (int call = 0; call < 100; ++call) EXPECT_EQ(rank.Ask().code(), Code::kUnavailable);
    }
  });
}

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

constexpr StoreId kStore{.high = 1, .low = 2};
constexpr StoreId kOtherStore{.high = 1, .low = 3};

RestoredRecord RestartBefore(uint32_t attempt, uint32_t take, int64_t wall_time_ns) {
  return {{kStore, "job", "wave", 5, 1, 1}, attempt, take, wall_time_ns};
}

// Nodes whose agents know of the job what the test says.
class NodesTest : public ::testing::Test {
 protected:
  // The node's run folder.
  std::string AddNode(std::vector<KnownJob> known) {
    return AddAgent([known = std::move(known)](uint64_t number) { return Frame(number, KnownJobsReply{known}); });
  }
  std::string AddAgent(const testing::FakeAgent::Answer& answer) {
    const std::string run_folder = folder_ / std::to_string(agents_.size());
    agents_.push_back(std::make_unique<testing::FakeAgent>(run_folder + "/agent.sock", answer));
    return run_folder;
  }
  static std::string Frame(uint64_t number, const Message& message) {
    return std::string(AsText(EncodeMessage(number, message)));
  }
  static Result<std::unique_ptr<Connection>> Connect(Core* core, const std::string& run_folder) {
    core->node.run_folder = run_folder;
    if (run_folder.empty()) return Status(Code::kUnavailable, "no agent");
    return Connection::Connect({.node = core->node, .start_agent = false, .node_keys = {}});
  }

  const os::testing::TemporaryFolder folder_;
  std::vector<std::unique_ptr<testing::FakeAgent>> agents_;
};

class KnownJobsTest : public NodesTest {
 protected:
  // What each rank hears, its agent being the one in that folder.
  std::vector<std::vector<std::string>> Gather(const std::vector<std::string>& of_ranks) {
    return OnRanks(static_cast<uint32_t>(of_ranks.size()), [&](Collective ranks) {
      SimulatedFileSystem fs;
      const auto core = testing::MakeCore(fs, std::move(ranks));
      auto agent = Connect(core.get(), of_ranks[core->rank()]);
      const auto known = GatherKnownJobs(*core, &agent);
      std::vector<std::string> texts;
      for (const KnownJob& job : known.value()) texts.push_back(Described(job));
      if (!agent.ok()) texts.push_back(CodeName(agent.status().code()));
      return texts;
    });
  }
  static std::string Described(const KnownJob& job) {
    std::string text = fmt::format("store {}, attempt {}, {} live, {}, '{}', restarts", job.store_id.low, job.attempt,
                                   job.live_ranks, job.has_versions ? "versions" : "none", job.unrecorded);
    std::set<std::string> restarts;
    for (const RestoredRecord& record : job.restored) restarts.insert(fmt::format(" {}.{}", record.attempt, record.take));
    for (const std::string& restart : restarts) text += restart;
    return text + fmt::format(" ({})", job.restored.size());
  }
};

TEST_F(KnownJobsTest, NodesAddUpAndARanksNeighboursDoNot) {
  // Each node has heard of the first restart from ranks of its own, at its own time.
  const std::string older = AddNode({{kStore, 3, 2, false, "old record", {RestartBefore(2, 1, 50)}}});
  const std::string newer = AddNode(
      {{kStore, 4, 1, true, "record", {RestartBefore(2, 1, 60), RestartBefore(4, 1, 70)}}, {kOtherStore, 9, 0, false, "", {}}});
  const std::vector<std::string> expected = {"store 2, attempt 4, 3 live, versions, 'record', restarts 2.1 4.1 (2)",
                                             "store 3, attempt 9, 0 live, none, '', restarts (0)"};
  EXPECT_THAT(Gather({older, older, newer}), Each(expected));
  EXPECT_THAT(Gather({newer, older, older}), Each(expected)) << "in whatever order";
}

TEST_F(KnownJobsTest, AnAgentThatDoesNotAnswerAsItShouldKnowsNothing) {
  const std::string good = AddNode({{kStore, 3, 0, true, "", {}}});
  const std::string refuses =
      AddAgent([](uint64_t number) { return Frame(number, ErrorReply{Status(Code::kMismatch, "you speak another protocol")}); });
  const std::string confused = AddAgent([](uint64_t number) { return Frame(number, DoneReply{}); });
  const std::string closes = AddAgent([](uint64_t) { return std::string(); });
  const std::string known = "store 2, attempt 3, 0 live, versions, '', restarts (0)";
  EXPECT_THAT(Gather({refuses, good, confused, closes, ""}),
              ElementsAre(ElementsAre(known, "mismatch"), ElementsAre(known), ElementsAre(known, "corrupt"),
                          ElementsAre(known, "unavailable"), ElementsAre(known, "unavailable")));
}

TEST(KnownJobs, WhatGoesOnIsMoreThanANumber) {
  const KnownJob number{{.high = 0, .low = 1}, 5, 0, false, "", {RestartBefore(2, 1, 0)}};
  const KnownJob versions{{.high = 0, .low = 2}, 5, 0, true, "", {}}, ranks{{.high = 0, .low = 3}, 5, 1, false, "", {}},
      unrecorded{{.high = 0, .low = 4}, 5, 0, false, "record", {}};
  std::vector<uint64_t> going_on;
  for (const KnownJob& job : GoingOn({number, versions, ranks, unrecorded})) going_on.push_back(job.store_id.low);
  EXPECT_THAT(going_on, ElementsAre(2, 3, 4));
  EXPECT_EQ(KnownIn({number, ranks}, ranks.store_id).live_ranks, 1u);
  EXPECT_EQ(KnownIn({number, ranks}, versions.store_id).attempt, 0u);
}

TEST(KnownJobs, RestartsThatAreCutShortAreNotBelieved) {
  const std::vector<RestoredRecord> records = {RestartBefore(2, 1, 7), RestartBefore(3, 2, 8)};
  const std::string text = EncodeRestored(records);
  EXPECT_EQ(DecodeRestored(text).value(), records);
  EXPECT_THAT(DecodeRestored(EncodeRestored({})).value(), IsEmpty());
  for (size_t length = 0; length < text.size(); ++length) {
    EXPECT_FALSE(DecodeRestored(text.substr(0, length)).ok()) << length;
  }
  EXPECT_FALSE(DecodeRestored(text + "x").ok());
}

class StartTest : public NodesTest {
 protected:
  struct Outcome {
    Status status;
    uint32_t attempt = 0;
    std::string secret;
    bool unrecorded = false;
    bool protects = false;
    std::vector<RestoredRecord> restored;
  };
  // Init's agreement on each rank; `prepare` changes its core before, and says where its agent is ("": none).
  std::vector<Outcome> Start(uint32_t ranks, const std::function<std::string(Core*)>& prepare) {
    return OnRanks(ranks, [&](Collective collective) {
      const auto core = testing::MakeCore(fs_, std::move(collective));
      auto agent = Connect(core.get(), prepare(core.get()));
      Outcome outcome;
      outcome.status = AgreeOnAttempt(core.get(), &agent);
      outcome.attempt = core->attempt;
      outcome.secret = core->secret;
      outcome.unrecorded = core->attempt_unrecorded.load();
      outcome.protects = core->protects;
      outcome.restored = core->restored;
      return outcome;
    });
  }
  // The same error on all ranks.
  static void ExpectError(const std::vector<Outcome>& outcomes, Code code, const std::string& text) {
    for (const Outcome& outcome : outcomes) {
      EXPECT_EQ(outcome.status.code(), code) << outcome.status.ToString();
      EXPECT_EQ(outcome.status.message(), outcomes[0].status.message());
      EXPECT_THAT(outcome.status.message(), HasSubstr(text));
    }
  }
  StoreId MakeStore() { return Catalog::OpenOrCreate(*MakePosixStore(fs_, {.path = "/store"}), {"node1", 1, "r0"})->id(); }
  void LoseTheStore() { fs_.faults().Add({.count = os::testing::kForEver, .errno_value = EIO}); }

  SimulatedFileSystem fs_;
};

TEST_F(StartTest, RankZerosWordHoldsForAll) {
  // The others are configured otherwise.
  const auto outcomes = Start(3, [](Core* core) {
    if (core->rank() == 0) core->job.keys.protect_scheme = ProtectScheme::kXor;
    return std::string();
  });
  for (const Outcome& outcome : outcomes) {
    ASSERT_TRUE(outcome.status.ok()) << outcome.status.ToString();
    EXPECT_EQ(outcome.attempt, 1u);
    EXPECT_TRUE(outcome.protects);
    EXPECT_FALSE(outcome.unrecorded);
    EXPECT_EQ(outcome.secret, outcomes[0].secret);
  }
  EXPECT_GE(outcomes[0].secret.size(), 32u);
}

TEST_F(StartTest, OneRankOfAnotherJobOrStoreEndsTheAttemptForAll) {
  const auto is_of_another_job = [](Core* core) {
    if (core->rank() == 1) core->job.job = "another";
    return std::string();
  };
  ExpectError(Start(3, is_of_another_job), Code::kMismatch, "rank 1: the job is 'another' here and 'job' on rank 0");
  SimulatedFileSystem elsewhere;
  const auto sees_elsewhere = [&](Core* core) {
    if (core->rank() == 2) core->store = MakePosixStore(elsewhere, {.path = "/store"});
    return std::string();
  };
  ExpectError(Start(3, sees_elsewhere), Code::kNotFound, "rank 2: the store that rank 0 uses cannot be opened here");
  EXPECT_FALSE(os::Exists(elsewhere, "/store").value());
  ASSERT_TRUE(Catalog::OpenOrCreate(*MakePosixStore(elsewhere, {.path = "/store"}), {"node1", 1, "r2"}).ok());
  ExpectError(Start(3, sees_elsewhere), Code::kMismatch, "rank 2: /store is another store here");
  // What rank 0 had acquired is free at once, and its numbers are not given again.
  const auto outcomes = Start(2, [](Core*) { return std::string(); });
  EXPECT_TRUE(outcomes[1].status.ok()) << outcomes[1].status.ToString();
  EXPECT_EQ(outcomes[1].attempt, 4u);
  ExpectError(Start(2, [](Core*) { return std::string(); }), Code::kBusy, "held by attempt 4");
}

TEST_F(StartTest, WithoutTheStoreItGoesOnByWhatTheNodesKnow) {
  LoseTheStore();
  const std::string node = AddNode({{kStore, 6, 0, true, "", {RestartBefore(2, 1, 7)}}});
  const auto outcomes = Start(2, [&](Core* core) { return core->rank() == 1 ? node : ""; });
  for (const Outcome& outcome : outcomes) {
    ASSERT_TRUE(outcome.status.ok()) << outcome.status.ToString();
    EXPECT_TRUE(outcome.unrecorded);
    EXPECT_GT(outcome.attempt, 7u) << "who has the store may take the next one";
    EXPECT_EQ(outcome.attempt, outcomes[0].attempt);
    EXPECT_THAT(outcome.restored, ElementsAre(RestartBefore(2, 1, 7)));
  }
  ExpectError(Start(2, [](Core*) { return std::string(); }), Code::kIo, "/store");
}

TEST_F(StartTest, NodesThatDoNotTellWhichStoreItIsAreNoHelp) {
  LoseTheStore();
  const std::string node = AddNode({{kStore, 6, 0, true, "", {}}, {kOtherStore, 2, 0, true, "", {}}});
  ExpectError(Start(2, [&](Core*) { return node; }), Code::kIo, "from 2 stores");
}

TEST_F(StartTest, WhereTheNodesKnowAStoreNoOtherIsMade) {
  const std::string node = AddNode({{kStore, 6, 0, true, "", {}}});
  EXPECT_TRUE(Start(1, [&](Core*) { return node; })[0].unrecorded);
  EXPECT_FALSE(os::Exists(fs_, "/store").value());
  const auto anew = Start(1, [&](Core* core) {
    core->job.makes_store_anew = true;
    return node;
  });
  EXPECT_TRUE(anew[0].status.ok());
  EXPECT_FALSE(anew[0].unrecorded);
  EXPECT_TRUE(os::Exists(fs_, "/store").value());
}

// Whether the store can be reached or not.
TEST_F(StartTest, AnAttemptThatLivesOnTheNodesIsNotTakenOver) {
  const StoreId id = MakeStore();
  const std::string node = AddNode({{id, 6, 3, true, "", {}}});
  const auto soon = [&](Core* core) {
    core->job.lease = std::chrono::microseconds(1);  // as long is its end waited for
    return node;
  };
  ExpectError(Start(2, soon), Code::kBusy, "attempt 6, which has 3 live ranks");
  LoseTheStore();
  ExpectError(Start(2, soon), Code::kBusy, "attempt 6, which has 3 live ranks");
}

TEST_F(StartTest, NoAttemptGetsANumberThatTheNodesKnow) {
  const std::string node = AddNode({{MakeStore(), 6, 0, false, "", {}}});
  const auto outcomes = Start(2, [&](Core* core) { return core->rank() == 1 ? node : ""; });
  EXPECT_EQ(outcomes[1].attempt, 7u);
  EXPECT_FALSE(outcomes[1].unrecorded);
}

TEST_F(StartTest, RanksAreGatheredByNodeWithTheAddressThatOneOfThemKnows) {
  Welcome of_b;
  of_b.node = "b";
  of_b.failure_domain = "rack 2";
  of_b.address = "tcp://b";
  const std::vector<JobNode> expected = {{"b", "rack 2", "tcp://b", {0, 2, 3}}, {"a", "rack 1", "", {1}}};
  OnRanks(4, [&](Collective collective) {
    const auto core = testing::MakeCore(fs_, std::move(collective));
    core->attempt = 5;
    core->secret = "s3";
    core->node.node = core->rank() == 1 ? "a" : "b";
    core->node.failure_domain = "rack 1";
    const auto members = GatherMembers(*core, core->rank() == 2 ? &of_b : nullptr);
    EXPECT_EQ(members->nodes, expected);
    EXPECT_EQ(members->attempt, 5u);
    EXPECT_EQ(members->ranks, 4u);
    EXPECT_EQ(members->secret, "s3");
    return true;
  });
}

class NewestStoredTest : public ::testing::Test {
 protected:
  void Take(const std::string& name, int64_t version, uint32_t ranks = 2) {
    const Generation generation{core_->catalog->id(), "job", name, version, 1, static_cast<uint32_t>(version) + 1};
    ASSERT_TRUE(kedge::testing::PublishRanks(*core_->catalog, generation, 0, ranks, {}).ok());
  }
  // As each of two ranks hears it; rank 1 has no way to the store.
  std::vector<std::map<std::string, int64_t>> Gather(bool is_unrecorded = false) {
    return OnRanks(2, [&](Collective ranks) {
      SimulatedFileSystem none;
      os::FileSystem& seen = ranks.rank() == 0 ? fs_ : none;
      const auto core = testing::MakeStartedCore(seen, std::move(ranks));
      core->attempt_unrecorded = is_unrecorded;
      return GatherNewestStored(*core).value();
    });
  }

  SimulatedFileSystem fs_;
  const std::unique_ptr<Core> core_ = testing::MakeStartedCore(fs_);
};

TEST_F(NewestStoredTest, AllHearOfTheNewestCompleteOneOfEachName) {
  EXPECT_THAT(Gather(), Each(IsEmpty()));
  Take("wave", 3);
  Take("wave", 7);
  Take("wave", 8, /*ranks=*/1);
  Take("partial", 1, /*ranks=*/1);
  Take("zero", 0);
  EXPECT_THAT(Gather(), Each(std::map<std::string, int64_t>{{"wave", 7}, {"zero", 0}}));
  EXPECT_THAT(Gather(/*is_unrecorded=*/true), Each(IsEmpty())) << "the store is not there, so far as is known";
}

TEST_F(NewestStoredTest, AStoreThatCannotBeLookedIntoRefusesNothing) {
  Take("wave", 3);
  fs_.faults().Add({.calls = CallsOf(os::testing::Call::kList), .count = os::testing::kForEver, .errno_value = EIO});
  EXPECT_THAT(Gather(), Each(IsEmpty()));
}

}  // namespace
}  // namespace kedge::client
