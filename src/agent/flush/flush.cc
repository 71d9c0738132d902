#include "agent/flush/flush.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "agent/flush/attempt_watch.h"
#include "agent/images/held_stream.h"
#include "agent/images/image_table.h"
#include "agent/images/local_retention.h"
#include "agent/images/pending_images.h"
#include "agent/space/assignment.h"
#include "agent/space/throughput.h"
#include "agent/space/tiers.h"
#include "agent/tables/agent_core.h"
#include "base/log.h"
#include "format/image_record.h"
#include "os/machine/machine.h"
#include "os/process/kill_point.h"

namespace kedge {
namespace {

constexpr uint32_t kRetriesMax = 3;
constexpr Duration kFirstRetryPause = std::chrono::milliseconds(100);  // then four times as long each
constexpr uint32_t kPausesGrownMax = 3;
constexpr Duration kHeldMax = std::chrono::milliseconds(300);
// Of an image with fewer blocks the look for a base and the block map cost as much as they save.
constexpr uint64_t kReducedBlocksMin = 16;
// Written in less time than a worker of low priority may wait for a processor.
constexpr uint64_t kPromptBytesMax = uint64_t{64} << 10;

// Of a block map that says where pieces lie: what it has at the least, and what a piece adds to it.
constexpr uint64_t kMapBytesMax = 1024;
constexpr uint64_t kMapBytesOfPieceMax = 32;

// Until it is published with that object, this node has another copy of it.
bool MayLieInShare(const Image& image) {
  return image.ended &&
         std::ranges::all_of(image.chunks, [](const ImageChunk& chunk) { return chunk.IsLocal() && chunk.in_own_object; });
}

// For those who do not know which image it was.
Status InFull(const Image& image, const Status& why) {
  return why.WithContext(fmt::format("flush of {} rank {}", image.version->generation.ToString(), image.rank));
}

// kCorrupt: what lies here is not what was captured; the message names region and place. `wrong`: chunks have left their slots,
// so that what was written is all there is of them, and this place of it is known to be wrong.
Status ProveHeld(const HeldStream& held, uint64_t record_offset, uint64_t record_bytes, std::optional<ChunkPlace> wrong) {
  if (!wrong) return ProveImage(held, record_offset, record_bytes);
  Buffer encoded(record_bytes);
  KEDGE_RETURN_IF_ERROR(held.Read(record_offset, record_bytes, encoded.data()));
  KEDGE_ASSIGN_OR_RETURN(const ImageRecord record, DecodeImageRecord(encoded));
  for (const Extent& extent : record.extents) {
    if (extent.chunk != wrong->chunk || extent.chunk_offset + extent.bytes <= wrong->begin) continue;
    return Status(Code::kCorrupt,
                  fmt::format("{}: region {}, at byte {}: it changed in its slot before it was written",
                              record.identity.ToString(), record.regions[extent.region].id, extent.region_offset));
  }
  return Status(Code::kCorrupt, record.identity.ToString() + ": its chunks are not those of its record");
}

}  // namespace

Duration RetryPauses::Next(const Status& why) {
  uint32_t& count = why.code() == Code::kUnavailable ? absences : failures;
  return kFirstRetryPause * (1 << 2 * std::min(count++, kPausesGrownMax));
}

Flush::Flush(AgentCore& core, Assignment& assignment, AttemptWatch& attempt_watch, ImageTable& images, PendingImages& pending,
             LocalRetention& retention, Throughput& throughput, Tiers& tiers)
    : core_(core),
      assignment_(assignment),
      attempt_watch_(attempt_watch),
      images_(images),
      pending_(pending),

      retention_(retention),
      throughput_(throughput),
      tiers_(tiers),
      cpus_(static_cast<uint32_t>(os::UsableCpuCount())) {}

// Of an image that has not ended only chunks count that may leave their slots before it (images/passing_chunks.h), and they are
// counted when they are whole: the flush of the others may end long after its own writer needs a slot. So may the flush of
// images that wait for the store.
void Flush::CountChunks(Image& image) {
  const bool frees = image.IsOnItsWay() && image.version->absence.ok();
  for (ImageChunk& chunk : image.chunks) chunk.CountAsFlushing(frees && (image.ended || chunk.is_flushing));
}

void Flush::SetState(Image& image, FlushState state) {
  image.flush = state;
  CountChunks(image);
}

void Flush::SetEnded(Image& image) {
  KEDGE_CHECK(!image.ended);
  image.ended = true;
  CountChunks(image);
}

void Flush::QueuePieces(Image& image, uint32_t index, bool whole_only) {
  ImageChunk& chunk = image.chunks[index];
  if (!chunk.IsLocal() || !chunk.in_own_object) return;
  const uint64_t piece_bytes = core_.settings().piece_bytes;
  while (chunk.queued_bytes < chunk.captured_bytes) {
    const uint64_t bytes = std::min(piece_bytes, chunk.captured_bytes - chunk.queued_bytes);
    if (whole_only && bytes < piece_bytes && chunk.captured_bytes < chunk.bytes) break;
    const uint32_t queue = chunk.unit == nullptr ? 0 : chunk.unit->id;
    queues_[queue].pieces.push_back({image.id, image.flush_epoch, index, chunk.queued_bytes, bytes, ++last_sequence_});
    queues_[queue].bytes += bytes;
    chunk.queued_bytes += bytes;
    queued_bytes_ += bytes;
    ++image.pieces_queued;
  }
}

Flush::Piece Flush::Take(Queue& queue) {
  const Piece piece = queue.pieces.front();
  queue.pieces.pop_front();
  queue.bytes -= piece.bytes;
  queued_bytes_ -= piece.bytes;
  return piece;
}

uint64_t Flush::QueuedBytesOf(uint32_t unit) const {
  const auto queue = queues_.find(unit);
  return queue == queues_.end() ? 0 : queue->second.bytes;
}

void Flush::QueueCaptured(Image& image, uint32_t chunk) {
  if (image.version->writers == Version::Writers::kAwaited) return;
  QueuePieces(image, chunk, true);
  core_.Nudge();
}

void Flush::QueueEnded(Image& image) {
  KEDGE_CHECK(image.ended);
  if (image.flush != FlushState::kFlushing) return;  // it waits for its next try, which takes all
  if (image.version->writers == Version::Writers::kAwaited) return core_.events().writers_due(*image.version);
  for (uint32_t i = 0; i < image.chunks.size(); ++i) QueuePieces(image, i, false);
  CheckWritten(image);
  core_.Nudge();
}

void Flush::Start(Image& image) {
  SetState(image, FlushState::kFlushing);
  for (ImageChunk& chunk : image.chunks) {
    chunk.queued_bytes = chunk.written_bytes = 0;
    chunk.written.clear();
    if (image.ended) chunk.captured_bytes = chunk.bytes;
  }
  QueueAll(image);
}

void Flush::QueueAll(Image& image) {
  if (image.ended) return QueueEnded(image);
  for (uint32_t i = 0; i < image.chunks.size(); ++i) QueueCaptured(image, i);
}

void Flush::WriteHere(Version& version) {
  version.writers = Version::Writers::kHere;
  for (const auto& [rank, image] : version.images) {
    if (!image->doomed && image->flush == FlushState::kFlushing) QueueAll(*image);
  }
}

void Flush::Ship(Image& image) {
  KEDGE_CHECK(image.ended && image.flush == FlushState::kFlushing && !HasBegun(image));
  SetState(image, FlushState::kShipped);
}

void Flush::TakeBack(Image& image) {
  KEDGE_CHECK(image.flush == FlushState::kShipped);
  image.is_handed_over = false;
  Start(image);
}

uint32_t Flush::SendToStore(Version& version) {
  if (version.in_store()) return 0;
  version.AlsoTo(Level::kStore);
  version.undecided.reset();
  version.skipped = false;
  uint32_t owed = 0;
  for (const auto& [rank, image] : version.images) {
    if (image->doomed || image->flush == FlushState::kStored) continue;
    ++owed;
    if (!image->IsOnItsWay()) Start(*image);
    images_.Save(*image);
  }
  return owed;
}

void Flush::DropObject(Image& image) {
  ++image.flush_epoch;  // queued pieces of it are passed over
  image.flush_time = Duration::zero();
  image.flush_written = PieceWritten{};
  image.pieces_queued = 0;
  core_.LetGo(image.object);
}

void Flush::Forget(Image& image) {
  if (image.flush == FlushState::kPublishing || image.flush == FlushState::kStored) return;
  DropObject(image);
  TakeOut(image, FlushState::kNone);
}

void Flush::TakeOut(Image& image, FlushState state) {
  SetState(image, state);
  if (image.version->images.size() == 1) return;
  // When all that go now are gone.
  core_.loop().Post([this, generation = image.version->generation] {
    Version* version = core_.FindVersion(generation);
    if (version != nullptr) core_.events().publication_due(*version);
  });
}

bool Flush::HasBegun(const Image& image) const {
  return image.object != nullptr || image.pieces_in_flight > 0;
}

bool Flush::RateAllows() {
  const Duration pause = core_.flush_rate().Pause();
  if (pause == Duration::zero()) return true;
  if (!rate_timer_) {
    rate_timer_ = true;
    core_.loop().AddTimer(pause, [this] {
      rate_timer_ = false;
      Dispatch();
    });
  }
  return false;
}

// Flushing takes processors and memory bandwidth from a capture, whose application waits: meanwhile it leaves a processor to each
// writer. When the writers have all of them it waits, but not while somebody needs a slot that a flush could free, and not for
// longer than kHeldMax, so that a stream of captures never stops it.
uint32_t Flush::WorkersNow() {
  const uint32_t workers = core_.settings().flush_workers;
  const uint32_t writers = pending_.Capturing();
  if (writers == 0) {
    held_since_ns_ = 0;
    return workers;
  }
  if (cpus_ > writers) return std::min(workers, cpus_ - writers);
  if (assignment_.waiting() > 0) return std::max(1u, std::min(workers, static_cast<uint32_t>(assignment_.waiting())));
  const int64_t now_ns = core_.clock().NowNs();
  if (held_since_ns_ == 0) {
    held_since_ns_ = now_ns;
    core_.loop().AddTimer(kHeldMax, [this] { Dispatch(); });
  }
  return now_ns - held_since_ns_ < kHeldMax.count() ? 0 : 1;
}

NodeLoad Flush::Load(uint64_t average_bytes_per_second) const {
  NodeLoad load;
  load.flush_bytes_per_second = average_bytes_per_second;
  load.flushes_in_flight = in_flight_;
  const auto measured = static_cast<uint64_t>(meter_.total(core_.clock().NowNs()));
  const uint64_t total = measured > 0 ? measured : average_bytes_per_second * std::max(1u, in_flight_);
  // The meter sees how long pieces take, not how long the rate has them wait before.
  const uint64_t rate = core_.settings().flush_bytes_per_second;
  load.flush_total_bytes_per_second = rate == 0 ? total : std::min(total, rate);
  return load;
}

void Flush::Dispatch() {
  if (queued_bytes_ == 0) return;
  const uint32_t workers = WorkersNow();
  while (in_flight_ < workers) {
    std::vector<FlushCandidate> candidates;
    std::vector<uint32_t> queue_ids;  // of the candidates
    const std::vector<TierUnit*> units = tiers_.units();
    std::vector<TierLoad> loads;
    for (const TierUnit* unit : units) loads.push_back(tiers_.LoadOf(*unit));
    for (auto& [id, queue] : queues_) {
      while (!queue.pieces.empty()) {
        const Image* image = images_.Find(queue.pieces.front().image_id);
        if (image != nullptr && image->flush_epoch == queue.pieces.front().epoch && !image->doomed) break;
        Take(queue);
      }
      if (queue.pieces.empty()) continue;
      FlushCandidate candidate{FlushCandidate::kNoTier, queue.pieces.front().sequence, queue.pieces.front().bytes};
      for (size_t tier = 0; tier < units.size(); ++tier) {
        if (units[tier]->id == id) candidate.tier = tier;
      }
      candidates.push_back(candidate);
      queue_ids.push_back(id);
    }
    if (candidates.empty() || !RateAllows()) return;
    NodeLoad load = Load(throughput_.FlushBytesPerSecond());
    load.tiers = loads;
    assignment_.AddWaiting(&load);
    const auto chosen = core_.policy().NextFlush(load, candidates);
    if (!chosen.has_value()) return;
    Piece piece = Take(queues_[queue_ids[*chosen]]);
    piece.flight = meter_.Begin(piece.bytes, queue_ids[*chosen], core_.clock().NowNs());
    SendPiece(*images_.Find(piece.image_id), piece);
  }
}

uint32_t Flush::BlockBytesOf(const Job& job) const {
  // Blocks begin where pieces do.
  const uint64_t piece_bytes = core_.settings().piece_bytes;
  return static_cast<uint32_t>(std::min<uint64_t>(job.hello.keys.reduce_block_bytes, piece_bytes & -piece_bytes));
}

Reduction Flush::ReductionFor(Job& job, const std::string& name, uint32_t rank, std::optional<uint64_t> image_bytes) const {
  const JobKeys& keys = job.hello.keys;
  const bool deduplicates = keys.reduce_deduplicate != Deduplication::kOff;
  if (WritesWhole(job)) return {};
  Job::Reducing& known = job.reducing[{name, rank}];
  const uint32_t block_bytes = BlockBytesOf(job);
  const bool is_small = image_bytes && *image_bytes < kReducedBlocksMin * block_bytes;
  const auto is_wanted = [&](Feature key, reduce::Worth& worth) {
    return key == Feature::kOn || (key == Feature::kAuto && !is_small && worth.Asks());
  };
  Reduction reduction;
  reduction.shares = is_wanted(keys.reduce_incremental, known.sharing);
  if (is_wanted(keys.reduce_compress, known.compressing)) reduction.compress = keys.reduce_compress;
  reduction.deduplicate = keys.reduce_deduplicate;
  reduction.compares = keys.reduce_verify;
  if (!reduction.shares && !deduplicates && reduction.compress == Feature::kOff) return {};
  reduction.block_bytes = block_bytes;
  reduction.store_bytes_per_second = throughput_.WrittenBytesPerSecond(job.store_id);
  reduction.viability = known.viability;
  return reduction;
}

std::shared_ptr<reduce::FirstBlocks> Flush::NodeBlocksOf(Version& version) {
  if (!version.job->hello.keys.DeduplicatesNode() || version.has_published) return nullptr;
  if (version.node_blocks == nullptr) version.node_blocks = std::make_shared<reduce::FirstBlocks>();
  return version.node_blocks;
}

std::shared_ptr<FlushObject> Flush::MakeObject(const Image& image) {
  Version& version = *image.version;
  Job& job = *version.job;
  const Generation& generation = version.generation;
  std::optional<uint64_t> image_bytes;
  uint64_t expected_bytes = 0;  // known at the end only
  if (image.ended) image_bytes = image.image_bytes, expected_bytes = image.record_object_offset + image.record_bytes;
  Reduction reduction = ReductionFor(job, generation.name, image.rank, image_bytes);
  if (reduction.block_bytes > 0) reduction.node_blocks = NodeBlocksOf(version);
  if (version.common != nullptr && version.common->block_bytes() == reduction.block_bytes) reduction.common = version.common;
  if (version.borrowed != nullptr && version.borrowed->IsUsable() && MayLieInShare(image)) {
    return MakePart(job, generation, image.rank, version.borrowed, expected_bytes, std::move(reduction));
  }
  if (job.hello.keys.store_layout != StoreLayout::kFile && !version.has_published) {
    return MakePart(job, generation, image.rank, node_objects_.Of(generation), expected_bytes * version.node_ranks,
                    std::move(reduction));
  }
  auto object = std::make_shared<ObjectUnderWay>(
      generation, reduction.block_bytes > 0 ? keys::ReducedImageObject(image.rank) : keys::ImageObject(image.rank));
  return std::make_shared<FlushObject>(job.store, generation, image.rank, std::move(object), expected_bytes, reduction);
}

std::shared_ptr<FlushObject> Flush::MakePart(Job& job, const Generation& generation, uint32_t rank,
                                             std::shared_ptr<ObjectUnderWay> object, uint64_t expected_bytes,
                                             Reduction reduction) {
  if (reduction.block_bytes == 0) {
    const uint64_t piece_bytes = core_.settings().piece_bytes;
    reduction.block_bytes = static_cast<uint32_t>(std::min<uint64_t>(kMapBlockBytesMax, piece_bytes & -piece_bytes));
    reduction.is_whole = true;
  }
  return std::make_shared<FlushObject>(job.store, generation, rank, std::move(object), expected_bytes, reduction);
}

std::shared_ptr<ObjectUnderWay> Flush::Share(const Generation& generation, uint64_t own_bytes) {
  std::shared_ptr<ObjectUnderWay> object = node_objects_.Of(generation);
  return object->Share(own_bytes) ? object : nullptr;
}

bool Flush::WritesWhole(const Job& job) {
  const JobKeys& keys = job.hello.keys;
  return keys.reduce_deduplicate == Deduplication::kOff && keys.reduce_incremental == Feature::kOff &&
         keys.reduce_compress == Feature::kOff;
}

uint64_t Flush::RoomFor(const Image& image) const {
  const uint64_t piece_bytes = core_.settings().piece_bytes;
  uint64_t bytes = 0, pieces = 0;
  for (const ImageChunk& chunk : image.chunks) {
    bytes += AlignChunkOffset(chunk.bytes);
    pieces += chunk.bytes / piece_bytes + 1;
  }
  return bytes + AlignChunkOffset(image.record_bytes + kMapBytesMax + pieces * kMapBytesOfPieceMax);
}

std::shared_ptr<FlushObject> Flush::MakeCarried(Job& job, const Generation& generation, uint32_t rank, uint64_t image_bytes) {
  return MakePart(job, generation, rank, node_objects_.Of(generation), image_bytes,
                  ReductionFor(job, generation.name, rank, image_bytes));
}

void Flush::NoteReduced(Job& job, const std::string& name, uint32_t rank, FlushObject& object) {
  const auto reduced = object.reduced();
  if (!reduced) return;
  Job::Reducing& known = job.reducing[{name, rank}];
  if (reduced->as.shares) known.sharing.Note(reduced->bytes, reduced->saved_bytes, reduced->had_base);
  if (reduced->as.compress == Feature::kOff) return;
  known.compressing.Note(reduced->bytes - reduced->saved_bytes, reduced->shrunk_bytes, /*had_base=*/true);
  known.viability = reduced->as.viability;
}

void Flush::SendPiece(Image& image, const Piece& piece) {
  if (image.object == nullptr) image.object = MakeObject(image);
  const ImageChunk& chunk = image.chunks[piece.chunk];
  PieceSource source = chunk.Source(piece.offset, piece.bytes);
  const uint64_t stream_offset = chunk.object_offset + piece.offset;
  // Should a lender fail, it is written again: nothing of it has left its slots, or will before it is stored.
  const bool may_borrow = image.ended && !image.is_alone && !image.HasReleased();
  --image.pieces_queued;
  ++image.pieces_in_flight;
  ++in_flight_;
  core_.flush_rate().Take(piece.bytes);
  struct Outcome {
    Result<PieceWritten> written;
    Duration took;
  };
  core_.Background(
      piece.bytes <= kPromptBytesMax ? core_.publishers() : core_.flushers(),
      [object = image.object, source = std::move(source), stream_offset, may_borrow, &clock = core_.clock()] {
        const int64_t begin_ns = clock.NowNs();
        Result<PieceWritten> written = object->WritePiece(source, stream_offset, may_borrow);
        os::KillPoint("piece-written");
        return Outcome{std::move(written), Duration(clock.NowNs() - begin_ns)};
      },
      [this, piece](Outcome outcome) { OnPieceDone(piece, outcome.took, outcome.written); });
}

void Flush::OnPieceDone(const Piece& piece, Duration took, const Result<PieceWritten>& written) {
  const Status& status = written.status();
  --in_flight_;
  // Small pieces measure the file system's latency, not what a chunk would see.
  meter_.End(piece.flight, status.ok() && piece.bytes >= kPieceBytesMin, core_.clock().NowNs());
  if (status.ok()) {
    const uint64_t saved_bytes = piece.bytes - written->bytes;
    core_.counters().bytes_flushed += written->bytes;
    core_.counters().bytes_saved += saved_bytes;
    core_.flush_rate().GiveBack(saved_bytes);
  }
  Image* image = images_.Find(piece.image_id);
  if (image != nullptr) {
    if (status.ok()) {
      throughput_.OnPieceFlushed(image->version->job->store_id, piece.bytes, took, in_flight_ + 1);
      throughput_.OnPieceWritten(image->version->job->store_id, written->bytes, written->writing, in_flight_ + 1);
    }
    if (image->flush_epoch == piece.epoch) image->flush_time += took;
    --image->pieces_in_flight;
    if (status.ok() && image->flush_epoch == piece.epoch) {
      image->chunks[piece.chunk].written_bytes += piece.bytes;
      image->flush_written.bytes += written->bytes;
      image->flush_written.writing += written->writing;
      image->chunks[piece.chunk].written.push_back({piece.offset, piece.bytes, written->crc32c});
      OnStoreThere(*image->version);
    }
    if (image->doomed) {
      images_.OnReleased(*image);
    } else if (image->flush == FlushState::kFlushing) {
      if (image->flush_epoch == piece.epoch && !status.ok() && image->flush_error.ok()) {
        image->flush_error = status;
        DropObject(*image);
      }
      if (!image->flush_error.ok()) {
        if (image->pieces_in_flight == 0) Retry(*image, image->flush_error);
      } else {
        CheckWritten(*image);
      }
    }
  }
  Dispatch();
  assignment_.Pump();
}

void Flush::CheckWritten(Image& image) {
  if (!image.ended || image.flush != FlushState::kFlushing || image.pieces_queued > 0 || image.pieces_in_flight > 0) return;
  if (image.object == nullptr) {
    // Nothing of it lies here but its record.
    image.object = MakeObject(image);
  }
  if (const auto wrong = FirstWrong(image)) {
    return Retry(image,
                 Status(Code::kCorrupt, fmt::format("bytes {} to {} of chunk {} are not in the store as they were captured",
                                                    wrong->begin, wrong->end, wrong->chunk)));
  }
  SetState(image, FlushState::kWritten);
  core_.events().image_written(image);
}

std::optional<ChunkPlace> Flush::FirstWrong(const Image& image) {
  for (uint32_t i = 0; i < image.chunks.size(); ++i) {
    const ImageChunk& chunk = image.chunks[i];
    if (!chunk.in_own_object || !(chunk.IsLocal() || chunk.released)) continue;
    const auto difference = FirstDifference(chunk.captured, chunk.written);
    if (difference) return ChunkPlace{i, difference->begin, difference->end};
  }
  return std::nullopt;
}

void Flush::OnStoreAbsent(Version& version, const Status& why) {
  if (version.absence.ok()) {
    LogWarning("agent", "{} waits for the store: {}", version.generation.ToString(), why.ToString());
  }
  SetAbsence(version, why);
}

void Flush::OnStoreThere(Version& version) {
  version.absences = RetryPauses();
  if (!version.absence.ok()) SetAbsence(version, Status::Ok());
}

void Flush::SetAbsence(Version& version, const Status& why) {
  version.absence = why;
  for (const auto& [rank, image] : version.images) CountChunks(*image);
}

void Flush::Retry(Image& image, Status why) {
  image.flush_error = Status::Ok();
  DropObject(image);
  if (why.code() == Code::kCorrupt) return Examine(image, why);
  if (why.code() == Code::kIncomplete && !image.is_alone) return WriteAlone(image, why);
  WriteAgain(image, why);
}

// Nothing has failed but an image that it had blocks of: at most once, so it does not count as a try.
void Flush::WriteAlone(Image& image, const Status& why) {
  LogInfo("agent", "{} rank {} is written again, whole: {}", image.version->generation.ToString(), image.rank, why.message());
  image.is_alone = true;
  Start(image);
}

void Flush::WriteAgain(Image& image, const Status& why) {
  const Duration pause = image.tries.Next(why);
  const bool is_settled = why.code() == Code::kMismatch || why.code() == Code::kBusy;  // another attempt's word stands
  const bool final = image.tries.failures > kRetriesMax || is_settled || image.HasReleased();
  if (final) return GiveUp(image, why);
  if (why.code() == Code::kUnavailable) {
    OnStoreAbsent(*image.version, why);
  } else {
    OnStoreThere(*image.version);
    ++core_.counters().flush_retries;
    LogLimited(image.version->job->retries_logged, LogLevel::kWarning, "agent",
               "flush of {} rank {}: {}. It is written again in {}", image.version->generation.ToString(), image.rank,
               why.ToString(), FormatDuration(pause));
  }
  SetState(image, FlushState::kWaiting);
  core_.loop().AddTimer(pause, [this, id = image.id] {
    Image* waiting = images_.Find(id);
    if (waiting != nullptr && !waiting->doomed && waiting->flush == FlushState::kWaiting) Start(*waiting);
  });
}

// Read whole: what was written is wrong, or cannot be read, and it takes more than one piece to tell whether another try helps.
void Flush::Examine(Image& image, const Status& why) {
  SetState(image, FlushState::kWaiting);
  images_.AddReader(image);
  const auto wrong = image.HasReleased() ? FirstWrong(image) : std::nullopt;
  core_.Background([held = HeldStream::Of(image), offset = image.record_object_offset, bytes = image.record_bytes,
                    wrong] { return ProveHeld(held, offset, bytes, wrong); },
                   [this, id = image.id, why](const Status& proved) {
                     Image* found = images_.Find(id);
                     KEDGE_CHECK(found != nullptr);
                     const bool is_doomed = found->doomed;
                     images_.RemoveReader(*found);
                     if (is_doomed) return;
                     proved.code() == Code::kCorrupt ? OnDamaged(*found, proved) : WriteAgain(*found, why);
                   });
}

void Flush::OnDamaged(Image& image, const Status& why) {
  const Version& version = *image.version;
  retention_.OnDamaged(*image.version, image.rank, why);
  // Members of its sets may have their part of it before all groups are done, and it is at level NODE.
  const bool may_be_elsewhere = version.at_node || (version.to_node && version.job->BringsImages());
  if (!may_be_elsewhere) return GiveUp(image, why);
  LogError("agent", "{}: its copy here is damaged. Another one is brought from the nodes: {}", version.generation.ToString(),
           why.ToString());
  core_.events().image_missed(*version.job, version.generation, image.rank, {.replace = true},
                              [this, id = image.id, why](const Status& brought) {
                                Image* bad = images_.Find(id);  // gone when another is in its place
                                if (bad == nullptr || bad->doomed || bad->flush != FlushState::kWaiting) return;
                                GiveUp(*bad, brought.ok() ? why : why.WithContext("no other copy: " + brought.message()));
                              });
}

void Flush::TryAgain(const Job* job) {
  for (const auto& [id, image] : images_.all()) {
    Version& version = *image->version;
    if (job != nullptr && version.job != job) continue;
    const bool can = image->flush == FlushState::kFailed && !image->doomed && !image->damaged && !image->HasReleased();
    if (!can || version.in_store()) continue;
    image->failure = Status::Ok();
    image->tries = RetryPauses();
    version.failure = Status::Ok();
    for (const auto& [rank, other] : version.images) {
      if (version.failure.ok() && !other->failure.ok()) version.failure = InFull(*other, other->failure);
    }
    Start(*image);
  }
}

// The job has gone on without it in a newer attempt that is here, too: nothing has failed.
void Flush::LeaveOut(Image& image, const Status& why) {
  Version& version = *image.version;
  LogInfo("agent", "{} rank {} stays out of the store: {}", version.generation.ToString(), image.rank, why.message());
  version.Skip();
  TakeOut(image, FlushState::kNone);
  images_.Save(image);
  images_.OnSettled(image);
  core_.events().version_changed(version.generation);
  retention_.Reconsider(*version.job, version.generation.name);
  core_.events().version_left_out(version);
}

void Flush::GiveUp(Image& image, const Status& why) {
  Version& version = *image.version;
  const Generation generation = version.generation;
  Job& job = *version.job;
  const bool is_older = generation.attempt < job.hello.attempt;
  // The store has let go of it for a newer one, which may have left this node by now: that attempt has taken over, too.
  const auto is_stored = [](const Version& newer) { return newer.in_store(); };
  const bool is_outlived = job.stored_attempt > generation.attempt || job.HasNewer(generation, is_stored);
  if (is_older && why.code() == Code::kNotFound && is_outlived) {
    return GiveUp(image, Status(Code::kBusy,
                                fmt::format("attempt {} of job '{}' goes on: {}", job.hello.attempt, job.name, why.message())));
  }
  if (why.code() == Code::kBusy) {
    attempt_watch_.NoteTakenOver(job, generation.attempt, why);
    if (is_older) return LeaveOut(image, why);
  }
  ++core_.counters().flush_failures;
  image.failure = why;
  const Status in_full = InFull(image, why);
  LogAt(version.failure.ok() ? LogLevel::kError : LogLevel::kDebug, "agent", "{}. It is given up after {} tries; {}",
        in_full.ToString(), image.tries.failures,
        image.HasReleased() ? "its slots had been wanted by others, so that no copy is left"
        : image.damaged     ? "the copy on the node is damaged, too"
                            : "the copy on the node stays");
  if (version.failure.ok()) version.failure = in_full;
  TakeOut(image, FlushState::kFailed);
  images_.OnSettled(image);
  core_.events().version_failed(version, Level::kStore, in_full);
  core_.events().version_changed(generation);
  retention_.Reconsider(job, generation.name);
}

}  // namespace kedge
