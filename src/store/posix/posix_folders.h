// The folders of a PosixStore, and which of them are known to be durable.
//
// A file is durable only when every folder on the way to it is. Another process may have made a folder and not have
// synced it yet, so that finding one says nothing; each is therefore synced into its parent once by every process that
// relies on it, and remembered by its inode: a folder that was removed and made anew by others is another one. What is made for
// something that is to be durable later is synced with that (SyncGroup).
//
// A root that somebody else may have put where everybody may write is refused, as os::FileSystem::CheckNotPlanted says.
//
// The root is made only as long as this process has not seen it. One that was there and is gone was moved or unmounted: what
// was made in its place would be taken for a store, and be hidden when it comes back. For the same reason nothing is made in
// another folder that lies in the root's place (an unmounted file system leaves one) until a file was read there.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "os/files/file_system.h"
#include "store/posix/sync_group.h"

namespace kedge {

// What is made of a root that is not there, at the first use.
enum class RootMaking : uint8_t {
  kNever,
  kLast,     // its last component: a parent that is missing may be a file system that is not mounted
  kParents,  // everything on the way to it, too
};

class PosixFolders {
 public:
  // `root` is the store's path. `mode` is given to every folder made here, whatever the umask.
  PosixFolders(os::FileSystem& fs, std::string root, uint32_t mode, RootMaking making)
      : fs_(fs), root_(std::move(root)), mode_(mode), making_(making) {}

  enum class Missing : uint8_t {
    kMake,
    kRefuse,  // kNotFound
  };
  // The folders on the way to `path` (the root or below it), itself included, of which it is not known whether they are durable.
  // Those that are missing are made.
  struct Way;
  Result<Way> Find(const std::string& path, Missing missing);
  // What is to be synced for them.
  void AddTo(SyncGroup& group, Way* way);
  // After that: what came of it; they are known to be durable from here on when that is ok.
  Status Conclude(const SyncGroup& group, const Way& way);
  // All three in one.
  Status MakeDurable(const std::string& path, Missing missing);

  // Before something in it is read: whether the root may be trusted. Looks until one was found good; ok when there is none.
  Status CheckRoot();
  struct Inode {
    uint64_t device;
    uint64_t inode;
    friend bool operator==(const Inode&, const Inode&) = default;
  };
  struct Way {
    struct Folder {
      std::string path;
      Inode inode;
      size_t parent = 0;  // its member number in the group
    };
    std::vector<Folder> folders;
  };
  // The folder that is the root now, if any. Asked before a file of the root is read, and handed to OnRootRead after.
  std::optional<Inode> Root();
  // A file in `root` itself was read: this is the root, and is not made any more.
  void OnRootRead(const std::optional<Inode>& root);
  // Something below it was read: it is not made any more.
  void OnRootSeen() { root_seen_.store(true); }

 private:
  Status Walk(const std::string& path, Missing missing, Way* way);
  Status MakeRoot();
  Status MakeOne(const std::string& path);
  // kNotFound (ENOENT) when `root` is another folder than the one in which a file was read.
  Status CheckSameRoot(const Inode& root);
  Status Moved() const;

  os::FileSystem& fs_;
  const std::string root_;
  const uint32_t mode_;
  const RootMaking making_;
  std::atomic<bool> root_seen_{false};
  std::atomic<bool> root_checked_{false};
  std::mutex mutex_;
  std::map<std::string, Inode> durable_;  // guarded by mutex_
  std::optional<Inode> read_root_;        // guarded by mutex_
};

}  // namespace kedge
