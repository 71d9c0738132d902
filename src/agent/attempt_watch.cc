#include "agent/attempt_watch.h"

#include <algorithm>

#include "agent/agent.h"
#include "agent/flush.h"
#include "agent/images.h"
#include "agent/sessions.h"
#include "base/log.h"
#include "store/attempts.h"
#include "store/layout.h"
#include "store/record_io.h"

namespace kedge {
namespace {

constexpr Duration kRetryPause = std::chrono::seconds(1);

// Of a look into the store that succeeded.
struct Seen {
  Duration lease{};
  Status taken_over;  // kBusy: by which attempt
};

Result<Seen> LookOnce(StoreContext& store, const std::string& job, uint32_t attempt, bool is_carried) {
  KEDGE_ASSIGN_OR_RETURN(const Catalog catalog, store.CatalogFor(attempt));
  if (is_carried) KEDGE_RETURN_IF_ERROR(MarkDraining(catalog, job, attempt));
  KEDGE_ASSIGN_OR_RETURN(const AttemptRecord record,
                         ReadOwnRecord(catalog, layout::AttemptKey(job, attempt), &DecodeAttemptRecord));
  Seen seen{FromSeconds(record.lease_seconds), CheckNotTakenOver(catalog, job, attempt)};
  if (!seen.taken_over.ok() && seen.taken_over.code() != Code::kBusy) return seen.taken_over;
  return seen;
}

}  // namespace

void AttemptWatch::Tick() {
  std::map<Key, bool> watched;  // whether images of it are carried
  for (const Session* session : agent_.sessions().all()) {
    if (session->job != nullptr && !session->ended)
      watched.try_emplace({{session->job->store_id, session->job->name}, session->hello.attempt}, false);
  }
  for (const auto& [id, image] : agent_.images().all()) {
    const Generation& generation = image->version->generation;
    if (!image->doomed && Flush::IsActive(*image)) watched[{{generation.store_id, generation.job}, generation.attempt}] = true;
  }
  std::erase_if(next_ns_, [&](const auto& entry) { return entry.second != INT64_MAX && !watched.contains(entry.first); });
  const int64_t now_ns = agent_.clock().NowNs();
  for (const auto& [key, is_carried] : watched) {
    const Job* job = agent_.FindJob(key.first.first, key.first.second);
    if (job != nullptr && next_ns_[key] <= now_ns) Look(*job, key, is_carried);
  }
}

void AttemptWatch::Look(const Job& job, const Key& key, bool is_carried) {
  next_ns_[key] = INT64_MAX;
  agent_.Background([store = job.store, name = job.name, attempt = key.second,
                     is_carried] { return LookOnce(*store, name, attempt, is_carried); },
                    [this, key, is_carried](const Result<Seen>& seen) {
                      if (!seen.ok() && is_carried) {
                        static LogRateLimit limit(std::chrono::seconds(60));
                        LogLimited(limit, LogLevel::kWarning, "agent",
                                   "job {}: the store cannot be told that attempt {} is still carried there: {}",
                                   key.first.second, key.second, seen.status().ToString());
                      }
                      next_ns_[key] = agent_.clock().NowNs() + (seen.ok() ? seen->lease / 4 : kRetryPause).count();
                      if (seen.ok() && !seen->taken_over.ok()) OnTakenOver(key, seen->taken_over);
                    });
}

void AttemptWatch::OnTakenOver(const Key& key, const Status& why) {
  const Job* job = agent_.FindJob(key.first.first, key.first.second);
  for (Session* session : agent_.sessions().all()) {
    if (session->job == job && session->hello.attempt == key.second) agent_.sessions().SendTakenOver(*session, why);
  }
}

}  // namespace kedge
