#include "store/testing/version_maker.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/crc32c.h"
#include "format/image_record.h"
#include "store/sharing/base_version.h"
#include "store/sharing/image_object.h"

namespace kedge::testing {

namespace {

uint64_t SeedOf(const ImageIdentity& identity, uint32_t region) {
  const Generation& generation = identity.generation;
  uint64_t seed = MixSeed(static_cast<uint64_t>(generation.version), generation.attempt);
  seed = MixSeed(seed, generation.take);
  seed = MixSeed(seed, (uint64_t{identity.rank} << 32) | region);
  for (const char c : generation.name) seed = MixSeed(seed, static_cast<unsigned char>(c));
  return seed;
}

std::byte ByteOf(uint64_t seed, uint64_t offset) {
  return static_cast<std::byte>((seed >> (offset % 8 * 8)) + offset / 8);
}

// Cuts the regions into extents and packs these into chunks.
void LayOut(const MakerOptions& options, ImageRecord* image) {
  for (uint32_t region = 0; region < image->regions.size(); ++region) {
    for (uint64_t at = 0; at < image->regions[region].bytes;) {
      if (image->chunks.empty() || image->chunks.back().bytes == options.chunk_bytes) {
        const uint64_t offset =
            image->chunks.empty() ? 0 : AlignChunkOffset(image->chunks.back().object_offset + options.chunk_bytes);
        image->chunks.push_back({0, offset, 0});
      }
      Chunk& chunk = image->chunks.back();
      const uint64_t bytes =
          std::min({options.piece_bytes, image->regions[region].bytes - at, options.chunk_bytes - chunk.bytes});
      image->extents.push_back({region, at, bytes, static_cast<uint32_t>(image->chunks.size() - 1), chunk.bytes, 0});
      chunk.bytes += bytes;
      at += bytes;
    }
  }
}

// Whose content the image holds: its own, or that of the version on top of which it was taken.
ImageIdentity ContentOf(const StoredImage& image) {
  ImageIdentity identity = image.record.identity;
  if (!image.map || image.map->objects.empty()) return identity;
  const std::string folder = keys::GenerationOfObject(image.map->objects.front().key).value_or("");
  KEDGE_CHECK(keys::ParseGenerationFolder(folder.substr(folder.rfind('/') + 1), &identity.generation));
  return identity;
}

Status CheckImage(const Catalog& catalog, const StoredImage& image) {
  const ImageRecord& record = image.record;
  for (const Extent& extent : record.extents) {
    const Chunk& chunk = record.chunks[extent.chunk];
    KEDGE_ASSIGN_OR_RETURN(const std::unique_ptr<ObjectReader> object, OpenChunkObject(catalog, image, chunk));
    Buffer bytes(extent.bytes);
    KEDGE_RETURN_IF_ERROR(object->ReadAt(chunk.object_offset + extent.chunk_offset, bytes));
    const uint64_t seed = SeedOf(ContentOf(image), extent.region);
    for (uint64_t i = 0; i < extent.bytes; ++i) {
      if (bytes[i] == ByteOf(seed, extent.region_offset + i)) continue;
      return Status(Code::kCorrupt, fmt::format("{}: region {}, byte {} is wrong", record.identity.ToString(), extent.region,
                                                extent.region_offset + i));
    }
    if (crc32c::Compute(bytes.data(), bytes.size()) != extent.crc32c) {
      return Status(Code::kCorrupt, record.identity.ToString() + ": right bytes, wrong checksum");
    }
  }
  return Status::Ok();
}

}  // namespace

std::byte ContentByte(const ImageIdentity& identity, uint32_t region, uint64_t offset) {
  return ByteOf(SeedOf(identity, region), offset);
}

ImageRecord MakeImage(const ImageIdentity& identity, const MakerOptions& options, Buffer* object) {
  ImageRecord image;
  image.identity = identity;
  image.wall_time_ns = 1;
  for (size_t i = 0; i < options.region_bytes.size(); ++i) {
    Region& region = image.regions.emplace_back();
    region.id = static_cast<int32_t>(i * 10);
    region.bytes = options.region_bytes[i];
  }
  LayOut(options, &image);
  Buffer bytes(image.chunks.empty() ? 0 : AlignChunkOffset(image.chunks.back().object_offset + image.chunks.back().bytes));
  for (Extent& extent : image.extents) {
    std::byte* const at = bytes.data() + image.chunks[extent.chunk].object_offset + extent.chunk_offset;
    const uint64_t seed = SeedOf(identity, extent.region);
    for (uint64_t i = 0; i < extent.bytes; ++i) at[i] = ByteOf(seed, extent.region_offset + i);
    extent.crc32c = crc32c::Compute(at, extent.bytes);
  }
  if (object != nullptr) *object = std::move(bytes);
  return image;
}

Status WriteImage(ObjectWriter& writer, const ImageRecord& image, ByteSpan object, ImageEntry* entry) {
  Buffer record;
  KEDGE_RETURN_IF_ERROR(EncodeImageRecord(image, &record));
  *entry = {image.identity.rank, keys::ImageObject(image.identity.rank),        object.size(),
            record.size(),       crc32c::Compute(record.data(), record.size()), image.RegionBytes()};
  if (!object.empty()) {
    KEDGE_RETURN_IF_ERROR(writer.WriteAt(0, object));
    KEDGE_RETURN_IF_ERROR(writer.FlushHint(0, object.size(), false));
  }
  return writer.WriteAt(object.size(), record);
}

Result<uint64_t> WriteImageAt(ObjectWriter& writer, uint64_t offset, const ImageRecord& image, ByteSpan object,
                              ImageEntry* entry) {
  Buffer records;
  KEDGE_RETURN_IF_ERROR(EncodeImageRecord(image, &records));
  const size_t record_bytes = records.size();
  BlockMap map;
  map.identity = image.identity;
  map.has_fingerprints = false;
  for (const Chunk& chunk : image.chunks) {
    map.runs.push_back({kOwnBlocks, (chunk.bytes + map.block_bytes - 1) / map.block_bytes, offset + chunk.object_offset});
  }
  Encode(map, &records);
  *entry = {image.identity.rank,
            "",
            offset + object.size(),
            record_bytes,
            crc32c::Compute(records.data(), record_bytes),
            image.RegionBytes(),
            records.size() - record_bytes,
            crc32c::Compute(&records[record_bytes], records.size() - record_bytes)};
  if (!object.empty()) KEDGE_RETURN_IF_ERROR(writer.WriteAt(offset, object));
  KEDGE_RETURN_IF_ERROR(writer.WriteAt(entry->record_offset, records));
  return AlignChunkOffset(entry->record_offset + records.size());
}

Result<FinishOutcome> PublishRanks(const Catalog& catalog, const Generation& generation, uint32_t first, uint32_t count,
                                   const MakerOptions& options) {
  KEDGE_RETURN_IF_ERROR(PrepareGeneration(catalog, generation));
  PartRecord part;
  part.generation = generation;
  part.ranks = options.ranks;
  std::vector<std::unique_ptr<ObjectWriter>> writers;
  std::vector<ObjectWriter*> pointers;
  Status status;
  const std::string one_object = keys::NodeObject();
  uint64_t end = 0;  // in that
  for (uint32_t rank = first; rank < first + count && status.ok(); ++rank) {
    Buffer object;
    const ImageRecord image = MakeImage({generation, rank, options.ranks}, options, &object);
    const std::string name = options.one_object ? one_object : keys::ImageObject(rank);
    if (!options.one_object || writers.empty()) {
      auto writer = catalog.store().CreateObject(keys::GenerationFolder(generation) + '/' + name, catalog.owner(), object.size());
      status = writer.status();
      if (!status.ok()) break;
      writers.push_back(std::move(*writer));
    }
    pointers.push_back(writers.back().get());
    ImageEntry& entry = part.images.emplace_back();
    if (options.one_object) {
      const Result<uint64_t> written = WriteImageAt(*pointers.back(), end, image, object, &entry);
      status = written.status();
      if (written.ok()) end = *written;
    } else {
      status = WriteImage(*pointers.back(), image, object, &entry);
    }
    entry.object = name;
  }
  if (!status.ok()) {
    for (const auto& writer : writers) static_cast<void>(writer->Abandon());
    return status;
  }
  const PublishOutcome outcome = PublishImages(catalog, pointers, part);
  for (const Status& one : outcome.images) KEDGE_RETURN_IF_ERROR(one);
  KEDGE_RETURN_IF_ERROR(outcome.commit);
  return outcome.finish;
}

Status TakeVersion(const Catalog& catalog, const Generation& generation, const MakerOptions& options) {
  for (uint32_t first = 0; first < options.ranks; first += options.ranks_per_part) {
    const uint32_t count = std::min(options.ranks_per_part, options.ranks - first);
    KEDGE_ASSIGN_OR_RETURN(const FinishOutcome outcome, PublishRanks(catalog, generation, first, count, options));
    const bool last = first + count == options.ranks;
    if (last && !outcome.complete) return Status(Code::kIncomplete, generation.ToString() + " is not complete");
  }
  return Status::Ok();
}

namespace {

// All blocks of `below` where they lie, for an image that has the same.
BlockMap MapOnTop(const StoredImage& below, const ImageIdentity& identity) {
  if (below.map) {
    BlockMap map = *below.map;
    KEDGE_CHECK(std::all_of(map.runs.begin(), map.runs.end(), [](const BlockRun& run) { return run.object == kSharedBlocks; }));
    map.identity = identity;
    return map;
  }
  BlockMap map;
  map.identity = identity;
  map.objects = {{keys::RelativeToJob(identity.generation.job, below.object_key), below.entry.record_offset}};
  const BlockLayout layout(below.record, map.block_bytes);
  map.fingerprints.resize(layout.blocks());
  for (uint64_t block = 0; block < layout.blocks(); ++block) {
    map.runs.push_back({kSharedBlocks, 1, layout.At(block).stream_offset});
  }
  return map;
}

}  // namespace

Status TakeOnTop(const Catalog& catalog, const Generation& generation, const StoredImage& below) {
  ImageRecord image = below.record;
  image.identity = {generation, 0, 1};
  const BlockMap map = MapOnTop(below, image.identity);
  Buffer encoded;
  Encode(map, &encoded);
  PartRecord part;
  part.generation = generation;
  part.ranks = 1;
  part.images.resize(1);
  part.references = {*keys::GenerationOfObject(map.objects.front().key)};
  KEDGE_ASSIGN_OR_RETURN(const std::unique_ptr<ObjectWriter> writer,
                         catalog.store().CreateObject(keys::ImageKey(generation, 0), catalog.owner(), 0));
  ImageEntry& entry = part.images.front();
  Status written = WriteImage(*writer, image, {}, &entry);
  if (written.ok()) written = writer->WriteAt(entry.record_offset + entry.record_bytes, encoded);
  if (!written.ok()) {
    static_cast<void>(writer->Abandon());
    return written;
  }
  entry.map_bytes = encoded.size();
  entry.map_crc32c = crc32c::Compute(encoded.data(), encoded.size());
  ObjectWriter* const pointer = writer.get();
  const PublishOutcome outcome = PublishImages(catalog, std::span(&pointer, 1), part);
  KEDGE_RETURN_IF_ERROR(outcome.images.front());
  KEDGE_RETURN_IF_ERROR(outcome.commit);
  return outcome.finish.complete ? Status::Ok() : Status(Code::kIncomplete, generation.ToString() + " is not complete");
}

Status TakeOnTop(const Catalog& catalog, const Generation& generation, const Generation& base) {
  KEDGE_RETURN_IF_ERROR(PrepareGeneration(catalog, generation));
  KEDGE_ASSIGN_OR_RETURN(const StoredImage below, ReadImage(catalog, base, 0));
  return TakeOnTop(catalog, generation, below);
}

Status TakeSharing(const Catalog& catalog, const Generation& generation, const MakerOptions& options) {
  KEDGE_CHECK(options.ranks == 1);
  KEDGE_RETURN_IF_ERROR(PrepareGeneration(catalog, generation));
  KEDGE_ASSIGN_OR_RETURN(const std::optional<Generation> base, ClaimBase(catalog, generation));
  if (!base) return TakeVersion(catalog, generation, options);
  const Result<StoredImage> below = ReadImage(catalog, *base, 0);
  // Its objects stay, but it may be no version any more by now.
  if (below.status().code() == Code::kNotFound) return TakeVersion(catalog, generation, options);
  KEDGE_RETURN_IF_ERROR(below.status());
  return TakeOnTop(catalog, generation, *below);
}

Status CheckVersion(const Catalog& catalog, const Generation& generation) {
  KEDGE_ASSIGN_OR_RETURN(const VersionRecord version, ReadVersionRecord(catalog, generation));
  for (uint32_t rank = 0; rank < version.ranks; ++rank) {
    KEDGE_ASSIGN_OR_RETURN(const StoredImage image, ReadImage(catalog, generation, rank));
    KEDGE_RETURN_IF_ERROR(CheckImage(catalog, image));
  }
  return Status::Ok();
}

}  // namespace kedge::testing
