// The server of a burst buffer: its owners' files, in one folder of one node, for clients on other nodes. README.md has the
// design.
//
// One thread, the event loop's, owns all that is here. Blocking work goes to workers, which post their results to the loop;
// whatever belongs to it stays until then (`running`).
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "agent/tables/workers.h"
#include "base/json.h"
#include "buffer/files.h"
#include "buffer/protocol.h"
#include "os/events/event_loop.h"
#include "os/files/direct_io.h"
#include "os/files/private_files.h"

namespace kedge::buffer {

struct OwnerOptions {
  std::string name;  // valid as one path component
  net::Secret secret;
  uint64_t quota_bytes = 0;  // 0: none
};

struct ServerOptions {
  std::string name;             // by which clients find it
  std::string path;             // of its files; this process's alone
  std::string folder;           // where it says where it is
  uint64_t capacity_bytes = 0;  // 0: what the disk has
  uint64_t memory_bytes = uint64_t{256} << 20;
  uint32_t writers = 8;
  std::vector<OwnerOptions> owners;
  std::string provider = "tcp";
  std::string interface_address;
};
inline constexpr uint64_t kMemoryBytesMin = uint64_t{16} << 20;

class BufferServer {
 public:
  // Serves from now on, when the loop runs. kBusy: another process serves the folder. kInvalidArgument names the option. `fs`
  // must outlive the server.
  static Result<std::unique_ptr<BufferServer>> Start(ServerOptions options, os::EventLoop& loop,
                                                     os::FileSystem& fs = os::PrivateFileSystem());
  // Gives up what is being written. Not on the loop's thread while the loop runs elsewhere.
  ~BufferServer();
  BufferServer(const BufferServer&) = delete;
  BufferServer& operator=(const BufferServer&) = delete;

  const net::NodeAddress& address() const { return network_->address(); }
  // Capacity, owners and what is open, for operators.
  Json Describe() const;

 private:
  struct Owner {
    OwnerOptions options;
    std::unique_ptr<OwnerFolder> folder;
    uint64_t used_bytes = 0;  // visible, and being written
  };
  struct Upload {
    Owner* owner = nullptr;
    std::string path;
    std::string temporary;
    std::shared_ptr<os::File> file;  // null until it is there
    BlockSums sums;
    uint64_t reserved_bytes = 0;
    size_t running = 0;  // works on it
    bool closing = false;
    bool ended = false;  // nobody asks for it any more
    Status failed;
    std::atomic<bool> cancelled{false};
  };
  struct Download {
    Owner* owner = nullptr;
    std::string path;
    std::shared_ptr<os::File> file;
    std::shared_ptr<const FileTable> table;
    std::set<uint64_t> leases;
  };
  // A client, and its number of an open file.
  using Key = std::pair<net::Peer, uint64_t>;
  // Whole blocks of it are read past the page cache.
  struct PieceMemory {
    alignas(os::kDirectAlignmentBytes) std::array<std::byte, kPieceBytesMax> bytes;
  };
  using Piece = std::shared_ptr<PieceMemory>;
  struct WaitingRead {
    Key key;
    ReadRequest request;
    net::Answer answer;
  };

  BufferServer(ServerOptions options, os::EventLoop& loop, os::FileSystem& fs);
  Status Prepare();
  Status OpenNetwork();
  void Serve();
  template <typename Request, typename Handle>
  void On(RequestKind kind, Result<Request> (*decode)(ByteSpan), Handle handle);
  // `done` gets on the loop what `work` returned on a worker.
  template <typename Work, typename Done>
  void Background(Work work, Done done);

  void OnCreate(const net::Peer& client, Owner& owner, const PathRequest& request, net::Answer answer);
  void OnWrite(const net::Peer& client, Owner& owner, const WriteRequest& request, net::Answer answer);
  void OnClose(const net::Peer& client, const CloseRequest& request, net::Answer answer);
  void OnOpen(const net::Peer& client, Owner& owner, const PathRequest& request, net::Answer answer);
  void OnRead(const net::Peer& client, const ReadRequest& request, net::Answer answer);
  void OnEnd(const net::Peer& client, const EndRequest& request, net::Answer answer);
  void OnRemove(Owner& owner, const PathRequest& request, net::Answer answer);
  void OnRename(Owner& owner, const RenameRequest& request, net::Answer answer);
  void OnList(Owner& owner, const ListRequest& request, net::Answer answer);
  void OnDescribe(Owner& owner, net::Answer answer);
  void OnLeft(const net::Peer& client);

  // kNoSpace, with what is to be done, when the owner's quota or the capacity does not allow for it.
  Status Reserve(Owner& owner, uint64_t bytes);
  void Release(Owner& owner, uint64_t bytes);
  // kNoSpace: the client has too many files open. kInvalidArgument: no file has such a name.
  Status CheckMayOpen(const net::Peer& client, const std::string& path) const;
  // Nobody asks for it any more: it goes when nothing works on it.
  void End(const Key& key);
  // A work on it has ended.
  void Rest(const Key& key);
  void Count(Owner& owner);
  void ReadPiece(WaitingRead read);
  void LeasePiece(const WaitingRead& read, const Piece& piece, std::vector<uint32_t> sums);
  void GiveBack(Piece piece);
  void EndDownload(std::map<Key, Download>::iterator download);

  const ServerOptions options_;
  os::EventLoop& loop_;
  os::FileSystem& fs_;
  std::unique_ptr<os::File> lock_;
  std::map<std::string, Owner> owners_;  // by network name
  std::map<Key, std::shared_ptr<Upload>> uploads_;
  std::map<Key, Download> downloads_;
  std::deque<WaitingRead> waiting_;
  std::vector<Piece> free_pieces_;
  size_t pieces_out_ = 0;
  const size_t pieces_max_;
  uint64_t used_bytes_ = 0;
  uint64_t next_handle_ = 1;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // for what is posted
  std::unique_ptr<net::Network> network_;
  std::unique_ptr<Workers> workers_;  // goes first
};

}  // namespace kedge::buffer
