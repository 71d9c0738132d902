#include "net/channel.h"

#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include <algorithm>

#include "base/clock.h"

namespace kedge::net {
namespace {

// With each question the provider connects anew to a port at which nobody listens: at first it is asked at once, since the
// connection is on its way, and then less and less often.
constexpr Duration kRepostPauseMin = std::chrono::microseconds(10);
constexpr Duration kRepostPauseMax = std::chrono::milliseconds(20);

}  // namespace

Channel::Channel(std::unique_ptr<Endpoint> endpoint, fi_addr_t peer, size_t reads_max)
    : slots_(new std::byte[kSendSlots * kFrameBytesMax]),
      operations_(new Operation[kSendSlots + reads_max]),
      peer_(peer),
      reads_max_(reads_max),
      endpoint_(std::move(endpoint)) {
  for (size_t slot = 0; slot < kSendSlots; ++slot) {
    operations_[slot].send_slot = slot;
    free_sends_.push_back(&operations_[slot]);
  }
  for (size_t read = 0; read < reads_max; ++read) {
    operations_[kSendSlots + read].is_read = true;
    free_reads_.push_back(&operations_[kSendSlots + read]);
  }
}

Channel::~Channel() = default;

Result<std::unique_ptr<Channel>> Channel::Open(Fabric* fabric, std::unique_ptr<Endpoint> endpoint, const NodeAddress& to,
                                               size_t reads_max) {
  if (to.provider != fabric->provider()) {
    return Status(Code::kMismatch, "the peer's address is of provider " + to.provider + ", ours is " + fabric->provider() +
                                       ": set the same everywhere");
  }
  KEDGE_ASSIGN_OR_RETURN(const fi_addr_t peer, endpoint->Insert(to));
  std::unique_ptr<Channel> channel(new Channel(std::move(endpoint), peer, reads_max));
  KEDGE_ASSIGN_OR_RETURN(channel->slots_registration_,
                         fabric->RegisterLocal({channel->slots_.get(), kSendSlots * kFrameBytesMax}));
  return channel;
}

Status Channel::Send(const std::function<size_t(std::byte*)>& write) {
  KEDGE_CHECK(CanSend());
  Operation* operation = free_sends_.back();
  free_sends_.pop_back();
  operation->bytes = write(slots_.get() + operation->send_slot * kFrameBytesMax);
  KEDGE_CHECK(operation->bytes <= kFrameBytesMax);
  return Post(operation);
}

Status Channel::Post(Operation* operation) {
  const ssize_t code = fi_send(endpoint_->get(), slots_.get() + operation->send_slot * kFrameBytesMax, operation->bytes,
                               slots_registration_.descriptor(), peer_, operation);
  if (code == -FI_EAGAIN) {
    repost_pause_ = held_ == nullptr ? kRepostPauseMin : std::min<Duration>(2 * repost_pause_, kRepostPauseMax);
    repost_ns_ = SystemClock().NowNs() + repost_pause_.count();
  }
  held_ = code == -FI_EAGAIN ? operation : nullptr;
  return code == 0 || held_ != nullptr ? Status::Ok() : FabricError(code, "fi_send");
}

Result<bool> Channel::Read(std::span<std::byte> into, void* descriptor, uint64_t address, uint64_t key, uint64_t token) {
  KEDGE_CHECK(CanRead());
  Operation* operation = free_reads_.back();
  operation->token = token;
  const ssize_t code = fi_read(endpoint_->get(), into.data(), into.size(), descriptor, peer_, address, key, operation);
  put_off_read_ = code == -FI_EAGAIN;
  if (put_off_read_) return false;
  if (code != 0) return FabricError(code, "fi_read");
  free_reads_.pop_back();
  return true;
}

Result<bool> Channel::Progress(std::vector<DoneRead>* done) {
  std::array<Completion, 16> completions;
  KEDGE_ASSIGN_OR_RETURN(const size_t count, endpoint_->Poll(completions));
  Status failed;
  // All of them, also behind one that is the channel's failure: nobody tells again which reads are done.
  for (size_t i = 0; i < count; ++i) {
    auto* operation = static_cast<Operation*>(completions[i].context);
    const Status& status = completions[i].status;
    if (operation == nullptr) {
      failed = status.ok() ? Status(Code::kInternal, "a completion of nothing") : status;
    } else if (operation->is_read) {
      free_reads_.push_back(operation);
      done->push_back({operation->token, status});
    } else if (status.ok()) {
      free_sends_.push_back(operation);
    } else {
      failed = status;
    }
  }
  KEDGE_RETURN_IF_ERROR(failed);
  // What has been sent may have made room.
  const bool is_due = held_ != nullptr && (count > 0 || SystemClock().NowNs() >= repost_ns_);
  if (is_due) KEDGE_RETURN_IF_ERROR(Post(held_));
  return count > 0;
}

bool Channel::Idle() const {
  return held_ == nullptr && free_sends_.size() == kSendSlots;
}

}  // namespace kedge::net
