// Blocks that other nodes read sealed (net.encrypt): each is sealed into memory of its own, which is leased for that one read.
//
// A remote read carries what lies in memory as it is. So the owner seals a copy, and tells key and tag in the answer, a message,
// which is sealed itself. The memory goes with its lease: the reader ends that when it has read. For each reader only so many
// blocks are out or in the making; what else it asks for waits for its turn, so that one that died with leases in its hands
// costs the others nothing.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>

#include "agent/tables/workers.h"
#include "net/network.h"

namespace kedge {

// Used on the loop's thread. Its callbacks hold it, if anything, weakly.
class SealedReads : public std::enable_shared_from_this<SealedReads> {
 public:
  static constexpr size_t kBlocksPerReaderMax = 16;

  // `post` runs things on the loop's thread. All outlive what is asked here, or drop what is posted to them.
  SealedReads(net::Network* network, Workers* workers, std::function<void(std::function<void()>)> post)
      : network_(network), workers_(workers), post_(std::move(post)) {}

  // Answers with a SealedReply of the block that `read` brings, by a worker, or with its error.
  void Ask(const net::Peer& reader, uint32_t bytes, std::function<Status(std::byte* out)> read, net::Answer answer);
  // Memory here that others may be reading right now.
  size_t leases() const { return leases_; }

 private:
  struct Reader {
    size_t blocks = 0;
    std::deque<std::function<void()>> waiting;
  };
  // What its reader waits for begins, as far as it may.
  void Begin(const net::Peer& reader);
  void Lend(const net::Peer& reader, std::shared_ptr<Buffer> block, const Result<net::BlockSeal>& seal,
            const net::Answer& answer);
  void OnEnded(const net::Peer& reader);

  net::Network* const network_;
  Workers* const workers_;
  const std::function<void(std::function<void()>)> post_;
  std::map<net::Peer, Reader> readers_;
  size_t leases_ = 0;
};

}  // namespace kedge
