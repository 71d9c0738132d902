#include "agent/flush/publisher.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/flush/flush.h"
#include "agent/flush/routed_publication.h"
#include "agent/images/images.h"
#include "agent/space/throughput.h"
#include "agent/tables/agent_core.h"
#include "base/crc32c.h"
#include "base/log.h"
#include "os/process/kill_point.h"
#include "store/garbage.h"
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
constexpr Duration kLookPatience = std::chrono::milliseconds(750);
constexpr Duration kFilesPause = std::chrono::seconds(1);

struct BatchImage {
  uint64_t id = 0;
  std::shared_ptr<FlushObject> object;
  PieceSource record;
  uint32_t record_crc32c = 0;
  ImageEntry entry;
  LeansOn leans_on;
};

// The image record, as it was checked when it came, to its place in the object.
Status WriteRecord(BatchImage& image, const reduce::Lenders& lenders, std::set<std::string>* references) {
  Buffer bytes(image.record.bytes);
  KEDGE_RETURN_IF_ERROR(image.record.Read(bytes.data()));
  if (crc32c::Compute(bytes.data(), bytes.size()) != image.record_crc32c) {
    return Status(Code::kCorrupt, "the image record has changed in its slot since it was captured");
  }
  return image.object->WriteRecords(bytes, lenders, &image.entry, references, &image.leans_on);
}

reduce::Lenders LendersOf(const std::vector<BatchImage>& batch) {
  reduce::Lenders lenders;
  std::map<std::string, uint64_t> object_bytes;
  for (const BatchImage& image : batch) {
    auto lender = image.object->AsLender();
    if (!lender) continue;
    object_bytes[lender->object] += lender->object_bytes;
    lenders.emplace(image.entry.rank, *std::move(lender));
  }
  for (auto& [rank, lender] : lenders) lender.object_bytes = object_bytes[lender.object];
  return lenders;
}

// On a worker.
Result<bool> LookWhetherTakenOver(StoreContext& store, const std::string& job, uint32_t attempt) {
  const Status looked = AwaitCheckNotTakenOver([&] { return store.CatalogFor(attempt); }, job, attempt, kLookPatience);
  if (looked.ok() || looked.code() == Code::kBusy) return !looked.ok();
  return looked;
}

}  // namespace

struct Publisher::Outcome {
  std::vector<std::pair<uint64_t, Status>> images;
  Status commit;         // of part and version record
  PartRecord published;  // to be committed again when that failed
  bool again = false;    // this is what came of that
  RetryPauses commits;
  FinishOutcome finish;
  Duration syncing{};  // of all its objects
};

Publisher::Publisher(AgentCore& core, Flush& flush, Images& images, Throughput& throughput)
    : core_(core),
      flush_(flush),
      images_(images),
      throughput_(throughput),
      file_publisher_(std::make_shared<FilePublisher>(os::SystemFileSystem())) {}

void Publisher::OnWritten(Image& image) {
  Consider(*image.version);
}

void Publisher::OnVersionGone(Version& version) {
  if (version.grace_timer != 0) core_.loop().CancelTimer(version.grace_timer);
  // What was to stay on the nodes leaves nothing in the store either. While other nodes can still bring it back, they may need
  // it.
  if (version.went_through && version.scheduled < Level::kStore && !version.in_store && !version.at_node) RemoveThrough(version);
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

void Publisher::Consider(Version& version) {
  uint32_t written = 0, heard_of = 0;
  for (const auto& [rank, image] : version.images) {
    if (image->doomed) continue;
    ++heard_of;
    if (image->flush == FlushState::kWritten) {
      ++written;
    } else if (image->IsOnItsWay()) {
      return;  // it will be considered again when that one is through
    }
  }
  if (written == 0) return;
  if (heard_of >= version.node_ranks || version.grace_timer != 0) {
    if (heard_of >= version.node_ranks) PublishNow(version);
    return;
  }
  version.grace_timer = core_.loop().AddTimer(kGrace, [this, generation = version.generation] {
    Version* found = images_.FindVersion(generation);
    if (found == nullptr) return;
    found->grace_timer = 0;
    for (const auto& [rank, image] : found->images) {
      if (!image->doomed && image->flush != FlushState::kWritten && image->IsOnItsWay()) return;
    }
    PublishNow(*found);
  });
}

void Publisher::PublishNow(Version& version) {
  if (version.grace_timer != 0) core_.loop().CancelTimer(version.grace_timer);
  version.grace_timer = 0;
  std::vector<BatchImage> batch;
  for (const auto& [rank, image] : version.images) {
    if (image->doomed || image->flush != FlushState::kWritten) continue;
    BatchImage member;
    member.id = image->id;
    member.object = image->object;
    member.record = image->record.Source(0, image->record_bytes);
    member.record_crc32c = image->record_crc32c;
    member.entry = {rank, "", image->record_object_offset, image->record_bytes, image->record_crc32c, image->image_bytes};
    batch.push_back(std::move(member));
    flush_.SetState(*image, FlushState::kPublishing);
  }
  if (batch.empty()) return;
  version.has_published = true;
  version.node_blocks = nullptr;
  core_.Background(
      core_.publishers(),
      [batch = std::move(batch), store = version.job->store, generation = version.generation, ranks = version.ranks,
       &clock = core_.clock()]() mutable {
        Outcome outcome;
        PartRecord part{generation, ranks, {}, {}};
        std::vector<ObjectWriter*> writers;
        std::vector<size_t> members;
        std::set<std::string> references;
        std::vector<LeansOn> leans_on;
        std::vector<Status> begun;
        for (const BatchImage& image : batch) {
          const Result<ObjectUnderWay*> object = image.object->Object();
          begun.push_back(object.status());
          if (object.ok()) (*object)->Close();
        }
        const reduce::Lenders lenders = LendersOf(batch);
        for (size_t i = 0; i < batch.size(); ++i) {
          outcome.images.emplace_back(batch[i].id, begun[i].ok() ? WriteRecord(batch[i], lenders, &references) : begun[i]);
          if (!outcome.images[i].second.ok()) continue;
          writers.push_back((*batch[i].object->Object())->writer());
          part.images.push_back(batch[i].entry);
          leans_on.push_back(std::move(batch[i].leans_on));
          members.push_back(i);
        }
        part.references.assign(references.begin(), references.end());
        os::KillPoint("publish-records-written");
        if (writers.empty()) return outcome;
        auto catalog = store->CatalogFor(generation.attempt);
        if (!catalog.ok()) {
          for (size_t member : members) outcome.images[member].second = catalog.status();
          return outcome;
        }
        const int64_t begin_ns = clock.NowNs();
        PublishOutcome published = PublishImages(*catalog, writers, part, leans_on);
        outcome.syncing = Duration(clock.NowNs() - begin_ns);
        os::KillPoint("publish-done");
        for (size_t i = 0; i < members.size(); ++i) {
          outcome.images[members[i]].second = published.images[i];
          if (published.images[i].ok()) (*batch[members[i]].object->Object())->MarkPublished();
        }
        outcome.commit = std::move(published.commit);
        outcome.published = std::move(published.published);
        outcome.finish = published.finish;
        return outcome;
      },
      [this, generation = version.generation](Outcome outcome) { OnPublished(generation, std::move(outcome)); });
}

void Publisher::OnPublished(const Generation& generation, Outcome outcome) {
  Version* version = images_.FindVersion(generation);
  if (version == nullptr) return;
  Job& job = *version->job;
  const Code commit = outcome.commit.code();
  const bool is_tried_again =
      commit == Code::kUnavailable || (commit != Code::kBusy && outcome.commits.failures < kCommitTriesMax);
  // kBusy: a newer attempt has gone elsewhere.
  if (!outcome.commit.ok() && is_tried_again) return CommitAgain(generation, std::move(outcome));
  if (!outcome.commit.ok()) {
    for (auto& [id, status] : outcome.images) {
      if (status.ok()) status = outcome.commit;
    }
  }
  const bool completed = outcome.finish.complete && !version->in_store;
  if (outcome.finish.complete) version->in_store = true;
  std::vector<uint64_t> stored;
  Status absent;
  uint64_t stored_bytes = 0;
  Duration writing{};
  PieceWritten written;  // of all
  for (const auto& [id, status] : outcome.images) {
    Image* image = images_.Find(id);
    if (image == nullptr) continue;
    KEDGE_CHECK(image->flush == FlushState::kPublishing);
    if (status.ok()) {
      ++core_.counters().images_stored;
      flush_.SetState(*image, FlushState::kStored);
      flush_.OnStoreThere(*version);
      if (const auto reduced = image->object->reduced()) {
        Job::Reducing& known = job.reducing[{generation.name, image->rank}];
        if (reduced->as.shares) known.sharing.Note(reduced->bytes, reduced->saved_bytes, reduced->had_base);
        if (reduced->as.compress != Feature::kOff) {
          known.compressing.Note(reduced->bytes - reduced->saved_bytes, reduced->shrunk_bytes, /*had_base=*/true);
          known.viability = reduced->as.viability;
        }
      }
      job.stored_attempt = std::max(job.stored_attempt, generation.attempt);
      image->object = nullptr;
      if (!completed) images_.SaveFile(*image);
      core_.events().image_stored(*image);
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
      version = images_.FindVersion(generation);  // giving up may have removed it
      if (version == nullptr) return;
    }
  }
  if (!outcome.again) {
    throughput_.OnImageStored(job.store_id, stored_bytes, writing, outcome.syncing);
    throughput_.OnImageWritten(job.store_id, written.bytes, written.writing, outcome.syncing);
  }
  if (completed) SaveFiles(*version);
  os::KillPoint("publish-saved");
  if (completed) OnComplete(*version);
  for (uint64_t id : stored) {
    Image* image = images_.Find(id);
    if (image == nullptr) continue;
    if (image->doomed) {
      images_.OnReleased(*image);
    } else if (!image->has_files || !job.hello.keys.files_publish) {
      images_.OnSettled(*image);
    }
  }
  // An image that was written meanwhile has waited for these.
  version = images_.FindVersion(generation);
  if (version != nullptr) absent.ok() ? Consider(*version) : AwaitStore(*version, absent);
  // What comes late, of an attempt that is over, may lie incomplete behind a newer version: retention has passed it over.
  if (!stored.empty() && !outcome.finish.complete && generation.attempt < job.hello.attempt) Retain(job, generation.name);
  images_.Reconsider(job, generation.name);
  core_.events().version_changed(generation);
  core_.Nudge();
}

void Publisher::AwaitStore(Version& version, const Status& why) {
  const Duration pause = version.absences.Next(why);
  flush_.OnStoreAbsent(version, why);
  if (version.grace_timer != 0) core_.loop().CancelTimer(version.grace_timer);
  version.grace_timer = core_.loop().AddTimer(pause, [this, generation = version.generation] {
    Version* found = images_.FindVersion(generation);
    if (found == nullptr) return;
    found->grace_timer = 0;
    PublishNow(*found);
  });
}

// The objects stand in the store; only what makes them count is still missing.
void Publisher::CommitAgain(const Generation& generation, Outcome outcome) {
  Version* version = images_.FindVersion(generation);
  const Duration pause = outcome.commits.Next(outcome.commit);
  if (outcome.commit.code() == Code::kUnavailable) {
    flush_.OnStoreAbsent(*version, outcome.commit);
  } else {
    ++core_.counters().flush_retries;
    LogWarning("agent", "{}: its part cannot be committed: {}. It is tried again", generation.ToString(),
               outcome.commit.ToString());
  }
  outcome.again = true;
  core_.loop().AddTimer(pause, [this, generation, store = version->job->store, outcome = std::move(outcome)] {
    core_.Background(
        core_.publishers(),
        [generation, store, outcome]() mutable {
          auto catalog = store->CatalogFor(generation.attempt);
          auto finish = catalog.ok() ? CommitPart(*catalog, outcome.published) : Result<FinishOutcome>(catalog.status());
          outcome.commit = finish.status();
          if (finish.ok()) outcome.finish = *finish;
          return outcome;
        },
        [this, generation](Outcome done) { OnPublished(generation, std::move(done)); });
  });
}

void Publisher::SaveFiles(const Version& version) {
  for (const auto& [rank, image] : version.images) {
    images_.SaveFile(*image);
    os::KillPoint("publish-saving");
  }
}

void Publisher::OnComplete(Version& version) {
  ++core_.counters().versions_completed;
  LogInfo("agent", "{} is complete in the store", version.generation.ToString());
  for (const auto& [rank, image] : version.images) {
    if (image->doomed || !image->ended) continue;
    if (image->has_files && !image->files_published && version.job->hello.keys.files_publish) PublishFiles(*image);
  }
  Retain(*version.job, version.generation.name);
}

void Publisher::PublishFiles(Image& image) {
  std::vector<PieceSource> chunks;
  for (const ImageChunk& chunk : image.chunks) chunks.push_back(chunk.Source(0, chunk.bytes));
  ++image.readers;
  const Generation& of = image.version->generation;
  FileOrigin origin{of.store_id, of.job, {core_.settings().node, of.attempt, "agent"}, {}, MomentOf(of), {}};
  origin.is_silent = [store = image.version->job->store, self = of.attempt, job = of.job](uint32_t attempt) {
    return store->IsSilent(job, self, attempt);
  };
  origin.is_taken_over = [store = image.version->job->store, self = of.attempt, job = of.job] {
    return LookWhetherTakenOver(*store, job, self);
  };
  core_.Background([publisher = file_publisher_, origin = std::move(origin), record = image.record.Source(0, image.record_bytes),
                    chunks = std::move(chunks)] { return PublishRoutedFiles(*publisher, origin, record, chunks); },
                   [this, id = image.id](Status status) {
                     Image* found = images_.Find(id);
                     KEDGE_CHECK(found != nullptr);
                     --found->readers;
                     if (status.code() == Code::kUnavailable && !found->doomed) return PublishFilesLater(*found, status);
                     found->files_published = true;
                     Job& job = *found->version->job;
                     const Generation generation = found->version->generation;
                     if (!status.ok()) {
                       ++core_.counters().file_publish_failures;
                       found->failure =
                           status.WithContext(fmt::format("routed files of {} rank {}", generation.ToString(), found->rank));
                       if (found->version->failure.ok()) found->version->failure = found->failure;
                       LogError("agent", "{}", found->failure.ToString());
                     }
                     if (!found->doomed) {
                       images_.SaveFile(*found);
                       images_.OnSettled(*found);
                     }
                     images_.OnReleased(*found);
                     images_.Reconsider(job, generation.name);
                     core_.events().version_changed(generation);
                   });
}

// The store is away, so that nobody can tell whether they would replace a newer attempt's.
void Publisher::PublishFilesLater(const Image& image, const Status& why) {
  static LogRateLimit limit(std::chrono::seconds(60));
  LogLimited(limit, LogLevel::kWarning, "agent", "routed files of {} rank {} wait for the store: {}",
             image.version->generation.ToString(), image.rank, why.ToString());
  core_.loop().AddTimer(kFilesPause, [this, id = image.id] {
    Image* waiting = images_.Find(id);
    if (waiting != nullptr && !waiting->doomed) PublishFiles(*waiting);
  });
}

void Publisher::PublishOwedFiles() {
  for (const auto& [id, image] : images_.all()) {
    const bool is_stored = image->flush == FlushState::kStored && image->version->in_store;
    if (!is_stored || !image->has_files || image->files_published) continue;
    if (image->version->job->hello.keys.files_publish) PublishFiles(*image);
  }
}

void Publisher::LookForDisagreement(const Version& version, std::function<void()> done) {
  core_.Background(
      [store = version.job->store, generation = version.generation]() -> Status {
        KEDGE_ASSIGN_OR_RETURN(const Catalog catalog, store->CatalogFor(generation.attempt));
        return FindDisagreement(catalog, generation);
      },
      [this, generation = version.generation, done = std::move(done)](const Status& found) {
        Version* of = images_.FindVersion(generation);
        if (of != nullptr && found.code() == Code::kMismatch && of->failure.ok()) {
          of->failure = found;
          of->job->NoteDisagreement(generation, found);
        }
        done();
      });
}

void Publisher::Probe(Version& version) {
  if (version.probing || version.in_store) return;
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
        Version* found = images_.FindVersion(generation);
        if (found == nullptr) return;
        found->probing = false;
        if (outcome.status().code() == Code::kBusy && found->failure.ok()) {
          // Another node's images would have made it complete, but a newer attempt has gone on from elsewhere.
          found->failure = outcome.status();
          core_.events().version_failed(*found, Level::kStore, found->failure);
        }
        if (!outcome.ok()) return;
        found->missing_in_store = outcome->missing_ranks;
        if (outcome->complete && !found->in_store) {
          found->in_store = true;
          SaveFiles(*found);
          OnComplete(*found);
          images_.Reconsider(*found->job, generation.name);
        }
        core_.events().version_changed(generation);
      });
}

void Publisher::Lookup(const Generation& generation, std::function<void(bool)> done) {
  Job* job = core_.FindJobOf(generation);
  if (job == nullptr) {
    core_.loop().Post([done = std::move(done)] { done(false); });
    return;
  }
  core_.Background(
      [store = job->store, generation]() {
        auto catalog = store->CatalogFor(generation.attempt);
        if (!catalog.ok()) return false;
        auto info = InspectGeneration(*catalog, generation);
        return info.ok() && info->complete;
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
