// What the parts of a server share: its loop, its workers, its network, the room of its owners, and the memory for what goes out.
//
// All of it is the event loop's thread's, but for `work` of Background.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/tables/workers.h"
#include "buffer/disk_files.h"
#include "burst/protocol.h"
#include "os/events/event_loop.h"
#include "os/files/direct_io.h"
#include "os/files/file_system.h"
#include "os/machine/machine.h"

namespace kedge::buffer {

struct OwnerOptions {
  std::string name;  // valid as one path component
  net::Secret secret;
  uint64_t quota_bytes = 0;  // 0: none
};

// The operator's word: what the owner has may be drained there, and below.
struct DrainPlace {
  std::string owner;
  std::string place;  // a folder, or s3://BUCKET[/PREFIX]
};

struct ServerOptions {
  std::string name;             // by which clients find it
  std::string path;             // of its files; this process's alone
  std::string folder;           // where it says where it is; empty: in `stores` alone
  uint64_t capacity_bytes = 0;  // 0: what the disk has
  uint64_t memory_bytes = uint64_t{256} << 20;
  uint32_t writers = 8;
  std::vector<OwnerOptions> owners;
  std::string provider = "tcp";
  std::string interface_address;
  // In these, too: stores in folders, which clients have in common with it (burst/settings.h, kFolderInStore).
  std::vector<std::string> stores = {};
  std::vector<DrainPlace> drains;
  uint32_t drain_threads = 2;                      // stores that are drained at a time
  Duration drain_retry = std::chrono::seconds(1);  // after what failed
  // How long a server that has the same is waited for before its versions are drained here.
  Duration partner_patience = std::chrono::minutes(1);
  std::string boot = os::BootId();  // what was written and not synced is there as long as it is the same
};

struct Owner {
  OwnerOptions options;
  std::unique_ptr<OwnerFolder> folder;
  uint64_t used_bytes = 0;  // visible, and being written
  // Removals in stores are counted, and so come one after the other; the first one runs.
  std::deque<std::function<void()>> removals = {};
};

// Memory of pieces that are read. Whoever finds none waits.
class PiecePool {
 public:
  // Whole blocks of it are read past the page cache.
  struct Memory {
    alignas(os::kDirectAlignmentBytes) std::array<std::byte, kPieceBytesMax> bytes;
  };
  using Piece = std::shared_ptr<Memory>;

  explicit PiecePool(size_t most) : most_(most) {}

  // Calls `have` at once, or when there is one; it gives it back. In the order of the calls.
  void Ask(std::function<void(Piece)> have);
  void GiveBack(Piece piece);
  // kBusy: what is read `ahead` is declined, since others may need the rest of it.
  Status MayAsk(bool ahead) const {
    if (!ahead || out_ < most_ / 2) return Status::Ok();
    return Status(Code::kBusy, "nothing is read ahead while half of the buffers are out");
  }

 private:
  void Serve();

  const size_t most_;
  size_t out_ = 0;
  bool serves_ = false;
  std::vector<Piece> free_;
  std::deque<std::function<void(Piece)>> waiting_;
};

class ServerCore {
 public:
  ServerCore(ServerOptions server_options, os::EventLoop& event_loop, os::FileSystem& file_system);

  // kNoSpace, with what is to be done, when the owner's quota or the capacity does not allow for it.
  Status Reserve(Owner& owner, uint64_t bytes);
  void Release(Owner& owner, uint64_t bytes);
  // `done` gets on the loop what `work` returned on a worker.
  template <typename Work, typename Done>
  void Background(Work work, Done done) {
    workers->Submit([this, alive_now = alive, work = std::move(work), done = std::move(done)]() mutable {
      auto result = std::make_shared<decltype(work())>(work());
      loop.Post([alive_now, result, done = std::move(done)]() mutable {
        if (*alive_now) done(std::move(*result));
      });
    });
  }
  // Says which server it is.
  Status InContext(const Status& status) const { return status.WithContext("burst buffer " + options.name); }
  // Of an open file: no server before or after this one has given the same to anybody, so that whoever still has one of theirs
  // does not write to another file.
  uint64_t NewHandle() { return next_handle_++; }

  const ServerOptions options;
  os::EventLoop& loop;
  os::FileSystem& fs;
  uint64_t used_bytes = 0;
  PiecePool pieces;
  std::shared_ptr<bool> alive = std::make_shared<bool>(true);  // for what is posted
  std::unique_ptr<net::Network> network;
  std::unique_ptr<Workers> workers;  // goes first

 private:
  uint64_t next_handle_;
};

}  // namespace kedge::buffer
