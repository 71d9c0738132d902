// Files on a burst buffer's disk: names, checksums, and the commit rule.
//
// A file is its bytes, then its *table*: the CRC32C of each block (protocol.h), the size, and a checksum of these. So one rename
// makes bytes and checksums visible together, and a file that was cut short or is none of ours is recognised.
//
//   bytes of the file | u32 for each block | u64 size, u32 blocks, u32 CRC32C of the table so far, u32 magic "KBBF", u32 version
//
// An owner's folder has `files`, what is visible, `incoming`, what is being written, `stores`, in which the files are a
// PosixStore's (server_stores.h), and `drains`, a file for each of these that is drained (server_drains.h).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "burst/protocol.h"
#include "format/wire.h"
#include "os/files/file_system.h"

namespace kedge::buffer {

// Whether a file may have that name: parts between slashes, none of them empty or beginning with a dot. kInvalidArgument says why
// not.
Status CheckPath(std::string_view path);

// The checksums of a file that is being written, from those of its runs, which come in any order.
class BlockSums {
 public:
  // REQUIRES: the run lies in one block.
  void Add(uint64_t offset, uint64_t bytes, uint32_t sum);
  // Of each block. kIncomplete: not each of the file's `bytes` was added once, and none beyond.
  Result<std::vector<uint32_t>> OfFile(uint64_t bytes) const;

 private:
  struct Run {
    uint64_t bytes = 0;
    uint32_t sum = 0;
  };
  std::map<uint64_t, Run> runs_;  // by offset; those that touch within a block are one
  bool overlaps_ = false;
};

struct FileTable {
  uint64_t bytes = 0;  // of the file without the table
  std::vector<uint32_t> sums;
};
Buffer EncodeTable(const FileTable& table);
uint64_t TableBytes(uint64_t file_bytes);
// Of a file that takes so much on disk.
uint64_t BytesWithoutTable(uint64_t bytes);
// kCorrupt: it has none, or it does not fit the file.
Result<FileTable> ReadTable(os::File& file);

// Of all files in a folder and below it; what goes meanwhile is counted or not. 0: it is not there.
Result<uint64_t> BytesBelow(os::FileSystem& fs, const std::string& folder);

// Any thread; one thread at a time for one name.
class OwnerFolder {
 public:
  OwnerFolder(os::FileSystem& fs, std::string folder) : fs_(fs), folder_(std::move(folder)) {}

  // Makes the folders, and removes what was being written when a former server ended.
  Status Prepare();
  // Of all visible files, tables included, and of the stores with what is being written there.
  Result<uint64_t> UsedBytes() const;

  Result<std::unique_ptr<os::File>> CreateTemporary(const std::string& name);
  void RemoveTemporary(const std::string& name);
  // Ends the temporary file with its table, and shows it at `path`. Returns what a file there took before. After an error
  // nothing has changed there, unless the folder alone could not be synced.
  Result<uint64_t> Publish(const std::string& name, os::File& file, const FileTable& table, const std::string& path, bool sync);
  Result<std::unique_ptr<os::File>> Open(const std::string& path) const;
  // Returns what it took.
  Result<uint64_t> Remove(const std::string& path);
  // Durably. Returns what a file at `to` took before.
  Result<uint64_t> Rename(const std::string& from, const std::string& to);
  // kListEntriesMax at most. What comes or goes meanwhile is there or not. Tables are not read.
  Result<FileList> List(const ListRequest& request) const;
  // Of the disk, for this user.
  Result<uint64_t> FreeBytes() const;
  // Where each of the stores is drained to, by its name. What is damaged is left out.
  Result<std::map<std::string, std::string>> ReadDrains() const;
  // Notes it, durably, unless something is noted. Returns what is.
  Result<std::string> NoteDrain(const std::string& store, const std::string& target);
  std::string StorePath(const std::string& store) const { return folder_ + "/stores/" + store; }

 private:
  // Through the page cache.
  Result<std::unique_ptr<os::File>> OpenVisible(const std::string& path) const;
  std::string Visible(const std::string& path) const { return folder_ + "/files/" + path; }
  std::string Incoming(const std::string& name) const { return folder_ + "/incoming/" + name; }
  std::string Drains() const { return folder_ + "/drains"; }

  os::FileSystem& fs_;
  const std::string folder_;
};

}  // namespace kedge::buffer
