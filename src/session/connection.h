// The client's or a tool's side of the agent's socket: finds the node's agent, starts one when none runs, and asks it.
//
// The peer must be a process of this user. A session's mapped files (mailbox, control block, pools) outlive the
// connection: when the agent dies, the owner connects again and attaches with Hello::session_id.
//
// Threads: Call, Attach, Drain are serialised by a lock; WaitForPeerToClose may run beside them on another thread.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "os/events/event_fd.h"
#include "os/memory/mapping.h"
#include "os/sockets/unix_socket.h"
#include "session/config_keys.h"
#include "session/mailbox.h"
#include "session/messages.h"
#include "tier/tier.h"

namespace kedge {

struct ConnectOptions {
  NodeSettings node;
  // Whether to start an agent when none answers, and with which settings (config_keys.h, ExplicitNodeKeys).
  bool start_agent = true;
  std::vector<std::pair<std::string, std::string>> node_keys;
  Duration timeout = std::chrono::seconds(20);  // for everything, a start included
};

// What came with Welcome, opened and checked.
struct Attachment {
  Welcome welcome;
  os::SharedMapping mailbox;
  os::EventFd wake_agent = os::EventFd::FromDescriptor(os::UniqueFd());
  os::SharedMapping control;
  std::vector<std::unique_ptr<Tier>> tiers;  // one for each of welcome.tiers
};

struct OpenedWindow {
  OpenWindowReply reply;
  os::SharedMapping memory;  // of reply.window_bytes
};

class Connection {
 public:
  // kUnavailable: no agent, and none could be started (the message says why, with the end of its log); kPermission: the
  // socket is another user's.
  static Result<std::unique_ptr<Connection>> Connect(const ConnectOptions& options);

  // A rank's session. The agent's refusals come back as they are: kMismatch names both values.
  Result<Attachment> Attach(const Hello& hello, Duration timeout);
  // A tool's.
  Result<ToolWelcome> AttachTool(Duration timeout);

  // Asks, and waits at most `timeout` for the answer of type Reply; an ErrorReply is returned as its status. After
  // kTimeout the connection may be used on: the late answer is passed over. kUnavailable: the agent is gone.
  template <typename Reply>
  Result<Reply> Call(const Message& request, Duration timeout) {
    KEDGE_ASSIGN_OR_RETURN(Message reply, CallAny(request, timeout));
    Reply* typed = std::get_if<Reply>(&reply);
    if (typed == nullptr) return Status(Code::kCorrupt, "the agent answered with a message of another kind");
    return std::move(*typed);
  }
  // As Call, for an image that other nodes have: its window is mapped.
  Result<OpenedWindow> OpenWindow(const OpenWindowRequest& request, Duration timeout);
  // As Call, for ShareObjectsRequest's memory: `memory` is mapped when it comes.
  Result<ReadLineReply> ReadLine(const ReadLineRequest& request, os::SharedMapping* memory, Duration timeout);
  // As Call, for DrainRequest: `progress` (may be null) sees each report but the last, which is returned.
  Result<DrainReply> Drain(const DrainRequest& request, const std::function<void(const DrainReply&)>& progress);

  // Waits at most `timeout` for the agent's end; true when it is gone.
  bool WaitForPeerToClose(Duration timeout) const { return socket_.WaitForPeerToClose(timeout); }
  bool IsGone() const { return WaitForPeerToClose(Duration::zero()); }

 private:
  explicit Connection(os::UnixSocket socket) : socket_(std::move(socket)) {}
  Status Send(const Message& request, uint64_t* number, Duration timeout);
  Result<Message> Receive(uint64_t number, const Deadline& deadline, std::vector<os::UniqueFd>* descriptors);
  // `descriptors` (may be null): takes those that came with the answer.
  Result<Message> CallAny(const Message& request, Duration timeout, std::vector<os::UniqueFd>* descriptors = nullptr);

  std::mutex mutex_;
  os::UnixSocket socket_;
  uint64_t last_number_ = 0;
};

// Where the agent's program is: $KEDGE_AGENT, else beside this library or program (bin/ of the same tree included).
Result<std::string> FindAgentProgram();

// The build's name in handshakes, for messages: "0.1.0".
const char* BuildName();

}  // namespace kedge
