// The server of a burst buffer: its owners' files, in one folder of one node, for clients on other nodes. README.md has the
// design.
//
// One thread, the event loop's, owns all that is here. Blocking work goes to workers, which post their results to the loop;
// whatever belongs to it stays until then (`running`).
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/json.h"
#include "buffer/disk_files.h"
#include "buffer/server_core.h"
#include "buffer/server_drains.h"
#include "buffer/server_stores.h"
#include "burst/protocol.h"
#include "os/files/private_files.h"

namespace kedge::buffer {

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

  const net::NodeAddress& address() const { return core_.network->address(); }
  // Capacity, owners and what is open, for operators.
  Json Describe() const;

 private:
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
  using Piece = PiecePool::Piece;
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
  void On(uint16_t kind, Result<Request> (*decode)(ByteSpan), Handle handle);
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

  // kNoSpace: the client has too many files open. kInvalidArgument: no file has such a name.
  Status CheckMayOpen(const net::Peer& client, const std::string& path) const;
  // Nobody asks for it any more: it goes when nothing works on it.
  void End(const Key& key);
  // A work on it has ended.
  void Rest(const Key& key);
  void Count(Owner& owner);
  void ReadPiece(const WaitingRead& read, Piece piece);
  void LeasePiece(const WaitingRead& read, const Piece& piece, ReadReply reply);
  void EndDownload(std::map<Key, Download>::iterator download);

  ServerCore core_;
  std::unique_ptr<os::File> lock_;
  std::map<std::string, Owner> owners_;  // by network name
  std::map<Key, std::shared_ptr<Upload>> uploads_;
  std::map<Key, Download> downloads_;
  ServerStores stores_{core_};
  ServerDrains drains_{core_, stores_};
};

}  // namespace kedge::buffer
