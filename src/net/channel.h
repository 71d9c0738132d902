// The way to one peer: an endpoint of its own for what we send there and read from there.
//
// Each peer has a channel of its own so that a broken or stuck one is given up whole. With reads under way it is not closed but
// *parked* until they are done: the provider may write to their buffers until then, and libfabric 1.17 over tcp crashes in
// fi_close when a read's answer has come in part. Frames go out of a few registered slots and reads use a
// few operations: both are its bounds. The progress thread only.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "net/fabric.h"
#include "net/frame.h"

namespace kedge::net {

class Channel {
 public:
  struct DoneRead {
    uint64_t token = 0;
    Status status;
  };

  // Over an endpoint of `fabric` that nothing has been sent from.
  static Result<std::unique_ptr<Channel>> Open(Fabric* fabric, std::unique_ptr<Endpoint> endpoint, const NodeAddress& to,
                                               size_t reads_max);
  ~Channel();

  // Whether Send may be called: a slot is free, and no frame waits for the provider to take it.
  bool CanSend() const { return held_ == nullptr && !free_sends_.empty(); }
  // `write` puts a frame of at most kFrameBytesMax where it is told and returns its length.
  Status Send(const std::function<size_t(std::byte*)>& write);
  bool CanRead() const { return !free_reads_.empty(); }
  // False: the provider takes it later. `into` stays untouched from the time that the read is done, or the channel gone.
  Result<bool> Read(std::span<std::byte> into, void* descriptor, uint64_t address, uint64_t key, uint64_t token);

  // Takes completions; true when there were any. A failed send is the channel's failure.
  Result<bool> Progress(std::vector<DoneRead>* done);
  // Reads under way.
  size_t ActiveReads() const { return reads_max_ - free_reads_.size(); }
  // Nothing is on its way out.
  bool Idle() const;
  // The provider has put off the last frame, or the last read: it is to be asked again soon, and nothing will wake us.
  bool HoldsFrame() const { return held_ != nullptr; }
  // Until then, where it is the frame; it grows as long as the provider puts it off.
  Duration repost_pause() const { return held_ == nullptr ? Duration::zero() : repost_pause_; }
  bool PutOffRead() const { return put_off_read_; }
  Endpoint* endpoint() const { return endpoint_.get(); }

 private:
  struct Operation {
    fi_context2 context{};  // first: what the provider hands back
    size_t send_slot = 0;
    bool is_read = false;
    uint64_t token = 0;
    size_t bytes = 0;
  };
  static constexpr size_t kSendSlots = 32;

  Channel(std::unique_ptr<Endpoint> endpoint, fi_addr_t peer, size_t reads_max);
  // Hands the operation's frame to the provider; holds it when the provider puts it off.
  Status Post(Operation* operation);

  std::unique_ptr<std::byte[]> slots_;  // kSendSlots frames
  Registration slots_registration_;
  std::unique_ptr<Operation[]> operations_;
  std::vector<Operation*> free_sends_;
  std::vector<Operation*> free_reads_;
  Operation* held_ = nullptr;
  Duration repost_pause_{};
  int64_t repost_ns_ = 0;  // when it is handed to the provider again
  bool put_off_read_ = false;
  const fi_addr_t peer_;
  const size_t reads_max_;
  std::unique_ptr<Endpoint> endpoint_;  // goes first
};

}  // namespace kedge::net
