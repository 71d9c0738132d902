// A connection between two processes of a job, which prove the job's secret to each other; then bytes go both ways.
//
// What is sent lies where its owner has it until it is taken by the kernel, and what comes can be read to where it belongs: long
// messages are not copied here. All that follows the proof can be sealed (sealed_stream.h), which takes a copy. Nothing waits. An
// error is for good.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "fmi/sealed_stream.h"
#include "net/authentication.h"
#include "os/sockets/tcp_socket.h"

namespace kedge::fmi {

// Who speaks to whom: ranks, or a node's task and fmirun, in an epoch.
struct Speakers {
  uint32_t epoch = 0;
  uint32_t from = 0;
  uint32_t to = 0;
};

class ProcessConnection {
 public:
  static constexpr size_t kHeadBytesMax = 80;

  // The side that has connected.
  ProcessConnection(os::TcpSocket socket, const net::Secret& secret, Secrecy secrecy, Speakers speakers);
  // The side to which somebody has connected, which is `to`. It answers when it is let in.
  ProcessConnection(os::TcpSocket socket, const net::Secret& secret, Secrecy secrecy, uint32_t to);

  // Goes on with the proof as far as it can. kPermission: the other has not proved the secret.
  Status Advance();
  bool is_open() const { return stage_ == Stage::kOpen; }
  // It has said who it is, and waits to be let in. It has known the secret, but perhaps long ago.
  bool waits_to_be_let_in() const { return stage_ == Stage::kNamed; }
  Status LetIn();
  const Speakers& speakers() const { return speakers_; }
  int descriptor() const { return socket_.descriptor(); }
  const os::TcpSocket& socket() const { return socket_; }

  // Sends a copy of the head, and then the bytes, which stay where they are until `*sent` (unless null) is set.
  Status Send(const void* head, size_t head_bytes, const void* data = nullptr, uint64_t bytes = 0, bool* sent = nullptr);
  // More of it.
  Status Flush();
  bool has_unsent() const { return !unsent_.empty() || (stream_ && stream_->has_unsent()); }

  // So many bytes, which stay until Skip; null: they are not there yet. At most kBufferBytes.
  Result<const std::byte*> Peek(size_t bytes);
  void Skip(size_t bytes) { begin_ += bytes; }
  // How many of so many bytes were there, and are at `data` now.
  Result<size_t> Read(void* data, size_t bytes);
  static constexpr size_t kBufferBytes = size_t{128} << 10;

 private:
  enum class Stage { kHello, kNamed, kAnswer, kConfirm, kOpen };
  struct Unsent {
    std::array<std::byte, kHeadBytesMax> head;
    size_t head_bytes = 0;
    const std::byte* data = nullptr;
    uint64_t bytes = 0;
    uint64_t done = 0;  // of both
    bool* sent = nullptr;
    bool is_proof = false;  // of the secret; never sealed
  };
  Status TakeHello();
  Status TakeAnswer();
  Status TakeConfirmation();
  // What is proved by the texts of which it is made, and keys come from, as `use` makes them.
  template <typename Use>
  auto WithTranscript(Use use) const;
  net::Digest Proof(net::ProofOf who) const;
  // The proof is over.
  void Open();
  Status Try(Unsent* message);
  Result<size_t> Receive(void* data, size_t bytes);

  os::TcpSocket socket_;
  const net::Secret secret_;
  const Secrecy secrecy_;
  const net::ProofOf own_side_;
  Speakers speakers_;
  Stage stage_;                         // the message of the other side that comes next
  std::optional<SealedStream> stream_;  // once it is open, where it is sealed
  net::Nonce own_nonce_;
  net::Nonce initiator_nonce_{};
  net::Nonce responder_nonce_{};
  std::deque<Unsent> unsent_;
  std::vector<std::byte> buffer_;
  size_t begin_ = 0;
  size_t end_ = 0;
};

}  // namespace kedge::fmi
