#include "fmi/messenger.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "fmi/testing/rank_threads.h"

namespace kedge::fmi {
namespace {

using testing::NewBoard;
using testing::RunRanks;

constexpr Context kHere = Context::kApplication;
constexpr size_t kLong = 3 * kEagerBytesMax + 5;

// Two ranks of one thread.
class Pair : public ::testing::Test {
 protected:
  Pair() : board(NewBoard(2)), one(&board, 0), two(&board, 1) {
    one.Adopt(1);
    two.Adopt(1);
  }

  static std::string Take(Messenger& messenger, int from, int tag, Received* received = nullptr) {
    std::string text(100, '\0');
    Received found;
    const Status status = messenger.Receive(kHere, from, tag, text.data(), text.size(), &found);
    if (received != nullptr) *received = found;
    if (!status.ok()) return status.ToString();
    text.resize(found.bytes);
    return text;
  }
  static Status Give(Messenger& messenger, uint32_t to, int tag, const std::string& text) {
    return messenger.Send(kHere, to, tag, text.data(), text.size());
  }

  Board board;
  Messenger one;
  Messenger two;
};

TEST(Messengers, TakeMemoryForPairsThatExchangeMessages) {
  constexpr uint32_t kMany = 300;
  Board board = NewBoard(kMany);
  std::vector<std::unique_ptr<Messenger>> all;
  for (uint32_t rank = 0; rank < kMany; ++rank) all.push_back(std::make_unique<Messenger>(&board, rank));
  for (const auto& one : all) one->Adopt(1);
  const std::string text = "to the next one";
  for (uint32_t rank = 0; rank < kMany; ++rank) {
    const uint32_t next = (rank + 1) % kMany;
    ASSERT_TRUE(all[rank]->Send(kHere, next, 0, text.data(), text.size()).ok());
    std::string received(text.size(), ' ');
    ASSERT_TRUE(all[next]->Receive(kHere, kAnySource, 0, received.data(), received.size()).ok());
    EXPECT_EQ(received, text);
  }
  struct stat memory {};
  ASSERT_EQ(fstat(board.descriptor(), &memory), 0);
  // A page or two for each of these pairs, of 90,000.
  EXPECT_LT(memory.st_blocks * 512, 4 << 20);
}

TEST_F(Pair, MatchesTagsAndKeepsTheOrder) {
  ASSERT_TRUE(Give(one, 1, 5, "first five").ok());
  ASSERT_TRUE(Give(one, 1, 6, "six").ok());
  ASSERT_TRUE(Give(one, 1, 5, "second five").ok());
  EXPECT_EQ(Take(two, 0, 6), "six");
  Received received;
  EXPECT_EQ(Take(two, kAnySource, kAnyTag, &received), "first five");
  EXPECT_EQ(received.source, 0);
  EXPECT_EQ(received.tag, 5);
  EXPECT_EQ(Take(two, 0, 5), "second five");
}

TEST_F(Pair, KeepsContextsApart) {
  ASSERT_TRUE(one.Send(Context::kCollective, 1, 5, "other", 5).ok());
  ASSERT_TRUE(Give(one, 1, 5, "mine").ok());
  EXPECT_EQ(Take(two, kAnySource, kAnyTag), "mine");
}

TEST_F(Pair, SendsToItself) {
  ASSERT_TRUE(Give(one, 0, 1, "to me").ok());
  EXPECT_EQ(Take(one, 0, 1), "to me");
  std::string received(kLong, '\0');
  const std::string sent(kLong, 'x');
  const RequestId receive = one.BeginReceive(kHere, 0, 2, received.data(), received.size());
  ASSERT_TRUE(one.Send(kHere, 0, 2, sent.data(), sent.size()).ok());
  ASSERT_TRUE(one.Wait(receive).ok());
  EXPECT_EQ(received, sent);
}

TEST_F(Pair, ReadsLongMessagesFromTheSendersMemory) {
  std::string sent(kLong, 'a');
  const RequestId send = one.BeginSend(kHere, 1, 0, sent.data(), sent.size());
  EXPECT_FALSE(one.IsComplete(send));
  // Nothing of it was copied yet.
  sent.assign(kLong, 'b');
  std::string received(kLong, '\0');
  ASSERT_TRUE(two.Receive(kHere, 0, 0, received.data(), received.size()).ok());
  EXPECT_EQ(received, sent);
  EXPECT_TRUE(one.IsComplete(send));
  EXPECT_TRUE(one.Wait(send).ok());
}

TEST_F(Pair, WaitsForRoomWithoutLosingTheOrder) {
  constexpr int kMessages = 100;
  const std::string filler(kEagerBytesMax - 8, ' ');
  std::vector<std::string> sent;
  std::vector<RequestId> sends;
  for (int i = 0; i < kMessages; ++i) sent.push_back(std::to_string(10000000 + i) + filler);
  for (const std::string& text : sent) sends.push_back(one.BeginSend(kHere, 1, 0, text.data(), text.size()));
  EXPECT_FALSE(one.IsComplete(sends.back()));
  for (const std::string& text : sent) {
    std::string received(text.size(), '\0');
    ASSERT_TRUE(two.Receive(kHere, 0, 0, received.data(), received.size()).ok());
    ASSERT_EQ(received, text);
    one.IsComplete(sends.back());  // which writes on
  }
  for (const RequestId send : sends) EXPECT_TRUE(one.Wait(send).ok());
}

TEST_F(Pair, NamesAMessageThatDoesNotFit) {
  ASSERT_TRUE(Give(one, 1, 7, std::string(101, 'x')).ok());
  EXPECT_EQ(Take(two, 0, 7), "mismatch: the message of 101 bytes from rank 0 (tag 7) does not fit into 100 bytes");
}

TEST_F(Pair, EndsARequestOnce) {
  ASSERT_TRUE(Give(one, 0, 1, "x").ok());
  char byte = 0;
  const RequestId receive = one.BeginReceive(kHere, 0, 1, &byte, 1);
  EXPECT_TRUE(one.Wait(receive).ok());
  EXPECT_EQ(one.Wait(receive).code(), Code::kInvalidArgument);
  EXPECT_EQ(one.Wait(receive + 1000).code(), Code::kInvalidArgument);
}

TEST_F(Pair, DropsMessagesOfFormerEpochs) {
  ASSERT_TRUE(Give(one, 1, 1, "old").ok());
  const std::string old_and_long(kLong, 'x');
  one.BeginSend(kHere, 1, 1, old_and_long.data(), old_and_long.size());
  board.SetEpoch(board.epoch() + 1, false);
  two.Adopt(2);
  one.Adopt(2);
  ASSERT_TRUE(Give(one, 1, 1, "new").ok());
  EXPECT_EQ(Take(two, kAnySource, kAnyTag), "new");
}

TEST_F(Pair, DropsWhatHadArrivedAndNobodyHadAskedFor) {
  ASSERT_TRUE(Give(one, 1, 1, "old").ok());
  ASSERT_TRUE(Give(one, 1, 2, "asked for").ok());
  EXPECT_EQ(Take(two, 0, 2), "asked for");
  board.SetEpoch(board.epoch() + 1, false);
  two.Adopt(2);
  one.Adopt(2);
  ASSERT_TRUE(Give(one, 1, 1, "new").ok());
  EXPECT_EQ(Take(two, 0, 1), "new");
}

TEST_F(Pair, FailsEveryCallAfterAFailureUntilItAdoptsTheNextEpoch) {
  char byte = 0;
  const RequestId receive = two.BeginReceive(kHere, 0, 1, &byte, 1);
  ASSERT_TRUE(Give(one, 1, 1, "x").ok());
  board.SetEpoch(board.epoch() + 1, false);
  EXPECT_TRUE(two.is_broken());
  EXPECT_TRUE(two.IsComplete(receive));
  EXPECT_EQ(two.Wait(receive).code(), Code::kUnavailable);
  EXPECT_EQ(byte, 0) << "a failed call has written";
  EXPECT_EQ(Give(two, 0, 1, "y").code(), Code::kUnavailable);
  EXPECT_EQ(two.Receive(kHere, 0, 1, &byte, 1).code(), Code::kUnavailable);
  two.Adopt(2);
  // A request of the former epoch is none of this one.
  EXPECT_EQ(two.Wait(receive).code(), Code::kUnavailable);
  EXPECT_TRUE(Give(two, 0, 1, "y").ok());
}

TEST_F(Pair, WakesWhoSleepsWhenThereIsAFailure) {
  std::thread failing([&] {
    while (board.row(1).sleeps.load() == 0) std::this_thread::yield();
    board.SetEpoch(board.epoch() + 1, false);
  });
  char byte = 0;
  EXPECT_EQ(two.Receive(kHere, 0, 1, &byte, 1).code(), Code::kUnavailable);
  failing.join();
}

// A sender that has heard of a failure changes its memory at once, in the middle of the read or not.
TEST_F(Pair, TakesNothingThatMayHaveChangedAfterAFailure) {
  constexpr size_t kBytes = size_t{16} << 20;
  std::string sent(kBytes, '\0');
  std::string received(kBytes, '\0');
  std::mt19937 random(1);
  int failures = 0;
  for (uint32_t epoch = 1; epoch <= 60; ++epoch) {
    one.Adopt(epoch);
    two.Adopt(epoch);
    sent.assign(kBytes, 'a');
    received.assign(kBytes, '\0');
    one.BeginSend(kHere, 1, 0, sent.data(), sent.size());
    std::atomic<bool> watches{false};
    const auto delay = std::chrono::microseconds(random() % 1500);
    std::thread failing([&] {
      watches = true;
      const auto end = std::chrono::steady_clock::now() + delay;
      while (std::chrono::steady_clock::now() < end) {
      }
      board.SetEpoch(board.epoch() + 1, false);
      sent.assign(kBytes, 'b');
    });
    while (!watches) std::this_thread::yield();
    const Status status = two.Receive(kHere, 0, 0, received.data(), received.size());
    if (status.ok()) {
      EXPECT_EQ(received.find('b'), std::string::npos);
    }
    failures += status.ok() ? 0 : 1;
    failing.join();
  }
  EXPECT_GT(failures, 0);
}

TEST_F(Pair, NamesWhoHasLeft) {
  ASSERT_TRUE(Give(one, 1, 1, "last words").ok());
  board.SetPlace(0, {1, Phase::kLeaving});
  EXPECT_EQ(Take(two, 0, 1), "last words");
  EXPECT_EQ(Take(two, 0, 1), "mismatch: rank 0 has called FMI_Finalize, and never sends this message");
  EXPECT_EQ(Take(two, kAnySource, 1), "mismatch: every other rank has called FMI_Finalize, and never sends this message");
}

TEST(Messenger, KnowsWhenAllOfAGroupHaveLeft) {
  Board board = NewBoard(3);
  Messenger two(&board, 1);
  two.Adopt(1);
  board.SetPlace(0, {1, Phase::kLeaving});
  char byte = 0;
  const auto group = std::make_shared<const Group>(Group({1, 0}));
  EXPECT_EQ(two.Wait(two.BeginReceive(kHere, kAnySource, kAnyTag, &byte, 1, group)).message(),
            "every other rank has called FMI_Finalize, and never sends this message");
}

// Of random sizes, from all to all, with any order of receives; each carries its number.
TEST(Messenger, CarriesMessagesOfAllToAll) {
  Board board = NewBoard(4);
  RunRanks(&board, [](Messenger& messenger) {
    constexpr int kRounds = 300;
    std::mt19937 random(messenger.rank());
    std::vector<uint32_t> sent(2 * kLong / sizeof(uint32_t));
    std::iota(sent.begin(), sent.end(), messenger.rank());
    std::vector<RequestId> sends;
    for (int round = 0; round < kRounds; ++round) {
      for (uint32_t to = 0; to < messenger.ranks(); ++to) {
        const size_t bytes = (random() % 4 == 0 ? random() % sent.size() : random() % 100) * sizeof(uint32_t);
        sends.push_back(messenger.BeginSend(kHere, to, round % 3, sent.data(), bytes));
      }
      std::vector<uint32_t> received(sent.size());
      for (uint32_t i = 0; i < messenger.ranks(); ++i) {
        Received found;
        ASSERT_TRUE(messenger.Receive(kHere, kAnySource, round % 3, received.data(), received.size() * 4, &found).ok());
        for (size_t k = 0; k < found.bytes / 4; ++k) ASSERT_EQ(received[k], static_cast<uint32_t>(found.source) + k);
      }
    }
    for (const RequestId send : sends) ASSERT_TRUE(messenger.Wait(send).ok());
  });
}

}  // namespace
}  // namespace kedge::fmi
