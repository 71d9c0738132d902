#include "agent/images/local_retention.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <utility>

#include "agent/images/gap_filler.h"
#include "agent/images/image_flusher.h"
#include "agent/images/image_table.h"
#include "agent/images/passing_chunks.h"
#include "agent/space/assignment.h"
#include "agent/tables/agent_core.h"
#include "base/log.h"

namespace kedge {
namespace {

// With very many versions, going over them is to leave the loop time for other things.
constexpr Duration kReconsiderAtOnce = std::chrono::milliseconds(1);
constexpr Duration kReconsiderPauseMax = std::chrono::milliseconds(20);

bool HasRedundancyIn(const Version& version, const TierUnit* unit) {
  for (const auto& [identity, set] : version.sets) {
    for (const auto& [member, object] : set->objects) {
      if (std::any_of(object.ranges.begin(), object.ranges.end(), [&](const OwnRange& range) { return range.unit == unit; }))
        return true;
    }
  }
  return false;
}

}  // namespace

void LocalRetention::Reconsider(const Job& job, const std::string& name) {
  const bool is_first = to_reconsider_.empty();
  to_reconsider_.emplace(job.key(), name);
  if (!is_first) return;
  const auto reconsider = [this] {
    ReconsiderPending();
    assignment_.Pump();  // who waits for room that this has made
  };
  if (reconsidering_took_ < kReconsiderAtOnce) {
    core_.loop().Post(reconsider);
  } else {
    core_.loop().AddTimer(std::min(3 * reconsidering_took_, kReconsiderPauseMax), reconsider);
  }
}

void LocalRetention::ReconsiderPending() {
  if (to_reconsider_.empty()) return;
  const int64_t begin_ns = core_.clock().NowNs();
  for (const auto& [key, name] : std::exchange(to_reconsider_, {})) {
    Job* job = core_.FindJob(key);
    if (job != nullptr) ReconsiderNow(*job, name);
  }
  reconsidering_took_ = Duration(core_.clock().NowNs() - begin_ns);
}

void LocalRetention::ReconsiderAll(const Job& job) {
  for (const std::string& name : job.Names()) Reconsider(job, name);
}

void LocalRetention::LearnRestarts(Job& job, const std::vector<RestoredRecord>& restarts) {
  bool is_news = false;
  for (const RestoredRecord& record : restarts) is_news = job.LearnRestored(record) || is_news;
  if (!is_news) return;
  core_.events().job_changed(job);
  ReconsiderAll(job);
}

void LocalRetention::ReconsiderNow(Job& job, const std::string& name) {
  core_.events().retention_begins(job, name);
  const Lineage lineage = job.LineageOf(name);
  std::vector<Version*> newest_first;
  std::vector<LocalGeneration> generations;
  for (auto entry = job.versions.rbegin(); entry != job.versions.rend(); ++entry) {
    Version& version = *entry->second;
    if (version.generation.name != name) continue;
    LocalGeneration generation;
    generation.attempt = version.generation.attempt;
    generation.take = version.generation.take;
    generation.whole = version.IsWhole();
    // What a burst buffer alone has would be lost with that, though no node was.
    generation.in_store = version.in_store() && !version.IsOnBufferOnly();
    generation.at_node = version.at_node;
    generation.at_local = version.IsAtLocal();
    generation.promised = version.IsPromised();
    generation.abandoned = !lineage.Has(version.generation);
    generation.hopeless =
        !core_.sessions().HasAttempt(job, version.generation.attempt) && !core_.events().may_be_in_store(version);
    for (const auto& [rank, image] : version.images) generation.owed = generation.owed || (!image->doomed && image->IsOwed());
    newest_first.push_back(&version);
    generations.push_back(generation);
  }
  const auto stored = job.stored_newest.find(name);
  const Moment newest = stored == job.stored_newest.end() ? Moment() : stored->second;
  std::vector<Keeping> keeping = KeepLocal(generations, job.hello.keys.keep_local, {newest.attempt, newest.take});
  // A node that writes for others holds nothing beyond that.
  for (size_t i = 0; i < keeping.size() && job.is_enlisted; ++i) {
    if (generations[i].in_store && !generations[i].owed) keeping[i] = Keeping::kDrop;
  }
  std::vector<Image*> dropped;
  for (size_t i = 0; i < keeping.size(); ++i) {
    for (const auto& [rank, image] : newest_first[i]->images) {
      if (image->doomed) continue;
      const bool is_lost = image->ended && image->flush == FlushState::kFailed && image->HasReleased();
      // One that an image is being built on goes when that has ended: it is looked at again then.
      if ((keeping[i] == Keeping::kDrop || is_lost) && gaps_.MayGo(*image)) {
        dropped.push_back(image.get());
      } else {
        images_.SetOwed(*image, keeping[i] == Keeping::kPinned);
      }
    }
  }
  // Their versions may go with them.
  for (Image* image : dropped) {
    ++core_.counters().images_dropped;
    images_.Doom(*image);
  }
  core_.Nudge();
}

void LocalRetention::SkipQueued(Version& newest) {
  // One that does not get to the store itself takes no other's place there.
  if (newest.undecided || newest.scheduled() < Level::kStore) return;
  for (auto& [generation, version] : newest.job->versions) {
    if (generation.name != newest.generation.name || !(generation < newest.generation) || version->skipped ||
        version->scheduled() < Level::kStore || version->in_store() || !version->IsWhole()) {
      continue;
    }
    const bool untouched = std::all_of(version->images.begin(), version->images.end(), [&](const auto& entry) {
      return entry.second->flush == FlushState::kFlushing && !flush_.HasBegun(*entry.second);
    });
    if (!untouched) continue;
    version->Skip();
    ++core_.counters().versions_skipped;
    LogInfo("agent", "{}: its flush is left out for {}", generation.ToString(), newest.generation.version);
    for (auto& [rank, image] : version->images) {
      flush_.Forget(*image);
      images_.Save(*image);
      images_.OnSettled(*image);
    }
  }
}

const Version* LocalRetention::NewestComplete(const Job& job, const std::string& name) const {
  const Lineage lineage = job.LineageOf(name);
  for (auto entry = job.versions.rbegin(); entry != job.versions.rend(); ++entry) {
    const Version& version = *entry->second;
    const bool is_such = version.generation.name == name && version.IsWhole() && version.ReachedLevel() >= Level::kLocal;
    if (is_such && lineage.Has(version.generation)) return &version;
  }
  return nullptr;
}

bool LocalRetention::EvictOldest(TierUnit* unit, bool also_newest) {
  Version* victim = nullptr;
  bool victim_is_newest = true;
  int64_t victim_ended_ns = INT64_MAX;
  for (auto& [key, job] : core_.jobs()) {
    std::map<std::string, const Version*> newest;
    for (auto& [generation, held] : job->versions) {
      Version& version = *held;
      if (!version.IsWhole()) continue;
      bool all_cached = true, touches_unit = false;
      int64_t ended_ns = 0;
      for (const auto& [rank, image] : version.images) {
        all_cached = all_cached && !image->pinned && !image->doomed;
        touches_unit = touches_unit || image->record.unit == unit;
        for (const ImageChunk& chunk : image->chunks) touches_unit = touches_unit || chunk.unit == unit;
        ended_ns = std::max(ended_ns, image->ended_ns);
      }
      touches_unit = touches_unit || HasRedundancyIn(version, unit);
      if (!all_cached || !touches_unit) continue;
      const auto [known, is_first] = newest.try_emplace(generation.name);
      if (is_first) known->second = NewestComplete(*job, generation.name);
      const bool is_newest = known->second == &version;
      if (is_newest && !also_newest) continue;
      if (std::pair(is_newest, ended_ns) < std::pair(victim_is_newest, victim_ended_ns)) {
        victim = &version;
        victim_is_newest = is_newest;
        victim_ended_ns = ended_ns;
      }
    }
  }
  if (victim == nullptr) return false;
  std::vector<Image*> images;
  for (const auto& [rank, image] : victim->images) images.push_back(image.get());
  if (!std::all_of(images.begin(), images.end(), [this](const Image* image) { return gaps_.MayGo(*image); })) return false;
  for (Image* image : images) {
    ++core_.counters().images_evicted;
    images_.Doom(*image);
  }
  return true;
}

bool LocalRetention::HasFilesIn(const TierUnit& unit) const {
  return std::any_of(images_.all().begin(), images_.all().end(), [&](const auto& entry) {
    const std::vector<ImageChunk>& chunks = entry.second->chunks;
    return std::any_of(chunks.begin(), chunks.end(), [&](const ImageChunk& chunk) { return chunk.file_unit == &unit; });
  });
}

LocalRetention::LocalRetention(AgentCore& core, Assignment& assignment, ImageFlusher& flush, GapFiller& gaps, ImageTable& images,
                               PassingChunks& passing)
    : core_(core), assignment_(assignment), flush_(flush), gaps_(gaps), images_(images), passing_(passing) {
  core.requests().On<CleanupRequest>(std::bind_front(&LocalRetention::Cleanup, this));
}

CleanupReply LocalRetention::Cleanup(const CleanupRequest& request) {
  CleanupReply reply;
  std::vector<Image*> images;
  for (const auto& [id, image] : images_.all()) {
    const Generation& generation = image->version->generation;
    if (generation.store_id != request.store_id || generation.job != request.job || image->rank != request.rank) continue;
    if (!request.name.empty() && generation.name != request.name) continue;
    // Only what the store has; a copy that is owed or the only one is not a user's to lose by tidying up.
    if (image->doomed || image->IsOwed(Level::kStore) || !image->version->in_store() || !gaps_.MayGo(*image)) continue;
    images.push_back(image);
  }
  for (Image* image : images) {
    ++reply.images;
    reply.bytes += image->image_bytes;
    images_.Doom(*image);
  }
  return reply;
}

void LocalRetention::SaveUnsaved() {
  for (const uint64_t id : images_.SaveUnsaved()) {
    if (const Image* image = images_.Find(id)) OnHeld(*image->version);
  }
}

bool LocalRetention::ReleaseFlushed(TierUnit* unit) {
  return passing_.ReleaseFlushed(unit);
}

void LocalRetention::OnHeld(Version& version) {
  const Generation generation = version.generation;
  Job& job = *version.job;
  core_.events().protection_due(version);
  if (version.IsWhole() && version.node_ranks == version.ranks) core_.events().level_reached(version, Level::kLocal);
  if (version.IsWhole() && job.hello.keys.skip_queued) SkipQueued(version);
  Reconsider(job, generation.name);
  core_.events().version_changed(generation);
}

void LocalRetention::OnDamaged(Version& version, uint32_t rank, const Status& why) {
  const auto image = version.images.find(rank);
  if (image == version.images.end() || image->second->damaged) return;
  image->second->damaged = true;
  (void)gaps_.MayGo(*image->second);  // nothing more is built on it
  if (image->second->HasNoOtherCopy() && version.failure.ok()) version.failure = why;
  ++core_.counters().images_damaged;
  if (!image->second->doomed) images_.Save(*image->second);
  Reconsider(*version.job, version.generation.name);
}

void LocalRetention::RescueLost(Version& version) {
  // What is on its way to level NODE fails there, and its ranks are told (DoneGroups::OnTierLost).
  if (version.scheduled() >= Level::kStore || version.to_node || version.in_store() || version.at_node) return;
  if (!version.HasLost()) return;
  const uint32_t images = flush_.SendToStore(version);
  if (images == 0) return;
  LogWarning("agent", "{}: {} of its images here {} to the store, because a tier is lost", version.generation.ToString(), images,
             images == 1 ? "goes" : "go");
}

}  // namespace kedge
