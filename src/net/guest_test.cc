// Guests: who proves the secret is let in, with the address that the proof covers; nobody else is, and one goes with its session.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>

#include "net/testing/nodes.h"

namespace kedge::net {
namespace {

using namespace std::chrono_literals;
using testing::Ask;
using testing::Bytes;
using testing::Eventually;
using testing::Fetch;
using testing::kJob;
using testing::MakeMembership;
using testing::OpenNetwork;
using testing::TestOptions;

class GuestTest : public ::testing::Test {
 protected:
  void SetUp() override {
    host_ = OpenNetwork(TestOptions("tcp"));
    ServeEcho(host_.get());
    Membership membership = MakeMembership("host", {}, secret_);
    membership.guests_max = 2;
    membership.guest_left = [this](const Peer& peer) {
      EXPECT_EQ(peer.job, kJob);
      ++left_;
    };
    ASSERT_TRUE(host_->Join(std::move(membership)).ok());
  }

  static void ServeEcho(Network* network) {
    network->Serve(1, [](const Peer& peer, ByteSpan body, const Answer& answer) {
      Buffer reply(body.begin(), body.end());
      const ByteSpan name = AsBytes(peer.node);
      reply.insert(reply.end(), name.begin(), name.end());
      answer(std::move(reply));
    });
  }

  std::unique_ptr<Network> Guest(const std::string& name, const Secret& secret, bool says_where = true) {
    NetworkOptions options = TestOptions("tcp");
    options.connect_timeout = 2s;
    auto network = OpenNetwork(std::move(options));
    ServeEcho(network.get());
    Membership membership = MakeMembership(name, {{"host", host_->address()}}, secret);
    membership.is_guest = says_where;
    EXPECT_TRUE(network->Join(std::move(membership)).ok());
    return network;
  }

  const Peer kHost{kJob, "host"};
  const Secret secret_ = Secret::Generate();
  std::atomic<int> left_{0};
  std::unique_ptr<Network> host_;
};

TEST_F(GuestTest, IsServedCalledAndReadFromUntilItLeaves) {
  auto guest = Guest("g1", secret_);
  const auto reply = Ask(guest.get(), kHost, 1, Bytes("hello "));
  ASSERT_TRUE(reply.ok()) << reply.status().ToString();
  EXPECT_EQ(*reply, Bytes("hello g1"));

  const auto back = Ask(host_.get(), {kJob, "g1"}, 1, Bytes("and "));
  ASSERT_TRUE(back.ok()) << back.status().ToString();
  EXPECT_EQ(*back, Bytes("and host"));

  const Buffer memory = Bytes("in the guest's memory");
  std::vector<std::byte> leased(memory.begin(), memory.end());
  const auto lease = guest->Lease(kJob, leased, 20s, [] {});
  ASSERT_TRUE(lease.ok()) << lease.status().ToString();
  const auto read = Fetch(host_.get(), {kJob, "g1"}, *lease, 0, leased.size());
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(std::memcmp(read->bytes().data(), leased.data(), leased.size()), 0);

  EXPECT_EQ(left_, 0);
  ASSERT_EQ(host_->Peers().size(), 1u);
  guest.reset();
  EXPECT_TRUE(Eventually([this] { return left_ == 1 && host_->Peers().empty(); }));
  EXPECT_EQ(Ask(host_.get(), {kJob, "g1"}, 1, Bytes("gone")).status().code(), Code::kNotFound);
}

TEST_F(GuestTest, TheyAreBoundedAndOneThatLeavesMakesRoom) {
  auto first = Guest("g1", secret_);
  auto second = Guest("g2", secret_);
  ASSERT_TRUE(Ask(first.get(), kHost, 1, Bytes("a")).ok());
  ASSERT_TRUE(Ask(second.get(), kHost, 1, Bytes("b")).ok());
  auto third = Guest("g3", secret_);
  EXPECT_EQ(Ask(third.get(), kHost, 1, Bytes("c")).status().code(), Code::kTimeout);
  EXPECT_EQ(host_->Peers().size(), 2u);
  first.reset();
  ASSERT_TRUE(Eventually([this] { return host_->Peers().size() == 1; }));
  EXPECT_TRUE(Ask(third.get(), kHost, 1, Bytes("c")).ok());
  EXPECT_TRUE(Ask(second.get(), kHost, 1, Bytes("b")).ok());
}

TEST_F(GuestTest, WithAnotherSecretNobodyIsLetIn) {
  auto stranger = Guest("g1", Secret::Generate());
  EXPECT_EQ(Ask(stranger.get(), kHost, 1, Bytes("a")).status().code(), Code::kTimeout);
  EXPECT_TRUE(host_->Peers().empty());
  EXPECT_GE(host_->Counters().handshakes_refused, 1u);
  EXPECT_EQ(left_, 0);
}

TEST_F(GuestTest, WhoDoesNotSayWhereItIsIsNoGuest) {
  auto silent = Guest("g1", secret_, false);
  EXPECT_EQ(Ask(silent.get(), kHost, 1, Bytes("a")).status().code(), Code::kTimeout);
  EXPECT_TRUE(host_->Peers().empty());
}

TEST_F(GuestTest, WhereNoGuestsAreWantedNoneIsLetIn) {
  Membership membership = MakeMembership("host", {}, secret_);
  ASSERT_TRUE(host_->Join(std::move(membership)).ok());
  auto guest = Guest("g1", secret_);
  EXPECT_EQ(Ask(guest.get(), kHost, 1, Bytes("a")).status().code(), Code::kTimeout);
  EXPECT_TRUE(host_->Peers().empty());
}

}  // namespace
}  // namespace kedge::net
