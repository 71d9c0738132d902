// Store: external storage as the catalog sees it. Objects are written at offsets and published whole; small records are
// created if absent; folders are listed; things are removed. A directory (posix/posix_store.h) is one, a bucket that is
// reached by S3 another (s3/s3_store.h), a folder of a burst buffer's a third (buffer/buffer_store.h).
//
// Invariants that every implementation keeps, and testing/store_conformance.h checks:
// - An object or record is seen under its key whole or not at all. But for an object whose publication a crash of the machine
//   has cut short: no record may name it before its publication returned.
// - What returned ok is durable: it survives a crash of every machine, with all folders on the way to it.
// - After a failed sync or close an object is given up: it does not stay; the caller, who still has the bytes, writes
//   it again as a new one. Nothing is retried inside.
// - A removal that returned ok is durable. RemoveFolder never shows a folder that lacks a part.
//
// Keys are paths of components joined by '/': each 1 to 255 bytes, none "." or "..", no NUL (layout.h makes them).
// Errors carry the errno and the path. Thread safe throughout, unless said otherwise.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "format/wire.h"

namespace kedge {

// Whose unfinished object or record something is. The names of temporaries carry it, so that the owner's successor on
// its node, or gc when the attempt is dead, can remove them, and nobody else.
struct TemporaryOwner {
  std::string node;
  uint32_t attempt = 0;  // 0: outside of any attempt (a tool)
  std::string writer;    // who on the node: "agent", or "r3" for the client of rank 3

  friend bool operator==(const TemporaryOwner&, const TemporaryOwner&) = default;
};

// What PutIfAbsent and Replace do about folders that are missing on the way to the key.
enum class Folders {
  kCreate,     // made, durably
  kMustExist,  // kNotFound: somebody has removed the folder, and it must not come back. (Stores without folders cannot
               // tell.)
};

// What processes that write one object share at the least, but where a store has other borders.
inline constexpr uint64_t kSharedBlockBytes = 4096;
constexpr uint64_t NextSharedBlock(uint64_t offset) {
  return (offset + kSharedBlockBytes - 1) / kSharedBlockBytes * kSharedBlockBytes;
}

// An object that is being written and is not to be seen yet.
class ObjectWriter {
 public:
  // Without Commit the temporary object stays behind, for AdoptObject or RemoveTemporary; call Abandon to remove it.
  virtual ~ObjectWriter() = default;

  // Writes all of `bytes`. Ranges written by several threads at a time must not overlap. Gaps read as zeros.
  // After an error Commit fails as well.
  virtual Status WriteAt(uint64_t offset, ByteSpan bytes) = 0;
  // Whether WriteAt copies into memory, a page cache for example, so that small writes cost no more than large ones.
  virtual bool is_buffered() const = 0;
  // The range has been written and will not be written again: begin to carry it to the device now, so that Commit finds
  // little to do. `wait` also waits for it, which bounds what is dirty. A hint: it makes nothing durable by itself.
  virtual Status FlushHint(uint64_t offset, uint64_t bytes, bool wait) = 0;
  // Where another process may begin to write (ObjectContributor): at `offset`, or the first such place behind it.
  virtual uint64_t NextBorder(uint64_t offset) const { return NextSharedBlock(offset); }
  // Makes the bytes durable and the object visible under its key, replacing what was there. Call it once, after all
  // writes; on an error the object is gone. To publish several together use Store::Publish.
  virtual Status Commit() = 0;
  // Removes the temporary object. Nothing but destruction may follow.
  virtual Status Abandon() = 0;
  // Names the temporary object for JoinObject and AdoptObject, also in other processes and on other nodes.
  virtual const std::string& handle() const = 0;
  virtual const std::string& key() const = 0;
};

// Another process's share in an object whose writer is elsewhere. It begins and ends at borders, or at the object's end.
class ObjectContributor {
 public:
  virtual ~ObjectContributor() = default;
  virtual Status WriteAt(uint64_t offset, ByteSpan bytes) = 0;
  // As those of a writer.
  virtual bool is_buffered() const { return true; }
  virtual Status FlushHint(uint64_t /*offset*/, uint64_t /*bytes*/) { return Status::Ok(); }
  virtual uint64_t NextBorder(uint64_t offset) const { return NextSharedBlock(offset); }
  // Makes durable what was written here. The owner may commit only after it returned ok: on some stores the owner's own
  // sync does not cover other machines' writes. At most once; nothing but destruction may follow.
  virtual Status Finish() = 0;
};

class ObjectReader {
 public:
  virtual ~ObjectReader() = default;
  // Fills `out` whole; kCorrupt when the object ends before.
  virtual Status ReadAt(uint64_t offset, std::span<std::byte> out) = 0;
  // The same, and nothing is read ahead: for who reads at random places, or several pieces at a time.
  virtual Status ReadJust(uint64_t offset, std::span<std::byte> out) { return ReadAt(offset, out); }
  virtual uint64_t size_bytes() const = 0;
};

// A record that is to be put later, if at all: what can be done of that before is under way. Without Store::Show nothing of it
// stays. REQUIRES: its store outlives it.
class RecordDraft {
 public:
  RecordDraft(std::string key, ByteSpan bytes, TemporaryOwner owner, Folders folders)
      : key_(std::move(key)), bytes_(bytes.begin(), bytes.end()), owner_(std::move(owner)), folders_(folders) {}
  virtual ~RecordDraft() = default;
  RecordDraft(const RecordDraft&) = delete;
  RecordDraft& operator=(const RecordDraft&) = delete;

  const std::string& key() const { return key_; }
  const Buffer& bytes() const { return bytes_; }
  const TemporaryOwner& owner() const { return owner_; }
  Folders folders() const { return folders_; }

 private:
  const std::string key_;
  const Buffer bytes_;
  const TemporaryOwner owner_;
  const Folders folders_;
};

struct StoreEntry {
  std::string name;  // one component
  bool is_folder = false;
};

struct Temporary {
  std::string handle;      // for RemoveTemporary, and for AdoptObject when it is an object
  TemporaryOwner owner;    // long node names hashed: compare tags
  std::string tag;         // temporary_tag.h
  uint64_t bytes = 0;      // that have got to the store
  double age_seconds = 0;  // since they did, by the store's clock
};

struct StoreSpace {
  uint64_t total_bytes = 0;
  uint64_t available_bytes = 0;
};

class Store {
 public:
  virtual ~Store() = default;

  // For messages: "/path/of/store".
  virtual const std::string& description() const = 0;
  // Which folder lies there: another text, another folder, or its file system was mounted anew.
  virtual Result<std::string> Place() = 0;

  // Whether each process that reads an object fetches its bytes from another machine: no page cache of this one has them.
  virtual bool is_far() const { return false; }

  // ---- Objects ----
  // Starts a new object (missing folders are made). `expected_bytes` 0: unknown; a hint for reserving space.
  virtual Result<std::unique_ptr<ObjectWriter>> CreateObject(const std::string& key, const TemporaryOwner& owner,
                                                             uint64_t expected_bytes) = 0;
  // Goes on with an object that a dead process of the same owner began. What that one wrote may have been lost; only
  // what an ObjectContributor finished is sure to be there. kNotFound: no such temporary. In a bucket they share whole parts.
  virtual Result<std::unique_ptr<ObjectWriter>> AdoptObject(const std::string& key, const std::string& handle) = 0;
  virtual Result<std::unique_ptr<ObjectContributor>> JoinObject(const std::string& handle) = 0;
  // With a share of less a process costs the store more than if it gave its bytes to another one.
  virtual uint64_t share_bytes_min() const { return kSharedBlockBytes; }
  // Commits several at the cost of little more than one. One status each, in order; one that fails does not hold up the others.
  virtual std::vector<Status> Publish(std::span<ObjectWriter* const> writers) = 0;
  virtual Result<std::unique_ptr<ObjectReader>> OpenObject(const std::string& key) = 0;

  // ---- Records ----
  // Of several callers exactly one gets ok; the others get kAlreadyExists, which says nothing about durability yet:
  // see EnsureDurable.
  virtual Status PutIfAbsent(const std::string& key, ByteSpan bytes, const TemporaryOwner& owner, Folders folders) = 0;
  // Creates or replaces, atomically.
  virtual Status Replace(const std::string& key, ByteSpan bytes, const TemporaryOwner& owner, Folders folders) = 0;
  // The whole record. kCorrupt when it is longer than bytes_max.
  virtual Result<Buffer> Get(const std::string& key, uint64_t bytes_max) = 0;
  // Makes durable what other processes have created or published: that it is seen does not mean that it is durable yet.
  // To be called before anything is created or removed on the strength of it. kNotFound: one of them is not there.
  virtual Status EnsureDurable(std::span<const std::string> keys) = 0;

  // ---- Records in steps ----
  // A record that comes after something else is durable, without a wait of its own: it is drafted before, and written beside
  // that. Stores that gain nothing by it need none of these.
  virtual Result<std::unique_ptr<RecordDraft>> Draft(const std::string& key, ByteSpan bytes, const TemporaryOwner& owner,
                                                     Folders folders);
  // Publish and EnsureDurable; the draft, where there is one, is written meanwhile. What becomes of it Show says.
  virtual std::vector<Status> PublishBeside(RecordDraft* draft, std::span<ObjectWriter* const> writers);
  virtual Status EnsureDurableBeside(RecordDraft* draft, std::span<const std::string> keys);
  // PutIfAbsent, at most once. It is seen then, whole, but not durable before EnsureDurable.
  virtual Status Show(RecordDraft& draft);
  // Whether ShowInPlace is to be had: only where a folder is one thing, so that one that was made anew is told from what it was.
  virtual bool shows_in_place() const { return false; }
  // As Show, but only in the very folder that it was drafted in; durable when it returns ok. kNotFound: that is not there any
  // more, or the draft in it, which others may have taken for what a dead process has left. kUnsupported: it cannot be, and
  // shows_in_place says so from now on.
  virtual Status ShowInPlace(RecordDraft& draft);

  // ---- Stores before which a burst buffer lies ----
  virtual bool has_buffer() const { return false; }
  // Of a record that is there: whether it lies in the store itself, and with it all that it names. True of every other store.
  virtual Result<bool> IsDrained(const std::string& key);

  // ---- Folders ----
  // Ok when it is there. It is durable with the first thing in it that is. Nothing to do for stores without folders.
  virtual Status MakeFolder(const std::string& folder) = 0;
  // Sorted by name; "" is the root. Temporaries are left out. kNotFound: no such folder.
  virtual Result<std::vector<StoreEntry>> List(const std::string& folder) = 0;

  // ---- Removal ----
  // One object or record, durably. Ok when it is not there.
  virtual Status Remove(const std::string& key) = 0;
  // The folder and all below it, temporaries included. A directory is moved aside in one step and then deleted; a store
  // that cannot do so removes `first` (a key in the folder) before all else. Ok when it is not there. When the deletion
  // of what was moved aside fails, the error is returned, and the rest is a Temporary of `owner`.
  virtual Status RemoveFolder(const std::string& folder, const std::string& first, const TemporaryOwner& owner) = 0;
  // Those in `folder` and below it.
  virtual Result<std::vector<Temporary>> ListTemporaries(const std::string& folder, const TemporaryOwner& self) = 0;
  // Ok when it is not there.
  virtual Status RemoveTemporary(const std::string& handle) = 0;

  // ---- Time and space ----
  // Marks the record as just modified, by the store's clock.
  virtual Status Touch(const std::string& key, const TemporaryOwner& owner) = 0;
  // Another number each time the record is created or touched. It says nothing by itself: clocks of several machines may
  // have made it.
  virtual Result<int64_t> Stamp(const std::string& key) = 0;
  // Seconds since it was created or touched, by the store's clock: no other clock is asked. Where a file system stamps with
  // its clients' clocks, they are compared: good for people and for days, never to tell whether somebody lives. Negative: in the
  // future, where a clock was set back since.
  virtual Result<double> AgeSeconds(const std::string& key, const TemporaryOwner& owner) = 0;
  virtual Result<StoreSpace> Space() = 0;  // kUnsupported: nobody can tell
};

// Store::List; nothing when there is no such folder.
Result<std::vector<StoreEntry>> ListIfThere(Store& store, const std::string& folder);

// Whether a store on another machine was not reached: what it was asked for may have been done or not.
inline bool MeansNotReached(const Status& status) {
  return status.code() == Code::kUnavailable || status.code() == Code::kTimeout;
}

// kInvalidArgument when `key` breaks the rule at the top.
Status ValidateKey(std::string_view key);

}  // namespace kedge
