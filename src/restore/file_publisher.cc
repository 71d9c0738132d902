// See file_publisher.h.
#include "restore/file_publisher.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/crc32c.h"
#include "base/log.h"
#include "os/files/file_mode.h"
#include "os/files/files.h"
#include "os/process/kill_point.h"
#include "store/temporary_tag.h"

namespace kedge {
namespace {

constexpr size_t kCopyBytes = 1 << 20;
// Of the original's name in a temporary's, which may have 255 bytes with tag and number.
constexpr size_t kNameBytesKept = 100;
// Whose versions are remembered: more than are on their way at a time.
constexpr size_t kPathsKept = 4096;

// Files of several jobs may lie in one folder. With a '-' behind it, before the owner's tag.
std::string JobTag(const FileOrigin& origin) {
  const std::string job = origin.store_id.ToHex() + '/' + origin.job;
  return fmt::format("{:08x}-", crc32c::Compute(job.data(), job.size()));
}

// Whether nobody will finish what has this tag, which the origin's process has not in hand.
bool IsDead(const FileOrigin& origin, const std::string& tag) {
  const auto owner = ParseTemporaryTag(tag);
  if (!owner) return false;
  const TemporaryOwner& self = origin.owner;
  const bool is_predecessor = MakeTemporaryTag({self.node, owner->attempt, self.writer}) == tag;
  if (is_predecessor) return owner->attempt <= self.attempt;
  if (owner->attempt >= self.attempt) return false;
  return owner->writer != "agent" || origin.is_silent(owner->attempt);
}

}  // namespace

Status FilePublisher::Publish(const FileOrigin& origin, const std::string& path, uint32_t mode,
                              const std::function<Status(os::File&)>& write) {
  if (!BeginPath(origin, path)) return Status::Ok();
  const auto is_taken_over = origin.is_taken_over();
  const auto there = is_taken_over.ok() && *is_taken_over ? os::Exists(fs_, path) : is_taken_over;
  if (!there.ok() || *there) {
    EndPath(origin, path, false);
    return there.status();
  }
  const std::string folder = os::ParentPath(path);
  RemoveLeftovers(origin, folder);
  const std::string temporary = os::TemporaryPath(os::JoinPath(folder, os::BaseName(path).substr(0, kNameBytesKept)),
                                                  JobTag(origin) + MakeTemporaryTag(origin.owner));
  {
    const std::lock_guard lock(mutex_);
    in_hand_.insert(temporary);
  }
  Status status = WriteBeside(temporary, path, mode, write);
  EndPath(origin, path, status.ok());
  const std::lock_guard lock(mutex_);
  in_hand_.erase(temporary);
  return status;
}

bool FilePublisher::BeginPath(const FileOrigin& origin, const std::string& path) {
  std::unique_lock lock(mutex_);
  path_free_.wait(lock, [&] { return !paths_in_hand_.contains(path); });
  const auto last = published_.find(path);
  if (last != published_.end() && last->second > origin.taken) return false;
  paths_in_hand_.insert(path);
  return true;
}

void FilePublisher::EndPath(const FileOrigin& origin, const std::string& path, bool is_published) {
  const std::lock_guard lock(mutex_);
  paths_in_hand_.erase(path);
  path_free_.notify_all();
  if (!is_published) return;
  published_[path] = origin.taken;
  if (published_.size() <= kPathsKept) return;
  published_.erase(std::min_element(published_.begin(), published_.end(),
                                    [](const auto& one, const auto& other) { return one.second < other.second; }));
}

void FilePublisher::RemoveLeftovers(const FileOrigin& origin, const std::string& folder) {
  const std::string job_tag = JobTag(origin);
  const std::string key = job_tag + folder;
  {
    const std::lock_guard lock(mutex_);
    if (clean_folders_.contains(key)) return;
  }
  const auto entries = fs_.List(folder);
  if (!entries.ok()) return;  // what is written there will say why
  bool is_clean = true;
  for (const os::FolderEntry& entry : *entries) {
    std::string tag;
    if (!os::IsTemporaryName(entry.name, &tag) || !tag.starts_with(job_tag)) continue;
    const std::string path = os::JoinPath(folder, entry.name);
    {
      const std::lock_guard lock(mutex_);
      if (in_hand_.contains(path)) continue;
    }
    const bool is_dead = IsDead(origin, tag.substr(job_tag.size()));
    const Status removed = is_dead ? os::UnlinkIfPresent(fs_, path) : Status::Ok();
    if (!removed.ok()) LogWarning("files", "a routed file that was left half written stays: {}", removed.ToString());
    is_clean = is_clean && is_dead && removed.ok();
  }
  const std::lock_guard lock(mutex_);
  if (is_clean) clean_folders_.insert(key);
}

Status FilePublisher::WriteBeside(const std::string& temporary, const std::string& path, uint32_t mode,
                                  const std::function<Status(os::File&)>& write) {
  auto file = fs_.Open(temporary, os::OpenFlags::kWrite | os::OpenFlags::kCreate | os::OpenFlags::kExclusive, 0600);
  if (!file.ok()) return file.status();
  Status status = write(**file);
  if (status.ok()) status = os::SetFileMode(fs_, **file, mode);
  if (status.ok()) status = (*file)->Fsync();
  const Status closed = (*file)->Close();
  if (status.ok()) status = closed;
  os::KillPoint("file-written");
  if (status.ok()) status = fs_.Rename(temporary, path);
  if (!status.ok()) {
    (void)os::UnlinkIfPresent(fs_, temporary);
    return status;
  }
  return os::SyncFolder(fs_, os::ParentPath(path));
}

Status CopyFile(os::File& from, os::File& to) {
  std::vector<std::byte> buffer(kCopyBytes);
  for (uint64_t offset = 0;;) {
    KEDGE_ASSIGN_OR_RETURN(const size_t bytes, os::ReadUpTo(from, buffer.data(), buffer.size(), offset));
    if (bytes == 0) return Status::Ok();
    KEDGE_RETURN_IF_ERROR(os::WriteAll(to, buffer.data(), bytes, offset));
    offset += bytes;
  }
}

Status WriteFileBytes(ImageReader& image, uint32_t region, os::File& file) {
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

Status WriteFileRegion(os::FileSystem& file_system, ImageReader& image, uint32_t region, const std::string& path) {
  KEDGE_ASSIGN_OR_RETURN(const auto file,
                         file_system.Open(path, os::OpenFlags::kWrite | os::OpenFlags::kCreate | os::OpenFlags::kTruncate, 0600));
  KEDGE_RETURN_IF_ERROR(WriteFileBytes(image, region, *file));
  KEDGE_RETURN_IF_ERROR(os::SetFileMode(file_system, *file, image.record().regions[region].file_mode | 0400));
  return file->Close();
}

}  // namespace kedge
