#include "os/sockets/unix_socket.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/clock.h"
#include "os/files/failed_call.h"
#include "os/sockets/unix_address.h"

namespace kedge::os {
namespace {

constexpr size_t kHeaderBytes = 8;
constexpr size_t kDescriptorsMaxOfKernel = 253;  // SCM_MAX_FD

Status NobodyListens(const std::string& path, int error) {
  return Status(Code::kUnavailable, fmt::format("nobody listens on {}: {}", path, std::strerror(error)));
}

Status PeerGone() {
  return Status(Code::kUnavailable, "the other side closed the connection");
}

void PutU32(char* to, uint32_t value) {
  for (int i = 0; i < 4; ++i) to[i] = static_cast<char>(value >> (8 * i));
}

uint32_t GetU32(const char* from) {
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value |= static_cast<uint32_t>(static_cast<unsigned char>(from[i])) << (8 * i);
  return value;
}

// Waits until the descriptor is ready; false at the deadline.
Result<bool> WaitReady(int fd, short events, const Deadline& deadline) {
  for (;;) {
    const Duration remaining = deadline.Remaining();
    const int64_t ms = std::min<int64_t>((remaining.count() + 999'999) / 1'000'000, 3'600'000);
    pollfd entry = {fd, events, 0};
    const int ready = poll(&entry, 1, static_cast<int>(ms));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return Failed("poll");
    if (deadline.Passed()) return false;
  }
}

}  // namespace

Result<UnixSocket> UnixSocket::Connect(const std::string& path, Duration timeout, SocketLimits limits) {
  const Deadline deadline(SystemClock(), timeout);
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return Failed("socket");
  const auto address = UnixAddress::Of(path);
  if (address.status().errno_value() == ENOENT) return NobodyListens(path, ENOENT);
  if (!address.ok()) return address.status();
  for (;;) {
    if (connect(fd.get(), address->get(), address->bytes()) == 0) return UnixSocket(std::move(fd), limits);
    if (errno == EINTR) continue;
    if (errno == ENOENT || errno == ECONNREFUSED) return NobodyListens(path, errno);
    // The listener's backlog is full. poll does not tell when it has room again.
    if (errno != EAGAIN) return Status::FromErrno(errno, "connect " + path);
    if (deadline.Passed()) return Status(Code::kTimeout, fmt::format("{} takes no connection: its queue stayed full", path));
    poll(nullptr, 0, 1);
  }
}

Result<std::pair<UnixSocket, UnixSocket>> UnixSocket::Pair(SocketLimits limits) {
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) != 0) return Failed("socketpair");
  return std::make_pair(UnixSocket(UniqueFd(fds[0]), limits), UnixSocket(UniqueFd(fds[1]), limits));
}

Status UnixSocket::SendSome(Unsent& message, bool& would_block) {
  iovec part = {message.bytes.data() + message.sent, message.bytes.size() - message.sent};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(kDescriptorsMaxOfKernel * sizeof(int))];
  if (message.sent == 0 && !message.descriptors.empty()) {
    // The header alone first: the receiver reads it alone too, so it knows to which message the descriptors belong.
    part.iov_len = kHeaderBytes;
    const size_t bytes = message.descriptors.size() * sizeof(int);
    std::memset(control, 0, sizeof control);
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE(bytes);
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(bytes);
    for (size_t i = 0; i < message.descriptors.size(); ++i) {
      const int fd = message.descriptors[i].get();
      std::memcpy(CMSG_DATA(rights) + i * sizeof(int), &fd, sizeof fd);
    }
  }
  const ssize_t sent = sendmsg(fd_.get(), &header, MSG_NOSIGNAL | MSG_DONTWAIT);
  would_block = false;
  if (sent >= 0) {
    message.sent += static_cast<size_t>(sent);
    return Status::Ok();
  }
  if (errno == EINTR) return Status::Ok();
  if (errno == EAGAIN) {
    would_block = true;
    return Status::Ok();
  }
  if (errno == EPIPE || errno == ECONNRESET) return PeerGone();
  return Failed("sendmsg");
}

Status UnixSocket::Flush() {
  while (!unsent_.empty()) {
    bool would_block = false;
    KEDGE_RETURN_IF_ERROR(SendSome(unsent_.front(), would_block));
    if (would_block) return Status::Ok();
    if (unsent_.front().sent == unsent_.front().bytes.size()) unsent_.pop_front();
  }
  return Status::Ok();
}

Status UnixSocket::Queue(std::string_view body, std::vector<UniqueFd> descriptors) {
  if (body.size() > limits_.message_bytes_max ||
      descriptors.size() > std::min(limits_.descriptors_max, kDescriptorsMaxOfKernel)) {
    return Status(Code::kInvalidArgument,
                  fmt::format("a message of {} bytes and {} descriptors exceeds the limits of {} and {}", body.size(),
                              descriptors.size(), limits_.message_bytes_max, limits_.descriptors_max));
  }
  size_t queued_bytes = 0;
  for (const Unsent& message : unsent_) queued_bytes += message.bytes.size() - message.sent;
  if (queued_bytes > 0 && queued_bytes + body.size() > limits_.queued_bytes_max) {
    return Status(Code::kNoSpace, fmt::format("{} bytes wait for a peer that does not read", queued_bytes));
  }
  Unsent message;
  message.bytes.resize(kHeaderBytes);
  PutU32(message.bytes.data(), static_cast<uint32_t>(body.size()));
  PutU32(message.bytes.data() + 4, static_cast<uint32_t>(descriptors.size()));
  message.bytes += body;
  message.descriptors = std::move(descriptors);
  unsent_.push_back(std::move(message));
  return Flush();
}

Status UnixSocket::Send(std::string_view body, const std::vector<int>& descriptors, Duration timeout) {
  const Deadline deadline(SystemClock(), timeout);
  std::vector<UniqueFd> duplicates;
  for (const int fd : descriptors) {
    KEDGE_ASSIGN_OR_RETURN(UniqueFd duplicate, DuplicateDescriptor(fd));
    duplicates.push_back(std::move(duplicate));
  }
  KEDGE_RETURN_IF_ERROR(Queue(body, std::move(duplicates)));
  while (has_unsent()) {
    KEDGE_ASSIGN_OR_RETURN(const bool ready, WaitReady(fd_.get(), POLLOUT, deadline));
    if (!ready)
      return Status(Code::kTimeout, fmt::format("the other side did not take a message of {} bytes in time", body.size()));
    KEDGE_RETURN_IF_ERROR(Flush());
  }
  return Status::Ok();
}

Result<bool> UnixSocket::ReceiveSome(bool& would_block) {
  // Never past the end of the header, then never past the end of the frame: descriptors come with the first byte read.
  size_t frame_bytes = kHeaderBytes;
  if (frame_.size() >= kHeaderBytes) {
    const uint32_t body_bytes = GetU32(frame_.data());
    if (body_bytes > limits_.message_bytes_max) {
      return Status(Code::kCorrupt, fmt::format("the other side announced a message of {} bytes; the limit is {}", body_bytes,
                                                limits_.message_bytes_max));
    }
    frame_bytes += body_bytes;
    if (frame_.size() == frame_bytes) return true;
  }
  const size_t have = frame_.size();
  // Grow with what really comes: a peer's announcement alone must not make us allocate.
  frame_.resize(std::min(frame_bytes, have + 65536));
  iovec part = {frame_.data() + have, frame_.size() - have};
  alignas(cmsghdr) char control[CMSG_SPACE(kDescriptorsMaxOfKernel * sizeof(int))];
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  const ssize_t got = recvmsg(fd_.get(), &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  const int error = errno;
  frame_.resize(have + static_cast<size_t>(std::max<ssize_t>(got, 0)));
  if (got < 0) {
    would_block = error == EAGAIN;
    if (error == EAGAIN || error == EINTR) return false;
    if (error == ECONNRESET) return PeerGone();
    return Status::FromErrno(error, "recvmsg");
  }
  for (cmsghdr* entry = CMSG_FIRSTHDR(&header); entry != nullptr; entry = CMSG_NXTHDR(&header, entry)) {
    if (entry->cmsg_level != SOL_SOCKET || entry->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (entry->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(entry) + i * sizeof(int), sizeof fd);
      frame_descriptors_.emplace_back(fd);
    }
  }
  if ((header.msg_flags & MSG_CTRUNC) != 0 || frame_descriptors_.size() > limits_.descriptors_max) {
    return Status(Code::kCorrupt, "the other side sent more descriptors than allowed, or more than this process can open");
  }
  if (got == 0) {
    if (have == 0) return PeerGone();
    return Status(Code::kUnavailable, "the other side closed the connection in the middle of a message");
  }
  return frame_.size() >= kHeaderBytes && frame_.size() == kHeaderBytes + GetU32(frame_.data());
}

Result<SocketMessage> UnixSocket::TakeMessage() {
  const uint32_t announced = GetU32(frame_.data() + 4);
  SocketMessage message;
  message.body = frame_.substr(kHeaderBytes);
  message.descriptors = std::move(frame_descriptors_);
  frame_.clear();
  frame_descriptors_.clear();
  if (message.descriptors.size() != announced) {
    return Status(Code::kCorrupt,
                  fmt::format("the other side announced {} descriptors and sent {}", announced, message.descriptors.size()));
  }
  return message;
}

Result<std::optional<SocketMessage>> UnixSocket::TryReceive() {
  for (;;) {
    bool would_block = false;
    KEDGE_ASSIGN_OR_RETURN(const bool whole, ReceiveSome(would_block));
    if (whole) {
      KEDGE_ASSIGN_OR_RETURN(SocketMessage message, TakeMessage());
      return std::optional<SocketMessage>(std::move(message));
    }
    if (would_block) return std::optional<SocketMessage>();
  }
}

Result<SocketMessage> UnixSocket::Receive(Duration timeout) {
  const Deadline deadline(SystemClock(), timeout);
  for (;;) {
    KEDGE_ASSIGN_OR_RETURN(auto message, TryReceive());
    if (message) return std::move(*message);
    KEDGE_ASSIGN_OR_RETURN(const bool ready, WaitReady(fd_.get(), POLLIN, deadline));
    if (!ready) return Status(Code::kTimeout, "the other side sent no message in time");
  }
}

Result<PeerCredentials> UnixSocket::Peer() const {
  ucred credentials{};
  socklen_t bytes = sizeof credentials;
  if (getsockopt(fd_.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &bytes) != 0) return Failed("getsockopt(SO_PEERCRED)");
  return PeerCredentials{credentials.pid, credentials.uid, credentials.gid};
}

bool UnixSocket::WaitForPeerToClose(Duration timeout) const {
  const auto ready = WaitReady(fd_.get(), POLLRDHUP, Deadline(SystemClock(), timeout));
  return !ready.ok() || *ready;
}

void UnixSocket::Shutdown() {
  shutdown(fd_.get(), SHUT_RDWR);
}

}  // namespace kedge::os
