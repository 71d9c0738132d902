// Frames between two networks: the header, the handshake's messages, the pieces of a message. Bytes only, no I/O.
//
//   offset  bytes
//   0       4      magic "KNET"
//   4       1      protocol
//   5       1      kind
//   6       2      zero
//   8       8      session (zero in the handshake)
//   16      8      sequence: counts the frames of one direction of the session, from zero
//   24      4      payload bytes
//   28      4      zero
//   32      n      payload: sealed (FrameKey) with the bytes before it as associated data; clear in the handshake
//   32+n    16     tag of the seal (zero in the handshake, whose messages prove themselves)
//
// Integers are little endian. Decoding trusts nothing: what is not exactly such a frame is kCorrupt.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>

#include "base/status.h"
#include "format/wire.h"
#include "net/authentication.h"

namespace kedge::net {

// Of the frames, and of what agents say in them (agent/peers/peer_messages.h): raised when either changes.
inline constexpr uint8_t kNetProtocol = 9;
inline constexpr size_t kFrameHeaderBytes = 32;
inline constexpr size_t kFrameBytesMax = 2048;  // small: each endpoint clears a thousand of the provider's buffers (fabric.cc)
inline constexpr size_t kPayloadBytesMax = kFrameBytesMax - kFrameHeaderBytes - kTagBytes;
// Pieces that a side may send before the other gives credit back.
inline constexpr uint32_t kPieceWindow = 32;
inline constexpr size_t kJobNameBytesMax = 1024;
inline constexpr size_t kNodeNameBytesMax = 255;

enum class FrameKind : uint8_t {
  kHello = 1,      // initiator to responder: who, a nonce, the hello's proof
  kChallenge = 2,  // back: a nonce, the responder's proof
  kProof = 3,      // the hello again, the responder's nonce, the initiator's proof
  kRefusal = 4,    // instead of challenge or accept: why not
  kAccept = 5,     // the session stands; this and all that follow are sealed
  kPiece = 6,      // of a message; the only kind that takes a credit
  kCredit = 7,     // so many pieces more may be sent
  kPing = 8,       // says that its sender lives
  kEndLease = 9,   // the reader is done with a lease
  kBye = 10,       // the sender ends the session
};
bool IsHandshake(FrameKind kind);

struct FrameHeader {
  FrameKind kind = FrameKind::kPing;
  uint64_t session = 0;
  uint64_t sequence = 0;
};

struct Frame {
  FrameHeader header;
  ByteSpan head;     // the header's bytes
  ByteSpan payload;  // into the decoded bytes; sealed, but in the handshake
  Tag tag{};
};
// kUnsupported: of another protocol, which the message names beside ours.
Result<Frame> DecodeFrame(ByteSpan bytes);

// Writes a frame into `out` (at least kFrameBytesMax; payload at most kPayloadBytesMax) and returns its bytes. `key` is null in
// the handshake: then the payload goes in the clear.
size_t WriteFrame(const FrameHeader& header, ByteSpan payload, FrameKey* key, std::byte* out);

// --- payloads -----------------------------------------------------------------------------------------------------------------

struct Hello {
  std::string job;
  uint32_t attempt = 0;
  std::string initiator;
  std::string responder;
  Nonce initiator_nonce{};
  Digest proof{};         // so that nobody but a member makes a hello that costs more than to look at it
  std::string address{};  // a guest's, as NodeAddress::bytes, which the proof covers; empty: the responder knows the initiator
  friend bool operator==(const Hello&, const Hello&) = default;
};

struct Challenge {
  Nonce initiator_nonce{};  // which hello it answers
  Nonce responder_nonce{};
  Digest proof{};
  friend bool operator==(const Challenge&, const Challenge&) = default;
};

struct Proof {
  Hello hello;              // so that who was asked need not remember it
  Nonce responder_nonce{};  // which challenge it answers
  Digest proof{};
  friend bool operator==(const Proof&, const Proof&) = default;
};

enum class RefusalReason : uint8_t { kWrongSecret = 1, kStaleAttempt = 2, kOtherNode = 3 };
struct Refusal {
  Nonce initiator_nonce{};  // so that only who saw the hello can refuse it
  RefusalReason reason = RefusalReason::kWrongSecret;
  uint32_t attempt = 0;  // the refuser's
  std::string node;      // the refuser's
  friend bool operator==(const Refusal&, const Refusal&) = default;
};

struct Credit {
  uint32_t pieces = 0;
  friend bool operator==(const Credit&, const Credit&) = default;
};

struct LeaseEnd {
  uint64_t lease = 0;
  friend bool operator==(const LeaseEnd&, const LeaseEnd&) = default;
};

struct Empty {  // kAccept, kPing, kBye
  friend bool operator==(const Empty&, const Empty&) = default;
};

// The first bytes of a message's first piece; pieces of one message follow each other.
enum class MessageType : uint8_t { kRequest = 1, kReply = 2, kError = 3 };
struct MessageHead {
  MessageType type = MessageType::kRequest;
  uint64_t call = 0;   // the caller's number of it
  uint16_t kind = 0;   // of a request; of an error its code
  uint32_t bytes = 0;  // of the whole body
  friend bool operator==(const MessageHead&, const MessageHead&) = default;
};
inline constexpr size_t kMessageHeadBytes = 15;
void EncodeMessageHead(const MessageHead& head, Encoder* out);
// `bytes_max` bounds the body.
MessageHead DecodeMessageHead(Decoder* in, size_t bytes_max);
// The body of a kError: the errno, 4 bytes, and the sentence, which is cut where it is too long.
inline constexpr size_t kErrorTextBytesMax = 4096;
Buffer EncodeErrorBody(const Status& error);
// `code` is that of the head. Whatever the bytes are, an error comes of them: kInternal for a code that this build does not know,
// errno 0 for one that none can be.
Status DecodeErrorBody(uint16_t code, ByteSpan body);

using Control = std::variant<Hello, Challenge, Proof, Refusal, Credit, LeaseEnd, Empty>;
// The payload of a frame of `kind`, every kind but kPiece. Never longer than kPayloadBytesMax if names are within bounds.
Buffer EncodeControl(const Control& control);
Result<Control> DecodeControl(FrameKind kind, ByteSpan payload);

}  // namespace kedge::net
