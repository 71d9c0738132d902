// The client's side of the mailbox: pushes messages and wakes the agent, takes the agent's messages, sleeps for them.
//
// Nothing here makes a system call, but the eventfd write when the agent sleeps, and waiting. The context's lock guards all of
// it, but `lost`, which the watcher sets when the agent's socket closes and which ends every wait.
#pragma once

#include <atomic>

#include "base/clock.h"
#include "base/status.h"
#include "os/events/event_fd.h"
#include "session/mailbox_ring.h"

namespace kedge {

class AgentChannel {
 public:
  // All three outlive the channel, or the next Attach.
  void Attach(Mailbox* mailbox, const ControlBlock* control, const os::EventFd* wake_agent);

  // False when the ring is full or the agent is gone: nothing happened.
  bool TryPush(const ClientMessage& message);
  // Waits for room. kTimeout, or kUnavailable when the agent is gone.
  Status Push(const ClientMessage& message, const Deadline& deadline);
  // Has it look at what the mailbox says besides, if it sleeps.
  void Wake();
  uint32_t Room() const { return to_agent_.Room(); }

  // False when there is none. A broken ring marks the channel lost.
  bool Poll(AgentMessage* message);
  // Wakes the agent and sleeps until it puts a message, it is lost, or the time is over (in short slices).
  void WaitForMessage(Duration at_most);

  void MarkLost() { lost_.store(true, std::memory_order_release); }
  bool lost() const { return lost_.load(std::memory_order_acquire); }
  // Lost for good: the client has another session by now. What was under way in this one cannot end. Under the context's lock.
  void MarkReplaced() {
    MarkLost();
    replaced_ = true;
  }
  bool replaced() const { return replaced_; }
  Mailbox* mailbox() const { return mailbox_; }

 private:
  Mailbox* mailbox_ = nullptr;
  const ControlBlock* control_ = nullptr;
  const os::EventFd* wake_agent_ = nullptr;
  ClientRingProducer to_agent_;
  AgentRingConsumer from_agent_;
  std::atomic<bool> lost_{true};
  bool replaced_ = false;
};

}  // namespace kedge
