// What the layers above do with files: whole reads and writes, durable replacement, create-if-absent, folder trees.
//
// Durable means: the data is synced, and so is the folder entry. All functions finish partial results, leave no
// temporary file behind when they return an error (as far as the file system lets them), and never retry a failed
// fsync or close: the temporary file is abandoned and removed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "os/files/file_system.h"

namespace kedge::os {

// "a/b", whatever slashes the two bring along.
std::string JoinPath(std::string_view folder, std::string_view name);
// From the current folder when `path` is relative, without "." and needless slashes. Links are not followed, and ".." is
// taken for the folder's name above.
std::string AbsolutePath(std::string_view path);
// "/a/b" -> "/a"; "/a" -> "/"; "a" -> ".".
std::string ParentPath(std::string_view path);
// "/a/b" -> "b".
std::string BaseName(std::string_view path);

// `<path>.<tag>.<16 random hexadecimal digits>.tmp`. `tag` names node and attempt (and process, where several of one
// attempt write there), so that a successor or gc can tell whose leftovers it sees. The tag has no slash and no dot.
std::string TemporaryPath(const std::string& path, std::string_view tag);
// Whether `name` has the form that TemporaryPath makes; `tag` gets the tag when not null.
bool IsTemporaryName(std::string_view name, std::string* tag = nullptr);

Status WriteAll(File& file, const void* data, size_t bytes, uint64_t offset);
// kCorrupt ("ends at ...") when the file ends before `bytes` were read.
Status ReadAll(File& file, void* data, size_t bytes, uint64_t offset);
// As many as there are, up to `bytes`.
Result<size_t> ReadUpTo(File& file, void* data, size_t bytes, uint64_t offset);

// The whole file; kCorrupt when it is longer than bytes_max (nothing read from a disk is trusted to be small).
Result<std::string> ReadFile(FileSystem& fs, const std::string& path, uint64_t bytes_max);

// Opens the folder, fsyncs it: makes creations, renames and removals in it durable.
Status SyncFolder(FileSystem& fs, const std::string& path);

// Replaces or creates `path` atomically and durably: temporary file, fsync, close, rename, fsync of the folder.
// An error before the rename leaves the old content. An error of the last step (the folder's fsync) leaves the new
// content in place but perhaps not durable.
Status WriteFileDurably(FileSystem& fs, const std::string& path, std::string_view content, std::string_view tag,
                        uint32_t mode = 0600);

// As WriteFileDurably, without a sync: for what is worth nothing after a crash of the machine.
Status ReplaceFile(FileSystem& fs, const std::string& path, std::string_view content, std::string_view tag, uint32_t mode = 0600);

// Creates `path` with `content`, atomically, durably and only if nothing is there: kAlreadyExists otherwise, and then
// nothing was changed. Whoever gets kOk of several racing callers is the only one. A reader never sees a part of it.
// Temporary file, fsync, close, link(2), unlink of the temporary, fsync of the folder.
// Where the file system has no hard links (EPERM, EOPNOTSUPP, ENOSYS, EMLINK), `path` itself is created with O_EXCL and
// written in place: still only one caller wins, but a reader may see a short file, which records detect by their
// length and checksum, and a crash may leave one behind, which the caller's recovery removes.
Status CreateIfAbsent(FileSystem& fs, const std::string& path, std::string_view content, std::string_view tag,
                      uint32_t mode = 0600);

// CreateIfAbsent in two steps, for who syncs between them and after them, with other files at a time. The first writes the
// temporary file; it is to be synced and closed before the second, which shows it at `path`: durable once the folder is synced.
// Whatever the second says, the temporary file is gone.
Result<std::unique_ptr<File>> BeginTemporary(FileSystem& fs, const std::string& temporary, std::string_view content,
                                             uint32_t mode = 0600);
Status ShowIfAbsent(FileSystem& fs, const std::string& temporary, const std::string& path, std::string_view content,
                    uint32_t mode = 0600);
// The second step where there are hard links, and no other: `path` comes to be in the very folder in which the temporary lies.
Status LinkIfAbsent(FileSystem& fs, const std::string& temporary, const std::string& path);
// Whether it is the answer of a file system that cannot link at all.
bool MeansNoHardLinks(const Status& status);

// Creates missing folders on the way to `path` and itself, each entry synced into its parent when `durable`.
Status MakeFolders(FileSystem& fs, const std::string& path, uint32_t mode = 0700, bool durable = true);

// FileSystem::RemoveBeneath the folder that `path` lies in, to which links are followed.
Status RemoveTree(FileSystem& fs, const std::string& path);

// Ok also when nothing is there.
Status UnlinkIfPresent(FileSystem& fs, const std::string& path);

Result<bool> Exists(FileSystem& fs, const std::string& path);

}  // namespace kedge::os
