// What a simulated file system remembers: the state that programs see (page cache, folder entries) apart from the state
// that a power loss leaves (what was synced), and the unsynced changes between the two.
//
// The rules are those of POSIX as ext4 and XFS keep them, read against the application:
//  - file data is durable when the file was fsynced; until then each 512 B or 4 KiB of it may survive or not, from any
//    moment since, and so may the size (a part that did not survive reads as zeros);
//  - a folder entry is durable when its folder was fsynced; until then each creation, link, removal or rename may
//    survive or not, alone or as a prefix of all of them. One rename is atomic;
//  - a failed fsync leaves the dirty pages clean and unwritten: the next fsync succeeds without them;
//  - fsync of a file says nothing about its entry.
//
// A plain value: copy it to try several crashes of one state. Functions return 0 or an errno.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/random.h"
#include "os/files/file_system.h"

namespace kedge::os::testing {

class SimulatedDisk {
 public:
  using NodeId = uint64_t;
  static constexpr uint64_t kBlockBytes = 4096;
  static constexpr uint64_t kFileBytesMax = uint64_t{1} << 32;

  struct Node {
    FileKind kind = FileKind::kFile;
    uint32_t mode = 0600;
    uint32_t links = 0;
    uint32_t opens = 0;
    int64_t modified_ns = 0;
    // Files.
    std::string content;
    std::string durable;
    uint64_t reserved_bytes = 0;
    std::set<uint64_t> dirty_blocks;
    struct Change {
      uint64_t offset;
      std::string data;  // empty: only the size changed
      uint64_t size_after;
    };
    std::vector<Change> changes;  // since the last sync
    // Folders.
    std::map<std::string, NodeId, std::less<>> entries;
    std::map<std::string, NodeId, std::less<>> durable_entries;
  };

  explicit SimulatedDisk(uint64_t capacity_bytes);

  Node& node(NodeId id) { return nodes_.at(id); }
  int Resolve(std::string_view path, NodeId* found) const;
  // The folder that holds the last part of the path, and that part's name.
  int ResolveParent(std::string_view path, NodeId* folder, std::string* name) const;

  int Create(NodeId folder, const std::string& name, FileKind kind, uint32_t mode, NodeId* created);
  int Link(NodeId target, NodeId folder, const std::string& name);
  int Unlink(NodeId folder, const std::string& name);
  int Rmdir(NodeId folder, const std::string& name);
  int Rename(NodeId from_folder, const std::string& from, NodeId to_folder, const std::string& to);

  void Opened(NodeId id) { ++node(id).opens; }
  void Closed(NodeId id);

  // As much as there is room for; ENOSPC when there is none.
  int Write(NodeId id, uint64_t offset, std::string_view data, size_t* written);
  size_t Read(NodeId id, uint64_t offset, char* buffer, size_t bytes) const;
  int Resize(NodeId id, uint64_t size_bytes);
  int Reserve(NodeId id, uint64_t end_bytes, bool keep_size);

  void Sync(NodeId id);
  // The sync failed: some dirty blocks were written, the others never will be, and reading may or may not show them.
  void FailSync(NodeId id, Random& random);
  // Power loss and reboot: nothing is open, and what is there is durable.
  void Crash(Random& random);
  // The process died: nothing is open.
  void CloseAll();

  uint64_t capacity_bytes() const { return capacity_bytes_; }
  void set_capacity_bytes(uint64_t bytes) { capacity_bytes_ = bytes; }
  uint64_t used_bytes() const { return used_bytes_; }
  uint64_t AllocatedBytes(const Node& node) const;
  int64_t Tick() { return ++time_ns_; }
  void PassTime(int64_t duration_ns) { time_ns_ += duration_ns; }

 private:
  // One atomic change of folders: a name added, removed, or (both pairs) moved.
  struct FolderChange {
    NodeId from_folder = 0;
    std::string from;  // removed from there, when from_folder is not 0
    NodeId to_folder = 0;
    std::string to;  // added there, when to_folder is not 0
    NodeId target = 0;
    bool Touches(NodeId folder) const { return from_folder == folder || to_folder == folder; }
  };
  void Record(FolderChange change);
  void MakeDurable(const FolderChange& change);
  void SyncFolder(NodeId id);
  void SyncFile(Node& node);
  std::string SurvivingContent(const Node& node, uint64_t granule_bytes, Random& random) const;
  void Unreferenced(NodeId id);
  void CollectGarbage();
  int CheckName(const std::string& name) const;
  bool IsBelow(NodeId folder, NodeId id) const;

  std::map<NodeId, Node> nodes_;
  std::vector<FolderChange> folder_changes_;  // not yet durable, oldest first
  NodeId next_id_ = 2;
  uint64_t capacity_bytes_;
  uint64_t used_bytes_ = 0;
  int64_t time_ns_ = 0;
  size_t collect_at_ = 256;
};

inline constexpr SimulatedDisk::NodeId kRootNode = 1;

}  // namespace kedge::os::testing
