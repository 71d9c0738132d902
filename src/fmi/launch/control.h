// What fmirun and the tasks of the nodes tell each other, in messages of one size.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "fmi/process_connection.h"
#include "os/events/event_loop.h"

namespace kedge::fmi {

// Who fmirun is to its tasks, whose names are the numbers of their nodes.
constexpr uint32_t kFmirun = UINT32_MAX;

struct ControlMessage {
  enum class Kind : uint32_t {
    kRow,       // both ways: what a rank has said of itself
    kShared,    // of a task: what its ranks say together
    kEnded,     // of a task: the rank's process has ended
    kAlive,     // of a task, once a second
    kListens,   // of a task: where it awaits a successor of fmirun
    kReported,  // of a task: the successor has been told all
    kReplaced,  // of a task: fmirun has a successor
    kKept,      // of fmirun: a successor will find the task, which outlives fmirun from now on; and where fmirun listens
    kLeave,     // of fmirun: the job has ended, or the node has been given up
    kState,     // of fmirun, and of a task to a successor: the epoch
    kHere,      // of fmirun: the rank is the node's
    kStart,     // of fmirun
    kKillAll,   // of fmirun: the node's ranks end, and the job begins anew
  };
  Kind kind = Kind::kRow;
  uint32_t rank = 0;
  uint32_t start = 0;  // of kRow, kEnded and kStart: for the how many-th time the rank runs
  uint32_t epoch = 0;  // of kRow: in which it has lost a connection
  uint64_t place = 0;
  uint64_t loops = 0;
  uint64_t endpoint = 0;
  uint64_t progress = 0;
  int32_t process_id = 0;
  int32_t exit_code = 0;
  int32_t signal = 0;
  uint8_t has_finished = 0;
  uint8_t has_checkpoint = 0;
  uint8_t relaunch = 0;
  uint8_t joins = 0;
  friend bool operator==(const ControlMessage&, const ControlMessage&) = default;
};
static_assert(sizeof(ControlMessage) <= ProcessConnection::kHeadBytesMax);
inline ControlMessage Of(ControlMessage::Kind kind) {
  ControlMessage message;
  message.kind = kind;
  return message;
}

// An endpoint as messages have it.
constexpr uint64_t Pack(os::TcpEndpoint endpoint) {
  return uint64_t{endpoint.address} << 16 | endpoint.port;
}
constexpr os::TcpEndpoint UnpackEndpoint(uint64_t word) {
  return {static_cast<uint32_t>(word >> 16), static_cast<uint16_t>(word)};
}

// A connection for them in an event loop.
class ControlLink {
 public:
  struct Events {
    std::function<void()> opened;  // the other side has proved the secret
    std::function<void(const ControlMessage&)> received;
    std::function<void(const Status&)> ended;  // the last one
  };
  // The loop must outlive it. Not to be destroyed in one of its events.
  static Result<std::unique_ptr<ControlLink>> Create(os::EventLoop* loop, ProcessConnection connection, Events events);
  ~ControlLink();
  ControlLink(const ControlLink&) = delete;
  ControlLink& operator=(const ControlLink&) = delete;

  bool is_open() const { return was_open_ && !has_ended_; }
  bool was_open() const { return was_open_; }
  bool has_ended() const { return has_ended_; }
  uint32_t from() const { return connection_.speakers().from; }
  const ProcessConnection& connection() const { return connection_; }
  // Nothing happens before it is open, and once it has ended.
  void Send(const ControlMessage& message);
  // Nothing more comes, and the other side finds that it has ended.
  void End();

 private:
  ControlLink(os::EventLoop* loop, ProcessConnection connection, Events events)
      : loop_(*loop), connection_(std::move(connection)), events_(std::move(events)) {}
  void OnReady();
  Status Advance();
  void WatchForRoom();

  os::EventLoop& loop_;
  ProcessConnection connection_;
  const Events events_;
  os::EventLoop::WatchId watch_ = 0;
  bool was_open_ = false;
  bool has_ended_ = false;
};

}  // namespace kedge::fmi
