// Sessions: one for each client process. They begin with Hello, outlive the connection and the agent, and end with Goodbye
// or the death of their owner.
//
// In the run folder a session is its mailbox, sessions/ID, and what a successor must know of it, sessions/ID.hello; a job
// is jobs/JOB, its newest Hello and the state of its schedule. A slot that is assigned to a live process is never taken
// back: a session whose owner lives is kept, connected or not, until the owner attaches again or dies.
#pragma once

#include <string>
#include <vector>

#include "agent/tables/agent_core.h"

namespace kedge {

class AgentCore;
class Arrivals;
class Assignment;
class Carrier;
class FoundImages;
class Layouts;
class LocalRetention;
class OpenImages;
class Peers;
class Server;
class Throughput;
class Tiers;
class Tuning;

class Sessions {
 public:
  Sessions(AgentCore& core, Arrivals& arrivals, Assignment& assignment, Carrier& carrier, FoundImages& found_images,
           Layouts& layouts, OpenImages& open_images, Peers& peers, LocalRetention& retention, Server& server,
           Throughput& throughput, Tiers& tiers, Tuning& tuning);
  ~Sessions();

  // A connected client's Hello; `connection`: its number. On success the Welcome and the descriptors that go with it.
  struct Admission {
    Welcome welcome;
    std::vector<os::UniqueFd> descriptors;
    uint32_t session_id = 0;
  };
  Result<Admission> Attach(const Hello& hello, int32_t process_id, uint64_t connection);
  // The connection is gone; the session stays.
  void Detach(uint32_t session_id);
  // Finishes what is in the mailbox, frees its slots, removes it.
  void End(Session& session, const char* why);

  // Takes what has come through the mailboxes; whether there was anything. `may_wait`: also images whose gaps are being filled
  // (Arrivals::IsFilled), else what lies behind them is for later.
  bool DrainAll(bool may_wait = false);
  // A tier of theirs is lost: they are disconnected, and get new sessions when they come back.
  void RestartSessionsOf(const TierUnit* unit);
  // The same for all of them.
  void RestartAll();
  // Where there are no pidfds.
  void CheckOwners();

  void SaveJob(const Job& job);
  // What a predecessor left: jobs first, then (once the images are known) sessions.
  void RecoverJobs();
  void RecoverSessions();
  // The last step of recovery: ends those whose owners are no more, and watches the others.
  void EndDeadSessions();
  // Jobs of which neither session nor image is left.
  void ForgetIdleJobs();
  // The job of other nodes' ranks, for which this node is to write (gather/staging_post.h). kMismatch: a newer attempt is known.
  Status Enlist(const Hello& hello, const Membership& members);

 private:
  // Jobs of that name and store path, whichever store that is.
  KnownJobsReply KnownJobs(const KnownJobsRequest& request) const;
  // Who is in the session's attempt. kFailedPrecondition: these nodes cannot protect each other.
  Status SetMembers(Session& session, const Membership& members);
  // What the job's ranks go on from: kept with the job, and put into the store before anything that follows, unless it is there.
  Status NoteRestored(const Session& session, const RestoredRequest& request);
  void Restart(Session& session);
  Job& JobFor(const Hello& hello);
  Status CheckMembers(const Session& session, const Membership& members) const;
  Status ChangeMembers(Job& job, const Membership& members);
  Status CheckNodeKeys(const Hello& hello) const;
  Result<Session*> Create(const Hello& hello, const os::ProcessIdentity& owner);
  Status AttachAgain(Session& session, const Hello& hello);
  void WatchOwner(Session& session);
  bool Drain(Session& session, bool may_wait = false);
  void Handle(Session& session, const ClientMessage& message);
  void OnReturn(Session& session, const SlotRange& slot);
  void FreeSlots(Session& session);
  void OnOwnerDeath(uint32_t session_id);
  Result<Admission> Admit(Session& session, bool attached_again);
  Status SaveSession(const Session& session) const;
  void RemoveFiles(uint32_t id) const;
  void RecoverSession(uint32_t id);
  void RecoverJob(const std::string& path);
  std::string JobPath(const Job& job) const;
  std::string MailboxPath(uint32_t id) const;

  AgentCore& core_;
  Arrivals& arrivals_;
  Assignment& assignment_;
  Carrier& carrier_;
  FoundImages& found_images_;
  Layouts& layouts_;
  OpenImages& open_images_;
  Peers& peers_;
  LocalRetention& retention_;
  Server& server_;
  Throughput& throughput_;
  Tiers& tiers_;
  Tuning& tuning_;
  uint32_t last_id_ = 0;
};

}  // namespace kedge
