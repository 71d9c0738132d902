#include "agent/flush/routed_publication.h"

#include <fmt/format.h>

#include "base/crc32c.h"
#include "format/image_record.h"
#include "os/files/files.h"

namespace kedge {
namespace {

Status WriteFile(const ImageRecord& record, uint32_t region, const std::vector<PieceSource>& chunks, os::File& file) {
  Buffer buffer;
  for (const Extent& extent : record.extents) {
    if (extent.region != region) continue;
    PieceSource source = chunks[extent.chunk];
    if (source.tier == nullptr && source.file.empty()) {
      return Status(Code::kNotFound, "a chunk of it is in the store only");
    }
    source.offset += extent.chunk_offset;
    source.bytes = extent.bytes;
    buffer.resize(extent.bytes);
    KEDGE_RETURN_IF_ERROR(source.Read(buffer.data()));
    if (crc32c::Compute(buffer.data(), buffer.size()) != extent.crc32c) {
      return Status(Code::kCorrupt, fmt::format("its bytes at {} fail their checksum", extent.region_offset));
    }
    KEDGE_RETURN_IF_ERROR(os::WriteAll(file, buffer.data(), buffer.size(), extent.region_offset));
  }
  return Status::Ok();
}

}  // namespace

Status PublishRoutedFiles(FilePublisher& publisher, const FileOrigin& origin, const PieceSource& record_source,
                          const std::vector<PieceSource>& chunks) {
  Buffer bytes(record_source.bytes);
  KEDGE_RETURN_IF_ERROR(record_source.Read(bytes.data()));
  KEDGE_ASSIGN_OR_RETURN(ImageRecord record, DecodeImageRecord(bytes));
  if (record.chunks.size() != chunks.size()) return Status(Code::kCorrupt, "the image record has changed");
  for (uint32_t i = 0; i < record.regions.size(); ++i) {
    const Region& region = record.regions[i];
    if (region.kind != RegionKind::kFile) continue;
    if (region.name.empty() || region.name.front() != '/') {
      return Status(Code::kInvalidArgument, fmt::format("the routed file \"{}\" has no absolute path", region.name));
    }
    const Status published = publisher.Publish(origin, region.name, region.file_mode,
                                               [&](os::File& file) { return WriteFile(record, i, chunks, file); });
    if (!published.ok()) return published.WithContext(region.name);
  }
  return Status::Ok();
}

}  // namespace kedge
