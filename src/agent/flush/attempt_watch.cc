#include "agent/flush/attempt_watch.h"

#include <algorithm>
#include <set>

#include "agent/images/image_table.h"
#include "agent/images/local_retention.h"
#include "agent/tables/agent_core.h"
#include "agent/tables/session.h"
#include "base/log.h"
#include "store/attempts.h"
#include "store/versions.h"

namespace kedge {
namespace {

constexpr Duration kRetryPause = std::chrono::seconds(1);
// While somebody waits for a look to succeed.
constexpr Duration kAwaitedPause = std::chrono::milliseconds(250);

Result<AttemptLook> LookOnce(StoreContext& store, const std::string& job, uint32_t attempt, bool gives_sign) {
  KEDGE_ASSIGN_OR_RETURN(const Catalog catalog, store.CatalogFor(attempt));
  return LookAfterAttempt(catalog, job, attempt, gives_sign);
}

bool IsOnItsWay(const Image& image) {
  return !image.doomed && image.IsOnItsWay();
}

std::pair<JobKey, uint32_t> KeyOf(const Generation& generation) {
  return {JobKeyOf(generation), generation.attempt};
}

}  // namespace

void AttemptWatch::Tick() {
  std::set<Key> present;
  for (const Session* session : core_.sessions().all()) {
    if (session->job != nullptr && !session->ended) present.insert({session->job->key(), session->hello.attempt});
  }
  for (const auto& [id, image] : images_.all()) {
    if (IsOnItsWay(*image)) present.insert(KeyOf(image->version->generation));
  }
  std::erase_if(attempts_, [&](const auto& entry) { return !entry.second.is_looking && !present.contains(entry.first); });
  const int64_t now_ns = core_.clock().NowNs();
  for (const Key& key : present) {
    const Job* job = core_.FindJob(key.first);
    const Watched& watched = attempts_[key];
    if (job != nullptr && !watched.is_looking && watched.due_ns <= now_ns) Look(*job, key, core_.workers());
  }
}

bool AttemptWatch::IsCarried(const Key& key) const {
  const auto& images = images_.all();
  return std::any_of(images.begin(), images.end(), [&](const auto& entry) {
    return IsOnItsWay(*entry.second) && KeyOf(entry.second->version->generation) == key;
  });
}

void AttemptWatch::Look(const Job& job, const Key& key, Workers& workers) {
  Watched& watched = attempts_[key];
  watched.is_looking = true;
  const int64_t began_ns = core_.clock().NowNs();
  const bool is_due = watched.due_ns <= began_ns;
  const bool gives_sign = is_due && IsCarried(key);
  core_.Background(
      workers,
      [store = job.store, name = job.name, attempt = key.second, gives_sign] {
        return LookOnce(*store, name, attempt, gives_sign);
      },
      [this, key, is_due, gives_sign, began_ns](const Result<AttemptLook>& seen) {
        Watched& looked = attempts_[key];
        const Status& marked = seen.ok() ? seen->marked : seen.status();
        if (!marked.ok() && gives_sign) {
          static LogRateLimit limit(std::chrono::seconds(60));
          LogLimited(limit, LogLevel::kWarning, "agent",
                     "job {}: the store cannot be told that attempt {} is still carried there: {}", key.first.second, key.second,
                     marked.ToString());
        }
        if (is_due) looked.due_ns = core_.clock().NowNs() + (marked.ok() ? seen->lease / 4 : kRetryPause).count();
        looked.is_looking = false;
        looked.error = seen.status();
        looked.failed_ns = seen.ok() ? std::nullopt : std::optional<int64_t>(began_ns);
        if (seen.ok()) {
          looked.looked_ns = began_ns;
          if (looked.taken_over.ok()) looked.taken_over = seen->taken_over;
          if (!looked.taken_over.ok()) OnTakenOver(key, looked.taken_over);
        } else {
          looked.retry_ns = core_.clock().NowNs() + kAwaitedPause.count();
        }
        core_.events().attempts_looked_at();
      });
}

AttemptWatch::Found AttemptWatch::TakenOver(const Job& job, uint32_t attempt, int64_t since_ns) {
  const Key key{job.key(), attempt};
  const Watched& watched = attempts_[key];
  if (!watched.taken_over.ok() || (watched.looked_ns && *watched.looked_ns >= since_ns))
    return {watched.taken_over, Status::Ok()};
  const bool has_failed = watched.failed_ns && *watched.failed_ns >= since_ns;
  if (!watched.is_looking && core_.clock().NowNs() >= watched.retry_ns) Look(job, key, core_.publishers());
  return {std::nullopt, has_failed ? watched.error : Status::Ok()};
}

Status AttemptWatch::Known(const Job& job, uint32_t attempt) const {
  const auto found = attempts_.find({job.key(), attempt});
  return found == attempts_.end() ? Status::Ok() : found->second.taken_over;
}

void AttemptWatch::NoteTakenOver(const Job& job, uint32_t attempt, const Status& why) {
  const Key key{job.key(), attempt};
  Watched& watched = attempts_[key];
  if (!watched.taken_over.ok()) return;
  watched.taken_over = why;
  OnTakenOver(key, why);
}

void AttemptWatch::OnTakenOver(const Key& key, const Status& why) {
  const Job* job = core_.FindJob(key.first);
  for (Session* session : core_.sessions().all()) {
    if (session->job == job && session->hello.attempt == key.second) core_.sessions().SendTakenOver(*session, why);
  }
  if (job != nullptr) LearnRestarts(*job);
}

void AttemptWatch::LearnRestarts(const Job& job) {
  using Restarts = Result<std::vector<RestoredRecord>>;
  core_.Background(
      [store = job.store, name = job.name, checkpoints = job.Names()]() -> Restarts {
        KEDGE_ASSIGN_OR_RETURN(const Catalog catalog, store->CatalogFor(0));
        std::vector<RestoredRecord> all;
        for (const std::string& checkpoint : checkpoints) {
          KEDGE_ASSIGN_OR_RETURN(const std::vector<RestoredRecord> restored, ReadRestored(catalog, name, checkpoint));
          all.insert(all.end(), restored.begin(), restored.end());
        }
        return all;
      },
      [this, key = job.key()](const Restarts& restarts) {
        Job* found = core_.FindJob(key);
        if (found != nullptr && restarts.ok()) retention_.LearnRestarts(*found, *restarts);
      });
}

}  // namespace kedge
