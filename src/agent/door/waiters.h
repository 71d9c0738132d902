// Those who wait for a level or for a drain. Every wait ends: reached, failed, or at its timeout with the missing ranks named.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <string>

#include "agent/tables/client_requests.h"
#include "agent/tables/job.h"
#include "agent/tables/session.h"

namespace kedge {

class AgentCore;
class AttemptWatch;
class Flush;
class LocalLevel;
class NodeLevel;
class PendingImages;
class Publisher;

class Waiters {
 public:
  Waiters(AgentCore& core, AttemptWatch& attempt_watch, Flush& flush, LocalLevel& local_level, NodeLevel& node_level,
          PendingImages& pending, Publisher& publisher);

  void DropConnection(uint64_t connection);

  // Something about that generation has changed.
  void Check(const Generation& generation);
  // The version does not get to `level`, kNode or kStore.
  void OnFailure(const Version& version, Level level, const Status& failure);
  // Nothing of it lies here any more.
  void OnVersionGone(const Version& version);
  // Timeouts, progress of drains, versions that other nodes finish. A few times a second, and when it was looked whether a newer
  // attempt has taken over (attempt_watch.h).
  void Tick();
  size_t waiting() const { return waits_.size() + drains_.size(); }

 private:
  struct Wait {
    Question question;
    Generation generation;
    Level level;
    bool is_test;  // answered at the first opportunity, whatever the level is
    int64_t asked_ns;
    int64_t deadline_ns;
    bool looked_up = false;            // in the store
    std::optional<Level> stored = {};  // it is gone from here, and complete there: kBuffer or kStore
    bool looking = false;
    int64_t next_look_ns = 0;
  };
  struct DrainWait {
    Question question;
    DrainRequest request;
    int64_t asked_ns;
    int64_t deadline_ns;
    int64_t next_report_ns;
    uint64_t images_failed = 0;
    Status failure;
    bool has_asked = false;  // the store, whether ranks disagree
    size_t asking = 0;       // answers to come
  };
  void AddWait(const WaitRequest& request, const Question& question);
  void AddTest(const TestRequest& request, const Question& question);
  void AddDrain(const DrainRequest& request, const Question& question);
  void Add(Wait wait);
  // Whether a rank waits until the version is in the store, or at its last level.
  static bool IsForStore(const Wait& wait);
  // What is flushed is waited for, or not any more.
  void NoteAwaited();
  // Whether it was answered.
  bool Answer(Wait& wait);
  bool AnswerKnown(Wait& wait, Version& version);
  // A version that did not get to the store, and has made room for newer ones since. Who ends hears of it all the same.
  struct GoneFailure {
    Generation generation;
    Status why;
  };
  struct Asked {
    uint64_t connection;
    int64_t since_ns;
    int64_t deadline_ns;
    bool at_once;  // the first look that fails is answer enough
  };
  const Session* SessionOf(uint64_t connection) const;
  std::optional<Status> StillHasJob(const Asked& asked) const;
  bool HasStored(uint64_t connection) const;
  void LookUp(Wait& wait);  // after pauses
  std::vector<uint32_t> MissingRanks(const Version& version, Level level) const;
  bool AnswerDrain(DrainWait& drain);
  void AskWhetherRanksDisagree(DrainWait& drain);
  bool IsOutlived(const Version& version, Level level) const;
  bool IsFailed(const Version& version, Level at, Level wanted) const;
  std::string AbsenceOf(const Job* job) const;
  Status FormerFailure(const Job& job, Level wanted) const;
  Status NeverTaken(const Version& version) const;

  AgentCore& core_;
  AttemptWatch& attempt_watch_;
  Flush& flush_;
  LocalLevel& local_level_;
  NodeLevel& node_level_;
  PendingImages& pending_;
  Publisher& publisher_;
  std::list<Wait> waits_;
  std::list<DrainWait> drains_;
  std::map<NameKey, GoneFailure> gone_failures_;  // the newest of each name
};

}  // namespace kedge
