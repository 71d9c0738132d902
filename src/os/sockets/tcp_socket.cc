#include "os/sockets/tcp_socket.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>

#include "os/files/failed_call.h"

namespace kedge::os {
namespace {

sockaddr_in NameOf(TcpEndpoint endpoint) {
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(endpoint.address);
  name.sin_port = htons(endpoint.port);
  return name;
}

Result<TcpEndpoint> OwnEndpoint(int fd) {
  sockaddr_in name{};
  socklen_t bytes = sizeof name;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&name), &bytes) != 0) return Failed("getsockname");
  return TcpEndpoint{ntohl(name.sin_addr.s_addr), ntohs(name.sin_port)};
}

Status SetOption(int fd, int level, int option, int value) {
  return setsockopt(fd, level, option, &value, sizeof value) == 0 ? Status::Ok() : Failed("setsockopt");
}

// Not yet: the connection is under way, or its buffers are full or empty.
bool IsForLater(int error) {
  return error == EAGAIN || error == EINTR || error == EINPROGRESS || error == ENOTCONN;
}

Status Ended(const char* call) {
  return Status(Code::kUnavailable, Failed(call).message());
}

}  // namespace

std::optional<uint32_t> ParseAddress(const std::string& text) {
  in_addr address{};
  if (inet_pton(AF_INET, text.c_str(), &address) != 1) return std::nullopt;
  return ntohl(address.s_addr);
}

std::string AddressText(uint32_t address) {
  char text[INET_ADDRSTRLEN] = {};
  const in_addr name{htonl(address)};
  inet_ntop(AF_INET, &name, text, sizeof text);
  return text;
}

Result<TcpSocket> TcpSocket::Connect(TcpEndpoint to) {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return Failed("socket");
  KEDGE_RETURN_IF_ERROR(SetOption(fd.get(), IPPROTO_TCP, TCP_NODELAY, 1));
  const sockaddr_in name = NameOf(to);
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0 && errno != EINPROGRESS)
    return Ended("connect");
  return TcpSocket(std::move(fd));
}

Result<size_t> TcpSocket::Send(std::pair<const void*, size_t> first, std::pair<const void*, size_t> second) const {
  iovec parts[] = {{const_cast<void*>(first.first), first.second}, {const_cast<void*>(second.first), second.second}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  const ssize_t sent = sendmsg(fd_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent >= 0) return static_cast<size_t>(sent);
  if (IsForLater(errno)) return size_t{0};
  return Ended("send");
}

Result<size_t> TcpSocket::Receive(void* data, size_t bytes) const {
  const ssize_t got = recv(fd_.get(), data, bytes, MSG_DONTWAIT);
  if (got > 0) return static_cast<size_t>(got);
  if (got < 0 && IsForLater(errno)) return size_t{0};
  return got == 0 ? Status(Code::kUnavailable, "the other side has closed the connection") : Ended("recv");
}

Status TcpSocket::EndWhenSilent() const {
  KEDGE_RETURN_IF_ERROR(SetOption(fd_.get(), SOL_SOCKET, SO_KEEPALIVE, 1));
  KEDGE_RETURN_IF_ERROR(SetOption(fd_.get(), IPPROTO_TCP, TCP_KEEPIDLE, 4));
  KEDGE_RETURN_IF_ERROR(SetOption(fd_.get(), IPPROTO_TCP, TCP_KEEPINTVL, 2));
  KEDGE_RETURN_IF_ERROR(SetOption(fd_.get(), IPPROTO_TCP, TCP_KEEPCNT, 3));
  return SetOption(fd_.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, 10'000);
}

void TcpSocket::End() const {
  shutdown(fd_.get(), SHUT_RDWR);
}

Result<TcpEndpoint> TcpSocket::Own() const {
  return OwnEndpoint(fd_.get());
}

Result<TcpListener> TcpListener::Listen(uint32_t address) {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return Failed("socket");
  const sockaddr_in name = NameOf({address, 0});
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0) return Failed("bind");
  if (listen(fd.get(), SOMAXCONN) != 0) return Failed("listen");
  KEDGE_ASSIGN_OR_RETURN(const TcpEndpoint own, OwnEndpoint(fd.get()));
  return TcpListener(std::move(fd), own.port);
}

Result<std::optional<TcpSocket>> TcpListener::Accept() const {
  UniqueFd fd(accept4(fd_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!fd.valid() && (IsForLater(errno) || errno == ECONNABORTED)) return std::optional<TcpSocket>();
  if (!fd.valid()) return Failed("accept");
  KEDGE_RETURN_IF_ERROR(SetOption(fd.get(), IPPROTO_TCP, TCP_NODELAY, 1));
  return std::optional<TcpSocket>(TcpSocket(std::move(fd)));
}

}  // namespace kedge::os
