#include "store/sharing/image_object.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <string>
#include <vector>

#include "store/record_io.h"

namespace kedge {

namespace {

class MappedObject final : public ObjectReader {
 public:
  MappedObject(Store& store, const StoredImage& image)
      : store_(store), runs_(image.map->runs), layout_(image.record, image.map->block_bytes) {
    const std::string job_folder = keys::JobFolder(image.record.identity.generation.job) + '/';
    objects_.resize(kSharedBlocks + image.map->objects.size());
    objects_[kOwnBlocks].key = image.object_key;
    for (size_t i = 0; i < image.map->objects.size(); ++i) {
      objects_[kSharedBlocks + i].key = job_folder + image.map->objects[i].key;
    }
    uint64_t blocks = 0;
    for (const BlockRun& run : runs_) {
      first_blocks_.push_back(blocks);
      blocks += run.blocks;
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
        const uint64_t into = (*place.block - first_blocks_[run]) * layout_.block_bytes() + place.within;
        bytes = std::min(bytes, runs_[run].blocks * layout_.block_bytes() - into);
        KEDGE_RETURN_IF_ERROR(ReadRun(runs_[run], into, out.first(bytes)));
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

  size_t RunOf(uint64_t block) const {
    return static_cast<size_t>(std::upper_bound(first_blocks_.begin(), first_blocks_.end(), block) - first_blocks_.begin()) - 1;
  }

  Status ReadRun(const BlockRun& run, uint64_t into, std::span<std::byte> out) {
    if (run.object == kZeroBlocks) {
      std::fill(out.begin(), out.end(), std::byte{0});
      return Status::Ok();
    }
    KEDGE_ASSIGN_OR_RETURN(ObjectReader * reader, Open(objects_[run.object]));
    return reader->ReadAt(run.offset + into, out);
  }

  Result<ObjectReader*> Open(Object& object) {
    const std::lock_guard lock(mutex_);
    if (object.reader == nullptr) {
      KEDGE_ASSIGN_OR_RETURN(object.reader, store_.OpenObject(object.key));
    }
    return object.reader.get();
  }

  Store& store_;
  const std::vector<BlockRun> runs_;
  const BlockLayout layout_;
  std::vector<uint64_t> first_blocks_;  // of each run
  uint64_t size_bytes_ = 0;
  std::mutex mutex_;             // guards the readers
  std::vector<Object> objects_;  // as runs name them
};

}  // namespace

Result<std::unique_ptr<ObjectReader>> OpenChunkObject(const Catalog& catalog, const StoredImage& image, const Chunk& chunk) {
  if (chunk.object == 0 && image.map) return std::unique_ptr<ObjectReader>(new MappedObject(catalog.store(), image));
  return catalog.store().OpenObject(ChunkObjectKey(image, chunk));
}

StoredBytes StoredBytesOf(const StoredImage& image) {
  StoredBytes bytes;
  if (!image.map) {
    bytes.own = image.record.RegionBytes();
    return bytes;
  }
  const BlockLayout layout(image.record, image.map->block_bytes);
  uint64_t block = 0;
  for (const BlockRun& run : image.map->runs) {
    uint64_t& of_kind = run.object == kZeroBlocks ? bytes.zeros : run.object == kOwnBlocks ? bytes.own : bytes.shared;
    for (uint64_t i = 0; i < run.blocks; ++i) of_kind += layout.At(block++).bytes;
  }
  return bytes;
}

}  // namespace kedge
