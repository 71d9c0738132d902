// A store of whichever kind its path names.
#pragma once

#include <memory>

#include "store/posix/posix_store.h"
#include "store/store.h"

namespace kedge {

// `options.path` is as ResolveStorePath made it; the other options are those of a folder, `making` also of one on a burst buffer.
// Nothing is looked at yet. `file_system` must outlive the store.
std::unique_ptr<Store> MakeStore(os::FileSystem& file_system, const PosixStoreOptions& options);

}  // namespace kedge
