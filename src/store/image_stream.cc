#include "store/image_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>

#include "base/crc32c.h"
#include "store/record_io.h"
#include "store/sharing/image_object.h"

namespace kedge {

namespace {

// The extents of an image, by chunk and then by offset in it.
std::vector<const Extent*> ByPlace(const ImageRecord& image) {
  std::vector<const Extent*> extents;
  extents.reserve(image.extents.size());
  for (const Extent& extent : image.extents) extents.push_back(&extent);
  std::sort(extents.begin(), extents.end(), [](const Extent* a, const Extent* b) {
    return a->chunk != b->chunk ? a->chunk < b->chunk : a->chunk_offset < b->chunk_offset;
  });
  return extents;
}

// The checksums of one chunk's extents, computed as its bytes come by. Extents may overlap (shared content).
class ExtentChecker {
 public:
  // Takes from `by_place`, from *at on, those of `chunk`, and moves *at behind them.
  ExtentChecker(const ImageRecord& image, const std::vector<const Extent*>& by_place, size_t chunk, size_t* at) : image_(image) {
    for (; *at < by_place.size() && by_place[*at]->chunk == chunk; ++*at) running_.push_back({by_place[*at], 0});
  }

  // The bytes at `offset` of the chunk; called in order, without gaps.
  template <typename Problem>
  void Take(uint64_t offset, ByteSpan bytes, const Problem& problem) {
    const uint64_t end = offset + bytes.size();
    for (size_t i = first_; i < running_.size() && running_[i].extent->chunk_offset < end; ++i) {
      Running& running = running_[i];
      const uint64_t extent_end = running.extent->chunk_offset + running.extent->bytes;
      if (extent_end <= offset) {
        if (i == first_) ++first_;
        continue;
      }
      const uint64_t from = std::max(offset, running.extent->chunk_offset);
      const uint64_t to = std::min(end, extent_end);
      running.crc32c = crc32c::Extend(running.crc32c, bytes.data() + (from - offset), to - from);
      if (to == extent_end && running.crc32c != running.extent->crc32c) problem(Describe(running));
    }
  }

 private:
  struct Running {
    const Extent* extent;
    uint32_t crc32c;
  };
  std::string Describe(const Running& running) const {
    const Extent& extent = *running.extent;
    const Region& region = image_.regions[extent.region];
    return fmt::format("region {}{}, bytes {} to {}: checksum {:08x}, expected {:08x}", region.id,
                       region.name.empty() ? "" : " (" + region.name + ")", extent.region_offset,
                       extent.region_offset + extent.bytes, running.crc32c, extent.crc32c);
  }

  const ImageRecord& image_;
  std::vector<Running> running_;
  size_t first_ = 0;  // those before are done
};

}  // namespace

Status StreamImage(const Catalog& catalog, const StoredImage& image, const ImageStreamOptions& options) {
  Buffer buffer(options.buffer_bytes);
  const std::vector<const Extent*> by_place = ByPlace(image.record);
  size_t next_extent = 0;
  std::map<std::string, std::unique_ptr<ObjectReader>> objects;
  for (size_t c = 0; c < image.record.chunks.size(); ++c) {
    const Chunk& chunk = image.record.chunks[c];
    ExtentChecker checker(image.record, by_place, c, &next_extent);
    const std::string key = ChunkObjectKey(image, chunk);
    const std::string path = PathInStore(catalog.store(), key);
    std::unique_ptr<ObjectReader>& object = objects[key];
    if (object == nullptr) {
      Result<std::unique_ptr<ObjectReader>> opened = OpenChunkObject(catalog, image, chunk);
      if (!opened.ok()) {
        options.problem(fmt::format("chunk {}: {}", c, opened.status().ToString()));
        continue;
      }
      object = std::move(*opened);
    }
    for (uint64_t offset = 0; offset < chunk.bytes;) {
      const std::span<std::byte> piece = std::span(buffer).first(std::min<uint64_t>(buffer.size(), chunk.bytes - offset));
      const Status read = object->ReadAt(chunk.object_offset + offset, piece);
      if (!read.ok()) {
        options.problem(fmt::format("chunk {} at {}: {}", c, offset, read.ToString()));
        break;
      }
      checker.Take(offset, piece, [&](const std::string& what) { options.problem(path + ": " + what); });
      KEDGE_RETURN_IF_ERROR(options.piece(c, offset, piece));
      offset += piece.size();
    }
  }
  return Status::Ok();
}

}  // namespace kedge
