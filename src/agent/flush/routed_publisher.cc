#include "agent/flush/routed_publisher.h"

#include <fmt/format.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "agent/flush/routed_publication.h"
#include "agent/images/image_table.h"
#include "agent/images/local_retention.h"
#include "agent/tables/agent_core.h"
#include "base/log.h"
#include "store/attempts.h"

namespace kedge {
namespace {

constexpr Duration kLookPatience = std::chrono::milliseconds(750);
constexpr Duration kFilesPause = std::chrono::seconds(1);

// On a worker.
Result<bool> LookWhetherTakenOver(StoreContext& store, const std::string& job, uint32_t attempt) {
  const Status looked = AwaitCheckNotTakenOver([&] { return store.CatalogFor(attempt); }, job, attempt, kLookPatience);
  if (looked.ok() || looked.code() == Code::kBusy) return !looked.ok();
  return looked;
}

}  // namespace

RoutedPublisher::RoutedPublisher(AgentCore& core, ImageTable& images, LocalRetention& retention)
    : core_(core), images_(images), retention_(retention), publisher_(std::make_shared<FilePublisher>(os::SystemFileSystem())) {}

void RoutedPublisher::Publish(Image& image) {
  std::vector<PieceSource> chunks;
  for (const ImageChunk& chunk : image.chunks) chunks.push_back(chunk.Source(0, chunk.bytes));
  images_.AddReader(image);
  const Generation& of = image.version->generation;
  FileOrigin origin{of.store_id, of.job, {core_.settings().node, of.attempt, "agent"}, {}, MomentOf(of), {}};
  origin.is_silent = [store = image.version->job->store, self = of.attempt, job = of.job](uint32_t attempt) {
    return store->IsSilent(job, self, attempt);
  };
  origin.is_taken_over = [store = image.version->job->store, self = of.attempt, job = of.job] {
    return LookWhetherTakenOver(*store, job, self);
  };
  core_.Background([publisher = publisher_, origin = std::move(origin), record = image.record.Source(0, image.record_bytes),
                    chunks = std::move(chunks)] { return PublishRoutedFiles(*publisher, origin, record, chunks); },
                   [this, id = image.id](Status status) {
                     Image* found = images_.Find(id);
                     KEDGE_CHECK(found != nullptr);
                     if (status.code() == Code::kUnavailable && !found->doomed) {
                       images_.RemoveReader(*found);
                       return PublishLater(*found, status);
                     }
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
                       images_.Save(*found);
                       images_.OnSettled(*found);
                     }
                     images_.RemoveReader(*found);
                     retention_.Reconsider(job, generation.name);
                     core_.events().version_changed(generation);
                   });
}

// The store is away, so that nobody can tell whether they would replace a newer attempt's.
void RoutedPublisher::PublishLater(const Image& image, const Status& why) {
  static LogRateLimit limit(std::chrono::seconds(60));
  LogLimited(limit, LogLevel::kWarning, "agent", "routed files of {} rank {} wait for the store: {}",
             image.version->generation.ToString(), image.rank, why.ToString());
  core_.loop().AddTimer(kFilesPause, [this, id = image.id] {
    Image* waiting = images_.Find(id);
    if (waiting != nullptr && !waiting->doomed) Publish(*waiting);
  });
}

void RoutedPublisher::PublishOwed() {
  for (const auto& [id, image] : images_.all()) {
    const bool is_stored = image->flush == FlushState::kStored && image->version->in_store();
    if (!is_stored || !image->has_files || image->files_published) continue;
    if (image->version->job->hello.keys.files_publish) Publish(*image);
  }
}

}  // namespace kedge
