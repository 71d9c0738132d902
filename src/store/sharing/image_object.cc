#include "store/sharing/image_object.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "reduce/stored_block.h"
#include "store/record_io.h"

namespace kedge {

namespace {

// Read and decompressed at a time.
constexpr uint64_t kCompressedBlocksMax = 16;

// As runs name them.
std::vector<std::string> KeysOf(const StoredImage& image) {
  const std::string job_folder = keys::JobFolder(image.record.identity.generation.job) + '/';
  std::vector<std::string> keys(kSharedBlocks);
  keys[kOwnBlocks] = image.object_key;
  for (const SharedObject& object : image.map->objects) keys.push_back(job_folder + object.key);
  return keys;
}

class MappedObject final : public ObjectReader {
 public:
  MappedObject(Store& store, const StoredImage& image, OpenObject open)
      : store_(store), open_(std::move(open)), map_(*image.map), layout_(image.record, image.map->block_bytes) {
    for (std::string& key : KeysOf(image)) objects_.push_back({std::move(key), nullptr});
    uint64_t blocks = 0;
    for (const BlockRun& run : map_.runs) {
      runs_.push_back({blocks, compressed_offsets_.size()});
      blocks += run.blocks;
      uint64_t offset = run.offset;
      for (uint64_t i = 0; run.is_compressed && i < run.blocks; ++i) {
        const uint32_t bytes = map_.stored_bytes[compressed_offsets_.size()];
        compressed_offsets_.push_back(offset);
        offset += bytes;
      }
    }
    for (const Chunk& chunk : image.record.chunks) {
      if (chunk.object == 0) size_bytes_ = std::max(size_bytes_, chunk.object_offset + chunk.bytes);
    }
  }

  Status ReadAt(uint64_t offset, std::span<std::byte> out) override {
    while (!out.empty()) {
      const BlockLayout::Place place = layout_.Find(offset);
      uint64_t bytes = std::min<uint64_t>(out.size(), place.left);
      if (!place.block) {
        std::fill_n(out.begin(), bytes, std::byte{0});
      } else {
        const size_t run = RunOf(*place.block);
        const uint64_t into = (*place.block - runs_[run].first_block) * layout_.block_bytes() + place.within;
        bytes = std::min(bytes, map_.runs[run].blocks * layout_.block_bytes() - into);
        KEDGE_RETURN_IF_ERROR(ReadRun(run, *place.block, place.within, out.first(bytes)));
      }
      offset += bytes;
      out = out.subspan(bytes);
    }
    return Status::Ok();
  }

  uint64_t size_bytes() const override { return size_bytes_; }

 private:
  struct Object {
    std::string key;
    std::unique_ptr<ObjectReader> reader;
  };
  // What the map's run begins with.
  struct RunStart {
    uint64_t first_block = 0;
    size_t first_compressed = 0;  // of all that are compressed
  };

  size_t RunOf(uint64_t block) const {
    const auto after = std::upper_bound(runs_.begin(), runs_.end(), block,
                                        [](uint64_t at, const RunStart& run) { return at < run.first_block; });
    return static_cast<size_t>(after - runs_.begin()) - 1;
  }

  // From `within` the block on, which is in the run, as is all of `out`.
  Status ReadRun(size_t index, uint64_t block, uint64_t within, std::span<std::byte> out) {
    const BlockRun& run = map_.runs[index];
    if (run.object == kZeroBlocks) {
      std::fill(out.begin(), out.end(), std::byte{0});
      return Status::Ok();
    }
    KEDGE_ASSIGN_OR_RETURN(ObjectReader * reader, Open(objects_[run.object]));
    const uint64_t number = block - runs_[index].first_block;
    if (!run.is_compressed) return reader->ReadAt(run.offset + number * layout_.block_bytes() + within, out);
    return ReadCompressed(*reader, objects_[run.object].key, {runs_[index].first_compressed + number, block, within}, out);
  }

  struct CompressedPlace {
    size_t number = 0;  // of all that are compressed
    uint64_t block = 0;
    uint64_t within = 0;
  };
  Status ReadCompressed(ObjectReader& reader, const std::string& key, CompressedPlace place, std::span<std::byte> out) {
    Buffer stored;
    while (!out.empty()) {
      if (const size_t copied = CopyKept(place, out); copied > 0) {
        out = out.subspan(copied);
        place = {place.number + 1, place.block + 1, 0};
        continue;
      }
      const uint64_t blocks =
          std::min(kCompressedBlocksMax, (place.within + out.size() + layout_.block_bytes() - 1) / layout_.block_bytes());
      const uint64_t begin = compressed_offsets_[place.number];
      const size_t last = place.number + blocks - 1;
      stored.resize(compressed_offsets_[last] + map_.stored_bytes[last] - begin);
      KEDGE_RETURN_IF_ERROR(reader.ReadAt(begin, stored));
      for (uint64_t i = 0; i < blocks; ++i, ++place.number, ++place.block, place.within = 0) {
        const uint64_t offset = compressed_offsets_[place.number];
        const ByteSpan lies = ByteSpan(stored).subspan(offset - begin, map_.stored_bytes[place.number]);
        const uint32_t block_bytes = layout_.At(place.block).bytes;
        const size_t wanted = std::min<size_t>(out.size(), block_bytes - place.within);
        const bool is_whole = wanted == block_bytes;
        Buffer beside(is_whole ? 0 : block_bytes);
        const Status loaded = reduce::LoadBlock(lies, is_whole ? out.first(wanted) : std::span(beside));
        if (!loaded.ok()) return loaded.WithContext(fmt::format("{} at {}", PathInStore(store_, key), offset));
        if (!is_whole) {
          std::copy_n(beside.begin() + static_cast<std::ptrdiff_t>(place.within), wanted, out.begin());
          Keep(place.number, std::move(beside));
        }
        out = out.subspan(wanted);
      }
    }
    return Status::Ok();
  }

  // What was wanted in part: small regions are read one after the other.
  void Keep(size_t number, Buffer block) {
    const std::lock_guard lock(mutex_);
    kept_number_ = number;
    kept_ = std::move(block);
  }

  // As much as the block has for `out`; 0: it is not kept.
  size_t CopyKept(const CompressedPlace& place, std::span<std::byte> out) {
    const std::lock_guard lock(mutex_);
    if (kept_.empty() || kept_number_ != place.number) return 0;
    const size_t bytes = std::min<size_t>(out.size(), kept_.size() - place.within);
    std::copy_n(kept_.begin() + static_cast<std::ptrdiff_t>(place.within), bytes, out.begin());
    return bytes;
  }

  Result<ObjectReader*> Open(Object& object) {
    const std::lock_guard lock(mutex_);
    if (object.reader == nullptr) {
      KEDGE_ASSIGN_OR_RETURN(object.reader, open_ ? open_(object.key) : store_.OpenObject(object.key));
    }
    return object.reader.get();
  }

  Store& store_;
  const OpenObject open_;
  const BlockMap map_;
  const BlockLayout layout_;
  std::vector<RunStart> runs_;                // as the map's
  std::vector<uint64_t> compressed_offsets_;  // of each compressed block, in its object
  uint64_t size_bytes_ = 0;
  std::mutex mutex_;             // guards the readers and what is kept
  std::vector<Object> objects_;  // as runs name them
  size_t kept_number_ = 0;
  Buffer kept_;  // a compressed block as it was; empty: none is
};

}  // namespace

Result<std::unique_ptr<ObjectReader>> OpenChunkObject(const Catalog& catalog, const StoredImage& image, const Chunk& chunk,
                                                      const OpenObject& open) {
  if (chunk.object == 0 && image.map) return std::unique_ptr<ObjectReader>(new MappedObject(catalog.store(), image, open));
  return catalog.store().OpenObject(ChunkObjectKey(image, chunk));
}

std::vector<ObjectRange> RangesOf(const StoredImage& image) {
  const BlockMap& map = *image.map;
  const BlockLayout layout(image.record, map.block_bytes);
  const std::vector<std::string> keys = KeysOf(image);
  std::vector<ObjectRange> ranges;
  uint64_t block = 0;
  size_t compressed = 0;
  for (const BlockRun& run : map.runs) {
    ObjectRange range{keys[run.object], run.offset, 0};
    for (uint64_t i = 0; i < run.blocks; ++i, ++block) {
      range.bytes += run.is_compressed ? map.stored_bytes[compressed++] : layout.At(block).bytes;
    }
    if (run.object != kZeroBlocks) ranges.push_back(std::move(range));
  }
  return ranges;
}

bool IsOfVersion(const SharedObject& object, const Generation& generation) {
  return keys::GenerationOfObject(object.key) == keys::RelativeToJob(generation.job, keys::GenerationFolder(generation));
}

StoredBytes StoredBytesOf(const StoredImage& image) {
  StoredBytes bytes;
  if (!image.map) {
    bytes.own = bytes.stored = image.record.RegionBytes();
    return bytes;
  }
  const BlockLayout layout(image.record, image.map->block_bytes);
  std::vector<uint64_t*> bytes_in = {&bytes.zeros, &bytes.own};
  for (const SharedObject& object : image.map->objects) {
    const bool is_of_version = IsOfVersion(object, image.record.identity.generation);
    bytes_in.push_back(!is_of_version ? &bytes.shared : keys::IsCommonObject(object.key) ? &bytes.common : &bytes.borrowed);
  }
  std::set<std::pair<uint32_t, uint64_t>> known;
  uint64_t number = 0;
  for (const BlockPlace& place : PlacesOf(*image.map)) {
    const uint32_t block_bytes = layout.At(number++).bytes;
    if (place.object == kZeroBlocks) {
      bytes.zeros += block_bytes;
    } else if (!known.emplace(place.object, place.offset).second) {
      bytes.copies += block_bytes;
    } else {
      *bytes_in[place.object] += block_bytes;
      if (place.object == kOwnBlocks) bytes.stored += place.stored_bytes > 0 ? place.stored_bytes : block_bytes;
    }
  }
  return bytes;
}

}  // namespace kedge
