// Requests in the program's hands that are more than one message of the messenger.
//
// The messenger's requests are gone with their epoch. Persistent ones belong to the program: it begins them again and again, and
// after a failure they are there, and not begun. Like operations they are of a process, whose memory they name.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/status.h"
#include "fmi/messenger.h"
#include "fmi/packed_elements.h"
#include "kedge/fmi.h"

namespace kedge::fmi {

// A request is the messenger's, or has this bit, which epochs do not reach, and a number. 0 is complete, of nobody's message.
constexpr FMI_Request kOwnRequest = FMI_Request{1} << 62;
constexpr FMI_Request kNobodysRequest = kOwnRequest;

// How a send is made. kBuffered: of a copy, and complete at once.
enum class SendKind { kStandard, kSynchronous, kBuffered };

struct PersistentRequest {
  FMI_Comm comm = FMI_COMM_NULL;
  bool is_send = false;
  SendKind kind = SendKind::kStandard;
  Elements elements;
  int peer = 0;
  int tag = 0;
  // Since it was started, until it was waited for. Without a message (0) it is complete.
  bool is_active = false;
  RequestId message = 0;

  void End() {
    is_active = false;
    message = 0;
  }
};

// Messages under way that the program does not ask for any more. They end as they would.
class FreedRequests {
 public:
  bool empty() const { return freed_.empty(); }
  void Add(RequestId id, bool is_send) { freed_.push_back({id, is_send}); }
  // Those that are complete are gone. An error of one that was no failure is returned.
  Status Sweep(Messenger* messenger, PackedMessages* packed) {
    return End(messenger, packed, [&](const Freed& freed) { return messenger->IsComplete(freed.id); });
  }
  // Until all that was sent is complete.
  Status FinishSends(Messenger* messenger, PackedMessages* packed) {
    return End(messenger, packed, [](const Freed& freed) { return freed.is_send; });
  }
  // The messenger has begun anew.
  void Clear() { freed_.clear(); }

 private:
  struct Freed {
    RequestId id;
    bool is_send;
  };
  template <typename IsMeant>
  Status End(Messenger* messenger, PackedMessages* packed, IsMeant is_meant) {
    Status ended;
    const auto is_over = [&](const Freed& freed) {
      if (!is_meant(freed)) return false;
      Received received;
      Status own = messenger->Wait(freed.id, &received);
      if (own.ok()) packed->Complete(freed.id, received.bytes);
      if (ended.ok() && !own.ok()) ended = std::move(own);
      return true;
    };
    freed_.erase(std::remove_if(freed_.begin(), freed_.end(), is_over), freed_.end());
    return ended;
  }

  std::vector<Freed> freed_;
};

}  // namespace kedge::fmi
