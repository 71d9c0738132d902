// What other nodes' agents say: a body of any kind of message decodes to what encodes to the same, or is refused. The input's
// first byte names the kind, and where the length of what is read depends on the asker, its second the number of ranks.
#include <cstring>
#include <span>

#include "agent/peers/peer_messages.h"
#include "base/status.h"

namespace kedge {
namespace {

template <typename Message>
void Check(const Result<Message>& message, ByteSpan body) {
  if (!message.ok()) return;
  const Buffer again = Encode(*message);
  KEDGE_CHECK(again.size() == body.size() && std::memcmp(again.data(), body.data(), body.size()) == 0);
}

void CheckKind(uint8_t kind, uint8_t ranks, ByteSpan body) {
  switch (kind % 28) {
    case 0: return Check(DecodeExchangeRequest(body), body);
    case 1: return Check(DecodeExchangeReply(body, ranks), body);
    case 2: return Check(DecodeGroupsNotice(body), body);
    case 3: return Check(DecodeGroupsReply(body), body);
    case 4: return Check(DecodeInventoryRequest(body), body);
    case 5: return Check(DecodeInventoryReply(body), body);
    case 6: return Check(DecodeDescribeRequest(body), body);
    case 7: return Check(DecodeDescribeReply(body), body);
    case 8: return Check(DecodeSetRequest(body), body);
    case 9: return Check(DecodeReadRequest(body), body);
    case 10: return Check(DecodeLeaseReply(body), body);
    case 11: return Check(DecodeBlockTable(body), body);
    // Its members are a message between client and agent, which has a fuzzer of its own.
    case 12: return static_cast<void>(DecodeInvitation(body));
    case 13: return Check(DecodeTurnRequest(body), body);
    case 14: return Check(DecodeTurnReply(body), body);
    case 15: return Check(DecodeLocalPromise(body), body);
    case 16: return Check(DecodeLocalReply(body), body);
    case 17: return Check(DecodeLocalNews(body), body);
    case 18: return Check(DecodeSealedReply(body), body);
    case 19: return Check(DecodeScanRequest(body), body);
    case 20: return Check(DecodeScanReply(body), body);
    case 21: return Check(DecodeCarryRequest(body), body);
    case 22: return Check(DecodeCarryReply(body), body);
    case 23: return static_cast<void>(DecodeEnlistRequest(body));  // two messages with fuzzers of their own
    case 24: return Check(DecodeCompletedNotice(body), body);
    case 25: return Check(DecodePauseNotice(body), body);
    case 26: return Check(DecodeShareRequest(body), body);
    case 27: return Check(DecodeShareReply(body), body);
  }
}

}  // namespace
}  // namespace kedge

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  if (bytes < 2) return 0;
  kedge::CheckKind(data[0], data[1], std::as_bytes(std::span(data + 2, bytes - 2)));
  return 0;
}
