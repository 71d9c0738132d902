// What clients and servers of burst buffers say to each other of stores: the operations of src/store/store.h, as messages. Bytes
// only, no I/O.
//
// One request serves all operations; what an operation does not need is empty. What came of one, its errno included, is in the
// reply. The call itself fails only where the server was not reached, or did not understand.
//
// Bytes of objects and of large records lie in memory of whoever has them, and the other side reads them there; each comes with
// the checksums of its blocks (protocol.h), counted from the begin of the object where it is written, of the run where it is
// read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "burst/protocol.h"

namespace kedge::buffer {

// Kinds of requests beside RequestKind.
inline constexpr uint16_t kStoreKind = 120;       // StoreRequest, answered with a StoreReply
inline constexpr uint16_t kStoreWriteKind = 121;  // WriteRequest, answered with a StoreReply
inline constexpr uint16_t kStoreReadKind = 122;   // StoreReadRequest, answered with a StoreReadReply

inline constexpr uint64_t kRecordInMessageMax = uint64_t{1} << 20;  // more is read from the client's memory
inline constexpr uint64_t kStoreRecordBytesMax = kChunkBytesMax;
inline constexpr uint64_t kReadInMessageMax = uint64_t{64} << 10;  // of an object, in the reply
inline constexpr size_t kStoreListMax = 1000;                      // keys, handles or entries in one message
inline constexpr size_t kTemporariesMax = 1000;

enum class StoreOperation : uint8_t {
  kCreateObject = 1,  // key, owner, number (bytes expected); handle, text (the temporary's) and other_text (the boot of the
                      // server's machine: what was written and not synced is there as long as it is the same) come back
  kAdoptObject,       // key, other (the temporary): the same
  kJoinObject,        // other (the temporary): handle
  kFlush,             // handle, offset, number (bytes), flag (wait)
  kPublish,           // handles; a status for each comes back
  kFinish,            // handle: of kJoinObject
  kAbandon,           // handle
  kLeave,             // handle: nobody goes on with it here; a temporary stays
  kOpenObject,        // key; handle and number (its bytes) come back
  kPutIfAbsent,       // key, owner, flag (its folder must exist), content
  kReplace,           // the same
  kGet,               // key, number (bytes at most); content comes back
  kEnsureDurable,     // keys
  kMakeFolder,        // key
  kList,              // key, other (the last name that came); entries come back, and has_more
  kRemove,            // key
  kRemoveFolder,      // key, other (the key that is to go first), owner
  kListTemporaries,   // key, owner, number (how many have come); temporaries come back, and has_more
  kRemoveTemporary,   // other (the temporary)
  kTouch,             // key, owner
  kStamp,             // key; stamp comes back
  kAge,               // key, owner; seconds come back
  kSpace,             // number (in all) and free_bytes come back
  kPlace,             // text comes back
  kDrainTo,           // other (a store, as ResolveStorePath says it): versions of this one are brought there; flag (another
                      // server that has the same does so: this one waits for it)
};
inline constexpr StoreOperation kStoreOperationLast = StoreOperation::kDrainTo;

// store/posix/posix_folders.h has the meaning.
inline constexpr uint8_t kMakingLast = 2;

struct StoreOwner {
  std::string node;
  uint32_t attempt = 0;
  std::string writer;
};

struct StoreRequest {
  StoreOperation operation = StoreOperation::kPlace;
  std::string store = {};  // which of the owner's
  uint8_t making = 0;      // what is made of its folder where it is missing
  std::string key = {};    // also a folder's; empty: the root
  std::string other = {};
  StoreOwner owner = {};
  uint64_t handle = 0;
  uint64_t offset = 0;
  uint64_t number = 0;
  bool flag = false;
  std::vector<std::string> keys = {};
  std::vector<uint64_t> handles = {};
  Buffer content = {};            // of a record
  net::RemoteMemory memory = {};  // of a larger one, or nothing
  std::vector<uint32_t> sums = {};
  std::vector<net::BlockSeal> seals = {};  // none: it lies there in the clear
};

struct StoreFolderEntry {
  std::string name;
  bool is_folder = false;
};
struct StoreTemporary {
  std::string handle;
  StoreOwner owner;
  std::string tag;
  uint64_t bytes = 0;
  double age_seconds = 0;
};

struct StoreReply {
  Status status = {};
  uint64_t handle = 0;
  uint64_t number = 0;
  uint64_t free_bytes = 0;
  int64_t stamp = 0;
  double seconds = 0;
  std::string text = {};
  std::string other_text = {};
  Buffer content = {};
  std::vector<Status> statuses = {};
  std::vector<StoreFolderEntry> entries = {};
  std::vector<StoreTemporary> temporaries = {};
  bool has_more = false;
};

// At most kPieceBytesMax, anywhere in the object. `ahead`: answered kBusy when others may need the memory.
struct StoreReadRequest {
  uint64_t handle = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  bool ahead = false;
  bool sealed = false;  // in memory; a message is in any case
};
// Up to kReadInMessageMax: `content`. More: `memory`, the server's, until the client ends the lease.
struct StoreReadReply {
  Status status = {};
  Buffer content = {};
  net::RemoteMemory memory = {};
  std::vector<uint32_t> sums = {};
  std::vector<net::BlockSeal> seals = {};  // as it was asked for
};

Buffer Encode(const StoreRequest& request);
Buffer Encode(const StoreReply& reply);
Buffer Encode(const StoreReadRequest& request);
Buffer Encode(const StoreReadReply& reply);
// kCorrupt: not such a message, or beyond the bounds above.
Result<StoreRequest> DecodeStoreRequest(ByteSpan bytes);
Result<StoreReply> DecodeStoreReply(ByteSpan bytes);
Result<StoreReadRequest> DecodeStoreReadRequest(ByteSpan bytes);
Result<StoreReadReply> DecodeStoreReadReply(ByteSpan bytes);

}  // namespace kedge::buffer
