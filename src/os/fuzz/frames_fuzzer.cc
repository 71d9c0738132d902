// Any bytes on a socket, in any portions: frames come out of them, or the connection breaks; no announcement of a
// length or of descriptors makes the receiver allocate or wait for what does not come. What was sent as frames comes
// out as sent.
#include <fuzzer/FuzzedDataProvider.h>
#include <sys/socket.h>

#include "base/status.h"
#include "os/sockets/unix_socket.h"

namespace kedge::os {
namespace {

constexpr SocketLimits kLimits{.message_bytes_max = 1 << 16, .descriptors_max = 4, .queued_bytes_max = 1 << 20};

// Takes what has come; false when the connection is broken.
bool TakeAll(UnixSocket& socket) {
  for (;;) {
    auto message = socket.TryReceive();
    if (!message.ok()) return false;
    if (!message->has_value()) return true;
    KEDGE_CHECK((*message)->body.size() <= kLimits.message_bytes_max && (*message)->descriptors.empty());
  }
}

void ReceiveBytes(FuzzedDataProvider& input) {
  auto pair = UnixSocket::Pair(kLimits);
  KEDGE_CHECK(pair.ok());
  while (input.remaining_bytes() > 0) {
    const std::string portion = input.ConsumeBytesAsString(input.ConsumeIntegralInRange<size_t>(1, 600));
    if (send(pair->first.descriptor(), portion.data(), portion.size(), MSG_NOSIGNAL) < 0) return;
    if (!TakeAll(pair->second)) return;
  }
  pair->first.Shutdown();
  KEDGE_CHECK(!TakeAll(pair->second));
}

void SendFrames(FuzzedDataProvider& input) {
  auto pair = UnixSocket::Pair(kLimits);
  KEDGE_CHECK(pair.ok());
  while (input.remaining_bytes() > 0) {
    const std::string body = input.ConsumeRandomLengthString();
    if (!pair->first.Queue(body).ok()) return;
    auto message = pair->second.TryReceive();
    KEDGE_CHECK(message.ok() && message->has_value() && (*message)->body == body);
  }
}

}  // namespace
}  // namespace kedge::os

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  FuzzedDataProvider input(data, bytes);
  input.ConsumeBool() ? kedge::os::ReceiveBytes(input) : kedge::os::SendFrames(input);
  return 0;
}
