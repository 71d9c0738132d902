#include "os/sockets/text_server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "os/files/failed_call.h"
#include "os/files/files.h"
#include "os/files/private_files.h"
#include "os/sockets/unix_address.h"

namespace kedge::os {
namespace {

constexpr size_t kRequestBytesMax = 8192;
constexpr size_t kConnectionsMax = 16;
constexpr Duration kConnectionTime = std::chrono::seconds(10);

}  // namespace

TextServer::TextServer(EventLoop& loop, std::function<std::string()> content) : loop_(loop), content_(std::move(content)) {}

TextServer::~TextServer() {
  while (!connections_.empty()) Close(connections_.begin()->first);
  for (const Listener& listener : listeners_) loop_.Unwatch(listener.watch);
  // Somebody else may have made one there since.
  if (unix_path_.empty()) return;
  const auto info = PrivateFileSystem().Stat(unix_path_);
  if (info.ok() && info->inode == unix_inode_) (void)PrivateFileSystem().Unlink(unix_path_);
}

Status TextServer::ListenUnix(const std::string& path) {
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return Failed("socket");
  KEDGE_ASSIGN_OR_RETURN(const UnixAddress address, UnixAddress::Of(path));
  KEDGE_RETURN_IF_ERROR(UnlinkIfPresent(PrivateFileSystem(), path));
  // The folder is 0700 already; the mode says the same of the socket.
  if (fchmod(fd.get(), 0600) != 0 || bind(fd.get(), address.get(), address.bytes()) != 0) {
    return Status::FromErrno(errno, "bind " + path);
  }
  KEDGE_ASSIGN_OR_RETURN(const FileInfo info, PrivateFileSystem().Stat(path));
  unix_path_ = path;
  unix_inode_ = info.inode;
  return Listen(std::move(fd));
}

Status TextServer::ListenLoopback(uint16_t port) {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return Failed("socket");
  const int one = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return Status::FromErrno(errno, fmt::format("bind 127.0.0.1:{}", port));
  }
  return Listen(std::move(fd));
}

Status TextServer::Listen(UniqueFd fd) {
  if (listen(fd.get(), 16) != 0) return Failed("listen");
  const int number = fd.get();
  KEDGE_ASSIGN_OR_RETURN(EventLoop::WatchId watch,
                         loop_.Watch(number, EventLoop::Interest::kRead, [this, number](Readiness) { Accept(number); }));
  listeners_.push_back({std::move(fd), watch});
  return Status::Ok();
}

void TextServer::Accept(int listener) {
  for (;;) {
    UniqueFd fd(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd.valid()) return;
    if (connections_.size() >= kConnectionsMax) continue;  // closed again
    const uint64_t id = ++last_id_;
    auto connection = std::make_unique<Connection>();
    auto watch = loop_.Watch(fd.get(), EventLoop::Interest::kRead, [this, id](Readiness ready) { OnReady(id, ready); });
    if (!watch.ok()) continue;
    connection->fd = std::move(fd);
    connection->watch = *watch;
    connection->timer = loop_.AddTimer(kConnectionTime, [this, id] { Close(id); });
    connections_[id] = std::move(connection);
  }
}

void TextServer::Close(uint64_t id) {
  auto found = connections_.find(id);
  if (found == connections_.end()) return;
  loop_.Unwatch(found->second->watch);
  loop_.CancelTimer(found->second->timer);
  connections_.erase(found);
}

void TextServer::OnReady(uint64_t id, Readiness ready) {
  auto found = connections_.find(id);
  if (found == connections_.end()) return;
  Connection& connection = *found->second;
  if (connection.answer.empty()) {
    if (ready.hung_up) return Close(id);
    char buffer[1024];
    const ssize_t bytes = recv(connection.fd.get(), buffer, sizeof buffer, 0);
    if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (bytes < 0) return Close(id);
    connection.request_bytes += static_cast<size_t>(bytes);
    connection.request_end.append(buffer, static_cast<size_t>(bytes));
    const bool whole =
        connection.request_end.find("\r\n\r\n") != std::string::npos || connection.request_end.find("\n\n") != std::string::npos;
    if (connection.request_end.size() > 3) connection.request_end.erase(0, connection.request_end.size() - 3);
    // The end of what the peer sends counts as the end of its request.
    if (!whole && bytes > 0 && connection.request_bytes < kRequestBytesMax) return;
    const std::string text = content_();
    connection.answer = fmt::format(
        "HTTP/1.0 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\n"
        "Connection: close\r\n\r\n{}",
        text.size(), text);
    (void)loop_.ChangeInterest(connection.watch, EventLoop::Interest::kWrite);
  }
  while (connection.sent < connection.answer.size()) {
    const ssize_t bytes = send(connection.fd.get(), connection.answer.data() + connection.sent,
                               connection.answer.size() - connection.sent, MSG_NOSIGNAL);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0 && errno == EAGAIN) return;
    if (bytes < 0) return Close(id);
    connection.sent += static_cast<size_t>(bytes);
  }
  shutdown(connection.fd.get(), SHUT_WR);
  Close(id);
}

}  // namespace kedge::os
