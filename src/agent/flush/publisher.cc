#include "agent/flush/publisher.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/flush/cargo.h"
#include "agent/flush/flush.h"
#include "agent/flush/publication.h"
#include "agent/images/image_table.h"
#include "agent/images/local_retention.h"
#include "agent/space/throughput.h"
#include "agent/tables/agent_core.h"
#include "base/log.h"
#include "os/process/kill_point.h"
#include "store/garbage.h"
#include "store/keys.h"
#include "store/publish.h"
#include "store/reached.h"
#include "store/retention.h"
#include "store/versions.h"

namespace kedge {
namespace {

// Until retention looks again whether somebody works on what an earlier attempt has left incomplete.
constexpr Duration kRetainAgainPause = std::chrono::seconds(5);
// How long the written images of a node wait for those of ranks from which nothing was heard.
constexpr Duration kGrace = std::chrono::milliseconds(300);
constexpr uint32_t kCommitTriesMax = 3;
// For blocks that another node writes before its own images; then they are written here after all.
constexpr Duration kCommonPatience = std::chrono::seconds(10);
constexpr Duration kCommonPauseMin = std::chrono::milliseconds(10);
constexpr Duration kCommonPauseMax = std::chrono::milliseconds(500);

// Whether the written images of its node wait for it, for as long as it takes. Not where nothing of it has come yet: its rank may
// wait for a place that they would free.
bool IsWaitedFor(const Flush& flush, const Image& image) {
  return image.IsWrittenHere() && (image.ended || image.pieces_queued > 0 || flush.HasBegun(image));
}

}  // namespace

struct Publisher::Outcome {
  struct Member {
    uint64_t id = 0;  // 0: another node's
    uint32_t rank = 0;
  };
  std::vector<Member> members;  // whom published.images is of
  Publication published;
  bool again = false;  // it is of another try to commit
  RetryPauses commits;
};

Publisher::Publisher(AgentCore& core, Cargo& cargo, Flush& flush, ImageTable& images, LocalRetention& retention,
                     Throughput& throughput)
    : core_(core), cargo_(cargo), flush_(flush), images_(images), retention_(retention), throughput_(throughput) {
  core.requests().On<RetainRequest>([this](const RetainRequest& request) {
    Job* job = core_.FindJob(request.store_id, request.job);
    if (job != nullptr) Retain(*job, request.name);
    return Status::Ok();
  });
}

void Publisher::OnWritten(Image& image) {
  Consider(*image.version);
}

void Publisher::OnVersionGone(Version& version) {
  if (version.grace_timer != 0) core_.loop().CancelTimer(version.grace_timer);
  // What was to stay on the nodes leaves nothing in the store either. While other nodes can still bring it back, they may need
  // it.
  if (version.went_through && version.scheduled() < Level::kStore && !version.in_store() && !version.at_node)
    RemoveThrough(version);
}

void Publisher::RemoveThrough(const Version& version) {
  core_.Background(
      [store = version.job->store, attempt = version.job->hello.attempt, generation = version.generation] {
        auto catalog = store->CatalogFor(attempt);
        return catalog.ok() ? RemoveVersion(*catalog, generation, {}) : catalog.status();
      },
      [this, generation = version.generation](Status status) {
        if (status.ok() || status.code() == Code::kNotFound) return;  // another node was first
        ++core_.counters().retention_failures;
        LogWarning("agent", "{}: chunks that were written through stay in the store: {}", generation.ToString(),
                   status.ToString());
      });
}

void Publisher::Consider(const Generation& generation) {
  if (Version* version = core_.FindVersion(generation)) return Consider(*version);
  if (!cargo_.IsAwaited(generation)) PublishNow(generation);
}

void Publisher::Consider(Version& version) {
  uint32_t written = 0, heard_of = 0;
  for (const auto& [rank, image] : version.images) {
    if (image->doomed) continue;
    const bool is_written = image->flush == FlushState::kWritten;
    if (!is_written && IsWaitedFor(flush_, *image)) return;  // it will be considered again when that one is through
    if (is_written) ++written;
    if (is_written || !image->IsWrittenHere()) ++heard_of;
  }
  const Generation& generation = version.generation;
  if (cargo_.IsAwaited(generation) || (written == 0 && !cargo_.HasWritten(generation))) return;
  if (heard_of >= version.node_ranks || version.grace_timer != 0) {
    if (heard_of >= version.node_ranks) PublishNow(generation);
    return;
  }
  version.grace_timer = core_.loop().AddTimer(kGrace, [this, generation] {
    Version* found = core_.FindVersion(generation);
    if (found == nullptr) return;
    found->grace_timer = 0;
    for (const auto& [rank, image] : found->images) {
      if (!image->doomed && image->flush != FlushState::kWritten && IsWaitedFor(flush_, *image)) return;
    }
    PublishNow(generation);
  });
}

bool Publisher::AwaitsCommon(Version& version) {
  CommonWait& wait = version.common_wait;
  if (wait.is_looking) return true;
  std::set<std::string> missing;
  for (const auto& [rank, image] : version.images) {
    if (image->doomed || image->flush != FlushState::kWritten) continue;
    for (const std::string& object : image->object->CommonObjects()) {
      if (!wait.stand.contains(object)) missing.insert(object);
    }
  }
  const int64_t now_ns = core_.clock().NowNs();
  if (wait.since_ns == 0) wait.since_ns = now_ns;
  if (missing.empty() || now_ns - wait.since_ns > kCommonPatience.count()) return false;
  wait.is_looking = true;
  core_.Background(
      core_.publishers(),
      [store = version.job->store, job = version.job->name, missing] {
        std::set<std::string> stand;
        for (const std::string& object : missing) {
          if (store->store().OpenObject(keys::JobFolder(job) + '/' + object).ok()) stand.insert(object);
        }
        return stand;
      },
      [this, generation = version.generation, looked_for = missing.size()](std::set<std::string> stand) {
        Version* found = core_.FindVersion(generation);
        if (found == nullptr) return;
        CommonWait& waits = found->common_wait;
        waits.pause = std::clamp<Duration>(2 * waits.pause, kCommonPauseMin, kCommonPauseMax);
        const Duration pause = stand.size() == looked_for ? Duration{} : waits.pause;
        waits.stand.merge(stand);
        core_.loop().AddTimer(pause, [this, generation] {
          Version* waiting = core_.FindVersion(generation);
          if (waiting == nullptr) return;
          waiting->common_wait.is_looking = false;
          PublishNow(generation);
        });
      });
  return true;
}

void Publisher::PublishNow(const Generation& generation) {
  const Job* job = core_.FindJobOf(generation);
  if (job == nullptr) return;
  if (Version* version = core_.FindVersion(generation); version != nullptr && AwaitsCommon(*version)) return;
  struct Member {
    Outcome::Member who;
    WrittenImage image;
  };
  std::vector<Member> batch;
  std::vector<uint64_t> handed_in;
  std::vector<WrittenImage> shared;
  Cargo::Written carried = cargo_.TakeWritten(generation);
  uint32_t ranks = carried.ranks;
  for (WrittenImage& image : carried.images) batch.push_back({{0, image.entry.rank}, std::move(image)});
  if (Version* version = core_.FindVersion(generation)) {
    if (version->grace_timer != 0) core_.loop().CancelTimer(version->grace_timer);
    version->grace_timer = 0;
    ranks = version->ranks;
    for (const auto& [rank, image] : version->images) {
      if (image->doomed || image->flush != FlushState::kWritten) continue;
      const ImageEntry entry{
          rank, "", image->record_object_offset, image->record_bytes, image->record_crc32c, image->image_bytes};
      WrittenImage written{image->object, image->record.Source(0, image->record_bytes), entry};
      if (image->object->is_borrowed()) {
        handed_in.push_back(image->id);
        shared.push_back(std::move(written));
      } else {
        batch.push_back({{image->id, rank}, std::move(written)});
      }
      flush_.SetState(*image, FlushState::kPublishing);
    }
    if (!batch.empty() || !shared.empty()) version->has_published = true, version->node_blocks = nullptr;
    if (!shared.empty()) HandIn(*version, std::move(handed_in), std::move(shared));
  }
  if (batch.empty()) return;
  std::ranges::sort(batch, {}, [](const Member& member) { return member.who.rank; });
  Outcome outcome;
  std::vector<WrittenImage> images;
  for (Member& member : batch) {
    outcome.members.push_back(member.who);
    images.push_back(std::move(member.image));
  }
  core_.Background(
      core_.publishers(),
      [outcome = std::move(outcome), images = std::move(images), store = job->store, generation, ranks,
       &clock = core_.clock()]() mutable {
        outcome.published = Publish(*store, generation, ranks, std::move(images), clock);
        return std::move(outcome);
      },
      [this, generation](Outcome done) { OnPublished(generation, std::move(done)); });
}

void Publisher::HandIn(Version& version, std::vector<uint64_t> ids, std::vector<WrittenImage> images) {
  core_.Background(
      core_.publishers(),
      [images = std::move(images), &clock = core_.clock()]() mutable { return FinishShare(std::move(images), clock); },
      [this, generation = version.generation, ids = std::move(ids)](const FinishedShare& share) {
        OnHandedIn(generation, ids, share);
      });
}

// What has failed is written again, to an object of this node's: its copy here is whole.
void Publisher::OnHandedIn(const Generation& generation, const std::vector<uint64_t>& ids, const FinishedShare& share) {
  std::vector<ImageEntry> entries;
  uint64_t bytes = 0;
  Duration writing{};
  for (size_t i = 0; i < ids.size(); ++i) {
    Image* const image = images_.Find(ids[i]);
    if (image == nullptr) continue;
    KEDGE_CHECK(image->flush == FlushState::kPublishing);
    if (image->doomed) {
      flush_.SetState(*image, FlushState::kNone);
      Settle(*image);
    } else if (share.images[i].ok()) {
      bytes += image->image_bytes;
      writing += image->flush_time;
      flush_.SetState(*image, FlushState::kShipped);
      image->object = nullptr;
      entries.push_back(share.entries[i]);
    } else {
      flush_.Retry(*image, share.images[i]);
    }
  }
  Version* const version = core_.FindVersion(generation);
  if (version == nullptr) return;
  throughput_.OnImageStored(version->job->store_id, bytes, writing, share.syncing);
  core_.events().share_finished(*version, entries);
}

void Publisher::OnPublished(const Generation& generation, Outcome outcome) {
  Job* const job = core_.FindJobOf(generation);
  if (job == nullptr) return;
  Publication& published = outcome.published;
  const Code commit = published.commit.code();
  const bool is_tried_again =
      commit == Code::kUnavailable || (commit != Code::kBusy && outcome.commits.failures < kCommitTriesMax);
  // kBusy: a newer attempt has gone elsewhere.
  if (!published.commit.ok() && is_tried_again) return CommitAgain(generation, std::move(outcome));
  if (!published.commit.ok()) {
    for (Status& status : published.images) {
      if (status.ok()) status = published.commit;
    }
  }
  for (size_t i = 0; i < outcome.members.size(); ++i) {
    const Outcome::Member& member = outcome.members[i];
    if (member.id == 0) cargo_.OnPublished(generation, member.rank, published.images[i], published.finish.complete);
  }
  Version* version = core_.FindVersion(generation);
  if (published.finish.complete && (version == nullptr || !version->in_store())) core_.events().version_completed(generation);
  if (version != nullptr) return OnPublishedHere(*version, outcome);
  if (published.finish.created) Retain(*job, generation.name);
}

void Publisher::OnPublishedHere(Version& published_version, const Outcome& outcome) {
  Version* version = &published_version;
  const Generation generation = version->generation;
  Job& job = *version->job;
  const Publication& published = outcome.published;
  const bool completed = published.finish.complete && !version->in_store();
  if (published.finish.complete) version->SetStored();
  std::vector<uint64_t> stored;
  Status absent;
  uint64_t stored_bytes = 0;
  Duration writing{};
  PieceWritten written;  // of all
  for (size_t i = 0; i < outcome.members.size(); ++i) {
    const uint64_t id = outcome.members[i].id;
    const Status& status = published.images[i];
    Image* image = id == 0 ? nullptr : images_.Find(id);
    if (image == nullptr) continue;
    KEDGE_CHECK(image->flush == FlushState::kPublishing);
    if (status.ok()) {
      Flush::NoteReduced(job, generation.name, image->rank, *image->object);
      SetStored(*image, completed);
      stored_bytes += image->image_bytes;
      writing += image->flush_time;
      written.bytes += image->flush_written.bytes;
      written.writing += image->flush_written.writing;
      stored.push_back(id);
    } else if (image->doomed) {
      flush_.SetState(*image, FlushState::kNone);
      stored.push_back(id);
    } else if (status.code() == Code::kUnavailable) {
      // What is written may be all that there is of it, and the store may come back with it.
      flush_.SetState(*image, FlushState::kWritten);
      absent = status;
    } else {
      flush_.Retry(*image, status);
      version = core_.FindVersion(generation);  // giving up may have removed it
      if (version == nullptr) return;
    }
  }
  if (!outcome.again) {
    throughput_.OnImageStored(job.store_id, stored_bytes, writing, published.syncing);
    throughput_.OnImageWritten(job.store_id, written.bytes, written.writing, published.syncing);
  }
  if (completed) SaveFiles(*version);
  os::KillPoint("publish-saved");
  if (completed) {
    OnComplete(*version);
    Retain(job, generation.name);
  }
  for (uint64_t id : stored) {
    Image* image = images_.Find(id);
    if (image != nullptr) Settle(*image);
  }
  // An image that was written meanwhile has waited for these.
  version = core_.FindVersion(generation);
  if (version != nullptr) absent.ok() ? Consider(*version) : AwaitStore(*version, absent);
  // What comes late, of an attempt that is over, may lie incomplete behind a newer version: retention has passed it over.
  if (!stored.empty() && !published.finish.complete && generation.attempt < job.hello.attempt) Retain(job, generation.name);
  retention_.Reconsider(job, generation.name);
  core_.events().version_changed(generation);
  core_.Nudge();
}

// For the caller to settle, once all that were stored with it are.
void Publisher::SetStored(Image& image, bool is_saved_later) {
  Version& version = *image.version;
  ++core_.counters().images_stored;
  flush_.SetState(image, FlushState::kStored);
  flush_.OnStoreThere(version);
  version.job->stored_attempt = std::max(version.job->stored_attempt, version.generation.attempt);
  image.object = nullptr;
  if (!is_saved_later) images_.Save(image);
  core_.events().image_stored(image);
}

void Publisher::Settle(Image& image) {
  if (image.doomed) {
    images_.OnReleased(image);
  } else if (!image.has_files || !image.version->job->hello.keys.files_publish) {
    images_.OnSettled(image);
  }
}

void Publisher::OnStoredElsewhere(Image& image, bool is_complete) {
  const Generation generation = image.version->generation;
  SetStored(image, /*is_saved_later=*/false);
  if (is_complete) Probe(*image.version);
  Settle(image);
  if (const Job* job = core_.FindJobOf(generation)) retention_.Reconsider(*job, generation.name);
  core_.events().version_changed(generation);
  core_.Nudge();
}

void Publisher::AwaitStore(Version& version, const Status& why) {
  const Duration pause = version.absences.Next(why);
  flush_.OnStoreAbsent(version, why);
  if (version.grace_timer != 0) core_.loop().CancelTimer(version.grace_timer);
  version.grace_timer = core_.loop().AddTimer(pause, [this, generation = version.generation] {
    Version* found = core_.FindVersion(generation);
    if (found == nullptr) return;
    found->grace_timer = 0;
    PublishNow(found->generation);
  });
}

// The objects stand in the store; only what makes them count is still missing.
void Publisher::CommitAgain(const Generation& generation, Outcome outcome) {
  Version* version = core_.FindVersion(generation);
  const Status why = outcome.published.commit;
  const Duration pause = outcome.commits.Next(why);
  if (why.code() == Code::kUnavailable) {
    if (version != nullptr) flush_.OnStoreAbsent(*version, why);
  } else {
    ++core_.counters().flush_retries;
    LogWarning("agent", "{}: its part cannot be committed: {}. It is tried again", generation.ToString(), why.ToString());
  }
  outcome.again = true;
  core_.loop().AddTimer(pause, [this, generation, store = core_.FindJobOf(generation)->store, outcome = std::move(outcome)] {
    core_.Background(
        core_.publishers(),
        [generation, store, outcome]() mutable {
          auto catalog = store->CatalogFor(generation.attempt);
          auto finish = catalog.ok() ? CommitPart(*catalog, outcome.published.part) : Result<FinishOutcome>(catalog.status());
          outcome.published.commit = finish.status();
          if (finish.ok()) outcome.published.finish = *finish;
          return outcome;
        },
        [this, generation](Outcome done) { OnPublished(generation, std::move(done)); });
  });
}

void Publisher::SaveFiles(const Version& version) {
  for (const auto& [rank, image] : version.images) {
    images_.Save(*image);
    os::KillPoint("publish-saving");
  }
}

void Publisher::OnComplete(Version& version) {
  version.common = nullptr;
  ++core_.counters().versions_completed;
  LogInfo("agent", "{} is complete in the store", version.generation.ToString());
  for (const auto& [rank, image] : version.images) {
    if (image->doomed || !image->ended) continue;
    if (image->has_files && !image->files_published && version.job->hello.keys.files_publish) core_.events().files_due(*image);
  }
}

void Publisher::FindComplete(Version& version) {
  version.SetStored();
  version.missing_in_store.clear();
  SaveFiles(version);
  OnComplete(version);
  retention_.Reconsider(*version.job, version.generation.name);
}

// Older versions go by the hand of the node that has completed it.
void Publisher::OnCompletedElsewhere(const Generation& generation) {
  Version* const version = core_.FindVersion(generation);
  if (version == nullptr || version->in_store()) return;
  FindComplete(*version);
  core_.events().version_changed(generation);
}

void Publisher::LookForDisagreement(const Version& version, std::function<void()> done) {
  core_.Background(
      [store = version.job->store, generation = version.generation]() -> Status {
        KEDGE_ASSIGN_OR_RETURN(const Catalog catalog, store->CatalogFor(generation.attempt));
        return FindDisagreement(catalog, generation);
      },
      [this, generation = version.generation, done = std::move(done)](const Status& found) {
        Version* of = core_.FindVersion(generation);
        if (of != nullptr && found.code() == Code::kMismatch && of->failure.ok()) {
          of->failure = found;
          of->job->NoteDisagreement(generation, found);
        }
        done();
      });
}

void Publisher::Probe(Version& version) {
  if (version.probing || version.in_store()) return;
  version.probing = true;
  struct Look {
    bool complete = false;
    std::vector<uint32_t> missing_ranks;
  };
  core_.Background(
      [store = version.job->store, generation = version.generation]() -> Result<Look> {
        KEDGE_ASSIGN_OR_RETURN(Catalog catalog, store->CatalogFor(generation.attempt));
        KEDGE_ASSIGN_OR_RETURN(FinishOutcome finish, FinishVersion(catalog, generation));
        if (finish.complete) return Look{true, {}};
        KEDGE_ASSIGN_OR_RETURN(VersionInfo info, InspectGeneration(catalog, generation));
        return Look{info.complete, info.missing_ranks};
      },
      [this, generation = version.generation](Result<Look> outcome) {
        Version* found = core_.FindVersion(generation);
        if (found == nullptr) return;
        found->probing = false;
        if (outcome.status().code() == Code::kBusy && found->failure.ok()) {
          // Another node's images would have made it complete, but a newer attempt has gone on from elsewhere.
          found->failure = outcome.status();
          core_.events().version_failed(*found, Level::kStore, found->failure);
        }
        if (!outcome.ok()) return;
        found->missing_in_store = outcome->missing_ranks;
        if (outcome->complete && !found->in_store()) {
          core_.events().version_completed(generation);
          FindComplete(*found);
          Retain(*found->job, generation.name);
        }
        core_.events().version_changed(generation);
      });
}

void Publisher::Lookup(const Generation& generation, std::function<void(std::optional<Level>)> done) {
  Job* job = core_.FindJobOf(generation);
  if (job == nullptr) {
    core_.loop().Post([done = std::move(done)] { done(std::nullopt); });
    return;
  }
  core_.Background(
      [store = job->store, generation]() -> std::optional<Level> {
        auto catalog = store->CatalogFor(generation.attempt);
        if (!catalog.ok()) return std::nullopt;
        auto info = InspectGeneration(*catalog, generation);
        if (!info.ok() || !info->complete) return std::nullopt;
        return info->drained ? Level::kStore : Level::kBuffer;
      },
      std::move(done));
}

void Publisher::NoteReached(const Version& version) {
  Job& job = *version.job;
  const JobNode* leading = job.LeadingNode();
  if (leading != nullptr && leading->name != core_.settings().node) return;
  const std::string& name = version.generation.name;
  if (std::exchange(job.names_reached[name], job.hello.attempt) == job.hello.attempt) return;
  // It may store nothing itself.
  Retain(job, name);
  core_.Background(
      [store = job.store, generation = version.generation] {
        auto catalog = store->CatalogToWrite(generation.job, generation.attempt);
        return catalog.ok() ? kedge::NoteReached(*catalog, generation) : catalog.status();
      },
      [this, generation = version.generation](Status noted) {
        if (noted.ok()) return;
        LogWarning("agent", "the store cannot be told that there are versions of {}, should the nodes lose them: {}",
                   generation.name, noted.ToString());
        Job* found = core_.FindJobOf(generation);
        if (found != nullptr) found->names_reached.erase(generation.name);  // the next version tries it again
      });
}

void Publisher::Retain(Job& job, const std::string& name) {
  if (job.retention_running.contains(name)) {
    job.retention_wanted.insert(name);
    return;
  }
  job.retention_running.insert(name);
  RetentionOptions options;
  options.keep = std::max(job.hello.keys.keep_versions, 1u);
  for (const auto& [generation, version] : job.versions) {
    const bool busy = std::any_of(version->images.begin(), version->images.end(),
                                  [](const auto& entry) { return entry.second->IsOnItsWay() || entry.second->readers > 0; });
    if (busy) options.in_use.insert(generation);
  }
  struct Report {
    Status status;
    RetentionReport retention;
  };
  core_.Background(
      [store = job.store, attempt = job.hello.attempt, job_name = job.name, name, options] {
        Report report;
        report.status = store->ApplyRetention(job_name, name, attempt, options, &report.retention);
        os::KillPoint("retention-done");
        return report;
      },
      [this, key = job.key(), name](Report report) {
        core_.counters().versions_removed += report.retention.removed.size();
        for (const Generation& removed : report.retention.removed) {
          LogInfo("agent", "{} is removed from the store: newer ones are kept", removed.ToString());
        }
        if (report.status.code() == Code::kBusy) {
          LogInfo("agent", "retention of {}/{} is left to the newer attempt: {}", key.second, name, report.status.message());
        } else if (!report.status.ok()) {
          ++core_.counters().retention_failures;
          LogWarning("agent", "retention of {}/{}: {}", key.second, name, report.status.ToString());
        }
        Job* found = core_.FindJob(key);
        if (found == nullptr) return;
        found->retention_running.erase(name);
        if (found->retention_wanted.erase(name) > 0) return Retain(*found, name);
        if (!report.retention.waits || !found->retention_waits.insert(name).second) return;
        core_.loop().AddTimer(kRetainAgainPause, [this, key, name] {
          Job* waiting = core_.FindJob(key);
          if (waiting == nullptr) return;
          waiting->retention_waits.erase(name);
          Retain(*waiting, name);
        });
      });
}

void Publisher::RemoveLeftovers(Job& job, uint32_t attempt, std::function<void()> done) {
  core_.Background(
      [store = job.store, attempt, name = job.name] {
        auto catalog = store->CatalogFor(attempt);
        return catalog.ok() ? RemoveOwnTemporaries(*catalog, name, {}) : catalog.status();
      },
      [done = std::move(done), name = job.name](Status status) {
        if (!status.ok()) LogWarning("agent", "leftovers of a former agent in the store of {}: {}", name, status.ToString());
        done();
      });
}

}  // namespace kedge
