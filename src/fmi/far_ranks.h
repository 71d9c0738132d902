// The ranks of other nodes, as one rank reaches them: a connection to each that it has had to do with in this epoch.
//
// The first message to a rank makes the connection, which serves both directions. Where two ranks connect to each other at the
// same time, that of the lower one stays. A new epoch ends all of them, so that nothing of a former one comes any more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/status.h"
#include "fmi/board.h"
#include "fmi/process_connection.h"
#include "os/events/poll_set.h"
#include "os/sockets/tcp_socket.h"

namespace kedge::fmi {

// Who takes what comes.
class MessageSink {
 public:
  // A message without its bytes, or a short one with them.
  virtual void OnMessage(uint32_t source, const MessageHead& head, const std::byte* data) = 0;
  // Where the bytes of a kData belong, and that all are there.
  virtual std::byte* PlaceOf(const MessageHead& head) = 0;
  virtual void OnData(const MessageHead& head) = 0;

 protected:
  ~MessageSink() = default;
};

class FarRanks {
 public:
  // Board and sink must outlive it.
  FarRanks(Board* board, uint32_t rank, MessageSink* sink);

  // Listens, where there are other nodes, and says so in its row.
  Status Listen();
  // Ends all connections.
  void Adopt(uint32_t epoch);
  // False: they are not connected yet, but will be. Else as Connection::Send.
  bool Send(uint32_t to, const MessageHead& head, const void* data, uint64_t bytes, bool* sent);
  // Takes what has come, and sends more of what is under way.
  void Poll();
  // Until there is something to do for Poll, or the rank's bell rings.
  void Sleep();
  // What the rank has sent before it has called FMI_Finalize has come.
  bool HasLeft(uint32_t rank) const;
  // Tells all that are connected that this one has called FMI_Finalize.
  void Leave();

 private:
  struct Peer {
    ProcessConnection connection;
    bool is_own = false;      // this side has connected
    MessageHead data_head{};  // of what comes now
    uint64_t data_left = 0;
    bool has_left = false;
  };
  bool is_alone() const { return !listener_; }
  // All of them, in the order in which Serve looks at them.
  void GatherDescriptors();
  void Accept();
  // Whether the newcomer is still one.
  bool Greet(ProcessConnection* newcomer);
  void Serve(uint32_t rank);
  Status Take(uint32_t rank, Peer* peer);
  void Lose(uint32_t rank);

  Board* board_;
  const uint32_t rank_;
  MessageSink& sink_;
  const net::Secret secret_;
  const Secrecy secrecy_;
  uint32_t epoch_ = 0;
  std::optional<os::TcpListener> listener_;
  std::vector<std::unique_ptr<Peer>> peers_;  // by rank
  std::vector<bool> awaits_;                  // those that will connect by themselves
  std::vector<uint32_t> connected_;           // whose peers_ are there
  std::vector<std::unique_ptr<ProcessConnection>> newcomers_;
  os::PollSet polled_;
};

}  // namespace kedge::fmi
