// The stores that a server keeps for its owners: what src/store/buffer asks of it, done by a PosixStore in the owner's folder.
//
// So a store's files are those of a store in a folder, with its commit rule, its syncs and its clock, and the folder can be
// opened as such a store where the server is. An object that is being written belongs to whoever named itself its owner, and not
// to the client: it stays when the client goes, or the server, for a successor to go on with or to remove. What a client has open
// is known by a handle that no other server gives out. One object is written by one client at a time, or by several that joined
// it.
//
// Room is counted as objects grow, before their bytes are read. Removals of an owner come one after the other, so that each
// counts what it has removed itself.
//
// The event loop's thread owns what is here; blocking work goes to the workers.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "buffer/server_core.h"
#include "burst/store_messages.h"
#include "store/store.h"

namespace kedge::buffer {

class ServerStores {
 public:
  // `core` outlives it.
  explicit ServerStores(ServerCore& core) : core_(core) {}

  void OnRequest(const net::Peer& client, Owner& owner, const StoreRequest& request, net::Answer answer);
  void OnWrite(const net::Peer& client, Owner& owner, const WriteRequest& request, net::Answer answer);
  void OnRead(const net::Peer& client, const StoreReadRequest& request, net::Answer answer);
  void OnLeft(const net::Peer& client);
  // For the server itself: a removal, in the order of the owner's others.
  void Remove(Owner& owner, const StoreRequest& request, std::function<void(const StoreReply&)> done);
  // Called when a version record was put into one of the owner's stores.
  void WhenVersionIsPut(std::function<void(Owner&, const std::string& store)> call) { version_is_put_ = std::move(call); }
  // Ends what waits for a client.
  void Cancel();
  size_t open_count() const { return open_.size(); }

 private:
  using Key = std::pair<net::Peer, uint64_t>;
  // One of the three is there.
  struct Open {
    std::shared_ptr<Store> store;  // outlives them
    std::unique_ptr<ObjectWriter> writer;
    std::unique_ptr<ObjectContributor> contributor;
    std::unique_ptr<ObjectReader> reader;
    std::string path;    // on disk, of the temporary
    std::string target;  // where it is going to lie
    size_t running = 0;  // writes
    bool ends = false;   // is being published, finished or abandoned
    Status failed;       // of a write
    std::set<uint64_t> leases;
    std::atomic<bool> cancelled{false};
  };
  using Opened = std::shared_ptr<Open>;
  // What the work on a worker has come to.
  struct Outcome {
    StoreReply reply = {};
    uint64_t bytes = 0;  // of the temporary that was opened, of what was replaced or removed
  };

  using StorePointer = std::shared_ptr<Store>;
  Result<StorePointer> Find(const Owner& owner, const StoreRequest& request);
  // Null: the client has none such open.
  Opened FindOpen(const Key& key) const;
  void Reply(const net::Answer& answer, StoreReply reply) const;
  void OnOpen(const net::Peer& client, Owner& owner, const StoreRequest& request, const StorePointer& store, net::Answer answer);
  Outcome OpenIt(Store& store, const std::string& root, const StoreRequest& request, Open* open) const;
  void OnPut(const net::Peer& client, Owner& owner, const StoreRequest& request, const StorePointer& store, net::Answer answer);
  Outcome PutIt(const net::Peer& client, Store& store, const std::string& path, const StoreRequest& request);
  void QueueRemoval(Owner& owner, const StoreRequest& request, const StorePointer& store,
                    std::function<void(const StoreReply&)> done);
  void NextRemoval(Owner& owner);
  void OnPublish(const net::Peer& client, Owner& owner, const StoreRequest& request, net::Answer answer);
  void OnFlush(const Key& key, const StoreRequest& request, net::Answer answer);
  void OnEnding(const Key& key, Owner& owner, StoreOperation operation, net::Answer answer);
  void OnSpace(Owner& owner, const StorePointer& store, net::Answer answer);
  // It is of no more use to the client.
  void Forget(const Key& key);
  void ReadPiece(const Key& key, const Opened& open, const StoreReadRequest& request, const PiecePool::Piece& piece,
                 net::Answer answer);
  void LeasePiece(const Key& key, const Opened& open, uint64_t bytes, const PiecePool::Piece& piece, StoreReadReply reply,
                  const net::Answer& answer);
  // What was counted for it while it was being written is free.
  void Uncount(Owner& owner, const std::string& path);

  ServerCore& core_;
  std::map<std::string, std::shared_ptr<Store>> stores_;  // by path and making
  std::map<Key, Opened> open_;
  std::map<std::string, uint64_t> counted_;  // bytes of what is being written, by its path
  std::function<void(Owner&, const std::string& store)> version_is_put_;
  std::mutex large_record_;  // one at a time is in memory
  std::atomic<bool> cancelled_{false};
};

}  // namespace kedge::buffer
