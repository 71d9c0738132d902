// Messages between ranks: matching, requests, progress.
//
// On one node small messages are copied through the ring of the pair (eager); of longer ones only an offer goes through it, and
// the receiver reads them from the sender's memory. Between nodes all goes over a connection; long ones only when the receiver
// has asked for them, so that they go from the sender's memory to where they belong. Everything happens in calls of the rank
// itself: it has no other thread, so that after a call has returned nothing touches its memory but others' reads of what it has
// offered.
//
// All belongs to one epoch. Once the job's epoch is a newer one, every call returns kUnavailable until Adopt, messages of former
// epochs are dropped where they are found, and what was read from another's memory counts only if the epoch still holds
// afterwards: a sender that has heard of a failure may have changed it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "base/status.h"
#include "fmi/board.h"
#include "fmi/far_ranks.h"
#include "fmi/handles/group.h"

namespace kedge::fmi {

constexpr int kAnySource = -1;
constexpr int kAnyTag = -1;

// Messages of different contexts never match. Each communicator has two (communicator_channel.h).
enum class Context : uint32_t { kApplication, kCollective, kCheckpoint };

struct Received {
  int source = 0;
  int tag = 0;
  uint64_t bytes = 0;
};

// Of one epoch; 0 is none.
using RequestId = int64_t;

class Messenger final : private MessageSink {
 public:
  // The board must outlive it.
  Messenger(Board* board, uint32_t rank);
  Messenger(const Messenger&) = delete;
  Messenger& operator=(const Messenger&) = delete;
  // For ranks of other nodes.
  Status Listen() { return far_ranks_.Listen(); }

  uint32_t rank() const { return rank_; }
  uint32_t ranks() const { return board_->ranks(); }
  uint32_t epoch() const { return epoch_; }
  // Begins anew in `epoch`: requests and messages of former ones are gone.
  void Adopt(uint32_t epoch);
  // Whether there has been a failure since, or nothing was adopted yet.
  bool is_broken() const { return board_->epoch() != epoch_; }

  // kSynchronous: it is complete once its receive has begun.
  enum class SendMode { kStandard, kSynchronous };
  RequestId BeginSend(Context context, uint32_t to, int tag, const void* data, uint64_t bytes,
                      SendMode mode = SendMode::kStandard);
  // `from` may be kAnySource, `tag` kAnyTag. What the message says of itself is told by Wait. With a group, senders are called by
  // their numbers in it.
  RequestId BeginReceive(Context context, int from, int tag, void* data, uint64_t bytes_max,
                         const std::shared_ptr<const Group>& group = {});
  // Ends the request. kUnavailable: there has been a failure since it was begun. kInvalidArgument: there
  // is no such request. kMismatch: the message was longer than its buffer (of which
  // `received` tells all the same), or the other rank has called FMI_Finalize.
  Status Wait(RequestId id, Received* received = nullptr);
  // False of one that is gone.
  bool IsSend(RequestId id) { return !IsGone(id) && Find(id) != nullptr && Find(id)->is_send; }
  // Of an epoch that never was, so that it is gone whenever it is asked for.
  static constexpr RequestId kGone = 1;
  // Whether Wait would return at once.
  bool IsComplete(RequestId id);
  // Until Wait would return at once for one of them, of which there must be some: which one.
  size_t WaitAny(const std::vector<RequestId>& ids);
  // What the first message that such a receive would take says of itself; nothing where none has come.
  std::optional<Received> FindMessage(Context context, int from, int tag, const std::shared_ptr<const Group>& group = {});
  // The same, of a message that comes in the end.
  Status WaitForMessage(Context context, int from, int tag, const std::shared_ptr<const Group>& group, Received* received);

  Status Send(Context context, uint32_t to, int tag, const void* data, uint64_t bytes);
  Status Receive(Context context, int from, int tag, void* data, uint64_t bytes_max, Received* received = nullptr);

  // All has been sent. Then until `ready()` holds, while others may be sending yet.
  template <typename Ready>
  void Leave(Ready ready) {
    far_ranks_.Leave();
    Await([&] {
      Poll();
      return ready();
    });
  }

 private:
  struct Request {
    bool is_free = false;
    bool is_send = false;
    bool is_complete = false;
    Context context = Context::kApplication;
    int peer = 0;  // of the job
    int name = 0;  // what the receiver calls it
    int tag = 0;
    void* data = nullptr;
    uint64_t bytes = 0;                  // of the buffer
    std::shared_ptr<const Group> group;  // of a receive from any source; null: all ranks
    Received received;
    Status error;
  };
  // A message that nobody had asked for yet.
  struct Unexpected {
    uint32_t source = 0;
    MessageHead head;
    std::vector<std::byte> data;
  };
  // What has found no room in a ring, or no connection yet. The data stay where they are; `request` (-1: none) is complete once
  // they are in the ring.
  struct Pending {
    MessageHead head;
    const void* data = nullptr;
    int64_t request = -1;
  };

  uint32_t NewRequest();
  // Null: there is none.
  Request* Find(RequestId id);
  // Whether it is of an epoch that a failure has ended.
  bool IsGone(RequestId id) const { return is_broken() || id >> 32 != epoch_; }
  RequestId IdOf(uint32_t index) const { return static_cast<int64_t>(epoch_) << 32 | (index + 1); }
  bool Takes(const Request& request, uint32_t source, const MessageHead& head) const;
  // What the receiver calls the rank.
  static int NameOf(const Request& request, uint32_t source);
  // Whether the request's other side has called FMI_Finalize.
  bool HasLeft(const Request& request) const;
  // Of a receive: what it takes.
  static void Ask(Request* request, Context context, int from, int tag, const std::shared_ptr<const Group>& group);
  std::list<Unexpected>::const_iterator FindFor(const Request& request) const;
  std::optional<Received> FindMessage(const Request& asked);
  static Status NeverComes(const Request& request);

  void Poll();
  void PollFrom(uint32_t source);
  template <typename Ready>
  void Await(Ready ready) {
    board_->Await(rank_, ready, [this] { far_ranks_.Sleep(); });
  }
  void OnMessage(uint32_t source, const MessageHead& head, const std::byte* data) override;
  std::byte* PlaceOf(const MessageHead& head) override;
  void OnData(const MessageHead& head) override;
  void Deliver(uint32_t index, uint32_t source, const MessageHead& head, const void* data);
  // The message's bytes from its sender's memory. False: the sender has died.
  bool Pull(Request* request, uint32_t source, const MessageHead& head);
  void Post(uint32_t to, const Pending& message);
  bool Write(uint32_t to, const Pending& message);
  void WritePending();

  Board* board_;
  const uint32_t rank_;
  uint32_t epoch_ = 0;
  FarRanks far_ranks_;
  // Of the ranks with which messages have been exchanged: rings that nobody looks at take no memory.
  std::vector<std::optional<RingWriter>> writers_;
  std::vector<std::optional<RingReader>> readers_;
  std::deque<Request> requests_;
  std::vector<uint32_t> free_;
  std::vector<uint32_t> posted_;  // receives, in the order in which they were begun
  std::list<Unexpected> unexpected_;
  std::vector<std::deque<Pending>> pending_;
  size_t pending_count_ = 0;
};

}  // namespace kedge::fmi
