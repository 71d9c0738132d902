#include "fmi/process_connection.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "os/events/poll_set.h"

namespace kedge::fmi {
namespace {

class TwoSides : public ::testing::TestWithParam<Secrecy> {
 protected:
  // `theirs`: what who connects takes for the secret, and for the secrecy of the connection.
  void Connect(const net::Secret& theirs, Secrecy their_secrecy, Speakers speakers) {
    auto listener = os::TcpListener::Listen(os::kLoopback);
    ASSERT_TRUE(listener.ok());
    auto socket = os::TcpSocket::Connect({os::kLoopback, listener->port()});
    ASSERT_TRUE(socket.ok());
    for (;;) {
      auto accepted = listener->Accept();
      ASSERT_TRUE(accepted.ok());
      if (!*accepted) continue;
      one.emplace_back(std::move(*socket), theirs, their_secrecy, speakers);
      two.emplace_back(std::move(**accepted), secret, GetParam(), 2);
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
  std::vector<ProcessConnection> one;  // has connected
  std::vector<ProcessConnection> two;
};

TEST_P(TwoSides, ProveTheSecretAndKnowWhoSpeaks) {
  Connect(secret, GetParam(), {7, 1, 2});
  ASSERT_TRUE(Prove().ok());
  EXPECT_EQ(two[0].speakers().epoch, 7U);
  EXPECT_EQ(two[0].speakers().from, 1U);
}

TEST_P(TwoSides, LetNobodyInWhoDoesNotKnowTheSecret) {
  Connect(net::Secret::Generate(), GetParam(), {7, 1, 2});
  EXPECT_EQ(Prove().code(), Code::kPermission);
  EXPECT_FALSE(two[0].is_open());
}

TEST_P(TwoSides, AreNotTakenForOthers) {
  Connect(secret, GetParam(), {7, 1, 3});
  EXPECT_EQ(Prove().code(), Code::kPermission);
}

TEST_P(TwoSides, DoNotTakeASealedConnectionForAnother) {
  Connect(secret, GetParam() == Secrecy::kClear ? Secrecy::kSealed : Secrecy::kClear, {7, 1, 2});
  EXPECT_EQ(Prove().code(), Code::kPermission);
}

// A message may come with the end of the proof, and no more ever after.
TEST_P(TwoSides, HearWhatIsSaidAtOnce) {
  Connect(secret, GetParam(), {7, 1, 2});
  while (!one[0].is_open()) {
    ASSERT_TRUE(one[0].Advance().ok());
    ASSERT_TRUE(two[0].Advance().ok());
    if (two[0].waits_to_be_let_in()) {
      ASSERT_TRUE(two[0].LetIn().ok());
    }
  }
  for (const char* word : {"here", "I am"}) ASSERT_TRUE(one[0].Send(word, 4).ok());
  ASSERT_FALSE(one[0].has_unsent());
  while (!two[0].is_open()) ASSERT_TRUE(two[0].Advance().ok());
  for (const std::string word : {"here", "I am"}) {
    const auto heard = two[0].Peek(4);
    ASSERT_TRUE(heard.ok());
    ASSERT_NE(*heard, nullptr);
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(*heard), 4), word);
    two[0].Skip(4);
  }
}

// Of one message's records the kernel may hold many: who has been woken once takes them all.
TEST_P(TwoSides, GiveAllThatIsThere) {
  Connect(secret, GetParam(), {7, 1, 2});
  ASSERT_TRUE(Prove().ok());
  const std::vector<std::byte> data(size_t{100} << 10, std::byte{5});
  bool is_sent = false;
  ASSERT_TRUE(one[0].Send("head", 4, data.data(), data.size(), &is_sent).ok());
  const std::byte* bytes = nullptr;
  while (bytes == nullptr) {
    ASSERT_TRUE(one[0].Flush().ok());
    os::PollSet polled;
    polled.Add(two[0].descriptor());
    polled.Wait(std::chrono::milliseconds(100));
    const auto peeked = two[0].Peek(4 + data.size());
    ASSERT_TRUE(peeked.ok());
    bytes = *peeked;
  }
  EXPECT_TRUE(std::equal(data.begin(), data.end(), bytes + 4));
}

TEST_P(TwoSides, CarryMoreThanTheSystemTakesAtOnceFromWhereItLies) {
  Connect(secret, GetParam(), {7, 1, 2});
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

TEST_P(TwoSides, SeeThatTheOtherIsGone) {
  Connect(secret, GetParam(), {7, 1, 2});
  ASSERT_TRUE(Prove().ok());
  two.clear();
  os::PollSet polled;
  polled.Add(one[0].descriptor());
  polled.Wait(std::chrono::seconds(10));
  EXPECT_EQ(one[0].Peek(1).status().code(), Code::kUnavailable);
}

INSTANTIATE_TEST_SUITE_P(Of, TwoSides, ::testing::Values(Secrecy::kClear, Secrecy::kSealed),
                         [](const auto& of) { return of.param == Secrecy::kSealed ? "ASealedConnection" : "AConnection"; });

}  // namespace
}  // namespace kedge::fmi
