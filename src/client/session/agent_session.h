// The session with the node's agent: attaching, attaching again after the agent died, and the messages from it.
//
// With an agent checkpoints go to local slots; without one they are inline. The session never fails a checkpoint by itself:
// it is attached or it is not. When the agent dies, the watcher sees its socket close, starts another agent and offers the
// connection; whoever holds the lock next (the watcher, or a call that waits for a slot) attaches with the same mailbox, so
// that what lies in it is carried on.
//
// Guarded by the context's lock, but for what says otherwise.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "capture/slot_sink.h"
#include "client/core/core.h"
#include "client/core/ledger.h"
#include "session/connection.h"
#include "session/halt.h"
#include "session/level_counts.h"

namespace kedge::client {

// One session at the agent, as long as its mailbox lives. An image in the making keeps the one it began in.
struct AttachedSession {
  uint64_t number = 0;  // counts the sessions of this context, from 1
  Attachment attachment;
  AgentChannel channel;
  std::unique_ptr<SlotAllocator> slots;
  std::unique_ptr<SlotSink> sink;
  // The watcher's: the slot that was assigned last, and how far this process's mapping of it is populated.
  SlotRange populated{};
};

struct FlushFailure {
  std::string name;
  int64_t version = 0;
  Status status;
};

// Finds or starts the node's agent; slow.
Result<std::unique_ptr<Connection>> ConnectToAgent(const Core& core);

class AgentSession {
 public:
  // Both outlive the session.
  AgentSession(Core* core, Ledger* ledger) : core_(core), ledger_(ledger) {}

  // The first time, from init, over a connection to the node's agent. A mismatch of configuration is an error; an agent that
  // cannot be had is a warning.
  Status Start(Result<std::unique_ptr<Connection>> connection);
  // Tells the agent who is in the attempt, and every later agent of this session. kFailedPrecondition: these nodes cannot
  // protect each other.
  Status SetMembers(Membership members);
  // The ranks go on from this generation.
  void TellRestored(const RestoredRecord& record, bool noted);
  // Takes what the agent has sent, and attaches through a connection that was offered.
  void Pump();

  // For the watcher, without the context's lock. Whether an agent is wanted and none is attached:
  bool WantsAgent() const { return wants_agent_.load(std::memory_order_acquire); }
  // One from ConnectToAgent; then, under the lock, Pump.
  void Offer(std::shared_ptr<Connection> connection);
  // What the watcher looks after. A call that waits for a slot holds the context's lock all the while, and attaches to the
  // next agent by itself: that agent's death must be seen all the same.
  struct Watched {
    std::shared_ptr<AttachedSession> session;
    std::shared_ptr<Connection> connection;
  };
  Watched watched() const;
  // The connection has closed: the session that goes over it is lost.
  void ReportLoss(const Watched& lost);

  // Until an agent is attached: the successor of one that died, say. Gives up after 15 s; whether there is one then.
  bool AwaitAgent();
  // What `ask`, given a shared_ptr<Connection>, returns of the agent; where it dies over it or is gone, of its successor, which
  // is waited for. kUnavailable: none came, or there never was one.
  template <typename Ask>
  auto AskAgent(Ask ask) -> decltype(ask(std::shared_ptr<Connection>())) {
    constexpr int kAgentsMax = 3;
    Status status(Code::kUnavailable, "no agent");
    for (int agents = 0; agents < kAgentsMax && attached_ && AwaitAgent(); ++agents) {
      const auto asked = connection_;
      auto answer = ask(asked);
      if (answer.ok() || !asked->IsGone()) return answer;
      status = answer.status();
    }
    return status;
  }

  // Ends the session in good order.
  void Goodbye();

  // Whether a new image may go to the agent.
  bool attached() const { return attached_ != nullptr && !attached_->channel.lost(); }
  // The session, attached or lost; nullptr: none yet.
  const std::shared_ptr<AttachedSession>& current() const { return attached_; }
  // For requests on the socket, also after the lock is let go; nullptr when not attached.
  std::shared_ptr<Connection> connection() const { return attached() ? connection_ : nullptr; }
  std::vector<Tier*> Tiers() const;

  // Whether this rank has images at the agent that are not done: of the present session.
  bool HasPending() const;
  // Whether a session that another has replaced had any. Its mailbox tells no more; only the agent does.
  // Whether an agent serves this context that does not continue the session of the one before.
  bool WasReplaced() const { return sessions_ > 1; }
  bool HadPending() const { return had_pending_; }
  void ForgetFormerPending() { had_pending_ = false; }
  // For the next who asks. `taken` null: of nothing that is remembered.
  void AddFailure(TakenVersion* taken, const Status& status, bool is_news = true);
  // The oldest failure that TakeFailure has not returned yet.
  std::optional<FlushFailure> TakeFailure();
  uint64_t failures() const { return failures_seen_; }

  // For the agent's measurements (session/mailbox.h); without an agent they are left out.
  void CountCheckpoint(double took_seconds);
  void CountRestart(double took_seconds, Level needed);
  // The time between checkpoints that the agent says; zero: it says none.
  Duration told_interval() const;
  // The counts of levels that the agent says; none: it says nothing.
  LevelCounts told_levels() const;
  // What the agent has been asked to tell the ranks: to end.
  Halt told_halt() const;

  // The agent is shown that the application has got a step on.
  void NoteStep();
  // The agent is shown whether the application communicates; a later one, too.
  void NotePhase(bool communicates);
  // The agent is shown what the selected regions take, to make room for it ahead.
  void ShowDeclared();
  // The agent is shown the counts of levels that the ranks go by, and that they have been told to exit; every later one, too.
  void ShowLevels();
  void ShowExit();

 private:
  Status AttachThrough(std::shared_ptr<Connection> connection);
  // Over a connection of its own, made now.
  Status AttachAnew();
  void WarnOfNoTiers() const;
  Hello MakeHello() const;
  void Adopt(Attachment attachment);
  // Whether `attachment` goes on with the present session's mailbox and slots.
  bool Continues(const Attachment& attachment) const;
  void ShowTold();
  void TakeMessages();
  void OnMessage(const AgentMessage& message);
  Status TellMembers();

  Core* core_;
  Ledger* ledger_;
  std::shared_ptr<Connection> connection_;
  std::shared_ptr<AttachedSession> attached_;
  std::optional<Membership> members_;
  uint64_t sessions_ = 0;
  bool had_pending_ = false;
  std::deque<FlushFailure> failures_;
  uint64_t failures_seen_ = 0;
  bool shows_levels_ = false;
  bool shows_exit_ = false;
  bool communicates_ = false;
  std::atomic<bool> wants_agent_{false};
  mutable std::mutex watcher_mutex_;  // guards what is shared with the watcher:
  std::shared_ptr<Connection> offered_;
  Watched watched_;
};

}  // namespace kedge::client
