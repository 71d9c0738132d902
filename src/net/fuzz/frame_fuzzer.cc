// Any bytes as a frame: decoded or refused; a control frame that was decoded encodes to the same payload again.
#include "base/status.h"
#include "net/frame.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  using namespace kedge;
  using namespace kedge::net;
  const auto frame = DecodeFrame(std::as_bytes(std::span(data, bytes)));
  if (!frame.ok()) return 0;
  if (frame->header.kind == FrameKind::kPiece) {
    Decoder in(frame->payload);
    const MessageHead head = DecodeMessageHead(&in, size_t{16} << 20);
    KEDGE_CHECK(!in.ok() || in.offset() == kMessageHeadBytes);
    KEDGE_CHECK(!in.ok() || head.bytes <= size_t{16} << 20);
    KEDGE_CHECK(!DecodeErrorBody(head.kind, frame->payload).ok());
    return 0;
  }
  const auto control = DecodeControl(frame->header.kind, frame->payload);
  if (!control.ok()) return 0;
  const Buffer first = EncodeControl(*control);
  const auto again = DecodeControl(frame->header.kind, first);
  KEDGE_CHECK(again.ok() && *again == *control);
  return 0;
}
