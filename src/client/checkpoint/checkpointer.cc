// See checkpointer.h.
#include "client/checkpoint/checkpointer.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/byte_size.h"
#include "base/clock.h"
#include "base/log.h"
#include "capture/base_sample.h"
#include "client/core/callback.h"
#include "client/regions/object_stream.h"
#include "os/files/private_files.h"
#include "os/memory/held_writes.h"
#include "schedule/schedule.h"
#include "store/retention.h"
#include "store/versions.h"

namespace kedge::client {
namespace {

// Of less memory neither the copy nor what it saves is felt.
constexpr uint64_t kCopiedLaterBytesMin = uint64_t{4} << 20;

// What moves may have moved before it was copied.
bool IsCopiedLater(const DeclaredRegion& declared) {
  const Region& region = declared.description;
  return region.kind == RegionKind::kMemory && region.bytes >= kCopiedLaterBytesMin && !declared.moves() &&
         !declared.device_written;
}

// Errors after which the store itself is tried: the tiers cannot take the image, and it may have room.
bool InlineMayHelp(Code code) {
  return code == Code::kUnavailable || code == Code::kNoSpace || code == Code::kTimeout || code == Code::kIo;
}

}  // namespace

Checkpointer::Checkpointer(Core* core, Ledger* ledger, AgentSession* session, const std::string& files_folder)
    : core_(core),
      ledger_(ledger),
      session_(session),
      store_sink_(&*core->catalog, core->InlineLimits()),
      tracker_(core->job.tracking),
      files_(os::PrivateFileSystem(), files_folder),
      file_publisher_(*core->file_system) {}

Status Checkpointer::Start(std::unique_lock<std::mutex>& lock, const std::string& name, int64_t version, bool overwrite) {
  // Nothing that may fail on one rank alone comes before (ledger.h).
  ledger_->Count(name);
  KEDGE_RETURN_IF_ERROR(core_->AwaitCapture(lock, Deadline(SystemClock(), core_->job.wait_timeout)));
  copy_.reset();
  if (active()) {
    return Status(Code::kFailedPrecondition, fmt::format("checkpoint '{}' version {} has begun and not ended",
                                                         taken_->generation.name, taken_->generation.version));
  }
  KEDGE_RETURN_IF_ERROR(core_->CheckNotSuperseded());
  session_->Pump();
  CheckAgreement();
  KEDGE_ASSIGN_OR_RETURN(taken_, ledger_->Begin(name, version, overwrite));
  ++image_number_;
  parts_ = 0;
  return Status::Ok();
}

Status Checkpointer::OpenImage(uint64_t announced_bytes) {
  const ImageIdentity identity{taken_->generation, core_->rank(), core_->ranks()};
  inline_ = !session_->attached();
  image_session_ = inline_ ? nullptr : session_->current();
  ImageSink* sink = &store_sink_;
  if (tracker_.Available()) tracker_.Begin();
  if (image_session_) {
    image_session_->sink->SetDueLevels(EncodeDueLevels(LevelsByCount(core_->levels, taken_->generation.take - 1)));
    // The base stays while the next image is captured: only where there is room for both.
    const bool builds =
        tracker_.Available() && tracker_.Tracks() && Fits(std::max(announced_bytes, core_->regions.current().bytes()));
    image_session_->sink->SetBuilds(builds);
    sink = image_session_->sink.get();
  }
  WarnWhenTooBig(announced_bytes);
  return capture_.Begin(sink, identity, core_->regions.current_name(), announced_bytes);
}

Status Checkpointer::FallBackInline(const Status& why) {
  // Of a node without tiers the session has told.
  if (!image_session_->attachment.welcome.tiers.empty()) {
    static LogRateLimit limit(std::chrono::seconds(60));
    WriteLogLimited(limit, LogLevel::kWarning, "client",
                    fmt::format("rank {}: '{}' version {} goes straight to the store, because no local tier takes it: {}",
                                core_->rank(), taken_->generation.name, taken_->generation.version, why.message()));
  }
  capture_.Abort();
  inline_ = true;
  image_session_.reset();
  const ImageIdentity identity{taken_->generation, core_->rank(), core_->ranks()};
  return capture_.Begin(&store_sink_, identity, core_->regions.current_name(), 0);
}

Status Checkpointer::Begin(std::unique_lock<std::mutex>& lock, const std::string& name, int64_t version, bool overwrite) {
  KEDGE_RETURN_IF_ERROR(Start(lock, name, version, overwrite));
  Status status = core_->Heard(OpenImage(0));
  if (!status.ok()) Abandon();
  return status;
}

Result<bool> Checkpointer::CaptureWhole() {
  uint64_t bytes = 0;
  for (uint64_t region : gathered_bytes_) bytes += region;
  KEDGE_RETURN_IF_ERROR(OpenImage(bytes));
  std::vector<CopiedLater> later;
  const bool copies_later = CopiesLater();
  Status status = CapturePart(copies_later ? &later : nullptr);
  if (copies_later && status.code() == Code::kUnsupported) {
    // No memory of a tier takes all of it: it is copied now, to whatever does.
    later.clear();
    capture_.Abort();
    KEDGE_RETURN_IF_ERROR(OpenImage(bytes));
    status = CapturePart(nullptr);
  }
  KEDGE_RETURN_IF_ERROR(status);
  if (!later.empty()) return StartCopy(std::move(later));
  KEDGE_RETURN_IF_ERROR(EndCapture());
  return false;
}

Status Checkpointer::Whole(std::unique_lock<std::mutex>& lock, const std::string& name, int64_t version, bool overwrite) {
  KEDGE_RETURN_IF_ERROR(Start(lock, name, version, overwrite));
  Status status = Gather(KEDGE_ALL, nullptr, 0);
  bool goes_on = false;
  if (status.ok()) {
    const Result<bool> captured = CaptureWhole();
    status = captured.status();
    goes_on = captured.ok() && *captured;
  }
  // The application waits, so its memory is as it was: the image can be taken once more.
  if (!status.ok() && !inline_ && InlineMayHelp(status.code())) {
    status = FallBackInline(status);
    if (status.ok()) status = CapturePart(nullptr);
    if (status.ok()) status = EndCapture();
  }
  if (!status.ok()) {
    Abandon();
    return core_->Heard(status);
  }
  ++core_->statistics.checkpoints;
  return goes_on ? Status::Ok() : Finish();
}

bool Checkpointer::CopiesLater() {
  if (!core_->job.copies_later || inline_) return false;
  if (!std::exchange(tried_to_hold_, true)) {
    const Status status = os::HeldWrites::Probe();
    holds_ = status.ok();
    if (!holds_) LogWarning("client", "capture.mode is cow, but checkpoints copy in their call: {}", status.message());
  }
  return holds_;
}

Result<bool> Checkpointer::StartCopy(std::vector<CopiedLater> later) {
  KEDGE_ASSIGN_OR_RETURN(auto copy, BackgroundCopy::Create(&copy_order_));
  for (const DeclaredRegion* declared : gathered_) {
    if (!IsCopiedLater(*declared)) continue;
    const Status status = copy->Add(declared->address, declared->description.bytes);
    if (status.ok()) continue;
    LogDebug("client", "region {} is copied in the call: {}", declared->description.id, status.message());
  }
  KEDGE_ASSIGN_OR_RETURN(const bool goes_on,
                         copy->Start(std::move(later), [this](Status status) { OnCopied(std::move(status)); }));
  if (!goes_on) {
    capture_.SetChecksums(copy->parts());
    KEDGE_RETURN_IF_ERROR(EndCapture());
    return false;
  }
  AnnotateHeap();
  copy_ = std::move(copy);
  started_ = std::exchange(taken_, nullptr);
  started_ns_ = WallTimeNs();
  ledger_->Started(started_);
  core_->capturing = true;
  return true;
}

void Checkpointer::OnCopied(Status status) {
  const std::lock_guard lock(core_->mutex);
  taken_ = std::exchange(started_, nullptr);
  if (status.ok()) {
    capture_.SetChecksums(copy_->parts());
    status = capture_.End(started_ns_);
  }
  core_->statistics.writes_held += copy_->waited();
  if (status.ok()) {
    status = Finish();
  } else {
    taken_->started = false;
    session_->AddFailure(taken_, core_->Heard(status).WithContext("it was not captured"));
    Abandon();
  }
  core_->capturing = false;
  core_->capture_ended.notify_all();
}

Status Checkpointer::Part(kedge_selection selection, const int* ids, size_t count) {
  if (!active()) return Status(Code::kFailedPrecondition, "no checkpoint has begun");
  // A wrong selection is the caller's slip: nothing was captured, and the checkpoint may go on.
  KEDGE_RETURN_IF_ERROR(Gather(selection, ids, count));
  Status status = CapturePart(nullptr);
  // Memory that an earlier part has captured may have changed since: only a first part can be taken again.
  if (!status.ok() && !inline_ && parts_ == 0 && InlineMayHelp(status.code())) {
    status = FallBackInline(status);
    if (status.ok()) status = CapturePart(nullptr);
  }
  if (!status.ok()) Abandon();
  if (status.ok()) ++parts_;
  return core_->Heard(status);
}

Status Checkpointer::Gather(kedge_selection selection, const int* ids, size_t count) {
  gathered_.clear();
  gathered_bytes_.clear();
  Status status = core_->regions.current().ForEachSelected(selection, ids, count, image_number_,
                                                           [this](DeclaredRegion* declared) { return Take(declared); });
  if (!status.ok()) {
    for (DeclaredRegion* declared : gathered_) declared->taken_by = 0;
  }
  return status;
}

Status Checkpointer::Take(DeclaredRegion* declared) {
  Region& region = declared->description;
  if (declared->taken_by == image_number_) {
    return Status(Code::kInvalidArgument,
                  fmt::format("region {} is in this checkpoint already; KEDGE_REST takes what is not", region.id));
  }
  if (region.kind == RegionKind::kObject) {
    size_t bytes = 0;
    const CallbackScope scope(core_);
    if (int code = declared->object.size(declared->object.user, &bytes)) {
      return Status(Code::kFailedPrecondition, fmt::format("object {}: its size call-back returned {}", region.id, code));
    }
    region.bytes = bytes;
  } else if (declared->moves()) {
    const CallbackScope scope(core_);
    KEDGE_RETURN_IF_ERROR(declared->Locate());
  }
  declared->taken_by = image_number_;
  gathered_.push_back(declared);
  gathered_bytes_.push_back(region.bytes);
  return Status::Ok();
}

Status Checkpointer::CapturePart(std::vector<CopiedLater>* later) {
  KEDGE_RETURN_IF_ERROR(capture_.BeginPart(gathered_bytes_));
  for (DeclaredRegion* declared : gathered_) {
    if (declared->description.kind == RegionKind::kObject) {
      KEDGE_RETURN_IF_ERROR(CaptureObject(declared));
    } else if (later != nullptr && IsCopiedLater(*declared)) {
      KEDGE_RETURN_IF_ERROR(capture_.AddRegionLater(declared->description, declared->address, later));
    } else {
      KEDGE_RETURN_IF_ERROR(CaptureMemory(*declared));
    }
  }
  return Status::Ok();
}

Status Checkpointer::CaptureMemory(const DeclaredRegion& declared) {
  const Region& region = declared.description;
  const ImageBase* base = inline_ ? nullptr : image_session_->sink->base();
  const ImageMark mark = base == nullptr ? ImageMark{} : ImageMark{image_session_->number, image_session_->sink->base_serial()};
  const auto* changed = tracker_.Take(declared, mark);
  if (changed != nullptr && !AgreesWithBase(*base, region, declared.address, *changed, image_number_)) {
    tracker_.Distrust(declared);
    changed = nullptr;
  }
  if (changed != nullptr) return capture_.AddChangedRegion(region, declared.address, *changed);
  return capture_.AddRegion(region, declared.address);
}

Status Checkpointer::CaptureObject(DeclaredRegion* declared) {
  KEDGE_RETURN_IF_ERROR(capture_.OpenRegion(declared->description));
  kedge_writer writer{&capture_, Status::Ok()};
  int code = 0;
  {
    const CallbackScope scope(core_);
    code = declared->object.serialize(declared->object.user, &writer);
  }
  KEDGE_RETURN_IF_ERROR(writer.status);
  if (code != 0) {
    return Status(Code::kFailedPrecondition,
                  fmt::format("object {}: its serialize call-back returned {}", declared->description.id, code));
  }
  return capture_.CloseRegion();
}

void Checkpointer::AnnotateHeap() {
  const std::optional<std::string> heap = core_->heap.Note();
  if (heap && core_->regions.current_name().empty()) capture_.Annotate(kHeapKey, *heap);
}

Status Checkpointer::EndCapture() {
  AnnotateHeap();
  return capture_.End(WallTimeNs());
}

Result<std::string> Checkpointer::RouteFile(const std::string& original) {
  if (!active()) return Status(Code::kFailedPrecondition, "no checkpoint has begun");
  return files_.Route(original);
}

Status Checkpointer::Annotate(std::string_view key, std::string_view value) {
  if (!active()) return Status(Code::kFailedPrecondition, "no checkpoint has begun");
  if (key.empty() || key.size() > kAnnotationKeyBytesMax) {
    return Status(Code::kInvalidArgument,
                  fmt::format("annotation key of {} bytes: expected 1 to {}", key.size(), kAnnotationKeyBytesMax));
  }
  if (key == kHeapKey) {
    return Status(Code::kInvalidArgument, fmt::format("annotation key '{}': Kedge has it for blocks of kedge_alloc", key));
  }
  capture_.Annotate(key, value);
  return Status::Ok();
}

Status Checkpointer::End(bool success) {
  if (!active()) return Status(Code::kFailedPrecondition, "no checkpoint has begun");
  if (!success) {
    Abandon();
    return Status::Ok();
  }
  Status status = files_.empty() ? Status::Ok() : files_.Capture(&capture_);
  if (status.ok()) status = EndCapture();
  if (!status.ok()) {
    Abandon();
    return core_->Heard(status).WithContext("the checkpoint is abandoned");
  }
  ++core_->statistics.checkpoints;
  return Finish();
}

Status Checkpointer::Finish() {
  TakenVersion* const taken = taken_;
  taken_ = nullptr;
  CountFinished();
  ledger_->Captured(taken);
  taken->in_store = inline_;
  if (image_session_) {
    taken->session = image_session_->number;
    taken->serial = image_session_->sink->serial();
    tracker_.Captured({taken->session, taken->serial});
    image_session_.reset();
  } else {
    if (!files_.empty() && core_->job.keys.files_publish) PublishFilesInline(taken->generation);
    if (!store_sink_.outcome().complete) unfinished_[taken->generation.name] = taken->generation;
    if (store_sink_.outcome().complete) {
      unfinished_.erase(taken->generation.name);
      RetentionOptions options;
      options.keep = core_->job.keys.keep_versions;
      options.watch = &silence_watch_;
      Status status = ApplyRetention(*core_->catalog, core_->job.job, taken->generation.name, options, nullptr);
      if (!status.ok()) LogWarning("client", "old versions of '{}' stay for now: {}", taken->generation.name, status.message());
    }
  }
  files_.RemoveAll();
  return Status::Ok();
}

void Checkpointer::PublishFilesInline(const Generation& taken) {
  const Catalog& catalog = *core_->catalog;
  const std::string& job = core_->job.job;
  const FileOrigin origin{catalog.id(),    job,
                          catalog.owner(), [&](uint32_t attempt) { return IsSilent(catalog, job, attempt, &silence_watch_); },
                          MomentOf(taken), [&] { return core_->superseded.load(); }};
  for (const RoutedFiles::File& file : files_.files()) {
    const Status status = PublishFileInline(origin, file);
    if (!status.ok())
      LogError("client", "routed file '{}' is in the checkpoint, but not at its path: {}", file.original, status.message());
  }
}

Status Checkpointer::PublishFileInline(const FileOrigin& origin, const RoutedFiles::File& file) {
  KEDGE_ASSIGN_OR_RETURN(const auto from, os::PrivateFileSystem().Open(file.routed, os::OpenFlags::kRead));
  return file_publisher_.Publish(origin, file.original, file.mode, [&](os::File& to) { return CopyFile(*from, to); });
}

void Checkpointer::CountFinished() {
  kedge_statistics& statistics = core_->statistics;
  const uint64_t bytes = capture_.bytes_captured();
  statistics.bytes_captured += bytes;
  statistics.bytes_unchanged += capture_.bytes_left_out();
  if (inline_) {
    ++statistics.checkpoints_inline;
    statistics.bytes_through += bytes;
    return;
  }
  const CapturedBytes& captured = image_session_->sink->captured();
  statistics.bytes_pool += captured.memory;
  statistics.bytes_directory += captured.directory;
  statistics.bytes_through += captured.through;
  statistics.slot_wait_seconds += ToSeconds(image_session_->slots->TakeWaited());
}

uint64_t Checkpointer::NeededOnNode(uint64_t image_bytes) const {
  return image_bytes * core_->ranks_on_node * VersionsOnNode();
}

bool Checkpointer::Fits(uint64_t image_bytes) const {
  return NeededOnNode(image_bytes) <= image_session_->attachment.welcome.capacity_bytes;
}

void Checkpointer::WarnWhenTooBig(uint64_t image_bytes) {
  if (warned_of_size_ || image_bytes == 0 || !image_session_) return;
  warned_of_size_ = true;
  const Welcome& welcome = image_session_->attachment.welcome;
  if (welcome.tiers.empty() || !welcome.speaks_for_node || Fits(image_bytes)) return;
  LogWarning("client",
             "{} versions of {} by {} ranks need {} on node {}, whose tiers have {}: checkpoints will wait for flushes. Give "
             "the node more room (pool.size, a [[tier]]), or keep fewer versions there (keep.local)",
             VersionsOnNode(), FormatByteSize(image_bytes), core_->ranks_on_node, FormatByteSize(NeededOnNode(image_bytes)),
             welcome.node, FormatByteSize(welcome.capacity_bytes));
}

void Checkpointer::CheckAgreement() {
  for (auto unfinished = unfinished_.begin(); unfinished != unfinished_.end();) {
    const Generation& generation = unfinished->second;
    const Status status = FindDisagreement(*core_->catalog, generation);
    const bool disagree = status.code() == Code::kMismatch;
    TakenVersion* const taken = ledger_->Find(generation.name, generation.version);
    if (disagree) session_->AddFailure(taken != nullptr && taken->generation == generation ? taken : nullptr, status);
    unfinished = disagree ? unfinished_.erase(unfinished) : std::next(unfinished);
  }
}

void Checkpointer::Abandon() {
  capture_.Abort();
  files_.RemoveAll();
  image_session_.reset();
  taken_ = nullptr;
}

}  // namespace kedge::client
