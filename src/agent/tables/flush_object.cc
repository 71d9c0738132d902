#include "agent/tables/flush_object.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "agent/tables/aligned_buffer.h"
#include "base/clock.h"
#include "base/crc32c.h"
#include "base/log.h"
#include "format/image_record.h"
#include "os/files/files.h"
#include "os/files/private_files.h"
#include "os/process/kill_point.h"
#include "os/process/thread.h"
#include "reduce/codec_trial.h"
#include "store/sharing/base_version.h"
#include "store/sharing/image_object.h"
#include "store/versions.h"

namespace kedge {
namespace {

// Copied and summed at a time: what a core's cache still has when the sum reads it again.
constexpr size_t kCopiedStepBytes = size_t{256} << 10;

// Of each worker, for pieces that do not lie in memory.
thread_local AlignedBuffer worker_buffer;
thread_local AlignedBuffer compared_buffer;
// Compressed at a time: as much as a device takes well in one write, and no more memory than that for each worker.
constexpr size_t kCompressedStepBytes = size_t{4} << 20;
// All blocks of a step have at least kMapBlockBytesMin, but for the last one of their chunk.
constexpr size_t kCompressedBufferBytes =
    kCompressedStepBytes + (kCompressedStepBytes / kMapBlockBytesMin + 1) * kStoredBlockOverheadBytes;
thread_local AlignedBuffer compressed_buffer;
constexpr size_t kSamplesMax = 4;
// Of a piece that shrinks by less, where the job asks for compression whatever it costs, the blocks are read faster as they are.
constexpr double kSavedFractionMin = 1.0 / 32;

constexpr size_t kClaimsMax = 16;

// Whether some of its blocks lie in an object of several images.
bool HasNodeObject(const StoredImage& image) {
  return keys::IsNodeObject(image.entry.object) ||
         std::ranges::any_of(image.map->objects, [](const SharedObject& object) { return keys::IsNodeObject(object.key); });
}

// Takes the checksum on behind `crc32c`.
Status WriteAndSum(ObjectUnderWay& object, ByteSpan bytes, uint64_t offset, uint32_t* crc32c) {
  const size_t step_bytes = object.is_buffered() ? kCopiedStepBytes : bytes.size();
  for (size_t done = 0; done < bytes.size();) {
    const ByteSpan step = bytes.subspan(done, std::min(step_bytes, bytes.size() - done));
    KEDGE_RETURN_IF_ERROR(object.WriteAt(offset + done, step));
    *crc32c = crc32c::ChecksumOnly(step.data(), step.size(), *crc32c);
    done += step.size();
  }
  return Status::Ok();
}

// Some of the blocks that are to be written.
std::vector<ByteSpan> SamplesOf(ByteSpan bytes, const reduce::ReducedPiece& piece) {
  std::vector<ByteSpan> blocks;
  size_t at = 0;
  for (const reduce::ReducedBlock& block : piece.blocks) {
    if (block.IsNew()) blocks.push_back(bytes.subspan(at, block.bytes));
    at += block.bytes;
  }
  if (blocks.size() <= kSamplesMax) return blocks;
  for (size_t i = 0; i < kSamplesMax; ++i) blocks[i] = blocks[i * blocks.size() / kSamplesMax];
  blocks.resize(kSamplesMax);
  return blocks;
}

// By system calls: the slot may have gone to somebody else by now, whose bytes are others.
class SourceBytes : public reduce::PieceBytes {
 public:
  explicit SourceBytes(PieceSource source) : source_(std::move(source)) {}
  bool Has(uint64_t offset, ByteSpan bytes) const override {
    PieceSource block = source_;
    block.offset += offset;
    block.bytes = bytes.size();
    std::byte* const found = compared_buffer.OfSize(bytes.size());
    return found != nullptr && block.Read(found).ok() && std::memcmp(found, bytes.data(), bytes.size()) == 0;
  }

 private:
  const PieceSource source_;
};

// What the calling thread does from now on, by both clocks.
class Stopwatch {
 public:
  Duration Wall() const { return Duration(SystemClock().NowNs() - begin_ns_); }
  reduce::Viability::Sample Took(uint64_t bytes) const { return {bytes, Wall(), os::ThreadProcessorTime() - processor_}; }

 private:
  const int64_t begin_ns_ = SystemClock().NowNs();
  const Duration processor_ = os::ThreadProcessorTime();
};

}  // namespace

bool StoreContext::IsSilent(const std::string& job, uint32_t self, uint32_t attempt) {
  const Result<Catalog> catalog = CatalogFor(self);
  if (!catalog.ok()) return false;
  const std::lock_guard lock(watch_mutex_);
  return kedge::IsSilent(*catalog, job, attempt, &watch_);
}

Status StoreContext::ApplyRetention(const std::string& job, const std::string& name, uint32_t self, RetentionOptions options,
                                    RetentionReport* report) {
  KEDGE_ASSIGN_OR_RETURN(const Catalog catalog, CatalogFor(self));
  const std::lock_guard lock(watch_mutex_);
  options.watch = &watch_;
  return kedge::ApplyRetention(catalog, job, name, options, report);
}

Result<Catalog> StoreContext::CatalogFor(uint32_t attempt) {
  KEDGE_RETURN_IF_ERROR(catalog_.Confirm());
  return catalog_.WithOwner({catalog_.owner().node, attempt, catalog_.owner().writer});
}

Result<Catalog> StoreContext::CatalogToWrite(const std::string& job, uint32_t attempt) {
  KEDGE_ASSIGN_OR_RETURN(Catalog catalog, CatalogFor(attempt));
  KEDGE_RETURN_IF_ERROR(catalog.CheckRecordOf(job, attempt));
  const std::lock_guard lock(marked_mutex_);
  if (marked_.contains(attempt)) return catalog;
  const Status marked = MarkDraining(catalog, job, attempt);
  // An attempt that the store knows nothing of has nobody who could be waited for.
  if (!marked.ok() && marked.code() != Code::kNotFound) return marked;
  marked_.insert(attempt);
  return catalog;
}

Status PieceSource::Read(std::byte* out) const {
  if (tier != nullptr) return tier->Read(slot, offset, out, bytes);
  KEDGE_ASSIGN_OR_RETURN(auto opened, os::PrivateFileSystem().Open(file, os::OpenFlags::kRead | os::OpenFlags::kNoFollow));
  return os::ReadAll(*opened, out, bytes, offset);
}

Result<std::optional<Generation>> StoreContext::Claim(const Catalog& catalog, const Generation& generation) {
  // The images of a node ask for it at about the same time: one looks, and the others wait for it.
  const std::lock_guard lock(claims_mutex_);
  const auto claimed = claims_.find(generation);
  const uint32_t places = catalog.places();
  if (claimed != claims_.end() && claimed->second.places == places) {
    const std::optional<Generation>& base = claimed->second.base;
    // With the generation's folder somebody has removed its base record, too, while its images were under way.
    if (!base || catalog.store().Get(keys::BaseKey(generation, *base), kSmallRecordBytesMax).ok()) return base;
  }
  KEDGE_ASSIGN_OR_RETURN(std::optional<Generation> base, ClaimBase(catalog, generation));
  if (claims_.size() >= kClaimsMax) claims_.clear();
  claims_[generation] = {places, base};
  return base;
}

std::shared_ptr<const reduce::LiveBytes> StoreContext::LiveBytesOf(const Catalog& catalog, const PartRecord& part) {
  // As above: one reads all their maps.
  const std::lock_guard lock(live_mutex_);
  const auto key = std::pair(part.generation, part.images.front().rank);
  if (const auto known = live_.find(key); known != live_.end()) return known->second;
  std::vector<StoredImage> images;
  for (const ImageEntry& entry : part.images) {
    Result<StoredImage> image = ReadImage(catalog, part, entry);
    // What cannot be read does not count as used.
    if (image.ok() && image->map) images.push_back(*std::move(image));
  }
  std::vector<reduce::LiveBytes::StoredMap> maps;
  for (const StoredImage& image : images) {
    maps.push_back({&image.record, &*image.map, keys::RelativeToJob(part.generation.job, image.object_key)});
  }
  if (live_.size() >= kClaimsMax) live_.clear();
  return live_[key] = std::make_shared<const reduce::LiveBytes>(maps);
}

std::shared_ptr<const reduce::BaseImage> StoreContext::BaseFor(const Catalog& catalog, const Generation& generation,
                                                               uint32_t rank, uint32_t block_bytes, bool with_neighbours) {
  const auto look = [&]() -> Result<std::shared_ptr<const reduce::BaseImage>> {
    KEDGE_ASSIGN_OR_RETURN(const std::optional<Generation> claimed, Claim(catalog, generation));
    if (!claimed) return std::shared_ptr<const reduce::BaseImage>();
    KEDGE_ASSIGN_OR_RETURN(const PartRecord part, ReadPartWith(catalog, *claimed, rank));
    KEDGE_ASSIGN_OR_RETURN(const StoredImage image, ReadImage(catalog, part, *EntryOf(part, rank)));
    const bool can_be = image.map && image.map->has_fingerprints && image.map->block_bytes == block_bytes;
    if (!can_be) return std::shared_ptr<const reduce::BaseImage>();
    const std::string key = keys::RelativeToJob(generation.job, image.object_key);
    const auto live = with_neighbours || HasNodeObject(image) ? LiveBytesOf(catalog, part) : nullptr;
    reduce::SharingLimits limits;
    limits.is_common = &keys::IsCommonObject;
    KEDGE_ASSIGN_OR_RETURN(reduce::BaseImage base, reduce::BaseImage::Make(image.record, *image.map, key, limits, live.get()));
    return std::make_shared<const reduce::BaseImage>(std::move(base));
  };
  const auto found = look();
  if (found.ok()) return *found;
  // Its objects are kept, but it may be no version any more by now, or have had fewer ranks.
  if (found.status().code() != Code::kNotFound) {
    LogWarning("agent", "{} rank {} is written whole: {}", generation.ToString(), rank, found.status().ToString());
  }
  return nullptr;
}

Status FlushObject::Begin() {
  KEDGE_ASSIGN_OR_RETURN(Catalog catalog, store_->CatalogToWrite(generation_.job, generation_.attempt));
  KEDGE_RETURN_IF_ERROR(PrepareGeneration(catalog, generation_));
  std::shared_ptr<const reduce::BaseImage> base;
  if (reduced_.as.shares) {
    base = store_->BaseFor(catalog, generation_, rank_, block_bytes_, reduced_.as.deduplicate >= Deduplication::kNode);
  }
  os::KillPoint("flush-base-claimed");
  // How much of it is to be written is not known where some of it may be there already, or becomes smaller.
  const uint64_t expected_bytes = base == nullptr && reduced_.as.compress == Feature::kOff ? expected_bytes_ : 0;
  KEDGE_RETURN_IF_ERROR(object_->Begin(catalog, expected_bytes));
  begun_ = true;
  if (block_bytes_ == 0) return Status::Ok();
  reduced_.had_base = base != nullptr;
  using Pieces = reduce::ImageReduction::Pieces;
  reduction_.emplace(rank_, block_bytes_, reduced_.as.is_whole ? Pieces::kWhole : Pieces::kReduced, std::move(base),
                     reduced_.as.common);
  return Status::Ok();
}

Result<ObjectUnderWay*> FlushObject::Object() {
  std::lock_guard lock(mutex_);
  KEDGE_RETURN_IF_ERROR(failed_);
  if (!begun_) {
    failed_ = Begin();
    KEDGE_RETURN_IF_ERROR(failed_);
  }
  return object_.get();
}

Result<PieceWritten> FlushObject::Write(ByteSpan bytes, const PieceSource& source, uint64_t stream_offset, bool may_borrow) {
  KEDGE_ASSIGN_OR_RETURN(ObjectUnderWay * object, Object());
  KEDGE_ASSIGN_OR_RETURN(const ObjectUnderWay::Writing is_open, object->BeginPiece());
  if (block_bytes_ > 0) return WriteReduced(bytes, source, stream_offset, may_borrow);
  PieceWritten written{.bytes = bytes.size()};
  const Stopwatch writing;
  KEDGE_RETURN_IF_ERROR(WriteAndSum(*object, bytes, stream_offset, &written.crc32c));
  KEDGE_RETURN_IF_ERROR(object->FlushHint(stream_offset, bytes.size()));
  written.writing = writing.Wall();
  return written;
}

Result<std::optional<reduce::CodecSettings>> FlushObject::SettingsFor(ByteSpan bytes, const reduce::ReducedPiece& piece) {
  const std::optional<reduce::CodecSettings> none;
  if (reduced_.as.compress == Feature::kOff || piece.new_bytes == 0) return none;
  if (reduced_.as.compress == Feature::kAuto) {
    const std::lock_guard lock(mutex_);
    if (!reduced_.as.viability.Tries()) return none;
  }
  const Stopwatch trying;
  KEDGE_ASSIGN_OR_RETURN(const reduce::CodecTrial trial, reduce::TryCodecs(SamplesOf(bytes, piece)));
  const reduce::Viability::Sample tried = trying.Took(trial.tried_bytes);
  const double saved_fraction = trial.saved_fraction < kSavedFractionMin ? 0 : trial.saved_fraction;
  bool pays = saved_fraction > 0;
  if (reduced_.as.compress == Feature::kAuto) {
    const std::lock_guard lock(mutex_);
    pays = reduced_.as.viability.Pays(saved_fraction, tried, reduced_.as.store_bytes_per_second);
  }
  return pays ? std::optional(trial.settings) : none;
}

reduce::ReducedPiece FlushObject::Reduce(ByteSpan bytes, const PieceSource& source, uint64_t stream_offset, bool may_borrow) {
  if (reduced_.as.is_whole) return reduce::WholePiece(bytes.size(), block_bytes_);
  reduce::KnownBlocks known{.base = reduction_->base(), .may_borrow = may_borrow};
  if (reduced_.as.deduplicate != Deduplication::kOff) known.image = &firsts_;
  if (borrower_) known.neighbours = &*borrower_;
  if (common_borrower_) known.common = &*common_borrower_;
  if (reduced_.as.compares) known.piece = std::make_shared<const SourceBytes>(source);
  return reduce::ReducePiece(bytes, {rank_, stream_offset}, block_bytes_, known);
}

Result<PieceWritten> FlushObject::WriteReduced(ByteSpan bytes, const PieceSource& source, uint64_t stream_offset,
                                               bool may_borrow) {
  reduce::ReducedPiece piece = Reduce(bytes, source, stream_offset, may_borrow);
  KEDGE_ASSIGN_OR_RETURN(const std::optional<reduce::CodecSettings> settings, SettingsFor(bytes, piece));
  uint64_t new_bytes = 0;
  for (const reduce::ReducedBlock& block : piece.blocks) new_bytes += block.IsNew() ? block.bytes : 0;
  PieceWritten written;
  if (settings) {
    KEDGE_RETURN_IF_ERROR(WriteCompressed(bytes, *settings, &piece, &written));
  } else {
    KEDGE_RETURN_IF_ERROR(WriteNew(bytes, &piece, &written));
  }
  // Compressed blocks that do not shrink may take more than they have.
  written.bytes = std::min(written.bytes, new_bytes);
  const std::lock_guard lock(mutex_);
  reduced_.bytes += bytes.size();
  reduced_.saved_bytes += bytes.size() - new_bytes;
  reduced_.shrunk_bytes += new_bytes - written.bytes;
  reduction_->Add(stream_offset, std::move(piece));
  return written;
}

// As they are: runs of blocks, new ones and others in turn; what is not written is summed all the same.
Status FlushObject::WriteNew(ByteSpan bytes, reduce::ReducedPiece* piece, PieceWritten* written) {
  KEDGE_ASSIGN_OR_RETURN(const uint64_t room, object_->TakeRoom(piece->new_bytes));
  const Stopwatch writing;
  for (size_t at = 0, i = 0; i < piece->blocks.size();) {
    const bool is_new = piece->blocks[i].IsNew();
    const uint64_t offset = room + piece->blocks[i].place.offset;
    size_t run_bytes = 0;
    for (; i < piece->blocks.size() && piece->blocks[i].IsNew() == is_new; ++i) {
      run_bytes += piece->blocks[i].bytes;
      if (is_new) piece->blocks[i].place.offset += room;
    }
    const ByteSpan run = bytes.subspan(at, run_bytes);
    if (is_new) {
      KEDGE_RETURN_IF_ERROR(WriteAndSum(*object_, run, offset, &written->crc32c));
      written->bytes += run_bytes;
    } else {
      written->crc32c = crc32c::ChecksumOnly(run.data(), run.size(), written->crc32c);
    }
    at += run_bytes;
  }
  if (written->bytes > 0) KEDGE_RETURN_IF_ERROR(object_->FlushHint(room, piece->new_bytes));
  written->writing = writing.Wall();
  return Status::Ok();
}

Status FlushObject::WriteCompressed(ByteSpan bytes, const reduce::CodecSettings& settings, reduce::ReducedPiece* piece,
                                    PieceWritten* written) {
  std::byte* const buffer = compressed_buffer.OfSize(kCompressedBufferBytes);
  if (buffer == nullptr) return Status(Code::kNoSpace, fmt::format("no memory for a buffer of {} bytes", kCompressedBufferBytes));
  const std::span<reduce::ReducedBlock> blocks = piece->blocks;
  for (size_t at = 0, i = 0; i < blocks.size();) {
    size_t count = 0, step_bytes = 0, new_bytes = 0;
    for (; i + count < blocks.size(); ++count) {
      const reduce::ReducedBlock& block = blocks[i + count];
      const bool is_new = block.IsNew();
      if (is_new && new_bytes + block.bytes > kCompressedStepBytes) break;
      new_bytes += is_new ? block.bytes : 0;
      step_bytes += block.bytes;
    }
    const ByteSpan step = bytes.subspan(at, step_bytes);
    const std::span<reduce::ReducedBlock> step_blocks = blocks.subspan(i, count);
    const Stopwatch compressing;
    KEDGE_ASSIGN_OR_RETURN(const size_t used,
                           reduce::CompressNew(step, settings, step_blocks, std::span(buffer, kCompressedBufferBytes)));
    const reduce::Viability::Sample compressed = compressing.Took(new_bytes);
    // After it was compressed: what has changed before is in the sum.
    written->crc32c = crc32c::ChecksumOnly(step.data(), step.size(), written->crc32c);
    at += step_bytes;
    i += count;
    if (used == 0) continue;
    const size_t rounded = AlignChunkOffset(used);
    std::memset(buffer + used, 0, rounded - used);
    KEDGE_ASSIGN_OR_RETURN(const uint64_t room, object_->TakeRoom(rounded));
    {
      const std::lock_guard lock(mutex_);
      reduced_.as.viability.Note(compressed);
    }
    for (reduce::ReducedBlock& block : step_blocks) {
      if (block.IsNew()) block.place.offset += room;
    }
    const Stopwatch writing;
    KEDGE_RETURN_IF_ERROR(object_->WriteAt(room, ByteSpan(buffer, rounded)));
    KEDGE_RETURN_IF_ERROR(object_->FlushHint(room, rounded));
    written->writing += writing.Wall();
    written->bytes += rounded;
  }
  return Status::Ok();
}

Result<PieceWritten> FlushObject::WritePiece(const PieceSource& source, uint64_t stream_offset, bool may_borrow) {
  if (source.tier != nullptr && source.tier->SlotMemory(source.slot) != nullptr) {
    const ByteSpan bytes(source.tier->SlotMemory(source.slot) + source.offset, source.bytes);
    return Write(bytes, source, stream_offset, may_borrow);
  }
  std::byte* buffer = worker_buffer.OfSize(source.bytes);
  if (buffer == nullptr) return Status(Code::kNoSpace, fmt::format("no memory for a buffer of {} bytes", source.bytes));
  KEDGE_RETURN_IF_ERROR(source.Read(buffer));
  return Write(ByteSpan(buffer, source.bytes), source, stream_offset, may_borrow);
}

std::optional<reduce::Lender> FlushObject::AsLender() {
  const std::lock_guard lock(mutex_);
  if (!borrower_ || !reduction_) return std::nullopt;
  return reduce::Lender{&*reduction_, keys::RelativeToJob(generation_.job, object_->writer()->key()), reduction_->OwnBytes()};
}

Status FlushObject::WriteRecords(ByteSpan record, const reduce::Lenders& lenders, ImageEntry* entry,
                                 std::set<std::string>* references, LeansOn* leans_on) {
  KEDGE_ASSIGN_OR_RETURN(ObjectUnderWay * object, Object());
  Buffer records(record.begin(), record.end());
  if (block_bytes_ > 0) {
    KEDGE_ASSIGN_OR_RETURN(const ImageRecord image, DecodeImageRecord(record));
    const std::lock_guard lock(mutex_);
    KEDGE_ASSIGN_OR_RETURN(const BlockMap map, reduction_->Finish(image, lenders));
    Encode(map, &records);
    KEDGE_ASSIGN_OR_RETURN(entry->record_offset, object->TakeRoom(records.size()));
    entry->map_bytes = records.size() - record.size();
    entry->map_crc32c = crc32c::Compute(&records[record.size()], entry->map_bytes);
    for (const SharedObject& other : map.objects) {
      const std::string folder = keys::GenerationOfObject(other.key).value_or(other.key);
      const bool is_of_version = IsOfVersion(other, generation_), is_common = keys::IsCommonObject(other.key);
      if (is_of_version && !is_common) leans_on->insert(other.key.substr(folder.size() + 1));
      if (!is_of_version || is_common) references->insert(is_of_version ? other.key : folder);
    }
  }
  entry->object = object->name();
  return object->WriteAt(entry->record_offset, records);
}

std::set<std::string> FlushObject::CommonObjects() const {
  return common_borrower_ ? common_borrower_->ObjectsInUse() : std::set<std::string>();
}

std::optional<Reduced> FlushObject::reduced() {
  std::lock_guard lock(mutex_);
  return block_bytes_ > 0 && !reduced_.as.is_whole ? std::optional<Reduced>(reduced_) : std::nullopt;
}

}  // namespace kedge
