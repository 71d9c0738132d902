// Unix stream sockets between client and agent: framed messages with descriptors, credentials, no SIGPIPE.
//
// A frame is u32 body length, u32 number of descriptors (both little-endian), body. The descriptors travel with the
// first byte of the header. What a peer sends is not trusted: lengths and counts are bounded, surplus descriptors are
// closed. A connection that returned an error (other than a timeout before any byte of a frame) is broken: drop it.
//
// One thread at a time uses a connection for sending and one for receiving.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/duration.h"
#include "base/status.h"
#include "os/files/unique_fd.h"

namespace kedge::os {

struct PeerCredentials {
  pid_t process_id = 0;
  uid_t user_id = 0;
  gid_t group_id = 0;
};

struct SocketMessage {
  std::string body;
  std::vector<UniqueFd> descriptors;
};

struct SocketLimits {
  size_t message_bytes_max = size_t{16} << 20;
  size_t descriptors_max = 16;                 // in one message; at most 253 (SCM_MAX_FD)
  size_t queued_bytes_max = size_t{64} << 20;  // unsent, before Queue refuses with kNoSpace
};

class UnixSocket {
 public:
  // Waits at most `timeout`. kUnavailable when nobody listens (refused, no such file).
  static Result<UnixSocket> Connect(const std::string& path, Duration timeout, SocketLimits limits = {});
  // Two connected ends, for tests and parent-child use.
  static Result<std::pair<UnixSocket, UnixSocket>> Pair(SocketLimits limits = {});

  UnixSocket(UnixSocket&&) = default;
  UnixSocket& operator=(UnixSocket&&) = default;

  // Blocking, for a client. kTimeout when not all was taken in time: the connection is then broken.
  // The descriptors are duplicated into the peer; the caller keeps its own.
  Status Send(std::string_view body, const std::vector<int>& descriptors, Duration timeout);
  // kTimeout when no whole message came; a part that came is kept for the next call. kUnavailable: the peer is gone.
  Result<SocketMessage> Receive(Duration timeout);

  // For an event loop. Queue appends and tries to send; Flush sends more when the socket is writable. Watch for
  // writability while has_unsent().
  Status Queue(std::string_view body, std::vector<UniqueFd> descriptors = {});
  Status Flush();
  bool has_unsent() const { return !unsent_.empty(); }
  // A whole message, if one has come; call until it returns nothing. kUnavailable: the peer closed.
  Result<std::optional<SocketMessage>> TryReceive();

  // Of the process that called connect or listen (SO_PEERCRED).
  Result<PeerCredentials> Peer() const;
  // Waits at most `timeout` for the peer to close, whatever else comes; true when it has. Reads nothing, so one thread may
  // watch while another talks.
  bool WaitForPeerToClose(Duration timeout) const;
  // Makes both sides see the end of the connection; the descriptor stays open.
  void Shutdown();
  int descriptor() const { return fd_.get(); }

 private:
  friend class UnixListener;
  UnixSocket(UniqueFd fd, SocketLimits limits) : fd_(std::move(fd)), limits_(limits) {}

  struct Unsent {
    std::string bytes;
    size_t sent = 0;
    std::vector<UniqueFd> descriptors;
  };
  Status SendSome(Unsent& message, bool& would_block);
  // Reads what is there, towards one frame; true when the frame is whole.
  Result<bool> ReceiveSome(bool& would_block);
  Result<SocketMessage> TakeMessage();

  UniqueFd fd_;
  SocketLimits limits_;
  std::deque<Unsent> unsent_;
  std::string frame_;  // header and body as far as they came
  std::vector<UniqueFd> frame_descriptors_;
};

// A listening socket that belongs to this process alone.
//
// The folder is made if needed and must belong to this user with no access for others (0700). Next to the socket lies
// `<path>.lock`; whoever holds its lock may listen, so a socket left by a dead process is replaced safely and a live
// one never. Paths longer than sun_path are reached through /proc/self/fd.
class UnixListener {
 public:
  // kBusy when a live process holds the lock; kPermission when the folder is not ours alone.
  static Result<UnixListener> Listen(const std::string& path, SocketLimits limits = {});
  UnixListener(UnixListener&&) = default;
  UnixListener& operator=(UnixListener&&) = delete;
  // Removes the socket and the lock file, if they are still its own.
  ~UnixListener();

  // Whether clients that go to the path still come to this listener: false when socket, lock file or folder were
  // removed or replaced under it.
  bool IsReachable() const;

  // Nonblocking; nothing when no connection waits. The connection is for an event loop (nonblocking) and usable with
  // the blocking calls as well. Transient failures (EMFILE, ECONNABORTED) are errors that leave the listener usable.
  Result<std::optional<UnixSocket>> Accept();
  int descriptor() const { return fd_.get(); }
  const std::string& path() const { return path_; }

 private:
  UnixListener(UniqueFd lock, UniqueFd fd, uint64_t socket_inode, std::string path, SocketLimits limits)
      : lock_(std::move(lock)), fd_(std::move(fd)), socket_inode_(socket_inode), path_(std::move(path)), limits_(limits) {}
  bool OwnsLockFile() const;

  UniqueFd lock_;
  UniqueFd fd_;
  uint64_t socket_inode_;  // of the file at `path_`
  std::string path_;
  SocketLimits limits_;
};

}  // namespace kedge::os
