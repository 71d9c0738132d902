// Large sequential I/O past the page cache: O_DIRECT with several requests in flight through io_uring and registered
// buffers, and a plain pread/pwrite fallback that passes the same tests.
//
// What is available is found out at run time, piece by piece: no io_uring (old kernel, seccomp): plain calls; no
// registered buffers (RLIMIT_MEMLOCK): ordinary ones; no O_DIRECT on a file system: buffered I/O; a file without a
// descriptor (simulated or fault-injected): plain calls on its File. Lengths and offsets need no alignment: what does
// not fill whole blocks goes through the page cache.
//
// Use: one DirectIo for each thread, reused for file after file; on it one DirectWriter or DirectReader at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "os/files/file_system.h"

namespace kedge::os {

class IoQueue;

// Memory addresses, file offsets and lengths of O_DIRECT requests are multiples of this.
inline constexpr size_t kDirectAlignmentBytes = 4096;

struct DirectIoOptions {
  enum class Engine { kAuto, kIoUring, kPlain };
  Engine engine = Engine::kAuto;  // kIoUring: an error where it is missing, for tests and measurements
  bool direct = true;             // false: through the page cache
  // The largest request, and how many are in flight; the buffers take buffer_bytes * buffer_count of memory.
  size_t buffer_bytes = size_t{1} << 20;  // a multiple of kDirectAlignmentBytes
  unsigned buffer_count = 8;
};

class DirectIo {
 public:
  static Result<std::unique_ptr<DirectIo>> Create(const DirectIoOptions& options = {});
  ~DirectIo();
  DirectIo(const DirectIo&) = delete;
  DirectIo& operator=(const DirectIo&) = delete;

  bool uses_io_uring() const { return ring_ != nullptr; }
  bool has_registered_buffers() const { return registered_; }
  const DirectIoOptions& options() const { return options_; }

 private:
  friend class DirectWriter;
  friend class DirectReader;
  explicit DirectIo(const DirectIoOptions& options);
  std::byte* buffer(size_t index) const { return buffers_ + index * options_.buffer_bytes; }
  // The queue for a file: the ring, unless the file has no descriptor.
  IoQueue& QueueFor(const File& file);

  DirectIoOptions options_;
  std::byte* buffers_ = nullptr;
  std::unique_ptr<IoQueue> ring_;
  std::unique_ptr<IoQueue> plain_;
  bool registered_ = false;
  bool in_use_ = false;
};

// Writes one file. Errors are those of the first request that failed; after one, nothing more is written, and the file
// is to be abandoned. Destroying it waits for the requests in flight (they read the caller's memory).
class DirectWriter {
 public:
  // Opens with O_CREAT and, when `exclusive`, O_EXCL; otherwise existing content stays; with O_NOFOLLOW unless `follow_links`.
  // `io` outlives the writer.
  static Result<std::unique_ptr<DirectWriter>> Open(DirectIo& io, FileSystem& fs, const std::string& path, bool exclusive = true,
                                                    uint32_t mode = 0600, bool follow_links = true);
  ~DirectWriter();
  DirectWriter(const DirectWriter&) = delete;
  DirectWriter& operator=(const DirectWriter&) = delete;

  // A free buffer of options().buffer_bytes, to be filled (with crc32c::CopyAndChecksum) and handed to Submit before
  // the next is asked for. Waits for a request to end when all are in flight.
  Result<std::span<std::byte>> Buffer();
  // Writes the first `bytes` of it at `offset`.
  Status Submit(size_t bytes, uint64_t offset);

  // Writes from the caller's memory, which must not change until Finish. Without a copy where `data` and `offset` are
  // aligned (a pool slot), through the buffers otherwise. Returns when all is in flight.
  Status Write(const void* data, size_t bytes, uint64_t offset);

  // Waits for all requests. The data has then been accepted, not synced.
  Status Finish();
  // Finish, fsync (fdatasync when `data_only`), close. On an error the file is to be abandoned, also by name.
  Status SyncAndClose(bool data_only = false);
  // Finish and close, without a sync.
  Status Close();

  // Reserves space ahead, so that a full device is found now. Not an error where the file system cannot.
  Status Reserve(uint64_t bytes);
  // Asks the kernel to start writing back what went through the page cache.
  Status StartWriteback(uint64_t offset, uint64_t bytes);
  bool is_direct() const { return direct_ != nullptr; }
  File& file() { return *buffered_; }

 private:
  struct Request;
  DirectWriter(DirectIo& io, std::unique_ptr<File> buffered, std::unique_ptr<File> direct);
  Status Start(const std::byte* data, size_t bytes, uint64_t offset, int buffer_index);
  Status WaitOne();
  Status Retry(size_t slot);
  Status CloseFiles();

  DirectIo& io_;
  std::unique_ptr<File> buffered_;
  std::unique_ptr<File> direct_;   // the same file with O_DIRECT; null where there is none
  std::vector<Request> requests_;  // one for each request in flight
  std::vector<size_t> free_requests_;
  std::vector<size_t> free_buffers_;
  int handed_out_ = -1;
  Status failed_;
};

// Reads one file.
class DirectReader {
 public:
  // With O_NOFOLLOW unless `follow_links`.
  static Result<std::unique_ptr<DirectReader>> Open(DirectIo& io, FileSystem& fs, const std::string& path,
                                                    bool follow_links = true);
  ~DirectReader();
  DirectReader(const DirectReader&) = delete;
  DirectReader& operator=(const DirectReader&) = delete;

  // Hands [offset, offset + bytes) to `consume`, in order, in pieces of at most options().buffer_bytes, while further
  // requests are in flight. An error of `consume` ends the stream and is returned. kCorrupt when the file ends early.
  Status Stream(uint64_t offset, uint64_t bytes,
                const std::function<Status(std::span<const std::byte> piece, uint64_t piece_offset)>& consume);
  // Stream into memory.
  Status Read(void* data, size_t bytes, uint64_t offset);

  uint64_t file_bytes() const { return file_bytes_; }
  File& file() { return *buffered_; }

 private:
  struct Piece;
  DirectReader(DirectIo& io, std::unique_ptr<File> buffered, std::unique_ptr<File> direct, uint64_t file_bytes);
  Status Start(Piece& piece, size_t buffer_index);
  Status Await(Piece& piece, std::vector<Piece>& pieces);
  void Drain(std::vector<Piece>& pieces);

  DirectIo& io_;
  std::unique_ptr<File> buffered_;
  std::unique_ptr<File> direct_;
  uint64_t file_bytes_;
};

// For `kedge doctor`: what works here, and why not what does not.
struct DirectIoProbe {
  bool io_uring = false;
  std::string io_uring_reason;  // empty when it works
  bool registered_buffers = false;
  std::string registered_buffers_reason;
  bool direct = false;  // O_DIRECT on the folder's file system
  std::string direct_reason;
};
// Writes and removes a small file in `folder`.
DirectIoProbe ProbeDirectIo(FileSystem& fs, const std::string& folder);

}  // namespace kedge::os
