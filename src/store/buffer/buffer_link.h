// A store's way to its burst buffer: connected at the first use, and anew when the server has moved.
//
// A request is repeated where that does no harm, when the server was not reached: after a pause that doubles, for as long as
// `patience`. When that is over and no request has been answered since it began, the server is away: until one is answered,
// requests are made once. So whoever asks for several things loses its patience once.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "base/duration.h"
#include "base/status.h"
#include "burst/client.h"
#include "burst/store_messages.h"
#include "store/buffer/buffer_location.h"
#include "store/store.h"

namespace kedge::buffer {

struct LinkOptions {
  Duration patience = std::chrono::seconds(15);  // from a request's beginning on
  Duration pause_first = std::chrono::milliseconds(50);
  Duration pause_max = std::chrono::seconds(1);
};

// Thread safe.
class Link {
 public:
  // `making`: what is made of the store's folder (store_messages.h).
  Link(StoreLocation location, uint8_t making, const LinkOptions& options)
      : location_(std::move(location)), making_(making), options_(options) {}

  enum class Repeat : uint8_t { kYes, kNo };
  // Fills in which store is meant. The status is the reply's, or says that the server was not reached (kUnavailable, kTimeout):
  // then it may or may not have done what it was asked to.
  Result<StoreReply> Ask(StoreRequest request, Repeat repeat);
  // The same over a connection that something was opened by. Never repeated.
  Result<StoreReply> AskBy(Client& client, StoreRequest request);
  // The same of what opens something: by that connection. Repeated.
  struct Opened {
    std::shared_ptr<Client> client;
    StoreReply reply;
  };
  Result<Opened> Open(const StoreRequest& request);
  // kUnavailable: nobody says where it is.
  Result<std::shared_ptr<Client>> Connection();
  // Whether what failed so is worth another try, waited for: the caller keeps `begin_ns` and the number of its tries.
  bool MayRepeat(const Status& failed, int64_t begin_ns, int* tries);
  void OnAnswer();
  const StoreLocation& location() const { return location_; }

 private:
  // After a request that did not reach the server: it may have moved.
  void LookForServer();

  const StoreLocation location_;
  const uint8_t making_;
  const LinkOptions options_;
  std::atomic<int64_t> answered_ns_{0};
  std::atomic<bool> is_away_{false};
  std::mutex mutex_;
  std::shared_ptr<Client> client_;  // guarded by mutex_
  bool had_ended_ = false;          // guarded by mutex_: the server, when it was looked for
};

// Memory of this process that the server may read, until the end of this object.
class LeasedBytes {
 public:
  // `bytes` must stay until then.
  static Result<LeasedBytes> Of(std::shared_ptr<Client> client, ByteSpan bytes);
  LeasedBytes(LeasedBytes&& other) noexcept = default;
  LeasedBytes& operator=(LeasedBytes&&) = delete;
  ~LeasedBytes();

  const net::RemoteMemory& memory() const { return memory_; }

 private:
  LeasedBytes(std::shared_ptr<Client> client, const net::RemoteMemory& memory, std::future<Result<int>> ended)
      : client_(std::move(client)), memory_(memory), ended_(std::move(ended)) {}

  std::shared_ptr<Client> client_;  // null: it was moved from
  net::RemoteMemory memory_;
  std::future<Result<int>> ended_;
};

}  // namespace kedge::buffer
