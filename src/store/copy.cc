#include "store/copy.h"

#include <algorithm>

#include "base/crc32c.h"
#include "format/image_record.h"
#include "store/image_stream.h"
#include "store/publish.h"
#include "store/record_io.h"
#include "store/versions.h"

namespace kedge {

namespace {

class Copier {
 public:
  Copier(const Catalog& source, const Catalog& target, const CopyOptions& options)
      : source_(source), target_(target), options_(options) {}

  Status CopyAll(const VersionRecord& version);

 private:
  Status CopyImages(const VersionRecord& version);
  Status CopyImage(const PartRecord& part, const ImageEntry& entry);
  Status WriteImage(ObjectWriter& writer, const StoredImage& image, ImageEntry* entry);

  const Catalog& source_;
  const Catalog& target_;
  const CopyOptions& options_;
  VerifyProgress progress_;
  PartRecord part_;
  std::vector<std::string> published_;
};

Status Copier::CopyAll(const VersionRecord& version) {
  progress_.bytes_total = version.image_bytes;
  progress_.ranks = version.ranks;
  part_.generation = version.generation;
  part_.generation.store_id = target_.id();
  part_.ranks = version.ranks;
  KEDGE_RETURN_IF_ERROR(PrepareGeneration(target_, part_.generation));
  if (Status copied = CopyImages(version); !copied.ok()) {
    // Only here: from the part record on, the version may be complete whatever error comes back.
    for (const std::string& key : published_) static_cast<void>(target_.store().Remove(key));
    return copied;
  }
  KEDGE_ASSIGN_OR_RETURN(const FinishOutcome outcome, CommitPart(target_, part_));
  if (outcome.complete) return Status::Ok();
  return Status(Code::kInternal, part_.generation.ToString() + " was copied and is not complete");
}

Status Copier::CopyImages(const VersionRecord& version) {
  for (const PartEntry& entry : version.parts) {
    KEDGE_ASSIGN_OR_RETURN(const PartRecord part, ReadPart(source_, version, entry));
    for (const ImageEntry& image : part.images) {
      if (Contains(entry.ranks, image.rank)) KEDGE_RETURN_IF_ERROR(CopyImage(part, image));
    }
  }
  std::sort(part_.images.begin(), part_.images.end(), [](const ImageEntry& a, const ImageEntry& b) { return a.rank < b.rank; });
  return Status::Ok();
}

Status Copier::CopyImage(const PartRecord& part, const ImageEntry& entry) {
  KEDGE_ASSIGN_OR_RETURN(const StoredImage image, ReadImage(source_, part, entry));
  const std::string key = keys::ImageKey(part_.generation, entry.rank);
  KEDGE_ASSIGN_OR_RETURN(const std::unique_ptr<ObjectWriter> writer,
                         target_.store().CreateObject(key, target_.owner(), entry.image_bytes));
  ImageEntry copied = entry;
  copied.object = keys::ImageObject(entry.rank);
  copied.map_bytes = 0;
  if (Status written = WriteImage(*writer, image, &copied); !written.ok()) {
    static_cast<void>(writer->Abandon());
    return written;
  }
  KEDGE_RETURN_IF_ERROR(writer->Commit());
  published_.push_back(key);
  part_.images.push_back(copied);
  ++progress_.ranks_done;
  return Status::Ok();
}

Status Copier::WriteImage(ObjectWriter& writer, const StoredImage& image, ImageEntry* entry) {
  // All chunks one after the other in the object itself, whatever objects they lie in now.
  ImageRecord record = image.record;
  record.identity.generation = part_.generation;
  record.objects.clear();
  uint64_t end = 0;
  for (Chunk& chunk : record.chunks) {
    chunk.object = 0;
    chunk.object_offset = end;
    end = AlignChunkOffset(end + chunk.bytes);
  }
  Status problem;
  ImageStreamOptions stream;
  stream.buffer_bytes = options_.buffer_bytes;
  stream.problem = [&](const std::string& what) {
    if (problem.ok()) problem = Status(Code::kCorrupt, "rank " + std::to_string(entry->rank) + ": " + what);
  };
  stream.piece = [&](size_t chunk, uint64_t offset, ByteSpan bytes) {
    KEDGE_RETURN_IF_ERROR(problem);  // no use in going on
    const uint64_t at = record.chunks[chunk].object_offset + offset;
    KEDGE_RETURN_IF_ERROR(writer.WriteAt(at, bytes));
    KEDGE_RETURN_IF_ERROR(writer.FlushHint(at, bytes.size(), false));
    progress_.bytes_done += bytes.size();
    if (options_.progress && !options_.progress(progress_)) return Status(Code::kTimeout, "stopped by the caller");
    return Status::Ok();
  };
  KEDGE_RETURN_IF_ERROR(StreamImage(source_, image, stream));
  KEDGE_RETURN_IF_ERROR(problem);
  Buffer bytes;
  KEDGE_RETURN_IF_ERROR(EncodeImageRecord(record, &bytes));
  entry->record_offset = end;
  entry->record_bytes = bytes.size();
  entry->record_crc32c = crc32c::Compute(bytes.data(), bytes.size());
  return writer.WriteAt(end, bytes);
}

// Who copies a version to where it was removed wants it back.
Status LiftMark(const Catalog& target, const Generation& generation) {
  KEDGE_ASSIGN_OR_RETURN(const std::vector<StoreEntry> entries, target.store().List(keys::GenerationFolder(generation)));
  if (entries.size() == 1) {
    KEDGE_RETURN_IF_ERROR(target.store().Remove(keys::WithdrawnKey(generation)));
    return target.store().Remove(keys::RemovedKey(generation));
  }
  return Status(Code::kBusy,
                target.store().description() + ": " + generation.ToString() +
                    " was removed, and its objects are still there: other versions need them, or kedge gc frees them");
}

}  // namespace

Status CopyVersion(const Catalog& source, const Generation& generation, const Catalog& target, const CopyOptions& options) {
  KEDGE_ASSIGN_OR_RETURN(const VersionInfo info, InspectGeneration(source, generation));
  if (!info.complete) {
    return Status(Code::kIncomplete, generation.ToString() + " is not complete: " + info.reason);
  }
  Generation there = generation;
  there.store_id = target.id();
  const Result<VersionInfo> copied = InspectGeneration(target, there);
  if (copied.ok() && copied->complete) {
    return Status(Code::kAlreadyExists, target.store().description() + ": " + there.ToString() + " is there already");
  }
  if (copied.ok() && copied->removed) KEDGE_RETURN_IF_ERROR(LiftMark(target, there));
  KEDGE_ASSIGN_OR_RETURN(const VersionRecord version, ReadVersionRecord(source, generation));
  return Copier(source, target, options).CopyAll(version);
}

}  // namespace kedge
