// Bytes of a connection in records that are sealed by AES-256-GCM, each direction under a key of its own.
//
// A record is its length and the seal's tag, which are not secret, and then so many sealed bytes. Its number is a part of what is
// sealed, so that none opens that was changed, left out, repeated, or sent the other way. Nothing waits. An error is for good.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/status.h"
#include "format/wire.h"
#include "net/authentication.h"
#include "os/sockets/tcp_socket.h"

namespace kedge::fmi {

// Whether what a connection carries is sealed. Its sides prove to each other that they take it for the same.
enum class Secrecy : uint8_t { kClear, kSealed };

class SealedStream {
 public:
  static constexpr size_t kRecordBytesMax = size_t{64} << 10;  // of what is sealed

  // `received`: what the socket has given already, and is not opened yet.
  SealedStream(net::FrameKey own, net::FrameKey other, ByteSpan received);

  // As those of the socket, but that what is taken need not stay where it is: it is sent, or Flush sends it.
  Result<size_t> Send(const os::TcpSocket& socket, std::pair<const void*, size_t> first, std::pair<const void*, size_t> second);
  Status Flush(const os::TcpSocket& socket);
  bool has_unsent() const { return sent_ < outgoing_.size(); }
  // 0: no whole record is there. kCorrupt: one that the other side has not sealed so.
  Result<size_t> Receive(const os::TcpSocket& socket, void* data, size_t bytes);

 private:
  // Opens the record that comes next to where it has room; 0: it is not there as a whole.
  Result<size_t> Open(std::byte* data, size_t bytes);

  net::FrameKey own_;
  net::FrameKey other_;
  uint64_t sealed_count_ = 0;
  uint64_t opened_count_ = 0;
  std::vector<std::byte> outgoing_;  // one record
  size_t sent_ = 0;                  // of it
  std::vector<std::byte> incoming_;
  size_t begin_ = 0;  // of what has come
  size_t end_ = 0;
  std::vector<std::byte> opened_;  // of a record that was longer than what was asked for
  size_t taken_ = 0;               // of it
};

}  // namespace kedge::fmi
