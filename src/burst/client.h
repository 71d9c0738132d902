// The client's side of a burst buffer: a connection in an owner's name, files that are written, files that are read.
//
// Every wait ends: a server that is gone is found after NetworkOptions::silence_timeout at the latest. An upload or a download is
// for one thread at a time; several may go on over one client on different threads. After an error an upload or a download is of
// no more use.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "burst/protocol.h"

namespace kedge::buffer {

inline constexpr size_t kPiecesAhead = 4;

struct ClientOptions {
  std::string server;  // its name
  std::string folder;  // where servers say where they are
  std::string owner;
  net::Secret secret;
  std::string provider = "tcp";
  std::string interface_address;
  bool encrypt = false;  // bytes of files and stores lie sealed where the other side reads them
};

// Where it says that it is. kNotFound: no server of that name says so.
Result<net::NodeAddress> FindServer(const ClientOptions& options);

// kUnavailable: certainly nobody serves there; the process has ended, and its machine says so at once. Waits for a second at
// most. A server that lives gets a connection that says nothing: only for those that have not answered.
Status CheckServes(const std::string& server, const net::NodeAddress& address);

// An answer for a thread that waits, and what brings it.
template <typename T>
std::pair<std::future<Result<T>>, std::function<void(Result<T>)>> Awaited() {
  auto promise = std::make_shared<std::promise<Result<T>>>();
  return {promise->get_future(), [promise](Result<T> value) { promise->set_value(std::move(value)); }};
}

class Client : public std::enable_shared_from_this<Client> {
 public:
  // kNotFound: no server of that name says where it is. Connects at the first use.
  static Result<std::shared_ptr<Client>> Open(const ClientOptions& options);

  // kUnavailable, kTimeout: the server is gone, or does not know the owner by this secret.
  Result<Buffer> Ask(RequestKind kind, Buffer request) { return Ask(static_cast<uint16_t>(kind), std::move(request)); }
  Result<Buffer> Ask(uint16_t kind, Buffer request);
  void AskThen(RequestKind kind, Buffer request, std::function<void(Result<Buffer>)> done) {
    AskThen(static_cast<uint16_t>(kind), std::move(request), std::move(done));
  }
  void AskThen(uint16_t kind, Buffer request, std::function<void(Result<Buffer>)> done);
  // Ends reading, or gives up what is being written; nobody waits for it.
  void End(uint64_t handle);
  Status Remove(const std::string& path);
  Status Rename(const std::string& from, const std::string& to);
  // Files whose paths begin with `prefix`, in the order of their bytes, as long as `visit` returns true; they come in pages.
  Status Visit(const std::string& prefix, const std::function<bool(const FileEntry&)>& visit);
  // All of them.
  Result<std::vector<FileEntry>> List(const std::string& prefix);
  Result<Description> Describe();

  net::Network& network() { return *network_; }
  const net::Peer& server() const { return server_; }
  bool seals() const { return seals_; }
  // Where the server was when this was opened.
  const net::NodeAddress& address() const { return address_; }

 private:
  Client(std::unique_ptr<net::Network> network, net::Peer server, net::NodeAddress address, bool seals)
      : network_(std::move(network)), server_(std::move(server)), address_(std::move(address)), seals_(seals) {}

  std::unique_ptr<net::Network> network_;
  const net::Peer server_;
  const net::NodeAddress address_;
  const bool seals_;
};

// Bytes that are appended are sent from a few buffers of the upload, while the next ones come: an error of theirs shows at a
// later call, at Close at the latest.
class Upload {
 public:
  static Result<std::unique_ptr<Upload>> Open(std::shared_ptr<Client> client, const std::string& path);
  // Gives the file up, unless Close was called.
  ~Upload();
  Upload(const Upload&) = delete;
  Upload& operator=(const Upload&) = delete;

  // Appends a copy.
  Status Append(ByteSpan bytes);
  // The same without a copy: memory for what comes next, some of it at least, and how much of it the caller has filled.
  Result<std::span<std::byte>> Room();
  Status Fill(size_t bytes);
  // Appends from the caller's memory. Returns when the server has written all; the memory is the caller's again then, also after
  // an error. What is sealed is a copy.
  Status Write(ByteSpan bytes);
  // Bytes so far.
  uint64_t position() const { return bytes_ + filled_; }
  // Shows the file under its name; with `sync`, when it is durable. After kUnavailable or kTimeout the server may have done so.
  Status Close(bool sync);

 private:
  using Memory = std::unique_ptr<std::byte[]>;
  struct Chunk {
    std::future<Result<Buffer>> answer;
    std::future<Result<int>> lease_ended;
    uint64_t lease = 0;
    Memory memory;  // null: the caller's
  };
  Upload(std::shared_ptr<Client> client, uint64_t handle) : client_(std::move(client)), handle_(handle) {}
  // What follows in the file.
  Status Send(ByteSpan part, Memory memory);
  Status SendFilled();
  // The chunk's memory is ours, or the caller's, again.
  void EndLease(Chunk& chunk);
  void FinishOldest();
  Status FinishAll();

  const std::shared_ptr<Client> client_;
  const uint64_t handle_;
  uint64_t bytes_ = 0;  // sent
  std::deque<Chunk> under_way_;
  std::vector<Memory> free_;
  size_t buffers_ = 0;
  Memory filling_;
  size_t filled_ = 0;
  Status failed_;
  bool is_closed_ = false;
};

class Download {
 public:
  // The first pieces are asked for at once.
  static Result<std::unique_ptr<Download>> Open(std::shared_ptr<Client> client, const std::string& path);
  ~Download();
  Download(const Download&) = delete;
  Download& operator=(const Download&) = delete;

  uint64_t bytes() const { return bytes_; }
  // Of the next byte.
  uint64_t position() const { return at_ + skip_ - (block_.size() - block_at_); }
  // What follows, as many bytes as there are up to `out`'s; 0 at the end. Verified.
  Result<size_t> Read(std::span<std::byte> out);
  // Goes on elsewhere, at the file's end at most. What is read ahead then grows with what is read in sequence.
  Status Seek(uint64_t offset);

 private:
  // Whoever comes second of two, the piece's reply and its being given up, ends its lease.
  using Settled = std::atomic_flag;
  // A piece that was asked for, and then its blocks that are on their way.
  struct Piece {
    uint64_t offset = 0;
    uint64_t bytes = 0;
    std::future<Result<Buffer>> reply;
    std::shared_ptr<Settled> settled;
    bool is_declined = false;  // for now
    bool has_begun = false;    // its blocks are being read
    ReadReply memory;
    std::deque<std::future<Result<net::ReadBuffer>>> blocks;
  };
  Download(std::shared_ptr<Client> client, const OpenedFile& file)
      : client_(std::move(client)), handle_(file.handle), bytes_(file.bytes) {}
  void AskAhead();
  Piece AskFor(uint64_t offset, uint64_t bytes, bool ahead);
  Status Begin(Piece& piece);
  // The block at at_, verified, into `out`, which is as long.
  Status TakeBlock(std::span<std::byte> out);
  static void AwaitBlocks(Piece& piece);
  void EndPiece(Piece& piece);
  // Gives up what was asked for, and goes on at the block that begins at `offset`.
  void AskAnew(uint64_t offset);
  uint64_t BlockBytes(uint64_t offset) const;

  const std::shared_ptr<Client> client_;
  const uint64_t handle_;
  const uint64_t bytes_;
  uint64_t at_ = 0;              // of the next block
  uint64_t asked_ = 0;           // pieces up to here were asked for
  uint64_t skip_ = 0;            // of the next block
  size_t ahead_ = kPiecesAhead;  // so many pieces are asked for
  std::deque<Piece> pieces_;
  std::vector<std::byte> block_;  // what is left of one
  size_t block_at_ = 0;
};

}  // namespace kedge::buffer
