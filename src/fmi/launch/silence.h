// Nodes whose tasks say nothing. A task that stands still, or gets no processor for a while, is no dead node: so a command is
// started there before the node is given up. Only a node that runs no command either, and is silent still, is lost.
//
// A machine that is gone ends its task's connection (TcpSocket::EndWhenSilent); this is for those whose kernel still answers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "base/duration.h"
#include "os/events/event_loop.h"
#include "os/process/child.h"

namespace kedge::fmi {

class Silence {
 public:
  struct Limits {
    Duration look = std::chrono::seconds(1);
    Duration silence = std::chrono::seconds(10);  // before a node is asked, and asked again
    Duration answer = std::chrono::seconds(30);   // for the command to end
  };
  struct Events {
    std::function<os::ChildOptions(size_t node)> command;  // that runs on the node, and ends with 0
    std::function<void(size_t node)> stands_still;         // the node lives: once, until its task is heard again
    std::function<void(size_t node, const std::string& why)> lost;
  };
  // The loop must outlive it.
  Silence(os::EventLoop* loop, Events events, Limits limits);
  ~Silence();
  Silence(const Silence&) = delete;
  Silence& operator=(const Silence&) = delete;

  // From the first time on the node is looked at.
  void OnHeard(size_t node);
  // Nothing more is expected of it.
  void Forget(size_t node);

 private:
  struct Node {
    int64_t heard_ns = 0;
    int64_t asked_ns = 0;
    std::optional<os::Child> command;
    os::EventLoop::WatchId watch = 0;
    bool is_told = false;
  };
  void Look();
  void Ask(size_t number, Node* node);
  void OnAnswer(size_t number);
  void EndCommand(Node* node);
  void Lose(size_t number, const std::string& why);
  bool IsSilent(const Node& node) const;

  os::EventLoop& loop_;
  const Events events_;
  const Limits limits_;
  os::EventLoop::TimerId looking_;
  std::map<size_t, Node> nodes_;
};

}  // namespace kedge::fmi
