// An object on a slow node is read to its end, however long that takes: over many leases, and behind others.
#include "agent/remote_object.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

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
                   answer(Encode(LeaseReply{{{0, *memory}}}));
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
  RemoteObject object_{PeerLink(nodes_[0], kJob), "n1", ReadRequest{}, 10s};
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

}  // namespace
}  // namespace kedge
