#include "os/files/files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "base/random.h"

namespace kedge::os {
namespace {

constexpr std::string_view kTemporarySuffix = ".tmp";
constexpr size_t kUnmeasuredBytes = 4096;

// Writes `content` into a new file. On an error the file is removed: best effort, gc removes what stays.
Result<std::unique_ptr<File>> BeginNewFile(FileSystem& fs, const std::string& path, std::string_view content, uint32_t mode) {
  KEDGE_ASSIGN_OR_RETURN(auto file, fs.Open(path, OpenFlags::kWrite | OpenFlags::kCreate | OpenFlags::kExclusive, mode));
  if (Status status = WriteAll(*file, content.data(), content.size(), 0); !status.ok()) {
    static_cast<void>(file->Close());
    static_cast<void>(fs.Unlink(path));
    return status;
  }
  return file;
}

// The same, synced and closed.
Status WriteNewFile(FileSystem& fs, const std::string& path, std::string_view content, uint32_t mode) {
  KEDGE_ASSIGN_OR_RETURN(const auto file, BeginNewFile(fs, path, content, mode));
  Status status = file->Fsync();
  const Status closed = file->Close();
  if (status.ok()) status = closed;
  if (!status.ok()) static_cast<void>(fs.Unlink(path));
  return status;
}

// EEXIST on a temporary name must not look like the answer of a create-if-absent.
Status OfTemporary(const Status& status) {
  return status.code() == Code::kAlreadyExists ? Status(Code::kInternal, status.message()) : status;
}

Status WriteTemporary(FileSystem& fs, const std::string& path, std::string_view content, uint32_t mode) {
  return OfTemporary(WriteNewFile(fs, path, content, mode));
}

// To the place of what is there. After an error the temporary file is gone.
Status RenameTemporary(FileSystem& fs, const std::string& temporary, const std::string& path) {
  Status renamed = fs.Rename(temporary, path);
  if (!renamed.ok()) static_cast<void>(fs.Unlink(temporary));
  return renamed;
}

// Whether it is what AbsolutePath makes of it.
bool IsAbsolutePath(std::string_view path) {
  if (!path.starts_with('/')) return false;
  if (path == "/") return true;
  while (!path.empty()) {
    path.remove_prefix(1);
    const size_t end = std::min(path.find('/'), path.size());
    const std::string_view name = path.substr(0, end);
    if (name.empty() || name == "." || name == "..") return false;
    path.remove_prefix(end);
  }
  return true;
}

}  // namespace

bool MeansNoHardLinks(const Status& status) {
  switch (status.errno_value()) {
    case EPERM:
    case EOPNOTSUPP:
    case ENOSYS:
    case EMLINK: return true;
    default: return false;
  }
}

namespace {

Status RemoveByName(FileSystem& fs, const std::string& path) {
  // Unlink first: a symbolic link must go itself, whatever it points to. Folders answer EISDIR (Linux) or EPERM
  // (POSIX).
  const Status unlinked = fs.Unlink(path);
  if (unlinked.ok() || unlinked.errno_value() == ENOENT) return Status::Ok();
  if (unlinked.errno_value() != EISDIR && unlinked.errno_value() != EPERM) return unlinked;
  const auto entries = fs.List(path);
  if (!entries.ok()) return entries.status().errno_value() == ENOENT ? Status::Ok() : entries.status();
  Status first;
  for (const FolderEntry& entry : *entries) {
    const Status removed = RemoveByName(fs, JoinPath(path, entry.name));
    if (first.ok()) first = removed;
  }
  const Status removed = fs.Rmdir(path);
  if (first.ok() && removed.errno_value() != ENOENT) first = removed;
  return first;
}

}  // namespace

Status FileSystem::RemoveBeneath(const std::string& folder, const std::string& path) {
  return RemoveByName(*this, JoinPath(folder, path));
}

Status FileSystem::CheckNotPlanted(const std::string& /*path*/) {
  return Status::Ok();
}

std::vector<Status> FileSystem::SyncTogether(std::span<File* const> files) {
  std::vector<Status> statuses;
  for (File* const file : files) statuses.push_back(file->Fsync());
  return statuses;
}

std::string JoinPath(std::string_view folder, std::string_view name) {
  while (folder.size() > 1 && folder.back() == '/') folder.remove_suffix(1);
  while (!name.empty() && name.front() == '/') name.remove_prefix(1);
  std::string path(folder);
  if (!path.empty() && path.back() != '/') path += '/';
  return path.append(name);
}

std::string AbsolutePath(std::string_view path) {
  if (IsAbsolutePath(path)) return std::string(path);
  std::error_code error;
  const auto absolute = std::filesystem::absolute(path, error);
  std::string text = (error ? std::filesystem::path(path) : absolute).lexically_normal().string();
  while (text.size() > 1 && text.back() == '/') text.pop_back();
  return text;
}

std::string ParentPath(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  const size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return ".";
  path = path.substr(0, slash);
  while (!path.empty() && path.back() == '/') path.remove_suffix(1);
  return path.empty() ? "/" : std::string(path);
}

std::string BaseName(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  const size_t slash = path.rfind('/');
  return std::string(slash == std::string_view::npos ? path : path.substr(slash + 1));
}

std::string TemporaryPath(const std::string& path, std::string_view tag) {
  // Random, not counted: a successor with the same tag, and a forked child, must not meet the names of the others.
  return fmt::format("{}.{}.{:016x}{}", path, tag, Id128::Generate().low, kTemporarySuffix);
}

bool IsTemporaryName(std::string_view name, std::string* tag) {
  if (name.size() <= kTemporarySuffix.size() || name.substr(name.size() - kTemporarySuffix.size()) != kTemporarySuffix) {
    return false;
  }
  name.remove_suffix(kTemporarySuffix.size());
  const size_t unique_dot = name.rfind('.');
  if (unique_dot == std::string_view::npos) return false;
  const std::string_view unique = name.substr(unique_dot + 1);
  if (unique.size() != 16 || unique.find_first_not_of("0123456789abcdef") != std::string_view::npos) return false;
  name = name.substr(0, unique_dot);
  const size_t tag_dot = name.rfind('.');
  if (tag_dot == std::string_view::npos || tag_dot == 0) return false;
  if (tag != nullptr) *tag = name.substr(tag_dot + 1);
  return true;
}

Status WriteAll(File& file, const void* data, size_t bytes, uint64_t offset) {
  const auto* position = static_cast<const char*>(data);
  while (bytes > 0) {
    KEDGE_ASSIGN_OR_RETURN(const size_t written, file.Pwrite(position, bytes, offset));
    if (written == 0) return Status::FromErrno(EIO, "pwrite without progress " + file.path());
    position += written;
    offset += written;
    bytes -= written;
  }
  return Status::Ok();
}

Result<size_t> ReadUpTo(File& file, void* data, size_t bytes, uint64_t offset) {
  size_t done = 0;
  while (done < bytes) {
    KEDGE_ASSIGN_OR_RETURN(const size_t got, file.Pread(static_cast<char*>(data) + done, bytes - done, offset + done));
    if (got == 0) break;
    done += got;
  }
  return done;
}

Status ReadAll(File& file, void* data, size_t bytes, uint64_t offset) {
  KEDGE_ASSIGN_OR_RETURN(const size_t got, ReadUpTo(file, data, bytes, offset));
  if (got == bytes) return Status::Ok();
  return Status(Code::kCorrupt,
                fmt::format("{} ends at {}; {} bytes at {} were expected", file.path(), offset + got, bytes, offset));
}

Result<std::string> ReadFile(FileSystem& fs, const std::string& path, uint64_t bytes_max) {
  KEDGE_ASSIGN_OR_RETURN(const auto file, fs.Open(path, OpenFlags::kRead));
  KEDGE_ASSIGN_OR_RETURN(const FileInfo info, file->Fstat());
  if (info.kind == FileKind::kFolder) return Status::FromErrno(EISDIR, "read " + path);
  if (info.size_bytes > bytes_max) {
    return Status(Code::kCorrupt, fmt::format("{} has {} bytes; at most {} were expected", path, info.size_bytes, bytes_max));
  }
  // One byte more than stat said: a file that is growing is read, too. So is one whose size stat does not know (/proc); some of
  // those can be read in one piece only.
  std::string content;
  size_t capacity = info.size_bytes == 0 ? kUnmeasuredBytes : static_cast<size_t>(info.size_bytes) + 1;
  for (;;) {
    const size_t done = content.size();
    content.resize(capacity);
    KEDGE_ASSIGN_OR_RETURN(const size_t got, ReadUpTo(*file, content.data() + done, capacity - done, done));
    content.resize(done + got);
    if (content.size() > bytes_max) {
      return Status(Code::kCorrupt, fmt::format("{} has more than {} bytes", path, bytes_max));
    }
    if (content.size() < capacity) return content;
    capacity = capacity * 2 + 4096;
  }
}

Status SyncFolder(FileSystem& fs, const std::string& path) {
  KEDGE_ASSIGN_OR_RETURN(const auto folder, fs.Open(path, OpenFlags::kRead | OpenFlags::kFolder));
  KEDGE_RETURN_IF_ERROR(folder->Fsync());
  return folder->Close();
}

Status WriteFileDurably(FileSystem& fs, const std::string& path, std::string_view content, std::string_view tag, uint32_t mode) {
  const std::string temporary = TemporaryPath(path, tag);
  KEDGE_RETURN_IF_ERROR(WriteTemporary(fs, temporary, content, mode));
  KEDGE_RETURN_IF_ERROR(RenameTemporary(fs, temporary, path));
  return SyncFolder(fs, ParentPath(path));
}

Status ReplaceFile(FileSystem& fs, const std::string& path, std::string_view content, std::string_view tag, uint32_t mode) {
  const std::string temporary = TemporaryPath(path, tag);
  KEDGE_ASSIGN_OR_RETURN(const auto file, BeginTemporary(fs, temporary, content, mode));
  if (Status closed = file->Close(); !closed.ok()) {
    static_cast<void>(fs.Unlink(temporary));
    return closed;
  }
  return RenameTemporary(fs, temporary, path);
}

Status CreateIfAbsent(FileSystem& fs, const std::string& path, std::string_view content, std::string_view tag, uint32_t mode) {
  const std::string temporary = TemporaryPath(path, tag);
  KEDGE_RETURN_IF_ERROR(WriteTemporary(fs, temporary, content, mode));
  KEDGE_RETURN_IF_ERROR(ShowIfAbsent(fs, temporary, path, content, mode));
  return SyncFolder(fs, ParentPath(path));
}

Result<std::unique_ptr<File>> BeginTemporary(FileSystem& fs, const std::string& temporary, std::string_view content,
                                             uint32_t mode) {
  auto file = BeginNewFile(fs, temporary, content, mode);
  if (!file.ok()) return OfTemporary(file.status());
  return file;
}

Status LinkIfAbsent(FileSystem& fs, const std::string& temporary, const std::string& path) {
  Status linked = fs.Link(temporary, path);
  if (!linked.ok()) {
    // Over NFS the link may have been made although its answer was lost, and a repeated request says EEXIST. Nobody
    // else knows the temporary, so its link count tells.
    if (const auto info = fs.Stat(temporary); info.ok() && info->link_count == 2) linked = Status::Ok();
  }
  // A temporary that stays behind is gc's, and not worth failing for.
  static_cast<void>(fs.Unlink(temporary));
  return linked;
}

Status ShowIfAbsent(FileSystem& fs, const std::string& temporary, const std::string& path, std::string_view content,
                    uint32_t mode) {
  const Status linked = LinkIfAbsent(fs, temporary, path);
  return MeansNoHardLinks(linked) ? WriteNewFile(fs, path, content, mode) : linked;
}

Status MakeFolders(FileSystem& fs, const std::string& path, uint32_t mode, bool durable) {
  const Status made = fs.Mkdir(path, mode);
  if (made.errno_value() == ENOENT) {
    const std::string parent = ParentPath(path);
    if (parent == path || parent == ".") return made;
    KEDGE_RETURN_IF_ERROR(MakeFolders(fs, parent, mode, durable));
    return MakeFolders(fs, path, mode, durable);
  }
  if (made.code() == Code::kAlreadyExists) {
    KEDGE_ASSIGN_OR_RETURN(const FileInfo info, fs.Stat(path));
    if (info.kind != FileKind::kFolder) return Status::FromErrno(ENOTDIR, "mkdir " + path);
    return Status::Ok();
  }
  KEDGE_RETURN_IF_ERROR(made);
  return durable ? SyncFolder(fs, ParentPath(path)) : Status::Ok();
}

Status RemoveTree(FileSystem& fs, const std::string& path) {
  return fs.RemoveBeneath(ParentPath(path), BaseName(path));
}

Status UnlinkIfPresent(FileSystem& fs, const std::string& path) {
  const Status unlinked = fs.Unlink(path);
  return unlinked.errno_value() == ENOENT ? Status::Ok() : unlinked;
}

Result<bool> Exists(FileSystem& fs, const std::string& path) {
  const auto info = fs.Stat(path);
  if (info.ok()) return true;
  if (info.status().code() == Code::kNotFound) return false;
  return info.status();
}

}  // namespace kedge::os
