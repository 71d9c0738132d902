#include "agent/flush/still_stored.h"

#include <algorithm>
#include <future>

#include "agent/flush/publisher.h"
#include "agent/images/image_flusher.h"
#include "agent/images/image_table.h"
#include "agent/images/local_retention.h"
#include "agent/tables/agent_core.h"
#include "base/log.h"
#include "store/versions.h"

namespace kedge {
namespace {

// What of the job counts as stored: of versions that are complete there, and of others.
void Collect(const Job& job, std::vector<Seen>* versions, std::vector<Seen>* parts) {
  for (const auto& [generation, version] : job.versions) {
    Seen seen{generation, version->in_store(), {}};
    for (const auto& [rank, image] : version->images) {
      if (!image->doomed && image->flush == FlushState::kStored) seen.ranks.push_back(rank);
    }
    if (version->in_store() || !seen.ranks.empty()) (version->in_store() ? versions : parts)->push_back(std::move(seen));
  }
}

// Something of it was stored by a former agent.
bool HasRecovered(const Job& job) {
  return std::any_of(job.versions.begin(), job.versions.end(), [](const auto& version) {
    const auto& images = version.second->images;
    return std::any_of(images.begin(), images.end(), [](const auto& image) { return image.second->recovered; });
  });
}

// It can be written once more from what lies here.
bool IsWholeHere(const Image& image) {
  return image.IsHeld() && !image.HasReleased() && image.record.unit != nullptr &&
         std::all_of(image.chunks.begin(), image.chunks.end(), [](const ImageChunk& chunk) { return chunk.IsLocal(); });
}

}  // namespace

StillStored::Question StillStored::QuestionOf(const Job& job) const {
  Question question{job.name, job.Names(), {}, {}, 0};
  const auto look = looks_.find(job.key());
  if (look != looks_.end()) question.places = look->second.places;
  Collect(job, &question.versions, &question.parts);
  return question;
}

StillStored::Answer StillStored::Ask(StoreContext& store, const Question& question) {
  Answer answer;
  const Result<Catalog> catalog = store.CatalogFor(0);
  answer.places = store.places();
  if (!catalog.ok()) {
    answer.missing = catalog.status();
    return answer;
  }
  for (const std::string& name : question.names) {
    std::vector<RestoredRecord> restored;
    const auto newest = NewestAtOrBelow(*catalog, question.job, name, -1, &restored);
    answer.restored.insert(answer.restored.end(), restored.begin(), restored.end());
    if (newest.ok()) answer.newest.push_back(newest->generation);
  }
  std::vector<Seen> all = question.versions;
  // What is not complete may have been let go of in many ways: it is worth a look only where the folder is seen to be another.
  if (answer.places > 1 && answer.places != question.places) {
    all.insert(all.end(), question.parts.begin(), question.parts.end());
  }
  answer.missing = FindMissing(*catalog, all);
  return answer;
}

void StillStored::Tick() {
  std::erase_if(looks_, [&](const auto& entry) { return !entry.second.is_under_way && core_.FindJob(entry.first) == nullptr; });
  for (const auto& [key, job] : core_.jobs()) {
    Look& look = looks_[key];
    const uint32_t places = job->store->places();
    if (look.is_under_way || (look.places == places && !look.is_doubted)) continue;
    if (places == 1 && !look.is_doubted && !HasRecovered(*job)) {  // it is where this agent has stored everything
      look.places = places;
      continue;
    }
    look.is_under_way = true;
    look.is_doubted = false;
    core_.Background([store = job->store, question = QuestionOf(*job)] { return Ask(*store, question); },
                     [this, key = key](const Answer& answer) {
                       looks_[key].is_under_way = false;
                       Job* found = core_.FindJob(key);
                       if (found != nullptr) OnAnswer(*found, answer);
                     });
  }
}

Status StillStored::ConfirmAll(Duration patience) {
  std::vector<JobKey> keys;
  for (const auto& [key, job] : core_.jobs()) {
    if (!job->versions.empty()) keys.push_back(key);
  }
  for (const JobKey& key : keys) {
    Job* job = core_.FindJob(key);
    // On a worker: a store may not answer at all.
    auto answered = std::make_shared<std::promise<Answer>>();
    auto answer = answered->get_future();
    core_.workers().Submit(
        [store = job->store, question = QuestionOf(*job), answered] { answered->set_value(Ask(*store, question)); });
    if (answer.wait_for(patience) != std::future_status::ready) {
      return Status(Code::kTimeout, job->store->store().description() + " does not answer");
    }
    const Answer given = answer.get();
    KEDGE_RETURN_IF_ERROR(given.missing.status());
    OnAnswer(*job, given);
  }
  return Status::Ok();
}

void StillStored::OnAnswer(Job& job, const Answer& answer) {
  if (!answer.missing.ok()) {  // asked again at the next tick
    static LogRateLimit limit(std::chrono::seconds(60));
    return LogLimited(limit, LogLevel::kWarning, "agent", "job {}: whether its store has all that was stored cannot be told: {}",
                      job.name, answer.missing.status().ToString());
  }
  Look& look = looks_[job.key()];
  const uint32_t before = std::exchange(look.places, answer.places);
  if (answer.places > 1 && before != answer.places) {
    // Nor may the folder have what attempts went on from, without which its newest version may be an abandoned one.
    for (const RestoredRecord& record : job.restored) job.store->AwaitRestored(record);
    job.names_reached.clear();
  }
  for (const Seen& missing : *answer.missing) SendAgain(job, missing);
  for (const Generation& newest : answer.newest) job.stored_newest[newest.name] = MomentOf(newest);
  retention_.LearnRestarts(job, answer.restored);
  retention_.ReconsiderAll(job);
}

void StillStored::SendAgain(Job& job, const Seen& missing) {
  Version* version = core_.FindVersion(missing.generation);
  if (version == nullptr) return;
  if (missing.complete) version->SetGoneFromStore();
  uint32_t again = 0;
  for (const auto& [rank, image] : version->images) {
    const bool is_missing = std::find(missing.ranks.begin(), missing.ranks.end(), rank) != missing.ranks.end();
    if (is_missing && image->flush == FlushState::kStored && IsWholeHere(*image)) {
      ++again;
      version->AlsoTo(Level::kStore);
      image->tries = RetryPauses();
      flush_.Start(*image);
    }
    images_.Save(*image);
  }
  LogWarning("agent", "{} was in the store at {} and is not there any more: {} of {} images are sent there again",
             missing.generation.ToString(), job.store->store().description(), again, version->images.size());
  if (again == 0 && missing.complete) publisher_.Probe(*version);  // all parts of it may be there
  retention_.Reconsider(job, missing.generation.name);
  core_.Nudge();
}

}  // namespace kedge
