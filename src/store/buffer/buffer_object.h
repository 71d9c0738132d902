// The objects of a store on a burst buffer. Their bytes lie in the caller's memory until the server has read and written them, so
// that none are held here; the server says how much it takes at a time.
//
// What is written and not synced is in the page cache of the server's machine. So a writer goes on with another server or another
// connection, by the temporary's name, as long as that machine has not been booted anew; then all that was written must be
// written again, as a new object (ESTALE). A reader goes on with any.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "store/buffer/buffer_link.h"
#include "store/reading/read_ahead.h"
#include "store/store.h"

namespace kedge::buffer {

// What the server has open for us, by a connection.
struct Handle {
  std::shared_ptr<Client> client;
  uint64_t number = 0;
  std::string boot = {};  // of the server's machine
};
// Whether the server did not know it any more, or was not reached by its connection.
bool MeansLostHandle(const Status& status);

// Writes from the caller's memory, several chunks at a time, and returns when the server has written all. Any thread.
Status WriteChunks(Link& link, const Handle& handle, uint64_t offset, ByteSpan bytes);
// Nobody waits for it.
void Leave(const Handle& handle);

class BufferObjectWriter final : public ObjectWriter {
 public:
  // `store` and `link` outlive it. `temporary`: what the store calls it until it is there.
  BufferObjectWriter(Store& store, Link& link, Handle handle, std::string key, std::string temporary)
      : store_(store), link_(link), key_(std::move(key)), temporary_(std::move(temporary)), handle_(std::move(handle)) {}
  ~BufferObjectWriter() override;

  Status WriteAt(uint64_t offset, ByteSpan bytes) override;
  bool is_buffered() const override { return false; }
  Status FlushHint(uint64_t offset, uint64_t bytes, bool wait) override;
  Status Commit() override;
  Status Abandon() override;
  const std::string& handle() const override { return temporary_; }
  const std::string& key() const override { return key_; }

  // For Publish. At most once: an error, also an earlier one of a write, gives it up.
  Status BeginCommit();
  // What came of it. Where the server was not reached, it may be begun once more.
  void EndCommit(const Status& status);
  Handle open() const;
  // After `lost` was of no more use: opens the temporary again, where all that was written to it is there. ESTALE: it is not.
  Status GoOn(const Handle& lost);

 private:
  Status Remember(const Status& status);
  // Removes the temporary by its name, as far as the server can be reached.
  void GiveUp();

  Store& store_;
  Link& link_;
  const std::string key_;
  const std::string temporary_;
  mutable std::mutex mutex_;
  Handle handle_;        // guarded by mutex_
  Status failure_;       // the first one of a write; guarded by mutex_
  bool closed_ = false;  // guarded by mutex_
};

class BufferObjectContributor final : public ObjectContributor {
 public:
  BufferObjectContributor(Link& link, Handle handle) : link_(link), handle_(std::move(handle)) {}
  ~BufferObjectContributor() override { Leave(handle_); }
  Status WriteAt(uint64_t offset, ByteSpan bytes) override;
  Status Finish() override;

 private:
  Link& link_;
  const Handle handle_;
  std::mutex mutex_;
  Status failure_;  // guarded by mutex_
};

class BufferObjectReader final : public ObjectReader {
 public:
  // kNotFound: there is no such object.
  static Result<std::unique_ptr<BufferObjectReader>> Open(Link& link, const std::string& key);
  ~BufferObjectReader() override;
  Status ReadAt(uint64_t offset, std::span<std::byte> out) override;
  Status ReadJust(uint64_t offset, std::span<std::byte> out) override;
  uint64_t size_bytes() const override { return size_bytes_; }

 private:
  std::string Where() const;
  Status CheckWithin(uint64_t offset, uint64_t bytes) const;
  BufferObjectReader(Link& link, std::string key, Handle handle, uint64_t size_bytes);
  Handle Current();
  // As ReadAhead::Fetch wants it, from the network's thread.
  void Fetch(uint64_t offset, std::span<std::byte> into, std::shared_ptr<const void> keeps, std::function<void(Status)> done);
  Status ReadDirectly(uint64_t offset, std::span<std::byte> out);
  // After `lost` was of no more use.
  Status OpenAgain(const Handle& lost);

  Link& link_;
  const std::string key_;
  std::mutex mutex_;
  std::condition_variable fetched_;
  size_t fetching_ = 0;  // guarded by mutex_
  Handle handle_;        // guarded by mutex_
  // Those before it that pieces may still come by, until the reader goes; guarded by mutex_.
  std::vector<Handle> former_;
  const uint64_t size_bytes_;
  ReadAhead ahead_;
};

}  // namespace kedge::buffer
