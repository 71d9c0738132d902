#include "net/frame.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <optional>
#include <vector>

#include "net/address.h"

namespace kedge::net {
namespace {

Nonce Filled(int value) {
  Nonce nonce;
  nonce.fill(static_cast<std::byte>(value));
  return nonce;
}

FrameKey Key() {
  Transcript transcript;
  transcript.job = "job";
  return FrameKey(*Secret::FromHex(std::string(64, 'a')), transcript, ProofOf::kInitiator);
}

Buffer Written(const FrameHeader& header, ByteSpan payload, FrameKey* key) {
  Buffer bytes(kFrameBytesMax);
  bytes.resize(WriteFrame(header, payload, key, bytes.data()));
  return bytes;
}

std::optional<Buffer> Opened(FrameKey* key, const Frame& frame) {
  Buffer payload(frame.payload.size());
  if (!key->Open(frame.header.sequence, frame.head, frame.payload, frame.tag, payload.data())) return std::nullopt;
  return payload;
}

TEST(Frame, ComesBackAsItWent) {
  FrameKey key = Key();
  const Buffer payload(kPayloadBytesMax, std::byte{3});
  const Buffer bytes = Written({FrameKind::kPiece, 17, 4}, payload, &key);
  EXPECT_EQ(bytes.size(), kFrameBytesMax);
  const auto frame = DecodeFrame(bytes);
  ASSERT_TRUE(frame.ok()) << frame.status().ToString();
  EXPECT_EQ(frame->header.kind, FrameKind::kPiece);
  EXPECT_EQ(frame->header.session, 17U);
  EXPECT_EQ(frame->header.sequence, 4U);
  EXPECT_EQ(Opened(&key, *frame), payload);
}

// No byte of a frame can change unseen: it is refused by its form or by the seal.
TEST(Frame, EveryByteCounts) {
  FrameKey key = Key();
  const Buffer good = Written({FrameKind::kCredit, 17, 4}, EncodeControl(Credit{5}), &key);
  for (size_t at = 0; at < good.size(); ++at) {
    Buffer bytes = good;
    bytes[at] ^= std::byte{0x10};
    const auto frame = DecodeFrame(bytes);
    EXPECT_TRUE(!frame.ok() || !Opened(&key, *frame).has_value()) << "byte " << at;
  }
}

TEST(Frame, RefusesWhatIsCutShortOrTooLong) {
  FrameKey key = Key();
  const Buffer good = Written({FrameKind::kPing, 1, 0}, {}, &key);
  for (size_t bytes = 0; bytes < good.size(); ++bytes) {
    EXPECT_EQ(DecodeFrame(ByteSpan(good).first(bytes)).status().code(), Code::kCorrupt);
  }
  Buffer longer = good;
  longer.push_back(std::byte{0});
  EXPECT_EQ(DecodeFrame(longer).status().code(), Code::kCorrupt);
}

TEST(Frame, AnotherProtocolIsNamedWithOurs) {
  Buffer bytes = Written({FrameKind::kHello, 0, 0}, {}, nullptr);
  bytes[4] = std::byte{kNetProtocol - 1};
  const Status refused = DecodeFrame(bytes).status();
  EXPECT_EQ(refused.code(), Code::kUnsupported);
  EXPECT_NE(refused.message().find(fmt::format("protocol {} ", kNetProtocol - 1)), std::string::npos) << refused.message();
  EXPECT_NE(refused.message().find(fmt::format("where {} is", kNetProtocol)), std::string::npos) << refused.message();
}

TEST(Frame, AHandshakeBelongsToNoSession) {
  FrameKey key = Key();
  EXPECT_TRUE(DecodeFrame(Written({FrameKind::kHello, 0, 0}, {}, nullptr)).ok());
  EXPECT_FALSE(DecodeFrame(Written({FrameKind::kHello, 1, 0}, {}, nullptr)).ok());
  EXPECT_FALSE(DecodeFrame(Written({FrameKind::kProof, 0, 1}, {}, nullptr)).ok());
  EXPECT_FALSE(DecodeFrame(Written({FrameKind::kProof, 0, 0}, {}, &key)).ok());
}

TEST(Frame, ControlsComeBackAsTheyWent) {
  Digest digest;
  digest.fill(std::byte{9});
  const std::vector<std::pair<FrameKind, Control>> all = {
      {FrameKind::kHello, Hello{"job", 7, "n1", "n2", Filled(1), digest}},
      {FrameKind::kChallenge, Challenge{Filled(1), Filled(2), digest}},
      {FrameKind::kHello, Hello{"job", 7, "n1", "n2", Filled(1), digest, "where"}},
      {FrameKind::kProof, Proof{Hello{"job", 7, "n1", "n2", Filled(1), digest}, Filled(2), digest}},
      {FrameKind::kRefusal, Refusal{Filled(1), RefusalReason::kStaleAttempt, 8, "n2"}},
      {FrameKind::kCredit, Credit{12}},
      {FrameKind::kEndLease, LeaseEnd{99}},
      {FrameKind::kPing, Empty{}},
  };
  for (const auto& [kind, control] : all) {
    const Buffer bytes = EncodeControl(control);
    const auto decoded = DecodeControl(kind, bytes);
    ASSERT_TRUE(decoded.ok()) << decoded.status().ToString();
    EXPECT_EQ(*decoded, control);
    for (size_t cut = 0; cut < bytes.size(); ++cut) {
      EXPECT_EQ(DecodeControl(kind, ByteSpan(bytes).first(cut)).status().code(), Code::kCorrupt);
    }
  }
  EXPECT_FALSE(DecodeControl(FrameKind::kPiece, {}).ok());
}

TEST(Frame, NamesAreBounded) {
  const std::string node(kNodeNameBytesMax, 'a');
  const Hello longest{std::string(kJobNameBytesMax, 'j'), 1, node, node, {}, {}, std::string(kAddressBytesMax, 'w')};
  EXPECT_TRUE(DecodeControl(FrameKind::kHello, EncodeControl(longest)).ok());
  EXPECT_LE(EncodeControl(Proof{longest, {}, {}}).size(), kPayloadBytesMax);
  EXPECT_FALSE(
      DecodeControl(FrameKind::kHello, EncodeControl(Hello{std::string(kJobNameBytesMax + 1, 'j'), 1, "a", "b", {}, {}})).ok());
  EXPECT_FALSE(
      DecodeControl(FrameKind::kHello, EncodeControl(Hello{"j", 1, std::string(kNodeNameBytesMax + 1, 'a'), "b", {}, {}})).ok());
}

TEST(Frame, MessageHeads) {
  Buffer bytes;
  const MessageHead head{MessageType::kReply, 12345678901, 0, 100};
  {
    Encoder out(bytes);
    EncodeMessageHead(head, &out);
  }
  EXPECT_EQ(bytes.size(), kMessageHeadBytes);
  Decoder in(bytes);
  EXPECT_EQ(DecodeMessageHead(&in, 100), head);
  EXPECT_TRUE(in.ok());
  Decoder bounded(bytes);
  DecodeMessageHead(&bounded, 99);
  EXPECT_FALSE(bounded.ok());
}

TEST(Frame, ErrorBodies) {
  const Buffer bytes = EncodeErrorBody(Status(Code::kNoSpace, "no room", EDQUOT));
  const Status error = DecodeErrorBody(static_cast<uint16_t>(Code::kNoSpace), bytes);
  EXPECT_EQ(error.code(), Code::kNoSpace);
  EXPECT_EQ(error.errno_value(), EDQUOT);
  EXPECT_EQ(error.message(), "no room");
  EXPECT_EQ(EncodeErrorBody(Status(Code::kIo, std::string(5000, 'x'))).size(), 4 + kErrorTextBytesMax);
  for (const uint16_t code : {uint16_t{0}, uint16_t{99}}) EXPECT_EQ(DecodeErrorBody(code, bytes).code(), Code::kInternal);
  // Cut short, or no errno of any system.
  for (size_t length = 0; length < 4; ++length) EXPECT_EQ(DecodeErrorBody(7, ByteSpan(bytes).first(length)).errno_value(), 0);
  for (const int errno_value : {-1, 4096})
    EXPECT_EQ(DecodeErrorBody(7, EncodeErrorBody(Status(Code::kIo, "", errno_value))).errno_value(), 0);
}

}  // namespace
}  // namespace kedge::net
