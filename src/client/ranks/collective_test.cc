// What ranks tell each other, one rank's error, and a bootstrap that fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "client/ranks/collective.h"
#include "client/testing/ranks.h"

namespace kedge::client {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::OnRanks;

TEST(Collective, TextsOfAnyLengthComeToAllInRankOrder) {
  OnRanks(3, [&](Collective ranks) {
    const std::vector<std::string> texts = {"", std::string("\0x", 2), std::string(70'000, 'z')};
    EXPECT_EQ(ranks.AllGather(texts[ranks.rank()]).value(), texts);
    EXPECT_EQ(ranks.AllGather("").value(), std::vector<std::string>(3));
    EXPECT_EQ(ranks.BroadcastFromFirst(texts[2 - ranks.rank()]).value(), texts[2]);
    EXPECT_EQ(ranks.BroadcastFromFirst(ranks.rank() == 0 ? "" : "mine").value(), "");
    EXPECT_EQ(ranks.BroadcastFromFirst(Collective::Words{ranks.rank(), 7, 8}).value(), (Collective::Words{0, 7, 8}));
    return true;
  });
}

TEST(Collective, AllHearTheMostTellingErrorOfTheLowestRank) {
  const Status io(Code::kIo, "disk"), corrupt(Code::kCorrupt, "bits"), argument(Code::kInvalidArgument, "slip"),
      mismatch(Code::kMismatch, "other"), agreed_before(Code::kIo, "rank 2: disk");
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
      {{agreed_before, agreed_before, agreed_before}, Code::kIo, "rank 2: disk"},
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
  }
  EXPECT_EQ(alone.calls + other.calls, 0);
  EXPECT_EQ(alone.released, 1);
  EXPECT_EQ(other.released, 1);
}

}  // namespace
}  // namespace kedge::client
