// TCP connections between the processes of a job: IPv4, without delay, and nothing here waits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "base/status.h"
#include "os/files/unique_fd.h"

namespace kedge::os {

struct TcpEndpoint {
  uint32_t address = 0;  // of the machine, in the order of this processor
  uint16_t port = 0;
};

constexpr uint32_t kLoopback = 0x7f00'0001;  // 127.0.0.1
constexpr bool IsLoopback(uint32_t address) {
  return address >> 24 == kLoopback >> 24;
}
// An IPv4 address, as people write it.
std::optional<uint32_t> ParseAddress(const std::string& text);
std::string AddressText(uint32_t address);

class TcpSocket {
 public:
  // It may be under way yet: whether it has come about is seen when it is used.
  static Result<TcpSocket> Connect(TcpEndpoint to);

  // Bytes that were taken of first the one and then the other; 0: none now. kUnavailable: the connection has ended.
  Result<size_t> Send(std::pair<const void*, size_t> first, std::pair<const void*, size_t> second) const;
  // Bytes that were there; 0: none now. kUnavailable: the connection has ended.
  Result<size_t> Receive(void* data, size_t bytes) const;
  // The connection ends when the other machine has not answered for some ten seconds.
  Status EndWhenSilent() const;
  // Nothing more goes either way; the other side finds the connection ended.
  void End() const;
  // This side's address.
  Result<TcpEndpoint> Own() const;
  int descriptor() const { return fd_.get(); }

 private:
  friend class TcpListener;
  explicit TcpSocket(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

class TcpListener {
 public:
  // At a port that the system chooses; address 0 is each of this machine.
  static Result<TcpListener> Listen(uint32_t address);
  // Nothing when no connection waits.
  Result<std::optional<TcpSocket>> Accept() const;
  uint16_t port() const { return port_; }
  int descriptor() const { return fd_.get(); }

 private:
  TcpListener(UniqueFd fd, uint16_t port) : fd_(std::move(fd)), port_(port) {}
  UniqueFd fd_;
  uint16_t port_;
};

}  // namespace kedge::os
