#include "agent/draining.h"

#include <algorithm>
#include <set>

#include "agent/agent.h"
#include "agent/flush.h"
#include "agent/images.h"
#include "base/log.h"
#include "store/attempts.h"
#include "store/layout.h"
#include "store/record_io.h"

namespace kedge {
namespace {

constexpr Duration kRetryPause = std::chrono::seconds(1);

// The attempt's lease, after it was given a sign of life.
Result<Duration> MarkOnce(StoreContext& store, const std::string& job, uint32_t attempt) {
  KEDGE_ASSIGN_OR_RETURN(const Catalog catalog, store.CatalogFor(attempt));
  KEDGE_RETURN_IF_ERROR(MarkDraining(catalog, job, attempt));
  KEDGE_ASSIGN_OR_RETURN(const AttemptRecord record,
                         ReadOwnRecord(catalog, layout::AttemptKey(job, attempt), &DecodeAttemptRecord));
  return FromSeconds(record.lease_seconds);
}

}  // namespace

void Draining::Tick() {
  std::set<Key> carried;
  for (const auto& [id, image] : agent_.images().all()) {
    const Generation& generation = image->version->generation;
    if (!image->doomed && Flush::IsActive(*image)) carried.insert({{generation.store_id, generation.job}, generation.attempt});
  }
  std::erase_if(next_ns_, [&](const auto& entry) { return entry.second != INT64_MAX && !carried.contains(entry.first); });
  const int64_t now_ns = agent_.clock().NowNs();
  for (const Key& key : carried) {
    const Job* job = agent_.FindJob(key.first.first, key.first.second);
    if (job != nullptr && next_ns_[key] <= now_ns) Mark(*job, key);
  }
}

void Draining::Mark(const Job& job, const Key& key) {
  next_ns_[key] = INT64_MAX;
  agent_.Background([store = job.store, name = job.name, attempt = key.second] { return MarkOnce(*store, name, attempt); },
                    [this, key](const Result<Duration>& lease) {
                      if (!lease.ok()) {
                        static LogRateLimit limit(std::chrono::seconds(60));
                        LogLimited(limit, LogLevel::kWarning, "agent",
                                   "job {}: the store cannot be told that attempt {} is still "
                                   "carried there: {}",
                                   key.first.second, key.second, lease.status().ToString());
                      }
                      next_ns_[key] = agent_.clock().NowNs() + (lease.ok() ? *lease / 4 : kRetryPause).count();
                    });
}

}  // namespace kedge
