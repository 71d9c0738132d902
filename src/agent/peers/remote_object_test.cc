// An object on a slow node is read to its end, however long that takes: over many leases, and behind others.
#include "agent/peers/remote_object.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "agent/peers/sealed_reads.h"
#include "agent/tables/workers.h"
#include "base/random.h"
#include "net/testing/nodes.h"

namespace kedge {
namespace {

using namespace std::chrono_literals;
using net::testing::kJob;

constexpr uint64_t kObjectBlockBytes = 64 << 10;
constexpr uint64_t kObjectBlocks = 12;

// n1 has an object and leases it for a second at a time; n0 reads.
class RemoteObjectTest : public ::testing::Test {
 protected:
  RemoteObjectTest() {
    Random(3).Fill(bytes_.data(), bytes_.size());
    net::Network* owner = nodes_[1];
    owner->Serve(static_cast<uint16_t>(PeerKind::kLease),
                 [this, owner](const net::Peer& peer, ByteSpan, const net::Answer& answer) {
                   ++leases_;
                   const auto memory = owner->Lease(peer.job, bytes_, 1s, [] {});
                   if (!memory.ok()) return answer(memory.status());
                   answer(Encode(LeaseReply{{{0, *memory}}, false}));
                 });
    owner->Serve(static_cast<uint16_t>(PeerKind::kRead), [this](const net::Peer&, ByteSpan body, const net::Answer& answer) {
      ++asked_;
      const auto request = DecodeReadRequest(body);
      if (!request.ok()) return answer(request.status());
      answer(Buffer(bytes_.begin() + static_cast<ptrdiff_t>(request->offset),
                    bytes_.begin() + static_cast<ptrdiff_t>(request->offset + request->bytes)));
    });
  }
  bool IsRight(uint64_t offset, const Result<ArrivedBytes>& read) const {
    return read.ok() && std::equal(read->bytes().begin(), read->bytes().end(), bytes_.begin() + static_cast<ptrdiff_t>(offset));
  }

  std::vector<std::byte> bytes_ = std::vector<std::byte>(kObjectBlocks * kObjectBlockBytes);
  std::atomic<int> leases_{0};
  std::atomic<int> asked_{0};
  net::testing::Nodes nodes_{2, net::testing::TestOptions("tcp")};
  RemoteObject object_{PeerLink(nodes_[0], kJob, false), "n1", ReadRequest{}, 10s};
};

TEST_F(RemoteObjectTest, IsLeasedAnewBeforeALeaseEnds) {
  for (uint64_t block = 0; block < kObjectBlocks; ++block) {
    const auto read = object_.Read(block * kObjectBlockBytes, kObjectBlockBytes);
    ASSERT_TRUE(IsRight(block * kObjectBlockBytes, read)) << block << ": " << read.status().ToString();
    std::this_thread::sleep_for(250ms);
  }
  EXPECT_GE(leases_, 3);
  EXPECT_EQ(asked_, 0) << "none was sent as a message";
  EXPECT_EQ(nodes_[0]->Peers()[0].sessions, 1u) << "no read went out that the owner would refuse";
}

// It went unread for longer than its lease.
TEST_F(RemoteObjectTest, IsLeasedAnewAfterALeaseHasEnded) {
  ASSERT_TRUE(IsRight(0, object_.Read(0, kObjectBlockBytes)));
  std::this_thread::sleep_for(1500ms);
  const auto read = object_.Read(kObjectBlockBytes, kObjectBlockBytes);
  EXPECT_TRUE(IsRight(kObjectBlockBytes, read)) << read.status().ToString();
  EXPECT_EQ(leases_, 2);
  EXPECT_EQ(asked_, 0);
}

ReadRequest AnyImage() {
  ReadRequest request;
  request.generation.job = "heat";
  request.generation.name = "state";
  request.generation.attempt = request.generation.take = 1;
  return request;
}

// n1 gives nothing away but sealed, as an agent does; its handlers run on a thread of their own.
class SealedObjectTest : public ::testing::Test {
 protected:
  SealedObjectTest() {
    Random(3).Fill(bytes_.data(), bytes_.size());
    net::NetworkOptions options = net::testing::TestOptions("tcp");
    reader_ = net::testing::OpenNetwork(options);
    options.executor = [this](std::function<void()> work) { loop_.Submit(std::move(work)); };
    owner_ = net::testing::OpenNetwork(options);
    const std::vector<net::Member> members = {{"n0", reader_->address()}, {"n1", owner_->address()}};
    const net::Secret secret = net::Secret::Generate();
    EXPECT_TRUE(reader_->Join(net::testing::MakeMembership("n0", members, secret)).ok());
    EXPECT_TRUE(owner_->Join(net::testing::MakeMembership("n1", members, secret)).ok());
    sealed_ = std::make_shared<SealedReads>(owner_.get(), &workers_, options.executor);
    owner_->Serve(static_cast<uint16_t>(PeerKind::kReadSealed),
                  [this](const net::Peer& peer, ByteSpan body, const net::Answer& answer) {
                    const auto request = DecodeReadRequest(body);
                    if (!request.ok()) return answer(request.status());
                    const auto from = bytes_.begin() + static_cast<ptrdiff_t>(request->offset);
                    const auto read = [from, bytes = request->bytes](std::byte* out) {
                      std::copy_n(from, bytes, out);
                      return Status::Ok();
                    };
                    sealed_->Ask(peer, request->bytes, read, answer);
                  });
    owner_->Serve(static_cast<uint16_t>(PeerKind::kLease), [](const net::Peer&, ByteSpan, const net::Answer& answer) {
      answer(Encode(LeaseReply{{}, true}));
    });
  }
  ~SealedObjectTest() override {
    owner_->Close();
    EXPECT_TRUE(workers_.WaitIdle(20s));
    EXPECT_TRUE(loop_.WaitIdle(20s));
  }
  ByteSpan Block(uint64_t block) const { return ByteSpan(bytes_).subspan(block * kObjectBlockBytes, kObjectBlockBytes); }
  void ExpectAllIsRead(bool reader_seals) {
    RemoteObject object(PeerLink(reader_.get(), kJob, reader_seals), "n1", AnyImage(), 10s);
    for (uint64_t block = 0; block < kObjectBlocks; ++block) object.Expect(block * kObjectBlockBytes, kObjectBlockBytes);
    for (uint64_t block = 0; block < kObjectBlocks; ++block) {
      const auto read = object.Read(block * kObjectBlockBytes, kObjectBlockBytes);
      ASSERT_TRUE(read.ok()) << block << ": " << read.status().ToString();
      EXPECT_TRUE(std::ranges::equal(read->bytes(), Block(block))) << block;
    }
  }
  // Asks for block 0, and does not read it.
  Result<SealedReply> AskOnly(Duration timeout = net::testing::kPatience) {
    ReadRequest request = AnyImage();
    request.bytes = kObjectBlockBytes;
    const auto answer =
        net::testing::Ask(reader_.get(), {kJob, "n1"}, static_cast<uint16_t>(PeerKind::kReadSealed), Encode(request), timeout);
    return answer.ok() ? DecodeSealedReply(*answer) : Result<SealedReply>(answer.status());
  }

  std::vector<std::byte> bytes_ = std::vector<std::byte>(kObjectBlocks * kObjectBlockBytes);
  Workers workers_{2};
  Workers loop_{1};
  std::unique_ptr<net::Network> reader_;
  std::unique_ptr<net::Network> owner_;
  std::shared_ptr<SealedReads> sealed_;
};

TEST_F(SealedObjectTest, IsReadWhicheverSideWantsItSealed) {
  ExpectAllIsRead(true);
  ExpectAllIsRead(false);
  EXPECT_EQ(reader_->Counters().bytes_read, 2 * bytes_.size()) << "none was sent as a message";
}

// What a remote read carries over the wire is not the block, nor is it the same twice; with the message's key it is.
TEST_F(SealedObjectTest, WhatIsReadIsNotInTheClear) {
  std::vector<Buffer> read;
  for (int i = 0; i < 2; ++i) {
    const auto reply = AskOnly();
    ASSERT_TRUE(reply.ok()) << reply.status().ToString();
    const auto arrived = net::testing::Fetch(reader_.get(), {kJob, "n1"}, reply->memory, 0, kObjectBlockBytes);
    ASSERT_TRUE(arrived.ok()) << arrived.status().ToString();
    read.emplace_back(arrived->bytes().begin(), arrived->bytes().end());
    EXPECT_FALSE(std::ranges::equal(read.back(), Block(0)));
    Buffer opened = read.back();
    ASSERT_TRUE(net::OpenBlock(reply->seal, opened));
    EXPECT_TRUE(std::ranges::equal(opened, Block(0)));
    opened = read.back();
    opened[17] ^= std::byte{1};
    EXPECT_FALSE(net::OpenBlock(reply->seal, opened));
  }
  EXPECT_NE(read[0], read[1]);
}

// One that asks and never reads gets so many blocks, and the owner holds no more for it.
TEST_F(SealedObjectTest, BlocksThatNobodyReadsAreBounded) {
  for (size_t block = 0; block < SealedReads::kBlocksPerReaderMax; ++block) ASSERT_TRUE(AskOnly().ok()) << block;
  EXPECT_EQ(AskOnly(500ms).status().code(), Code::kTimeout);
}

}  // namespace
}  // namespace kedge
