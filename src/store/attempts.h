// Attempts: who holds a job. One launch of a job is one attempt; attempt numbers only grow. A new launch takes over
// when the holder's attempt has ended, when its process is gone (same host: by pid and start time, or by the boot id),
// or when its lease has run out by the store's clock; until then it is refused with the holder's name.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/duration.h"
#include "base/status.h"
#include "format/store_records.h"
#include "store/catalog.h"

namespace kedge {

struct AttemptRequest {
  std::string job;
  std::string host;  // of the caller
  std::string boot_id;
  int64_t pid = 0;
  uint64_t process_start_time = 0;
  double lease_seconds = 60;
  uint32_t ranks = 1;
  uint32_t newer_than = 0;  // the greatest attempt that the nodes know of: one that began without the store
  // How long to wait for a live-looking holder to end or for its lease to run out. Zero: not at all.
  Duration wait{};
  // Whether the process (pid, start time) of this host and boot is alive. Empty: os::IsAlive.
  std::function<bool(int64_t, uint64_t)> is_alive;
};

// A request in the name of this process: host, boot id, pid, start time.
AttemptRequest RequestOfThisProcess(std::string job, double lease_seconds, uint32_t ranks);

// The record that the request's process would get for that attempt.
AttemptRecord RecordOf(const AttemptRequest& request, const StoreId& store_id, uint32_t attempt);

// Acquires the job: creates its record if need be, and the record of the next attempt, durably. Called by rank 0 alone.
// The new attempt's number is greater than that of any attempt or generation of the job in the store.
// kBusy: another attempt holds it; the message names host, pid, age of its lease, and what to do.
Result<AttemptRecord> AcquireAttempt(const Catalog& catalog, const AttemptRequest& request);

// An attempt that began while the store could not be reached, its number chosen so that nobody else's is the same
// (AttemptBeyond): puts its record there now that it is. `self`: whose host and processes are seen; `watched`: since when
// the store has been reached without a break. Ok when it had been noted already. kUnavailable: another attempt lives, or
// has not had the time yet to renew its lease; later, perhaps. kBusy: an attempt with a greater number, or the same, is
// there; this one must never publish.
Status RegisterAttempt(const Catalog& catalog, const AttemptRecord& record, const AttemptRequest& self, Duration watched);

// The same for one that has ended, as far as this process knows, and has been gone for long enough: puts its record there
// and ends it, so that what the nodes hold of it may follow.
Status RegisterEndedAttempt(const Catalog& catalog, const AttemptRecord& record);

// A number for such an attempt, above `newest`. Leaps: another launch that chooses without the store, too, or acquires
// the next number in it, gets another number but for one time in 65,536; parts of two attempts are never counted together.
uint32_t AttemptBeyond(uint32_t newest);

// Renews the lease; to be called every quarter of it. kBusy: a newer attempt has taken over, and this one must stop
// publishing. Other errors are the store's: the lease goes on until it runs out.
Status RenewAttempt(const Catalog& catalog, const std::string& job, uint32_t attempt);

// The attempt finished in good order: its lease is free at once. Ok when it had ended already.
Status EndAttempt(const Catalog& catalog, const std::string& job, uint32_t attempt);

// For an agent that still has images of the attempt to carry to the store: a sign of life for gc (garbage.h), to be
// given every quarter of the lease until nothing is left. It holds up nobody who wants to take over the job.
Status MarkDraining(const Catalog& catalog, const std::string& job, uint32_t attempt);

struct AttemptState {
  AttemptRecord record;
  bool live = false;
  bool is_certain = false;  // that it is dead: by its own word, or by this host's; not by its lease
  std::string why;          // "ended", "its process 4711 on node1 is gone", "its lease of 60 s ran out 12 s ago", ...
  double age_seconds = 0;   // of its lease, where that was asked for
};

// The newest attempt of self.job, seen from self's host and boot; nothing when there is none.
Result<std::optional<AttemptState>> NewestAttempt(const Catalog& catalog, const AttemptRequest& self);

// Seconds since rank 0 or an agent last gave a sign of life for this attempt; kNotFound: no such attempt.
Result<double> SilentSeconds(const Catalog& catalog, const std::string& job, uint32_t attempt);

// What became of the attempts before `before`; of the kHistoryAttemptsMax newest of them.
inline constexpr size_t kHistoryAttemptsMax = 64;
struct AttemptHistory {
  std::vector<uint32_t> failed;  // that did not end in good order, ascending
  double seconds = 0;            // of all, from acquisition to end or last sign of life
};
Result<AttemptHistory> ReadAttemptHistory(const Catalog& catalog, const std::string& job, uint32_t before);

}  // namespace kedge
