// See file_publisher.h.
#include "restore/file_publisher.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <vector>

#include "os/files.h"

namespace kedge {
namespace {

constexpr size_t kCopyBytes = 1 << 20;

// os::TemporaryPath wants neither slash nor dot in it.
std::string Tag(const TemporaryOwner& owner) {
  std::string tag = fmt::format("kedge-{}-{}-{}", owner.node, owner.attempt, owner.writer);
  std::replace_if(
      tag.begin(), tag.end(), [](unsigned char c) { return !std::isalnum(c) && c != '-'; }, '_');
  return tag;
}

Status WriteRegion(os::File& file, ImageReader& image, uint32_t region) {
  std::vector<std::byte> buffer;
  const auto [begin, end] = image.ExtentsOf(region);
  for (uint32_t index = begin; index < end; ++index) {
    const Extent& extent = image.record().extents[index];
    buffer.resize(extent.bytes);
    KEDGE_RETURN_IF_ERROR(image.ReadExtent(index, buffer.data()));
    KEDGE_RETURN_IF_ERROR(os::WriteAll(file, buffer.data(), buffer.size(), extent.region_offset));
  }
  return Status::Ok();
}

// Creates `path` durably with what `write` puts into it.
Status WriteDurably(os::FileSystem& fs, const std::string& path, uint32_t mode, const TemporaryOwner& owner,
                    const std::function<Status(os::File&)>& write) {
  const std::string temporary = os::TemporaryPath(path, Tag(owner));
  Status status;
  {
    auto file = fs.Open(temporary, os::OpenFlags::kWrite | os::OpenFlags::kCreate | os::OpenFlags::kExclusive, 0600);
    if (!file.ok()) return file.status();
    status = write(**file);
    if (status.ok()) status = (*file)->Fsync();
    Status closed = (*file)->Close();
    if (status.ok()) status = closed;
  }
  if (status.ok()) status = fs.Chmod(temporary, mode);
  if (status.ok()) status = fs.Rename(temporary, path);
  if (!status.ok()) {
    (void)os::UnlinkIfPresent(fs, temporary);
    return status;
  }
  return os::SyncFolder(fs, os::ParentPath(path));
}

}  // namespace

Status PublishFiles(os::FileSystem& file_system, ImageReader& image, const TemporaryOwner& owner) {
  Status first_error;
  for (uint32_t region = 0; region < image.record().regions.size(); ++region) {
    const Region& file = image.record().regions[region];
    if (file.kind != RegionKind::kFile) continue;
    Status status =
        WriteDurably(file_system, file.name, file.file_mode, owner, [&](os::File& to) { return WriteRegion(to, image, region); });
    if (!status.ok() && first_error.ok()) first_error = status;
  }
  return first_error;
}

Status PublishFileCopy(os::FileSystem& fs, const std::string& routed, const std::string& original, uint32_t mode,
                       const TemporaryOwner& owner) {
  KEDGE_ASSIGN_OR_RETURN(const auto from, fs.Open(routed, os::OpenFlags::kRead));
  return WriteDurably(fs, original, mode, owner, [&](os::File& to) -> Status {
    std::vector<std::byte> buffer(kCopyBytes);
    for (uint64_t offset = 0;;) {
      KEDGE_ASSIGN_OR_RETURN(const size_t bytes, os::ReadUpTo(*from, buffer.data(), buffer.size(), offset));
      if (bytes == 0) return Status::Ok();
      KEDGE_RETURN_IF_ERROR(os::WriteAll(to, buffer.data(), bytes, offset));
      offset += bytes;
    }
  });
}

Status WriteFileRegion(os::FileSystem& file_system, ImageReader& image, uint32_t region, const std::string& path) {
  KEDGE_ASSIGN_OR_RETURN(const auto file,
                         file_system.Open(path, os::OpenFlags::kWrite | os::OpenFlags::kCreate | os::OpenFlags::kTruncate,
                                          image.record().regions[region].file_mode | 0600));
  KEDGE_RETURN_IF_ERROR(WriteRegion(*file, image, region));
  return file->Close();
}

}  // namespace kedge
