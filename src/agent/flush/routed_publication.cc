#include "agent/flush/routed_publication.h"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>

#include "format/image_record.h"
#include "restore/chunk_source.h"
#include "restore/image_reader.h"

namespace kedge {
namespace {

// The chunks of an image as they lie on this node.
class PieceChunks final : public ChunkSource {
 public:
  explicit PieceChunks(std::vector<PieceSource> chunks) : chunks_(std::move(chunks)) {}

  bool Has(uint32_t chunk) const override { return chunks_[chunk].tier != nullptr || !chunks_[chunk].file.empty(); }
  SourceKind KindOf(uint32_t) const override { return SourceKind::kDirectory; }
  const std::byte* Memory(uint32_t) const override { return nullptr; }
  Status Read(uint32_t chunk, uint64_t offset, void* to, uint64_t bytes) override {
    PieceSource source = chunks_[chunk];
    source.offset += offset;
    source.bytes = bytes;
    return source.Read(static_cast<std::byte*>(to));
  }
  std::string Describe(uint32_t chunk) const override {
    const PieceSource& source = chunks_[chunk];
    return source.tier == nullptr ? source.file : fmt::format("slot {} of tier {}", source.slot, source.tier->info().name);
  }

 private:
  const std::vector<PieceSource> chunks_;
};

}  // namespace

Status PublishRoutedFiles(FilePublisher& publisher, const FileOrigin& origin, const PieceSource& record_source,
                          const std::vector<PieceSource>& chunks) {
  Buffer bytes(record_source.bytes);
  KEDGE_RETURN_IF_ERROR(record_source.Read(bytes.data()));
  KEDGE_ASSIGN_OR_RETURN(ImageRecord record, DecodeImageRecord(bytes));
  if (record.chunks.size() != chunks.size()) return Status(Code::kCorrupt, "the image record has changed");
  std::vector<std::unique_ptr<ChunkSource>> sources;
  sources.push_back(std::make_unique<PieceChunks>(chunks));
  ImageReader image(std::move(record), std::move(sources));
  const std::vector<Region>& regions = image.record().regions;
  for (uint32_t i = 0; i < regions.size(); ++i) {
    const Region& region = regions[i];
    if (region.kind != RegionKind::kFile) continue;
    if (region.name.empty() || region.name.front() != '/') {
      return Status(Code::kInvalidArgument, fmt::format("the routed file \"{}\" has no absolute path", region.name));
    }
    const Status published =
        publisher.Publish(origin, region.name, region.file_mode, [&](os::File& file) { return WriteFileBytes(image, i, file); });
    if (!published.ok()) return published.WithContext(region.name);
  }
  return Status::Ok();
}

}  // namespace kedge
