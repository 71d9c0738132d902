#include "agent/attempt_watch.h"

#include <algorithm>

#include "agent/agent.h"
#include "agent/flush.h"
#include "agent/images.h"
#include "agent/sessions.h"
#include "agent/waiters.h"
#include "base/log.h"
#include "store/attempts.h"

namespace kedge {
namespace {

constexpr Duration kRetryPause = std::chrono::seconds(1);

Result<AttemptLook> LookOnce(StoreContext& store, const std::string& job, uint32_t attempt, bool is_carried) {
  KEDGE_ASSIGN_OR_RETURN(const Catalog catalog, store.CatalogFor(attempt));
  return LookAfterAttempt(catalog, job, attempt, is_carried);
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
  std::erase_if(last_look_, [&](const auto& entry) { return !next_ns_.contains(entry.first); });
  const int64_t now_ns = agent_.clock().NowNs();
  for (const auto& [key, is_carried] : watched) {
    const Job* job = agent_.FindJob(key.first.first, key.first.second);
    if (job != nullptr && next_ns_[key] <= now_ns) Look(*job, key, is_carried);
  }
}

void AttemptWatch::Look(const Job& job, const Key& key, bool is_carried) {
  next_ns_[key] = INT64_MAX;
  const int64_t began_ns = agent_.clock().NowNs();
  agent_.Background([store = job.store, name = job.name, attempt = key.second,
                     is_carried] { return LookOnce(*store, name, attempt, is_carried); },
                    [this, key, is_carried, began_ns](const Result<AttemptLook>& seen) {
                      const Status& marked = seen.ok() ? seen->marked : seen.status();
                      if (!marked.ok() && is_carried) {
                        static LogRateLimit limit(std::chrono::seconds(60));
                        LogLimited(limit, LogLevel::kWarning, "agent",
                                   "job {}: the store cannot be told that attempt {} is still carried there: {}",
                                   key.first.second, key.second, marked.ToString());
                      }
                      next_ns_[key] = agent_.clock().NowNs() + (marked.ok() ? seen->lease / 4 : kRetryPause).count();
                      last_look_[key] = {began_ns, seen.ok() ? seen->taken_over : Status::Ok()};
                      if (seen.ok() && !seen->taken_over.ok()) OnTakenOver(key, seen->taken_over);
                      agent_.waiters().OnLook();
                    });
}

std::optional<Status> AttemptWatch::TakenOver(const Job& job, uint32_t attempt, int64_t since_ns) {
  const Key key{{job.store_id, job.name}, attempt};
  const auto last = last_look_.find(key);
  if (last != last_look_.end() && (last->second.began_ns >= since_ns || !last->second.taken_over.ok())) {
    return last->second.taken_over;
  }
  int64_t& next_ns = next_ns_[key];
  if (next_ns != INT64_MAX) Look(job, key, false);
  return std::nullopt;
}

void AttemptWatch::OnTakenOver(const Key& key, const Status& why) {
  const Job* job = agent_.FindJob(key.first.first, key.first.second);
  for (Session* session : agent_.sessions().all()) {
    if (session->job == job && session->hello.attempt == key.second) agent_.sessions().SendTakenOver(*session, why);
  }
}

}  // namespace kedge
