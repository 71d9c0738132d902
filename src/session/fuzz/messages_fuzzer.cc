// Any frame: decoded or refused; what was decoded encodes, and decodes to the same frame again.
#include "base/status.h"
#include "session/messages.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  auto decoded = kedge::DecodeMessage(std::as_bytes(std::span(data, bytes)));
  if (!decoded.ok()) return 0;
  kedge::Buffer first = kedge::EncodeMessage(decoded->number, decoded->message);
  auto again = kedge::DecodeMessage(first);
  KEDGE_CHECK(again.ok());
  KEDGE_CHECK(kedge::EncodeMessage(again->number, again->message) == first);
  return 0;
}
