// A node that the job does not have yet: a command is asked for it, and writes the node's name, with what reaches the node behind
// it. It may take its time, as a queue does.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "os/events/event_loop.h"
#include "os/process/child.h"

namespace kedge::fmi {

struct FoundNode {
  std::string name;
  std::string shell;  // starts a command there when the name and the command's words follow; empty: as on the others
};

// Of what the command has written: one line, a name and a shell.
Result<FoundNode> ParseFoundNode(std::string_view text);

class NodeRequest {
 public:
  using Told = std::function<void(const Result<FoundNode>& found)>;

  // `command`: for sh. `told`: once, when it has ended; the request may end in it. The loop must outlive the request.
  static Result<std::unique_ptr<NodeRequest>> Create(os::EventLoop* loop, const std::string& command, Told told);
  // Ends the command.
  ~NodeRequest();
  NodeRequest(const NodeRequest&) = delete;
  NodeRequest& operator=(const NodeRequest&) = delete;

 private:
  NodeRequest(os::EventLoop* loop, os::Child command, Told told)
      : loop_(*loop), command_(std::move(command)), told_(std::move(told)) {}
  Result<FoundNode> Found() const;

  os::EventLoop& loop_;
  const os::Child command_;
  Told told_;
  os::EventLoop::WatchId watch_ = 0;
};

}  // namespace kedge::fmi
