#include "fmi/connection.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "os/events/poll_set.h"

namespace kedge::fmi {
namespace {

class TwoSides : public ::testing::Test {
 protected:
  // `theirs`: the secret of who connects.
  void Connect(const net::Secret& ours, const net::Secret& theirs, Speakers speakers) {
    auto listener = os::TcpListener::Listen(os::kLoopback);
    ASSERT_TRUE(listener.ok());
    auto socket = os::TcpSocket::Connect({os::kLoopback, listener->port()});
    ASSERT_TRUE(socket.ok());
    for (;;) {
      auto accepted = listener->Accept();
      ASSERT_TRUE(accepted.ok());
      if (!*accepted) continue;
      one.emplace_back(std::move(*socket), theirs, speakers);
      two.emplace_back(std::move(**accepted), ours, 2);
      return;
    }
  }
  // Until both are open, or one has an error.
  Status Prove() {
    while (!one[0].is_open() || !two[0].is_open()) {
      KEDGE_RETURN_IF_ERROR(one[0].Advance());
      KEDGE_RETURN_IF_ERROR(two[0].Advance());
      if (two[0].waits_to_be_let_in()) KEDGE_RETURN_IF_ERROR(two[0].LetIn());
    }
    return Status::Ok();
  }

  const net::Secret secret = net::Secret::Generate();
  std::vector<Connection> one;  // has connected
  std::vector<Connection> two;
};

TEST_F(TwoSides, ProveTheSecretAndKnowWhoSpeaks) {
  Connect(secret, secret, {7, 1, 2});
  ASSERT_TRUE(Prove().ok());
  EXPECT_EQ(two[0].speakers().epoch, 7U);
  EXPECT_EQ(two[0].speakers().from, 1U);
}

TEST_F(TwoSides, LetNobodyInWhoDoesNotKnowTheSecret) {
  Connect(secret, net::Secret::Generate(), {7, 1, 2});
  EXPECT_EQ(Prove().code(), Code::kPermission);
  EXPECT_FALSE(two[0].is_open());
}

TEST_F(TwoSides, AreNotTakenForOthers) {
  Connect(secret, secret, {7, 1, 3});
  EXPECT_EQ(Prove().code(), Code::kPermission);
}

TEST_F(TwoSides, CarryMoreThanTheSystemTakesAtOnceFromWhereItLies) {
  Connect(secret, secret, {7, 1, 2});
  ASSERT_TRUE(Prove().ok());
  std::vector<std::byte> sent(size_t{16} << 20);
  for (size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<std::byte>(i * 7 % 251);
  bool is_sent = false;
  ASSERT_TRUE(one[0].Send("head", 4, sent.data(), sent.size(), &is_sent).ok());
  EXPECT_FALSE(is_sent);
  EXPECT_TRUE(one[0].has_unsent());
  std::vector<std::byte> received(sent.size());
  const std::byte* head = nullptr;
  while (head == nullptr) {
    ASSERT_TRUE(one[0].Flush().ok());
    auto peeked = two[0].Peek(4);
    ASSERT_TRUE(peeked.ok());
    head = *peeked;
  }
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(head), 4), "head");
  two[0].Skip(4);
  for (size_t done = 0; done < received.size();) {
    ASSERT_TRUE(one[0].Flush().ok());
    const auto got = two[0].Read(received.data() + done, received.size() - done);
    ASSERT_TRUE(got.ok());
    done += *got;
  }
  EXPECT_TRUE(is_sent);
  EXPECT_EQ(received, sent);
}

TEST_F(TwoSides, SeeThatTheOtherIsGone) {
  Connect(secret, secret, {7, 1, 2});
  ASSERT_TRUE(Prove().ok());
  two.clear();
  os::PollSet polled;
  polled.Add(one[0].descriptor());
  polled.Wait(std::chrono::seconds(10));
  EXPECT_EQ(one[0].Peek(1).status().code(), Code::kUnavailable);
}

}  // namespace
}  // namespace kedge::fmi
