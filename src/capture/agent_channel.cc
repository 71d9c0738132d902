// See agent_channel.h.
#include "capture/agent_channel.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "os/memory/futex.h"
#include "os/process/kill_point.h"

namespace kedge {
namespace {

// A lost wake-up, or an agent that dies while we sleep, costs this much and no more.
constexpr Duration kSleepSlice = std::chrono::milliseconds(50);
constexpr Duration kRingPause = std::chrono::microseconds(200);

}  // namespace

void AgentChannel::Attach(Mailbox* mailbox, const ControlBlock* control, const os::EventFd* wake_agent) {
  mailbox_ = mailbox;
  control_ = control;
  wake_agent_ = wake_agent;
  to_agent_ = ClientRingProducer(&mailbox->from_client);
  from_agent_ = AgentRingConsumer(&mailbox->from_agent);
  lost_.store(false, std::memory_order_release);
}

bool AgentChannel::TryPush(const ClientMessage& message) {
  if (lost() || !to_agent_.TryPush(message)) return false;
  os::KillPoint("client-pushed-before-wake");
  Wake();
  return true;
}

void AgentChannel::Wake() {
  if (control_->agent_sleeping.load(std::memory_order_seq_cst) == kAgentAsleep) wake_agent_->Signal();
}

Status AgentChannel::Push(const ClientMessage& message, const Deadline& deadline) {
  while (!TryPush(message)) {
    if (lost()) return Status(Code::kUnavailable, "the agent is gone");
    if (deadline.Passed()) return Status(Code::kTimeout, "the agent does not take messages from its mailbox");
    std::this_thread::sleep_for(kRingPause);
  }
  return Status::Ok();
}

bool AgentChannel::Poll(AgentMessage* message) {
  if (mailbox_ == nullptr) return false;
  switch (from_agent_.Peek(message)) {
    case RingPeek::kEmpty: return false;
    case RingPeek::kBroken: MarkLost(); return false;
    case RingPeek::kMessage: break;
  }
  from_agent_.Advance();
  return true;
}

void AgentChannel::WaitForMessage(Duration at_most) {
  const Deadline deadline(SystemClock(), at_most);
  if (!lost() && control_->agent_sleeping.load(std::memory_order_seq_cst) != kAgentAwake) wake_agent_->Signal();
  while (!lost() && !deadline.Passed()) {
    mailbox_->client_sleeping.store(1, std::memory_order_seq_cst);
    const uint32_t word = mailbox_->client_wake.load(std::memory_order_seq_cst);
    AgentMessage unused;
    if (from_agent_.Peek(&unused) != RingPeek::kEmpty) break;
    os::FutexWait(&mailbox_->client_wake, word, std::min(deadline.Remaining(), kSleepSlice));
  }
  mailbox_->client_sleeping.store(0, std::memory_order_relaxed);
}

}  // namespace kedge
