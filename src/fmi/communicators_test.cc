#include "fmi/communicators.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "fmi/testing/rank_threads.h"
#include "fmi/testing/seed.h"

namespace kedge::fmi {
namespace {

using testing::NewBoard;
using testing::RunRanks;

struct Rank {
  Messenger& messenger;
  Communicators communicators;
  int number;

  FMI_Comm Make(FMI_Comm parent, Making making) {
    FMI_Comm made = FMI_COMM_NULL;
    const Status status = communicators.Make(communicators.Find(parent), std::move(making), &made);
    EXPECT_TRUE(status.ok()) << status.message();
    return made;
  }
  FMI_Comm Split(FMI_Comm parent, int colour, int key) { return Make(parent, {Making::Call::kSplit, {colour, key}, {}, {}}); }
  FMI_Comm Dup(FMI_Comm parent) {
    const Communicator& of = *communicators.Find(parent);
    return Make(parent, {Making::Call::kDup, {0, static_cast<int>(of.channel.rank())}, *of.group, of.grid});
  }
  const Communicator& operator[](FMI_Comm comm) { return *communicators.Find(comm); }
};

void OnRanks(uint32_t ranks, const std::function<void(Rank& rank)>& body) {
  Board board = NewBoard(ranks);
  RunRanks(&board, [&](Messenger& messenger) {
    Rank rank{messenger, Communicators(&messenger), static_cast<int>(messenger.rank())};
    body(rank);
  });
}

int Sum(const Communicator& in, int value) {
  Collectives collectives = in.collectives;
  EXPECT_TRUE(collectives.Allreduce(&value, 1, sizeof value, CombineOf(FMI_INT, FMI_SUM)).ok());
  return value;
}

TEST(Communicators, SplitTheirParent) {
  OnRanks(5, [](Rank& rank) {
    // Odd ones, backwards; even ones; without rank 4.
    const FMI_Comm made = rank.Split(FMI_COMM_WORLD, rank.number == 4 ? Wish::kNowhere : rank.number % 2, -rank.number);
    if (rank.number == 4) {
      EXPECT_EQ(made, FMI_COMM_NULL);
      return;
    }
    const bool is_odd = rank.number % 2 == 1;
    EXPECT_EQ(*rank[made].group, is_odd ? Group({3, 1}) : Group({2, 0}));
    EXPECT_EQ(rank[made].channel.rank(), rank.number < 2 ? 1u : 0u);
    EXPECT_EQ(Sum(rank[made], rank.number), is_odd ? 4 : 2);
  });
}

TEST(Communicators, KeepTheirMessagesApart) {
  OnRanks(2, [](Rank& rank) {
    const FMI_Comm one = rank.Dup(FMI_COMM_WORLD), other = rank.Split(FMI_COMM_WORLD, 0, -rank.number);
    const uint32_t peer = static_cast<uint32_t>(1 - rank.number);
    for (const FMI_Comm comm : {FMI_Comm{FMI_COMM_WORLD}, one, other}) {
      const CommunicatorChannel& channel = rank[comm].channel;
      // In the third one ranks have each other's numbers.
      const uint32_t to = comm == other ? 1 - peer : peer;
      ASSERT_TRUE(channel.Wait(channel.BeginSend(to, 7, &comm, sizeof comm)).ok());
    }
    for (const FMI_Comm comm : {other, FMI_Comm{FMI_COMM_WORLD}, one}) {
      const CommunicatorChannel& channel = rank[comm].channel;
      FMI_Comm got = FMI_COMM_NULL;
      Received received;
      ASSERT_TRUE(channel.Wait(channel.BeginReceive(kAnySource, kAnyTag, &got, sizeof got), &received).ok());
      EXPECT_EQ(got, comm);
      EXPECT_EQ(received.source, comm == other ? rank.number : static_cast<int>(peer));
    }
  });
}

// A receive that was begun is called by the numbers of its communicator, also when that is gone.
TEST(Communicators, EndWhatWasBegunAfterTheyWereFreed) {
  OnRanks(3, [](Rank& rank) {
    const FMI_Comm made = rank.Split(FMI_COMM_WORLD, 0, -rank.number);
    if (rank.number == 0) {
      int got[2] = {};
      Received received[2];
      RequestId requests[2];
      for (int i = 0; i < 2; ++i)
        requests[i] = rank[made].channel.BeginReceive(i == 0 ? kAnySource : 0, 3 + i, &got[i], sizeof(int));
      rank.communicators.Free(made);
      EXPECT_EQ(rank.communicators.Find(made), nullptr);
      ASSERT_TRUE(rank.communicators.world().collectives.Barrier().ok());
      for (int i = 0; i < 2; ++i) ASSERT_TRUE(rank.messenger.Wait(requests[i], &received[i]).ok());
      EXPECT_EQ(got[0], 1);
      EXPECT_EQ(received[0].source, 1);
      EXPECT_EQ(got[1], 2);
      EXPECT_EQ(received[1].source, 0);
    } else {
      ASSERT_TRUE(rank.communicators.world().collectives.Barrier().ok());
      const CommunicatorChannel& channel = rank[made].channel;
      ASSERT_TRUE(channel.Wait(channel.BeginSend(2, 2 + rank.number, &rank.number, sizeof(int))).ok());
    }
  });
}

TEST(Communicators, TellRanksThatMakeDifferentOnes) {
  OnRanks(2, [](Rank& rank) {
    Communicator* world = &rank.communicators.world();
    FMI_Comm made = FMI_COMM_NULL;
    Making making{Making::Call::kSplit, {0, 0}, {}, {}};
    if (rank.number == 1) making.call = Making::Call::kDup;
    Status status = rank.communicators.Make(world, making, &made);
    EXPECT_EQ(status.message(), "ranks do not make the same call: rank 0 is in FMI_Comm_split, and rank 1 in FMI_Comm_dup");
    making = {Making::Call::kCreate, {0, rank.number}, rank.number == 0 ? Group({0, 1}) : Group({1, 0}), {}};
    status = rank.communicators.Make(world, making, &made);
    EXPECT_EQ(status.ok(), rank.number == 0);
    EXPECT_EQ(status.message(), rank.number == 0 ? "" : "the ranks of the group give different groups");
    making = {Making::Call::kCartCreate, {0, rank.number}, Group({0, 1}), Grid{{1 + rank.number, 2 - rank.number}, {0, 0}}};
    status = rank.communicators.Make(world, making, &made);
    EXPECT_EQ(status.message(), "rank 0 and rank 1 give different grids");
  });
}

// Whatever is made of whatever: two communicators of a rank never have the same id, all members of one have the same, and the
// ranks of one add up to what they should.
TEST(Communicators, HaveIdsOfTheirOwn) {
  const uint32_t seed = testing::Seed();
  SCOPED_TRACE(seed);
  OnRanks(6, [seed](Rank& rank) {
    std::mt19937 random(seed);  // the same one for all
    std::vector<FMI_Comm> handles = {FMI_COMM_WORLD};
    std::set<uint32_t> ids;
    for (int round = 0; round < 60; ++round) {
      // Ranks that are not in it make nothing.
      const FMI_Comm parent = handles[random() % handles.size()];
      const uint32_t colours = 1 + random() % 3, shift = random() % 6;
      if (parent == FMI_COMM_NULL) {
        handles.push_back(FMI_COMM_NULL);
        continue;
      }
      const uint32_t own = (static_cast<uint32_t>(rank.number) + shift) % 6;
      const int colour = own == 5 ? Wish::kNowhere : static_cast<int>(own % colours);
      const FMI_Comm made = rank.Split(parent, colour, static_cast<int>(own));
      handles.push_back(made);
      if (made == FMI_COMM_NULL) continue;
      EXPECT_TRUE(ids.insert(rank[made].id).second);
      int sum = 0;
      for (const uint32_t member : rank[made].group->ranks()) sum += static_cast<int>(member);
      EXPECT_EQ(Sum(rank[made], rank.number), sum);
      EXPECT_EQ(Sum(rank[made], static_cast<int>(rank[made].id)), static_cast<int>(rank[made].id * rank[made].group->size()));
    }
  });
}

Buffer EncodedOf(const Communicators& communicators) {
  Buffer encoded;
  Encoder encoder(encoded);
  communicators.Encode(&encoder);
  encoder.Finish();
  return encoded;
}

TEST(Communicators, ComeBackAsTheyWereAndNoOthers) {
  OnRanks(4, [](Rank& rank) {
    const FMI_Comm halves = rank.Split(FMI_COMM_WORLD, rank.number / 2, -rank.number);
    const FMI_Comm grid =
        rank.Make(FMI_COMM_WORLD, {Making::Call::kCartCreate, {0, rank.number}, Group::OfAll(4), Grid{{2, 2}, {0, 1}}});
    const uint32_t id = rank[halves].id;
    const Buffer encoded = EncodedOf(rank.communicators);
    rank.communicators.Free(halves);
    const FMI_Comm later = rank.Dup(grid);
    const uint32_t later_id = rank[later].id;

    Decoder decoder(encoded);
    ASSERT_TRUE(rank.communicators.Decode(&decoder).ok());
    EXPECT_EQ(rank[halves].id, id);
    EXPECT_EQ(*rank[halves].group, rank.number < 2 ? Group({1, 0}) : Group({3, 2}));
    EXPECT_EQ(rank[grid].grid, (Grid{{2, 2}, {0, 1}}));
    EXPECT_EQ(rank.communicators.Find(later), nullptr);
    EXPECT_TRUE(rank.communicators.WasTaken(later));
    EXPECT_EQ(Sum(rank[halves], rank.number), rank.number < 2 ? 1 : 5);
    // What is made again is another one, by handle and by id.
    const FMI_Comm again = rank.Dup(grid);
    EXPECT_GT(again, later);
    EXPECT_GT(rank[again].id, later_id);

    // One that begins anew has the same; and what it makes with the others is the same.
    Rank successor{rank.messenger, Communicators(&rank.messenger), rank.number};
    Decoder once_more(encoded);
    ASSERT_TRUE(successor.communicators.Decode(&once_more).ok());
    EXPECT_EQ(*successor[halves].group, *rank[halves].group);
    EXPECT_EQ(successor.Dup(grid), later);
  });
}

TEST(Communicators, AreNotReadFromWhatIsBroken) {
  Board board = NewBoard(2);
  Messenger messenger(&board, 0);
  messenger.Adopt(1);
  Communicators communicators(&messenger);
  const auto decode = [&](const std::function<void(Encoder&)>& write) {
    Buffer encoded;
    Encoder encoder(encoded);
    encoder.Varint(10);  // ids
    encoder.Varint(5);   // handles
    encoder.Varint(1);
    write(encoder);
    encoder.Finish();
    Decoder decoder(encoded);
    return communicators.Decode(&decoder);
  };
  const auto communicator = [](uint64_t handle, uint64_t id, std::vector<uint64_t> ranks) {
    return [=](Encoder& encoder) {
      encoder.Varint(handle);
      encoder.Varint(id);
      encoder.Varint(ranks.size());
      for (const uint64_t rank : ranks) encoder.Varint(rank);
      encoder.U8(0);
    };
  };
  EXPECT_TRUE(decode(communicator(1, 2, {1, 0})).ok());
  EXPECT_FALSE(decode(communicator(0, 2, {1, 0})).ok()) << "FMI_COMM_WORLD";
  EXPECT_FALSE(decode(communicator(5, 2, {1, 0})).ok()) << "a handle that was never given";
  EXPECT_FALSE(decode(communicator(1, 1, {1, 0})).ok()) << "Kedge's id";
  EXPECT_FALSE(decode(communicator(1, 10, {1, 0})).ok()) << "an id that was never given";
  EXPECT_FALSE(decode(communicator(1, 2, {1})).ok()) << "of others";
  EXPECT_FALSE(decode(communicator(1, 2, {0, 2})).ok()) << "a rank that there is not";
  EXPECT_FALSE(decode(communicator(1, 2, {0, 0})).ok()) << "a rank twice";
  EXPECT_FALSE(decode([](Encoder&) {}).ok()) << "cut short";
}

// As in a rank that was started again, before its first FMI_Loop.
TEST(Communicators, AreKnownAsFarAsCanBeWhileThereIsAFailure) {
  Board board = NewBoard(3);
  Messenger messenger(&board, 1);  // has adopted nothing
  Communicators communicators(&messenger);
  Communicator* world = &communicators.world();
  FMI_Comm made = FMI_COMM_NULL;
  EXPECT_EQ(communicators.Make(world, {Making::Call::kDup, {0, 1}, Group::OfAll(3), {}}, &made).code(), Code::kUnavailable);
  EXPECT_EQ(made, 1);
  EXPECT_EQ(communicators.Find(made)->channel.rank(), 1u);
  EXPECT_EQ(communicators.Make(world, {Making::Call::kSplit, {0, 1}, {}, {}}, &made).code(), Code::kUnavailable);
  EXPECT_EQ(made, 2);
  EXPECT_EQ(communicators.Find(made), nullptr);
  EXPECT_TRUE(communicators.WasTaken(made));
  EXPECT_EQ(communicators.Make(world, {Making::Call::kSplit, {Wish::kNowhere, 1}, {}, {}}, &made).code(), Code::kUnavailable);
  EXPECT_EQ(made, FMI_COMM_NULL);
  // A call takes its number, whatever comes of it.
  EXPECT_EQ(communicators.TakeHandle(), 4);
}

}  // namespace
}  // namespace kedge::fmi
