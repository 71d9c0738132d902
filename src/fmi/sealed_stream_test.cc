#include "fmi/sealed_stream.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace kedge::fmi {
namespace {

using net::ProofOf;

// A stream whose bytes pass through the hands of the test on their way to the other one.
class OnTheWay : public ::testing::Test {
 protected:
  void SetUp() override {
    std::tie(from_, tap_) = Pair();
    std::tie(hand_, to_) = Pair();
  }
  static std::pair<std::optional<os::TcpSocket>, std::optional<os::TcpSocket>> Pair() {
    auto listener = os::TcpListener::Listen(os::kLoopback);
    KEDGE_CHECK(listener.ok());
    auto one = os::TcpSocket::Connect({os::kLoopback, listener->port()});
    KEDGE_CHECK(one.ok());
    for (;;) {
      auto other = listener->Accept();
      KEDGE_CHECK(other.ok());
      if (*other) return {std::move(*one), std::move(**other)};
    }
  }
  SealedStream Stream(ProofOf own, uint32_t epoch = 1) const {
    net::Transcript transcript;
    transcript.attempt = epoch;
    const ProofOf other = own == ProofOf::kInitiator ? ProofOf::kResponder : ProofOf::kInitiator;
    return {net::FrameKey(secret_, transcript, own), net::FrameKey(secret_, transcript, other), {}};
  }
  // What goes over the wire for that text, by the sender.
  std::string Sealed(const std::string& text) {
    const auto taken =
        sender_.Send(*from_, {text.data(), text.size() / 3}, {text.data() + text.size() / 3, text.size() - text.size() / 3});
    KEDGE_CHECK(taken.ok() && *taken == text.size());
    const size_t bytes = text.size() + kRecordHeadBytes;
    std::string wire(bytes, '\0');
    for (size_t done = 0; done < bytes;) {
      KEDGE_CHECK(sender_.Flush(*from_).ok());
      const auto got = tap_->Receive(wire.data() + done, bytes - done);
      KEDGE_CHECK(got.ok());
      done += *got;
    }
    return wire;
  }
  // What the receiver makes of these bytes. kOk with too few of them: it waits for more.
  Result<std::string> Opened(const std::string& wire, SealedStream* receiver) {
    for (size_t done = 0; done < wire.size();) {
      const auto taken = hand_->Send({wire.data() + done, wire.size() - done}, {nullptr, 0});
      KEDGE_CHECK(taken.ok());
      done += *taken;
    }
    // A moment, for all to be on the other side: the end of the connection comes behind it.
    hand_->End();
    std::string all;
    for (;;) {
      std::string some(100, '\0');
      const auto got = receiver->Receive(*to_, some.data(), some.size());
      if (got.status().code() == Code::kUnavailable) return all;
      KEDGE_RETURN_IF_ERROR(got.status());
      all += some.substr(0, *got);
    }
  }
  static constexpr size_t kRecordHeadBytes = sizeof(uint32_t) + net::kTagBytes;

  const net::Secret secret_ = net::Secret::Generate();
  std::optional<os::TcpSocket> from_, tap_, hand_, to_;
  SealedStream sender_ = Stream(ProofOf::kInitiator);
  SealedStream receiver_ = Stream(ProofOf::kResponder);
};

TEST_F(OnTheWay, NothingIsLegibleAndAllComes) {
  const std::string text = "the temperature of the whole reactor";
  const std::string first = Sealed(text);
  const std::string second = Sealed(text);
  EXPECT_EQ(first.find("temp"), std::string::npos);
  EXPECT_NE(first, second);
  const auto opened = Opened(first + second, &receiver_);
  ASSERT_TRUE(opened.ok()) << opened.status().ToString();
  EXPECT_EQ(*opened, text + text);
}

TEST_F(OnTheWay, ARecordOfWhichAByteIsChangedDoesNotOpen) {
  const std::string wire = Sealed("forty-two");
  for (size_t at = 0; at < wire.size(); ++at) {
    std::tie(hand_, to_) = Pair();
    std::string changed = wire;
    changed[at] = static_cast<char>(changed[at] ^ 0x10);
    SealedStream receiver = Stream(ProofOf::kResponder);
    const auto opened = Opened(changed, &receiver);
    // A greater length asks for bytes that never come.
    if (opened.ok()) {
      EXPECT_TRUE(opened->empty() && at < sizeof(uint32_t)) << at;
    } else {
      EXPECT_EQ(opened.status().code(), Code::kCorrupt) << at;
    }
  }
}

TEST_F(OnTheWay, ARecordThatComesTwiceDoesNotOpen) {
  const std::string wire = Sealed("forty-two");
  EXPECT_EQ(Opened(wire + wire, &receiver_).status().code(), Code::kCorrupt);
}

TEST_F(OnTheWay, TheNextRecordDoesNotOpenWhereOneIsLeftOut) {
  (void)Sealed("forty-one");
  EXPECT_EQ(Opened(Sealed("forty-two"), &receiver_).status().code(), Code::kCorrupt);
}

TEST_F(OnTheWay, ARecordThatIsSentBackDoesNotOpen) {
  SealedStream sender = Stream(ProofOf::kInitiator);
  EXPECT_EQ(Opened(Sealed("forty-two"), &sender).status().code(), Code::kCorrupt);
}

TEST_F(OnTheWay, ARecordOfAFormerEpochDoesNotOpen) {
  SealedStream later = Stream(ProofOf::kResponder, 2);
  EXPECT_EQ(Opened(Sealed("forty-two"), &later).status().code(), Code::kCorrupt);
}

TEST_F(OnTheWay, ALengthBeyondARecordIsRefusedBeforeItComes) {
  std::string wire(kRecordHeadBytes, '\xff');
  EXPECT_EQ(Opened(wire, &receiver_).status().code(), Code::kCorrupt);
  std::tie(hand_, to_) = Pair();
  EXPECT_EQ(Opened(std::string(kRecordHeadBytes, '\0'), &receiver_).status().code(), Code::kCorrupt);
}

}  // namespace
}  // namespace kedge::fmi
