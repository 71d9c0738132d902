// Attempts: who holds a job. One launch of a job is one attempt; attempt numbers only grow. A new launch takes over
// when the holder's attempt has ended, when its process is certainly gone, or when its lease has run out; until then it is
// refused with the holder's name.
//
// A process is certainly gone, or there, where this process sees it: machine id, boot id and PID namespace are the same,
// and pid and start time say the rest. A host name says nothing: containers share it, and a rescheduled pod takes it over.
// Everybody else has a lease: it runs out when its sign of life was watched unchanged for its whole length on one's own
// clock. No two clocks are ever compared: some file systems stamp files with the clock of the client that writes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/duration.h"
#include "base/status.h"
#include "format/store_records.h"
#include "store/catalog.h"

namespace kedge {

struct AttemptRequest {
  std::string job;
  std::string host;  // of the caller
  std::string boot_id;
  std::string machine_id;
  uint64_t pid_namespace = 0;
  int64_t pid = 0;
  uint64_t process_start_time = 0;
  double lease_seconds = 60;
  uint32_t ranks = 1;
  uint32_t newer_than = 0;  // the greatest attempt that the nodes know of: one that began without the store
  // How long to wait for a holder to end or for its lease to run out, which takes its length at least. Zero: not at all.
  Duration wait{};
  // Whether the process (pid, start time), seen from here, is alive. Empty: os::IsAlive.
  std::function<bool(int64_t, uint64_t)> is_alive;
};

// Signs of life, watched on one's own clock. Not thread safe.
class LeaseWatch {
 public:
  // The clock outlives the watch.
  explicit LeaseWatch(const Clock& clock = SystemClock()) : clock_(&clock) {}
  // Looks, and says for how long the record has been seen unchanged: zero at the first look and at each change.
  Result<Duration> Unchanged(const Catalog& catalog, const std::string& key);
  // Whether it has changed since the first look.
  bool HasChanged(const std::string& key) const;
  // The store was out of reach: nobody could give a sign of life meanwhile.
  void BeginAgain() { seen_.clear(); }

 private:
  struct Seen {
    int64_t stamp = 0;
    int64_t since_ns = 0;
    bool has_changed = false;
  };
  const Clock* clock_;
  std::map<std::string, Seen> seen_;  // by key
};

// As long as somebody else's lease is to be waited for, so that it has been watched for its whole length.
Duration LeasePatience(double lease_seconds);

// A request in the name of this process: machine, boot, namespace, pid, start time.
AttemptRequest RequestOfThisProcess(std::string job, double lease_seconds, uint32_t ranks);

// The record that the request's process would get for that attempt.
AttemptRecord RecordOf(const AttemptRequest& request, const StoreId& store_id, uint32_t attempt);

// Acquires the job: creates its record if need be, and the record of the next attempt, durably. Called by rank 0 alone.
// The new attempt's number is greater than that of any attempt or generation of the job in the store.
// kBusy: another attempt holds it; the message names host, pid, what is known of it, and what to do. `watch`: what this
// process has seen of the holder's lease before, for at most `request.wait` more; less where a holder that is seen to live
// renews it.
Result<AttemptRecord> AcquireAttempt(const Catalog& catalog, const AttemptRequest& request, LeaseWatch* watch);

// An attempt that began while the store could not be reached, its number chosen so that nobody else's is the same
// (AttemptBeyond): puts its record there now that it is. `self`: which processes are seen. Ok when it had been noted
// already. kUnavailable: another attempt lives, or its lease has not been watched for long enough; later, perhaps. kBusy: an
// attempt with a greater number, or the same, is there; this one must never publish.
Status RegisterAttempt(const Catalog& catalog, const AttemptRecord& record, const AttemptRequest& self, LeaseWatch* watch);

// The same for one that has ended, as far as this process knows: puts its record there and ends it, so that what the nodes
// hold of it may follow. Waits so long for the lease of another one to run out.
Status RegisterEndedAttempt(const Catalog& catalog, const AttemptRecord& record, LeaseWatch* watch, Duration wait);

// A number for such an attempt, above `newest`. Leaps: another launch that chooses without the store, too, or acquires
// the next number in it, gets another number but for one time in 65,536; parts of two attempts are never counted together.
uint32_t AttemptBeyond(uint32_t newest);

// kBusy: a newer attempt has taken over; what this one takes is not to be reported safe, and it removes nothing. One listing.
// Any other error: nobody can tell, which is not to be taken for ok.
Status CheckNotTakenOver(const Catalog& catalog, const std::string& job, uint32_t attempt);

// The same, asked again every 250 ms for as long as nobody can tell, for at most `patience`. `catalog`: the job's store, had anew
// each time. Sleeps on the calling thread.
Status AwaitCheckNotTakenOver(const std::function<Result<Catalog>()>& catalog, const std::string& job, uint32_t attempt,
                              Duration patience);

// Renews the lease; to be called every quarter of it. kBusy: a newer attempt has taken over, and this one must stop
// publishing. Other errors are the store's, which may be away, or another one by now: the lease goes on until it runs out.
Status RenewAttempt(const Catalog& catalog, const std::string& job, uint32_t attempt);

// The attempt finished in good order: its lease is free at once. Ok when it had ended already.
Status EndAttempt(const Catalog& catalog, const std::string& job, uint32_t attempt);

// For an agent that still has images of the attempt to carry to the store: a sign of life for gc (garbage.h), to be
// given every quarter of the lease until nothing is left. It holds up nobody who wants to take over the job.
Status MarkDraining(const Catalog& catalog, const std::string& job, uint32_t attempt);

// What whoever works for an attempt does every quarter of its lease, but for rank 0.
struct AttemptLook {
  Duration lease{};
  Status taken_over;  // kBusy: by a newer attempt
  Status marked;  // the sign of life, if one was to be given; a store that this node may only read tells the rest all the same
};
Result<AttemptLook> LookAfterAttempt(const Catalog& catalog, const std::string& job, uint32_t attempt, bool gives_sign);

enum class Life {
  kLives,  // as this process sees
  kDead,   // by its own word, or as this process sees
  kLeased  // its lease will tell
};
struct AttemptState {
  AttemptRecord record;
  Life life = Life::kLeased;
  std::string why;  // "ended", "its process 4711 on node1 is gone", "process 4711 on node1, lease of 60 s", ...
};

// The newest attempt of self.job, seen from self's machine; nothing when there is none.
Result<std::optional<AttemptState>> NewestAttempt(const Catalog& catalog, const AttemptRequest& self);

// Whether anybody works on the attempt. It is silent when its rank 0 has ended, is gone, was taken over from or has let its
// lease run out, and no agent that carries its images on has given a sign of life for as long; also when it never was.
enum class Silence {
  kSilent,
  kBroken,  // somebody is there
  kUnknown  // a lease has not been watched for long enough
};
Result<Silence> SilenceOf(const Catalog& catalog, const AttemptRequest& self, uint32_t attempt, LeaseWatch* watch);

// Whether an attempt is silent, as far as `watch` has seen by now: it lasts from one question to the next, because a sign of life
// must have been watched unchanged for a whole lease. False also when that cannot be told. One without a record is.
bool IsSilent(const Catalog& catalog, const std::string& job, uint32_t attempt, LeaseWatch* watch);

// Seconds since rank 0 or an agent last gave a sign of life for this attempt, for people and for days (Store::AgeSeconds);
// kNotFound: no such attempt.
Result<double> SilentSeconds(const Catalog& catalog, const std::string& job, uint32_t attempt);

inline constexpr size_t kHistoryAttemptsMax = 64;
struct AttemptLife {
  AttemptRecord record;
  int64_t ended_ns = 0;       // wall time of its end in good order; 0: none is known
  double silent_seconds = 0;  // of one without: since its last sign of life
};
// The kHistoryAttemptsMax newest attempts before `before`, oldest first. What cannot be read for damage is left out.
Result<std::vector<AttemptLife>> ReadAttempts(const Catalog& catalog, const std::string& job, uint32_t before);

// What became of these.
struct AttemptHistory {
  std::vector<uint32_t> failed;  // that did not end in good order, ascending
  double seconds = 0;            // of all, from acquisition to end or last sign of life
};
Result<AttemptHistory> ReadAttemptHistory(const Catalog& catalog, const std::string& job, uint32_t before);

}  // namespace kedge
