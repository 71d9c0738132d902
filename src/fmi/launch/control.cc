#include "fmi/launch/control.h"

#include <cstring>
#include <utility>

namespace kedge::fmi {

Result<std::unique_ptr<ControlLink>> ControlLink::Create(os::EventLoop* loop, ProcessConnection connection, Events events) {
  std::unique_ptr<ControlLink> link(new ControlLink(loop, std::move(connection), std::move(events)));
  KEDGE_RETURN_IF_ERROR(link->connection_.socket().EndWhenSilent());
  KEDGE_ASSIGN_OR_RETURN(link->watch_, loop->Watch(link->connection_.descriptor(), os::EventLoop::Interest::kReadWrite,
                                                   [raw = link.get()](os::Readiness) { raw->OnReady(); }));
  return link;
}

ControlLink::~ControlLink() {
  loop_.Unwatch(watch_);
}

void ControlLink::Send(const ControlMessage& message) {
  if (!is_open()) return;
  // An error is seen again by OnReady.
  (void)connection_.Send(&message, sizeof message);
  WatchForRoom();
}

void ControlLink::End() {
  has_ended_ = true;
  loop_.Unwatch(watch_);
  connection_.socket().End();
}

void ControlLink::OnReady() {
  if (has_ended_) return;
  const Status status = Advance();
  if (has_ended_) return;
  if (status.ok()) return WatchForRoom();
  has_ended_ = true;
  loop_.Unwatch(watch_);
  events_.ended(status);
}

Status ControlLink::Advance() {
  KEDGE_RETURN_IF_ERROR(connection_.Advance());
  if (connection_.waits_to_be_let_in()) KEDGE_RETURN_IF_ERROR(connection_.LetIn());
  if (!connection_.is_open()) return Status::Ok();
  if (!std::exchange(was_open_, true)) events_.opened();
  if (has_ended_) return Status::Ok();
  for (;;) {
    KEDGE_ASSIGN_OR_RETURN(const std::byte* bytes, connection_.Peek(sizeof(ControlMessage)));
    if (bytes == nullptr) return Status::Ok();
    ControlMessage message;
    std::memcpy(&message, bytes, sizeof message);
    connection_.Skip(sizeof message);
    events_.received(message);
    if (has_ended_) return Status::Ok();
  }
}

void ControlLink::WatchForRoom() {
  using Interest = os::EventLoop::Interest;
  (void)loop_.ChangeInterest(watch_, connection_.has_unsent() ? Interest::kReadWrite : Interest::kRead);
}

}  // namespace kedge::fmi
