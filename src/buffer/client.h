// The client's side of a burst buffer: a connection in an owner's name, files that are written, files that are read.
//
// Every wait ends: a server that is gone is found after NetworkOptions::silence_timeout at the latest. An upload or a download is
// for one thread at a time; several may go on over one client on different threads. After an error an upload or a download is of
// no more use.
#pragma once

#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "buffer/protocol.h"

namespace kedge::buffer {

struct ClientOptions {
  std::string server;  // its name
  std::string folder;  // where servers say where they are
  std::string owner;
  net::Secret secret;
  std::string provider = "tcp";
  std::string interface_address;
};

class Client : public std::enable_shared_from_this<Client> {
 public:
  // kNotFound: no server of that name says where it is. Connects at the first use.
  static Result<std::shared_ptr<Client>> Open(const ClientOptions& options);

  // kUnavailable, kTimeout: the server is gone, or does not know the owner by this secret.
  Result<Buffer> Ask(RequestKind kind, Buffer request);
  void AskThen(RequestKind kind, Buffer request, std::function<void(Result<Buffer>)> done);
  Status Remove(const std::string& path);

  net::Network& network() { return *network_; }
  const net::Peer& server() const { return server_; }

 private:
  Client(std::unique_ptr<net::Network> network, net::Peer server) : network_(std::move(network)), server_(std::move(server)) {}

  std::unique_ptr<net::Network> network_;
  const net::Peer server_;
};

class Upload {
 public:
  static Result<std::unique_ptr<Upload>> Open(std::shared_ptr<Client> client, const std::string& path);
  // Gives the file up, unless Close was called.
  ~Upload();
  Upload(const Upload&) = delete;
  Upload& operator=(const Upload&) = delete;

  // Appends. Returns when the server has written all of it; the memory is the caller's again then, also after an error.
  Status Write(ByteSpan bytes);
  // Shows the file under its name; with `sync`, when it is durable. After kUnavailable or kTimeout the server may have done so.
  Status Close(bool sync);

 private:
  Upload(std::shared_ptr<Client> client, uint64_t handle) : client_(std::move(client)), handle_(handle) {}

  const std::shared_ptr<Client> client_;
  const uint64_t handle_;
  uint64_t bytes_ = 0;
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
  // What follows, as many bytes as there are up to `out`'s; 0 at the end. Verified.
  Result<size_t> Read(std::span<std::byte> out);

 private:
  // A piece that was asked for, and then its blocks that are on their way.
  struct Piece {
    uint64_t offset = 0;
    uint64_t bytes = 0;
    std::future<Result<Buffer>> reply;
    bool is_declined = false;  // for now
    bool has_begun = false;    // its blocks are being read
    ReadReply memory;
    std::deque<std::future<Result<net::ReadBuffer>>> blocks;
  };
  Download(std::shared_ptr<Client> client, const OpenedFile& file)
      : client_(std::move(client)), handle_(file.handle), bytes_(file.bytes) {}
  void AskAhead();
  Piece AskFor(uint64_t offset, bool ahead);
  Status Begin(Piece& piece);
  // The block at at_, verified, into `out`, which is as long.
  Status TakeBlock(std::span<std::byte> out);
  void EndPiece(Piece& piece);
  uint64_t BlockBytes(uint64_t offset) const;

  const std::shared_ptr<Client> client_;
  const uint64_t handle_;
  const uint64_t bytes_;
  uint64_t at_ = 0;     // of the next block
  uint64_t asked_ = 0;  // pieces up to here were asked for
  std::deque<Piece> pieces_;
  std::vector<std::byte> block_;  // what is left of one
  size_t block_at_ = 0;
};

}  // namespace kedge::buffer
