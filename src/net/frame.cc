#include "net/frame.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "net/address.h"

namespace kedge::net {
namespace {

constexpr uint32_t kErrnoMax = 4095;     // of Linux
constexpr uint32_t kMagic = 0x54454e4b;  // "KNET"

template <size_t bytes>
std::array<std::byte, bytes> Take(Decoder* in) {
  std::array<std::byte, bytes> value{};
  const ByteSpan raw = in->Raw(bytes);
  std::copy(raw.begin(), raw.end(), value.begin());
  return value;
}

void Put(const Hello& hello, Encoder* out) {
  out->String(hello.job);
  out->U32(hello.attempt);
  out->String(hello.initiator);
  out->String(hello.responder);
  out->Raw(hello.initiator_nonce);
  out->Raw(hello.proof);
  out->String(hello.address);
}

void Put(const Challenge& challenge, Encoder* out) {
  out->Raw(challenge.initiator_nonce);
  out->Raw(challenge.responder_nonce);
  out->Raw(challenge.proof);
}

void Put(const Proof& proof, Encoder* out) {
  Put(proof.hello, out);
  out->Raw(proof.responder_nonce);
  out->Raw(proof.proof);
}

void Put(const Refusal& refusal, Encoder* out) {
  out->Raw(refusal.initiator_nonce);
  out->U8(static_cast<uint8_t>(refusal.reason));
  out->U32(refusal.attempt);
  out->String(refusal.node);
}

void Put(const Credit& credit, Encoder* out) {
  out->U32(credit.pieces);
}

void Put(const LeaseEnd& end, Encoder* out) {
  out->U64(end.lease);
}

void Put(const Empty&, Encoder*) {}

Hello TakeHello(Decoder* in) {
  Hello hello;
  hello.job = in->String(kJobNameBytesMax);
  hello.attempt = in->U32();
  hello.initiator = in->String(kNodeNameBytesMax);
  hello.responder = in->String(kNodeNameBytesMax);
  hello.initiator_nonce = Take<kNonceBytes>(in);
  hello.proof = Take<kDigestBytes>(in);
  hello.address = in->String(kAddressBytesMax);
  return hello;
}

Refusal TakeRefusal(Decoder* in) {
  Refusal refusal;
  refusal.initiator_nonce = Take<kNonceBytes>(in);
  const uint8_t reason = in->U8();
  in->Require(reason >= 1 && reason <= 3, "an unknown reason");
  refusal.reason = static_cast<RefusalReason>(reason);
  refusal.attempt = in->U32();
  refusal.node = in->String(kNodeNameBytesMax);
  return refusal;
}

}  // namespace

bool IsHandshake(FrameKind kind) {
  return kind < FrameKind::kAccept;
}

Result<Frame> DecodeFrame(ByteSpan bytes) {
  Decoder in(bytes);
  Frame frame;
  in.Require(in.U32() == kMagic, "not a frame of Kedge");
  const uint8_t protocol = in.U8();
  if (in.ok() && protocol != kNetProtocol) {
    return Status(Code::kUnsupported,
                  fmt::format("a frame of protocol {} between nodes, where {} is spoken: run the same Kedge on "
                              "all nodes of a job",
                              protocol, kNetProtocol));
  }
  const uint8_t kind = in.U8();
  in.Require(kind >= 1 && kind <= 10, "an unknown kind");
  in.Require(in.U16() == 0, "reserved bytes are not zero");
  frame.header.kind = static_cast<FrameKind>(kind);
  frame.header.session = in.U64();
  frame.header.sequence = in.U64();
  const uint32_t payload_bytes = in.U32();
  in.Require(in.U32() == 0, "reserved bytes are not zero");
  in.Require(payload_bytes <= kPayloadBytesMax, "the payload is too long");
  frame.payload = in.Raw(payload_bytes);
  frame.tag = Take<kTagBytes>(&in);
  if (IsHandshake(frame.header.kind)) {
    in.Require(frame.header.session == 0 && frame.header.sequence == 0 && frame.tag == Tag{}, "a handshake within a session");
  }
  KEDGE_RETURN_IF_ERROR(in.Finish("frame"));
  frame.head = bytes.first(kFrameHeaderBytes);
  return frame;
}

size_t WriteFrame(const FrameHeader& header, ByteSpan payload, FrameKey* key, std::byte* out) {
  KEDGE_CHECK(payload.size() <= kPayloadBytesMax);
  std::byte* at = out;
  const auto put = [&at](auto value) {
    std::memcpy(at, &value, sizeof(value));
    at += sizeof(value);
  };
  put(kMagic);
  put(kNetProtocol);
  put(header.kind);
  put(uint16_t{0});
  put(header.session);
  put(header.sequence);
  put(static_cast<uint32_t>(payload.size()));
  put(uint32_t{0});
  Tag tag{};
  if (key != nullptr) {
    tag = key->Seal(header.sequence, {out, kFrameHeaderBytes}, payload, at);
  } else if (!payload.empty()) {
    std::memcpy(at, payload.data(), payload.size());
  }
  std::memcpy(at + payload.size(), tag.data(), tag.size());
  return kFrameHeaderBytes + payload.size() + kTagBytes;
}

void EncodeMessageHead(const MessageHead& head, Encoder* out) {
  out->U8(static_cast<uint8_t>(head.type));
  out->U64(head.call);
  out->U16(head.kind);
  out->U32(head.bytes);
}

MessageHead DecodeMessageHead(Decoder* in, size_t bytes_max) {
  MessageHead head;
  const uint8_t type = in->U8();
  in->Require(type >= 1 && type <= 3, "an unknown type of message");
  head.type = static_cast<MessageType>(type);
  head.call = in->U64();
  head.kind = in->U16();
  head.bytes = in->U32();
  in->Require(head.bytes <= bytes_max, "the message is too long");
  return head;
}

Buffer EncodeErrorBody(const Status& error) {
  Buffer bytes;
  {
    Encoder out(bytes);
    out.U32(static_cast<uint32_t>(error.errno_value()));
    out.Raw(AsBytes(std::string_view(error.message()).substr(0, kErrorTextBytesMax)));
  }
  return bytes;
}

Status DecodeErrorBody(uint16_t code, ByteSpan body) {
  const bool known = code > static_cast<uint16_t>(Code::kOk) && code <= static_cast<uint16_t>(kCodeLast);
  Decoder in(body);
  const uint32_t errno_value = in.U32();
  const ByteSpan text = in.ok() ? body.subspan(in.offset()) : ByteSpan();
  return {known ? static_cast<Code>(code) : Code::kInternal, std::string(AsText(text)),
          in.ok() && errno_value <= kErrnoMax ? static_cast<int>(errno_value) : 0};
}

Buffer EncodeControl(const Control& control) {
  Buffer bytes;
  Encoder out(bytes);
  std::visit([&out](const auto& value) { Put(value, &out); }, control);
  out.Finish();
  return bytes;
}

Result<Control> DecodeControl(FrameKind kind, ByteSpan payload) {
  Decoder in(payload);
  Control control;
  switch (kind) {
    case FrameKind::kHello: control = TakeHello(&in); break;
    case FrameKind::kChallenge: {
      Challenge challenge;
      challenge.initiator_nonce = Take<kNonceBytes>(&in);
      challenge.responder_nonce = Take<kNonceBytes>(&in);
      challenge.proof = Take<kDigestBytes>(&in);
      control = challenge;
      break;
    }
    case FrameKind::kProof: {
      Proof proof;
      proof.hello = TakeHello(&in);
      proof.responder_nonce = Take<kNonceBytes>(&in);
      proof.proof = Take<kDigestBytes>(&in);
      control = proof;
      break;
    }
    case FrameKind::kRefusal: control = TakeRefusal(&in); break;
    case FrameKind::kCredit: control = Credit{in.U32()}; break;
    case FrameKind::kEndLease: control = LeaseEnd{in.U64()}; break;
    case FrameKind::kAccept:
    case FrameKind::kPing:
    case FrameKind::kBye: control = Empty{}; break;
    case FrameKind::kPiece: in.Fail("a piece is no control frame"); break;
  }
  KEDGE_RETURN_IF_ERROR(in.Finish("control frame"));
  return control;
}

}  // namespace kedge::net
