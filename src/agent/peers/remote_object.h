// One object on another node (an image's stream, a copy of one, a parity object), read block by block with several reads under
// way.
//
// What the node leases is read without its attention; what it does not (a tier that is no memory) is asked for. Where either node
// wants it sealed (net.encrypt), each block is asked for, sealed there for this one read, and opened here by whoever waits for
// it. Whoever reads of several nodes asks all for their leases before it waits for one. A block that is expected is on its way
// before it is read, so that the network works while this thread sums. What arrives is unverified, and lies in one of the
// network's few buffers until it is let go. A slow link is no dead one: leases are renewed for as long as it takes, and a block
// is waited for while others come. Where the link has gates, no read begins while they are closed. One thread at a time, not the
// loop's.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "agent/peers/peers.h"

namespace kedge {

class RemoteObject {
 public:
  // `what`: which object; its offset and length are of no account. Every wait ends after `timeout` in which nothing came.
  RemoteObject(PeerLink link, std::string node, ReadRequest what, Duration timeout)
      : link_(std::move(link)), node_(std::move(node)), what_(std::move(what)), timeout_(timeout) {
    if (link_.gates() != nullptr) gates_.emplace(link_.gates());
  }
  // Gives the lease back.
  ~RemoteObject();
  RemoteObject(const RemoteObject&) = delete;
  RemoteObject& operator=(const RemoteObject&) = delete;

  const std::string& node() const { return node_; }
  // Without waiting for the answer: the first read does. Once; Expect and Read do it, too.
  void AskForLease();
  // These bytes will be read soon, in the order of the calls; `bytes` is at most kBlockBytesMax.
  void Expect(uint64_t offset, uint64_t bytes);
  bool IsExpected(uint64_t offset, uint64_t bytes) const;
  size_t expected() const { return expected_.size(); }
  // Exactly `bytes`, expected or not. What was expected before them is not wanted any more. kUnavailable, kTimeout: the node does
  // not answer.
  Result<ArrivedBytes> Read(uint64_t offset, uint64_t bytes);

 private:
  enum class Way { kLeased, kAsked, kSealed };
  struct Expected {
    uint64_t offset = 0;
    uint64_t bytes = 0;
    Way way = Way::kAsked;
    int64_t asked_ns = 0;
    Pending<ArrivedBytes> answer;
  };
  Expected Begin(uint64_t offset, uint64_t bytes);
  void AskSealed(const ReadRequest& request, std::function<void(Result<ArrivedBytes>)> set) const;
  Result<ArrivedBytes> WaitFor(Expected expected);
  // Whether it is worth while to begin a block that has failed once more.
  bool MayBeginAgain(const Expected& failed, Code code);
  // What the node leases, once its answer is here, or has not come for so long.
  void TakeLease(Duration timeout);
  // Leases anew what has been leased for half of the time: what is under way has the other half.
  void RenewLease();
  void EndLease();

  const PeerLink link_;
  const std::string node_;
  const ReadRequest what_;
  const Duration timeout_;
  std::optional<ReadGates::User> gates_;  // which reads wait for before they begin
  bool asked_for_lease_ = false;
  std::optional<Pending<Buffer>> lease_answer_;  // asked, and not taken yet
  std::vector<LeasedPart> leased_;
  bool sealed_ = false;     // the node wants it so
  int64_t arrived_ns_ = 0;  // when a block last came
  std::deque<Expected> expected_;
};

}  // namespace kedge
