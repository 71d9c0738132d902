// A directory as a store: a parallel file system, NFS, or a local disk.
//
// An object is written to a temporary file beside its place, linked there, and synced in one step with its folder and with all
// that is published beside it. Where something is in its place already, it is synced first, and renamed there. Records are linked
// into place once they are synced (os::CreateIfAbsent). Folders are 0700 and files 0600 unless `mode` says otherwise. The
// store's clock is the file system's: ages compare the modification times of two files in it. Files are reached by path, since
// whoever may write in a store may change what is in it; but removal follows no link below the store's folder.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "os/files/file_system.h"
#include "store/posix/posix_folders.h"
#include "store/store.h"

namespace kedge {

struct PosixStoreOptions {
  std::string path;
  uint32_t file_mode = 0600;
  uint32_t folder_mode = 0700;
  bool direct = false;                    // O_DIRECT where the file system has it; else, and for what is unaligned, buffered
  RootMaking making = RootMaking::kLast;  // at the first write
  uint32_t stripe_targets = 0;            // that new objects are to lie on; os::Striping::kAllTargets: all; 0: left as it is
  uint64_t stripe_bytes = 0;              // with stripe_targets
  // Called once, on any thread: why they lie on others.
  std::function<void(const Status& why)> stripes_refused = {};
};

// `file_system` must outlive the store.
std::unique_ptr<Store> MakePosixStore(os::FileSystem& file_system, PosixStoreOptions options);

}  // namespace kedge
