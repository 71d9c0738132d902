// Sessions: one for each client process. They begin with Hello, outlive the connection and the agent, and end with Goodbye
// or the death of their owner.
//
// In the run folder a session is its mailbox, sessions/ID, and what a successor must know of it, sessions/ID.hello; a job
// is jobs/JOB, its newest Hello and the state of its schedule. A slot that is assigned to a live process is never taken
// back: a session whose owner lives is kept, connected or not, until the owner attaches again or dies.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "agent/tables/model.h"

namespace kedge {

class Agent;

class Sessions {
 public:
  explicit Sessions(Agent& agent) : agent_(agent) {}
  ~Sessions();

  // A connected client's Hello; `peer` is its connection. On success the Welcome and the descriptors that go with it.
  struct Admission {
    Welcome welcome;
    std::vector<os::UniqueFd> descriptors;
    uint32_t session_id = 0;
  };
  Result<Admission> Attach(const Hello& hello, int32_t process_id, uint64_t peer);
  // The connection is gone; the session stays.
  void Detach(uint32_t session_id);
  // Finishes what is in the mailbox, frees its slots, removes it.
  void End(Session& session, const char* why);

  Session* Find(uint32_t id) const;
  std::vector<Session*> all() const;
  // Whether a process of that attempt of the job may still hand something over.
  bool HasAttempt(const Job& job, uint32_t attempt) const;
  // Jobs of that name and store path, whichever store that is.
  KnownJobsReply KnownJobs(const KnownJobsRequest& request) const;
  // Whether any owner lives.
  bool Any() const { return !sessions_.empty(); }

  // Takes what has come through the mailboxes; whether there was anything.
  bool DrainAll();
  void Send(Session& session, const AgentMessage& message);
  // That an image which was handed over will not get where it was to go; counts it.
  void SendFailure(Session& session, uint64_t serial, const Status& why);
  // That its attempt was taken over: its calls say so.
  void SendTakenOver(Session& session, const Status& why);
  void PublishCounts(Session& session);
  // A tier of theirs is lost: they are disconnected, and get new sessions when they come back.
  void RestartSessionsOf(const TierUnit* unit);
  // The same for all of them.
  void RestartAll();
  // Where there are no pidfds.
  void CheckOwners();

  // Who is in the session's attempt. kFailedPrecondition: these nodes cannot protect each other.
  Status SetMembers(Session& session, const Membership& members);
  // What the job's ranks go on from: kept with the job, and put into the store before anything that follows, unless it is there.
  Status NoteRestored(const Session& session, const RestoredRequest& request);

  void SaveJob(const Job& job);
  // What a predecessor left: jobs first, then (once the images are known) sessions.
  void RecoverJobs();
  void RecoverSessions();
  // The last step of recovery: ends those whose owners are no more, and watches the others.
  void EndDeadSessions();
  // Jobs of which neither session nor image is left.
  void ForgetIdleJobs();

 private:
  void Restart(Session& session);
  Job& JobFor(const Hello& hello);
  Status CheckMembers(const Session& session, const Membership& members) const;
  Status ChangeMembers(Job& job, const Membership& members);
  Status CheckNodeKeys(const Hello& hello) const;
  Result<Session*> Create(const Hello& hello, const os::ProcessIdentity& owner);
  Status AttachAgain(Session& session, const Hello& hello);
  void WatchOwner(Session& session);
  bool Drain(Session& session);
  void Handle(Session& session, const ClientMessage& message);
  void FreeSlots(Session& session);
  void OnOwnerDeath(uint32_t session_id);
  Result<Admission> Admit(Session& session, bool attached_again);
  Status SaveSession(const Session& session) const;
  void RecoverSession(uint32_t id);
  void RecoverJob(const std::string& path);
  std::string JobPath(const Job& job) const;
  std::string MailboxPath(uint32_t id) const;

  Agent& agent_;
  std::map<uint32_t, std::unique_ptr<Session>> sessions_;
  uint32_t last_id_ = 0;
};

}  // namespace kedge
