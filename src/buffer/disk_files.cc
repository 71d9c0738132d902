#include "buffer/disk_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/crc32c.h"
#include "base/json.h"
#include "base/log.h"
#include "burst/protocol.h"
#include "format/name_encoding.h"
#include "os/files/files.h"
#include "os/files/past_cache.h"
#include "os/process/kill_point.h"

namespace kedge::buffer {
namespace {

constexpr uint32_t kMagic = 0x4642424b;  // "KBBF"
constexpr uint32_t kVersion = 1;
constexpr uint64_t kTailBytes = 24;
constexpr size_t kPartBytesMax = 255;
constexpr size_t kDrainNoteBytesMax = 64 << 10;
// So much at a time goes past the page cache: the blocks of what is streamed, and pieces that are read one after the other.
// What is less is sooner taken by the cache, and may be read again.
constexpr size_t kWrittenPastCache = kBlockBytes;
constexpr size_t kReadPastCache = kPieceBytesMax;

uint64_t BlocksOf(uint64_t bytes) {
  return (bytes + kBlockBytes - 1) / kBlockBytes;
}

// The paths of files that begin with `prefix`; `at` is the folder's own, empty or with a slash behind it.
Status AddPaths(os::FileSystem& fs, const std::string& folder, const std::string& at, const std::string& prefix,
                std::vector<std::string>* paths) {
  KEDGE_ASSIGN_OR_RETURN(const std::vector<os::FolderEntry> entries, fs.List(folder));
  for (const os::FolderEntry& entry : entries) {
    std::string path = at + entry.name;
    if (entry.kind == os::FileKind::kFile && path.starts_with(prefix)) paths->push_back(std::move(path));
    if (entry.kind != os::FileKind::kFolder) continue;
    path += '/';
    if (path.starts_with(prefix) || prefix.starts_with(path))
      KEDGE_RETURN_IF_ERROR(AddPaths(fs, os::JoinPath(folder, entry.name), path, prefix, paths));
  }
  return Status::Ok();
}

// Where a store is drained to.
Result<std::pair<std::string, std::string>> ReadDrain(os::FileSystem& fs, const std::string& path) {
  KEDGE_ASSIGN_OR_RETURN(const std::string text, os::ReadFile(fs, path, kDrainNoteBytesMax));
  const Json note = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto has = [&note](const char* key) { return note.is_object() && note.contains(key) && note[key].is_string(); };
  if (!has("store") || !has("target")) return Status(Code::kCorrupt, path + ": does not say which store is drained to where");
  return std::pair(note["store"].get<std::string>(), note["target"].get<std::string>());
}

// 0: nothing is there.
Result<uint64_t> BytesAt(os::FileSystem& fs, const std::string& path) {
  const auto info = fs.Stat(path);
  if (info.ok()) return info->size_bytes;
  return info.status().code() == Code::kNotFound ? Result<uint64_t>(uint64_t{0}) : Result<uint64_t>(info.status());
}

}  // namespace

Result<uint64_t> BytesBelow(os::FileSystem& fs, const std::string& folder) {
  uint64_t bytes = 0;
  const auto entries = fs.List(folder);
  if (!entries.ok()) return entries.status().code() == Code::kNotFound ? Result<uint64_t>(bytes) : entries.status();
  for (const os::FolderEntry& entry : *entries) {
    const std::string path = os::JoinPath(folder, entry.name);
    if (entry.kind == os::FileKind::kFolder) {
      KEDGE_ASSIGN_OR_RETURN(const uint64_t below, BytesBelow(fs, path));
      bytes += below;
    } else if (entry.kind == os::FileKind::kFile) {
      KEDGE_ASSIGN_OR_RETURN(const uint64_t own, BytesAt(fs, path));
      bytes += own;
    }
  }
  return bytes;
}

Status CheckPath(std::string_view path) {
  const auto refuse = [path](const char* why) {
    return Status(Code::kInvalidArgument, fmt::format("\"{}\" cannot name a file of a burst buffer: {}", path, why));
  };
  if (path.empty() || path.size() > kPathBytesMax) return refuse("allowed are 1 to 1024 bytes");
  for (std::string_view rest = path;;) {
    const std::string_view part = rest.substr(0, rest.find('/'));
    if (part.empty()) return refuse("a part between slashes is empty");
    if (part.front() == '.') return refuse("a part begins with a dot");
    if (part.size() > kPartBytesMax) return refuse("a part has more than 255 bytes");
    if (std::any_of(part.begin(), part.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }))
      return refuse("it has control characters");
    if (part.size() == rest.size()) return Status::Ok();
    rest.remove_prefix(part.size() + 1);
  }
}

void BlockSums::Add(uint64_t offset, uint64_t bytes, uint32_t sum) {
  auto next = runs_.lower_bound(offset);
  overlaps_ = overlaps_ || (next != runs_.end() && next->first < offset + bytes);
  if (next != runs_.begin()) {
    const auto before = std::prev(next);
    const uint64_t end = before->first + before->second.bytes;
    overlaps_ = overlaps_ || end > offset;
    if (end == offset && before->first / kBlockBytes == offset / kBlockBytes) {
      sum = crc32c::Combine(before->second.sum, sum, bytes);
      bytes += before->second.bytes;
      offset = before->first;
      runs_.erase(before);
    }
  }
  if (next != runs_.end() && next->first == offset + bytes && next->first / kBlockBytes == offset / kBlockBytes) {
    sum = crc32c::Combine(sum, next->second.sum, next->second.bytes);
    bytes += next->second.bytes;
    runs_.erase(next);
  }
  runs_[offset] = {bytes, sum};
}

Result<std::vector<uint32_t>> BlockSums::OfFile(uint64_t bytes) const {
  std::vector<uint32_t> sums;
  uint64_t at = 0;
  for (const auto& [offset, run] : runs_) {
    if (offset != at || offset % kBlockBytes != 0) break;
    at += run.bytes;
    sums.push_back(run.sum);
  }
  if (overlaps_ || at != bytes || sums.size() != runs_.size() || sums.size() != BlocksOf(bytes))
    return Status(Code::kIncomplete, fmt::format("not each of {} bytes was written once", bytes));
  return sums;
}

Buffer EncodeTable(const FileTable& table) {
  Buffer bytes;
  Encoder out(bytes);
  for (const uint32_t sum : table.sums) out.U32(sum);
  out.U64(table.bytes);
  out.U32(static_cast<uint32_t>(table.sums.size()));
  const auto summed = out.Written(0);
  out.U32(crc32c::Compute(summed.data(), summed.size()));
  out.U32(kMagic);
  out.U32(kVersion);
  out.Finish();
  return bytes;
}

uint64_t TableBytes(uint64_t file_bytes) {
  return BlocksOf(file_bytes) * sizeof(uint32_t) + kTailBytes;
}

uint64_t BytesWithoutTable(uint64_t bytes) {
  if (bytes < kTailBytes) return 0;
  constexpr uint64_t kBlockAndSum = kBlockBytes + sizeof(uint32_t);
  return bytes - kTailBytes - (bytes - kTailBytes + kBlockAndSum - 1) / kBlockAndSum * sizeof(uint32_t);
}

Result<FileTable> ReadTable(os::File& file) {
  const auto bad = [&file](const char* why) {
    return Status(Code::kCorrupt, fmt::format("{}: {}; the file is damaged: write it anew", file.path(), why));
  };
  KEDGE_ASSIGN_OR_RETURN(const os::FileInfo info, file.Fstat());
  if (info.size_bytes < kTailBytes) return bad("it is shorter than its table");
  std::array<std::byte, kTailBytes> tail{};
  KEDGE_RETURN_IF_ERROR(os::ReadAll(file, tail.data(), tail.size(), info.size_bytes - kTailBytes));
  Decoder in(tail);
  FileTable table;
  table.bytes = in.U64();
  const uint32_t blocks = in.U32();
  const uint32_t sum = in.U32();
  if (in.U32() != kMagic || in.U32() != kVersion) return bad("it ends with no table");
  if (table.bytes > info.size_bytes || blocks != BlocksOf(table.bytes) ||
      info.size_bytes != table.bytes + TableBytes(table.bytes))
    return bad("its size is not the one in its table");
  Buffer bytes(TableBytes(table.bytes));
  KEDGE_RETURN_IF_ERROR(os::ReadAll(file, bytes.data(), bytes.size(), table.bytes));
  if (crc32c::Compute(bytes.data(), bytes.size() - 3 * sizeof(uint32_t)) != sum) return bad("its table fails its checksum");
  Decoder sums(bytes);
  table.sums.resize(blocks);
  for (uint32_t& one : table.sums) one = sums.U32();
  return table;
}

Status OwnerFolder::Prepare() {
  KEDGE_RETURN_IF_ERROR(os::MakeFolders(fs_, folder_ + "/files"));
  KEDGE_RETURN_IF_ERROR(os::MakeFolders(fs_, folder_ + "/incoming"));
  KEDGE_RETURN_IF_ERROR(os::MakeFolders(fs_, folder_ + "/stores"));
  KEDGE_RETURN_IF_ERROR(os::MakeFolders(fs_, Drains()));
  KEDGE_ASSIGN_OR_RETURN(const std::vector<os::FolderEntry> entries, fs_.List(folder_ + "/incoming"));
  for (const os::FolderEntry& entry : entries) KEDGE_RETURN_IF_ERROR(fs_.Unlink(Incoming(entry.name)));
  return Status::Ok();
}

Result<uint64_t> OwnerFolder::UsedBytes() const {
  KEDGE_ASSIGN_OR_RETURN(const uint64_t files, BytesBelow(fs_, folder_ + "/files"));
  KEDGE_ASSIGN_OR_RETURN(const uint64_t stores, BytesBelow(fs_, folder_ + "/stores"));
  return files + stores;
}

Result<std::unique_ptr<os::File>> OwnerFolder::CreateTemporary(const std::string& name) {
  const os::OpenFlags flags = os::OpenFlags::kWrite;
  KEDGE_ASSIGN_OR_RETURN(auto file, fs_.Open(Incoming(name), flags | os::OpenFlags::kCreate | os::OpenFlags::kExclusive));
  return os::PastCache(fs_, std::move(file), flags, kWrittenPastCache);
}

void OwnerFolder::RemoveTemporary(const std::string& name) {
  (void)os::UnlinkIfPresent(fs_, Incoming(name));
}

Result<uint64_t> OwnerFolder::Publish(const std::string& name, os::File& file, const FileTable& table, const std::string& path,
                                      bool sync) {
  const Buffer bytes = EncodeTable(table);
  os::KillPoint("buffer-table");
  KEDGE_RETURN_IF_ERROR(os::WriteAll(file, bytes.data(), bytes.size(), table.bytes));
  if (sync) KEDGE_RETURN_IF_ERROR(file.Fsync());
  KEDGE_RETURN_IF_ERROR(file.Close());
  KEDGE_RETURN_IF_ERROR(os::MakeFolders(fs_, os::ParentPath(Visible(path)), 0700, sync));
  KEDGE_ASSIGN_OR_RETURN(const uint64_t before, BytesAt(fs_, Visible(path)));
  os::KillPoint("buffer-rename");
  KEDGE_RETURN_IF_ERROR(fs_.Rename(Incoming(name), Visible(path)));
  os::KillPoint("buffer-renamed");
  if (sync) KEDGE_RETURN_IF_ERROR(os::SyncFolder(fs_, os::ParentPath(Visible(path))));
  return before;
}

Result<std::unique_ptr<os::File>> OwnerFolder::OpenVisible(const std::string& path) const {
  auto file = fs_.Open(Visible(path), os::OpenFlags::kRead);
  if (!file.ok() && file.status().code() == Code::kNotFound)
    return Status(Code::kNotFound, fmt::format("the burst buffer has no file {}", path), ENOENT);
  return file;
}

Result<std::unique_ptr<os::File>> OwnerFolder::Open(const std::string& path) const {
  KEDGE_ASSIGN_OR_RETURN(auto file, OpenVisible(path));
  return os::PastCache(fs_, std::move(file), os::OpenFlags::kRead, kReadPastCache);
}

Result<uint64_t> OwnerFolder::Remove(const std::string& path) {
  const auto info = fs_.Stat(Visible(path));
  if (!info.ok() && info.status().code() == Code::kNotFound)
    return Status(Code::kNotFound, fmt::format("the burst buffer has no file {}", path), ENOENT);
  if (!info.ok()) return info.status();
  KEDGE_RETURN_IF_ERROR(fs_.Unlink(Visible(path)));
  return info->size_bytes;
}

Result<uint64_t> OwnerFolder::Rename(const std::string& from, const std::string& to) {
  KEDGE_RETURN_IF_ERROR(OpenVisible(from).status());
  if (from == to) return uint64_t{0};
  KEDGE_RETURN_IF_ERROR(os::MakeFolders(fs_, os::ParentPath(Visible(to))));
  KEDGE_ASSIGN_OR_RETURN(const uint64_t before, BytesAt(fs_, Visible(to)));
  KEDGE_RETURN_IF_ERROR(fs_.Rename(Visible(from), Visible(to)));
  KEDGE_RETURN_IF_ERROR(os::SyncFolder(fs_, os::ParentPath(Visible(to))));
  KEDGE_RETURN_IF_ERROR(os::SyncFolder(fs_, os::ParentPath(Visible(from))));
  return before;
}

Result<FileList> OwnerFolder::List(const ListRequest& request) const {
  std::vector<std::string> paths;
  KEDGE_RETURN_IF_ERROR(AddPaths(fs_, folder_ + "/files", "", request.prefix, &paths));
  std::erase_if(paths, [&](const std::string& path) { return path <= request.after; });
  FileList list;
  list.has_more = paths.size() > kListEntriesMax;
  const auto end = paths.begin() + static_cast<ptrdiff_t>(std::min(paths.size(), kListEntriesMax));
  std::partial_sort(paths.begin(), end, paths.end());
  paths.erase(end, paths.end());
  for (std::string& path : paths) {
    const auto info = fs_.Stat(Visible(path));
    if (!info.ok() && info.status().code() == Code::kNotFound) continue;
    if (!info.ok()) return info.status();
    list.entries.push_back({std::move(path), BytesWithoutTable(info->size_bytes), info->modified_ns});
  }
  return list;
}

// A file names its store, since a long name is hashed in the file's own.
Result<std::map<std::string, std::string>> OwnerFolder::ReadDrains() const {
  std::map<std::string, std::string> noted;
  KEDGE_ASSIGN_OR_RETURN(const std::vector<os::FolderEntry> entries, fs_.List(Drains()));
  for (const os::FolderEntry& entry : entries) {
    if (os::IsTemporaryName(entry.name)) continue;
    const auto note = ReadDrain(fs_, os::JoinPath(Drains(), entry.name));
    if (note.ok()) {
      noted.insert(*note);
    } else if (note.status().code() == Code::kCorrupt) {
      LogWarning("buffer", "{}", note.status().ToString());
    } else {
      return note.status();
    }
  }
  return noted;
}

Result<std::string> OwnerFolder::NoteDrain(const std::string& store, const std::string& target) {
  const std::string path = os::JoinPath(Drains(), EncodeName(store));
  const std::string text = ToText(Json{{"store", store}, {"target", target}});
  const Status created = os::CreateIfAbsent(fs_, path, text, "buffer");
  if (created.ok()) return target;
  if (created.code() != Code::kAlreadyExists) return created;
  const auto there = ReadDrain(fs_, path);
  if (there.ok()) {
    KEDGE_RETURN_IF_ERROR(os::SyncFolder(fs_, Drains()));
    return there->second;
  }
  if (there.status().code() != Code::kCorrupt) return there.status();
  KEDGE_RETURN_IF_ERROR(os::WriteFileDurably(fs_, path, text, "buffer"));
  return target;
}

Result<uint64_t> OwnerFolder::FreeBytes() const {
  KEDGE_ASSIGN_OR_RETURN(const os::VolumeInfo volume, fs_.StatVolume(folder_));
  return volume.available_bytes;
}

}  // namespace kedge::buffer
