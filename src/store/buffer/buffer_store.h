// A store on a burst buffer: a folder of the server's, in an owner's name, reached by its messages (burst/store_messages.h).
//
// The server does what a store in a folder does (posix/posix_store.h), and syncs before it answers; its clock is the store's.
// Bytes are checked on both sides. A request is repeated while the server is away for a while, where that does no harm; a record
// that is to be created is not: who lost the answer cannot tell its own from another's.
//
// After an error kUnavailable or kTimeout of PutIfAbsent the record may be there. After one of Publish or Commit the object may
// be; what was written stays where it is, for another call. ESTALE: the server's machine has lost what was written.
#pragma once

#include <memory>

#include "store/buffer/buffer_link.h"
#include "store/buffer/buffer_location.h"
#include "store/posix/posix_folders.h"
#include "store/store.h"

namespace kedge::buffer {

// Nothing is connected, and nothing is loaded before the first use.
std::unique_ptr<Store> MakeBufferStore(const StoreLocation& location, RootMaking making, const LinkOptions& options = {});

enum class Drainer : uint8_t {
  kFirst,
  kPartner,  // another server that has the same does so; this one waits for it for some time
};
// Tells the server that the versions in it are to be brought to `target`, as ResolveStorePath says it; it keeps that for ever.
// kPermission: its operator does not allow it. kMismatch: they are brought elsewhere. REQUIRES: MakeBufferStore made `store`.
Status DrainTo(Store& store, const std::string& target, Drainer drainer = Drainer::kFirst);

}  // namespace kedge::buffer
