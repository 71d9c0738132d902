// The messages of one communicator, whose ranks are numbers in its group.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "base/status.h"
#include "fmi/handles/group.h"
#include "fmi/messenger.h"

namespace kedge::fmi {

class CommunicatorChannel {
 public:
  // Of all ranks, by the numbers of the job. The messenger must outlive it.
  CommunicatorChannel(Messenger* messenger, Context context)
      : messenger_(messenger), context_(context), rank_(messenger->rank()) {}
  // Of the group, of which this rank is a member.
  CommunicatorChannel(Messenger* messenger, Context context, std::shared_ptr<const Group> group)
      : messenger_(messenger), context_(context), group_(std::move(group)), rank_(group_->Find(messenger->rank()).value()) {}

  uint32_t rank() const { return rank_; }
  uint32_t ranks() const { return group_ ? group_->size() : messenger_->ranks(); }
  // What the job calls a rank of this communicator.
  uint32_t InJob(uint32_t rank) const { return group_ ? (*group_)[rank] : rank; }

  RequestId BeginSend(uint32_t to, int tag, const void* data, uint64_t bytes,
                      Messenger::SendMode mode = Messenger::SendMode::kStandard) const {
    return messenger_->BeginSend(context_, InJob(to), tag, data, bytes, mode);
  }
  RequestId BeginReceive(int from, int tag, void* data, uint64_t bytes_max) const {
    return messenger_->BeginReceive(context_, from, tag, data, bytes_max, group_);
  }
  std::optional<Received> FindMessage(int from, int tag) const { return messenger_->FindMessage(context_, from, tag, group_); }
  Status WaitForMessage(int from, int tag, Received* received) const {
    return messenger_->WaitForMessage(context_, from, tag, group_, received);
  }
  Status Wait(RequestId id, Received* received = nullptr) const { return messenger_->Wait(id, received); }

 private:
  Messenger* messenger_;
  Context context_;
  std::shared_ptr<const Group> group_;  // null: all ranks of the job
  uint32_t rank_;
};

}  // namespace kedge::fmi
