// What goes through a link's session: frames, messages and their pieces, credits, reads.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/clock.h"
#include "net/link.h"

namespace kedge::net {
namespace {

constexpr size_t kCallsMax = 65536;
constexpr size_t kAnswersMax = 32;

Status LeaseIsOver(const std::string& name) {
  return Status(Code::kFailedPrecondition, fmt::format("the lease of memory of {} is over", name));
}

}  // namespace

// --- sending ------------------------------------------------------------------------------------------------------------------

void Link::QueueControl(FrameKind kind, const Control& control) {
  // A ping that waits says as much as two.
  if (kind == FrameKind::kPing && !controls_.empty()) return;
  if (kind == FrameKind::kHello) hello_ns_ = SystemClock().NowNs();
  ControlFrame frame{kind, EncodeControl(control)};
  const bool is_answer = kind == FrameKind::kChallenge || kind == FrameKind::kRefusal;
  if (is_answer && controls_.size() >= kAnswersMax) return;
  if (IsHandshake(kind) && std::find(controls_.begin(), controls_.end(), frame) != controls_.end()) return;
  controls_.push_back(std::move(frame));
}

void Link::QueueMessage(const MessageHead& head, ByteSpan body) {
  OutMessage message;
  message.bytes.reserve(kMessageHeadBytes + body.size());
  {
    Encoder out(message.bytes);
    EncodeMessageHead(head, &out);
    out.Raw(body);
  }
  outbox_bytes_ += message.bytes.size();
  outbox_.push_back(std::move(message));
}

bool Link::Pump() {
  bool sent = false;
  while (channel_ && channel_->CanSend()) {
    Status status;
    if (!controls_.empty()) {
      status = SendControl();
    } else if (Up() && session_->credits > 0 && !outbox_.empty()) {
      status = SendPiece();
    } else {
      break;
    }
    sent = true;
    if (!status.ok()) OnChannelFailure(status);
  }
  return sent;
}

Status Link::SendControl() {
  const ControlFrame frame = std::move(controls_.front());
  controls_.pop_front();
  const bool handshake = IsHandshake(frame.kind);
  if (!handshake && !session_) return Status::Ok();  // of a session that has ended
  return channel_->Send([&](std::byte* out) {
    if (handshake) return WriteFrame({frame.kind, 0, 0}, frame.payload, nullptr, out);
    return WriteFrame({frame.kind, session_->number, session_->send_sequence++}, frame.payload, &session_->send_key, out);
  });
}

Status Link::SendPiece() {
  OutMessage& message = outbox_.front();
  const size_t bytes = std::min(message.bytes.size() - message.sent, kPayloadBytesMax);
  const Status status = channel_->Send([&](std::byte* out) {
    return WriteFrame({FrameKind::kPiece, session_->number, session_->send_sequence++},
                      ByteSpan(message.bytes).subspan(message.sent, bytes), &session_->send_key, out);
  });
  --session_->credits;
  message.sent += bytes;
  if (message.sent == message.bytes.size()) {
    outbox_bytes_ -= message.bytes.size();
    outbox_.pop_front();
    host_->Count([](NetworkCounters* counters) { ++counters->messages_sent; });
  }
  return status;
}

void Link::Call(uint16_t kind, Buffer body, int64_t deadline_ns, std::function<void(Result<Buffer>)> done) {
  const size_t bytes_max = host_->options().outbox_bytes_max;
  if (outbox_bytes_ + body.size() > bytes_max || calls_.size() >= kCallsMax) {
    host_->Deliver([done = std::move(done), name = Name(), bytes = outbox_bytes_, calls = calls_.size()] {
      done(Status(Code::kNoSpace,
                  fmt::format("too much waits to be sent to {}: {} bytes, {} calls without a reply", name, bytes, calls)));
    });
    return;
  }
  const uint64_t number = next_call_++;
  const Timers::Id timer = host_->timers()->Add(deadline_ns, [this, number] {
    auto call = calls_.extract(number);
    const std::string why = Up()                 ? "it is connected, but did not answer"
                            : last_failure_.ok() ? "not connected"
                                                 : last_failure_.message();
    host_->Deliver([done = std::move(call.mapped().done), name = Name(), why] {
      done(Status(Code::kTimeout, fmt::format("no reply from {} in time: {}", name, why)));
    });
  });
  calls_[number] = {std::move(done), timer};
  QueueMessage({MessageType::kRequest, number, kind, static_cast<uint32_t>(body.size())}, body);
  Connect();
  Pump();
}

void Link::Reply(uint64_t session, uint64_t call, const Result<Buffer>& reply) {
  if (!Up() || session_->number != session) return;
  if (reply.ok() && reply->size() > kNetMessageBytesMax) {
    Reply(session, call, Status(Code::kNoSpace, fmt::format("the reply has {} bytes, more than a message may", reply->size())));
    return;
  }
  if (reply.ok()) {
    QueueMessage({MessageType::kReply, call, 0, static_cast<uint32_t>(reply->size())}, *reply);
  } else {
    const Buffer body = EncodeErrorBody(reply.status());
    QueueMessage({MessageType::kError, call, static_cast<uint16_t>(reply.status().code()), static_cast<uint32_t>(body.size())},
                 body);
  }
  Pump();
}

void Link::EndRemoteLease(uint64_t lease) {
  if (!Up()) return;  // it ends by itself
  QueueControl(FrameKind::kEndLease, LeaseEnd{lease});
  Pump();
}

bool Link::Progress() {
  if (!channel_) return false;
  std::vector<Channel::DoneRead> done;
  const auto progressed = channel_->Progress(&done);
  for (const Channel::DoneRead& read : done) OnReadDone(read);
  if (!progressed.ok()) {
    // With a read that failed the channel has been given up already.
    const bool is_given_up = std::any_of(done.begin(), done.end(), [](const auto& read) { return !read.status.ok(); });
    if (!is_given_up) OnChannelFailure(progressed.status());
    return true;
  }
  const bool sent = Pump();
  const bool began = BeginReads();
  const bool is_wanted = !is_for_refusal_ || hello_ || session_;
  if (!is_wanted && controls_.empty() && channel_ && channel_->Idle()) CloseChannel();
  return *progressed || sent || began;
}

// --- receiving ----------------------------------------------------------------------------------------------------------------

void Link::OnFrame(const Frame& frame) {
  const auto refuse = [this] { host_->Count([](NetworkCounters* counters) { ++counters->frames_refused; }); };
  const uint64_t sequence = frame.header.sequence;
  if (!session_ || sequence < session_->receive_sequence) return refuse();  // an old frame again
  std::array<std::byte, kPayloadBytesMax> opened;
  if (!session_->receive_key.Open(sequence, frame.head, frame.payload, frame.tag, opened.data())) return refuse();
  if (sequence > session_->receive_sequence) {
    return Lose(Status(Code::kUnavailable, fmt::format("lost {}: a frame of it is missing", Name())));
  }
  ++session_->receive_sequence;
  heard_ns_ = SystemClock().NowNs();
  host_->ChangeState(state_, [this](PeerState* state) { state->heard_ns = heard_ns_; });
  if (!session_->accepted) {
    if (frame.header.kind != FrameKind::kAccept) return refuse();
    session_->accepted = true;
    SessionIsUp();
    return;
  }
  const ByteSpan payload = ByteSpan(opened).first(frame.payload.size());
  frame.header.kind == FrameKind::kPiece ? OnPiece(payload) : OnControl(frame.header.kind, payload);
}

void Link::OnControl(FrameKind kind, ByteSpan payload) {
  const auto control = DecodeControl(kind, payload);
  if (!control.ok()) {
    Fail(Status(Code::kCorrupt, fmt::format("{} sent what is none of its words: {}", Name(), control.status().message())));
    return;
  }
  if (const auto* credit = std::get_if<Credit>(&*control)) {
    if (credit->pieces > kPieceWindow || session_->credits + credit->pieces > kPieceWindow) {
      Fail(Status(Code::kCorrupt, fmt::format("{} gave more credit than its window", Name())));
      return;
    }
    session_->credits += credit->pieces;
    Pump();
  } else if (const auto* end = std::get_if<LeaseEnd>(&*control)) {
    host_->LeaseEndedByReader(peer_.job, end->lease);
  } else if (kind == FrameKind::kBye) {
    // Most who leave come back, in the next attempt.
    std::unique_ptr<Channel> channel = TakeChannel();
    Fail(Status(Code::kUnavailable, fmt::format("{} has left", Name())));
    is_taken_over_ = channel != nullptr;
    channel_ = std::move(channel);
  }
}

void Link::OnPiece(ByteSpan payload) {
  if (++session_->owed > kPieceWindow) {
    Fail(Status(Code::kCorrupt, fmt::format("{} sent more than its credit", Name())));
    return;
  }
  if (!partial_head_) {
    Decoder in(payload);
    const MessageHead head = DecodeMessageHead(&in, kNetMessageBytesMax);
    if (!in.ok()) {
      Fail(Status(Code::kCorrupt, fmt::format("{} sent a bad message: {}", Name(), in.status("its head").message())));
      return;
    }
    payload = payload.subspan(kMessageHeadBytes);
    partial_head_ = head;
    partial_.clear();
    partial_.reserve(head.bytes);
  }
  if (payload.size() > partial_head_->bytes - partial_.size()) {
    Fail(Status(Code::kCorrupt, fmt::format("{} sent a message longer than it said", Name())));
    return;
  }
  partial_.insert(partial_.end(), payload.begin(), payload.end());
  inbox_bytes_ += payload.size();
  if (partial_.size() == partial_head_->bytes) OnMessage();
  if (session_) ReturnCredits();
}

void Link::OnMessage() {
  const MessageHead head = *std::exchange(partial_head_, std::nullopt);
  Buffer body = std::exchange(partial_, {});
  const size_t bytes = body.size();
  host_->Count([](NetworkCounters* counters) { ++counters->messages_received; });
  if (head.type == MessageType::kRequest) {
    host_->DeliverRequest(this, session_->number, head, std::move(body));
    return;
  }
  // A reply's bytes are its caller's from now on.
  inbox_bytes_ -= bytes;
  auto call = calls_.extract(head.call);
  if (call.empty()) return;  // it came too late
  host_->timers()->Cancel(call.mapped().timer);
  std::function<void(Result<Buffer>)> done = std::move(call.mapped().done);
  if (head.type == MessageType::kReply) {
    host_->Deliver([done = std::move(done), body = std::move(body)]() mutable { done(std::move(body)); });
    return;
  }
  const Status error = DecodeErrorBody(head.kind, body).WithContext(Name());
  host_->Deliver([done = std::move(done), error] { done(error); });
}

void Link::Handled(uint64_t session, size_t bytes) {
  if (!session_ || session_->number != session) return;
  inbox_bytes_ -= std::min(inbox_bytes_, bytes);
  ReturnCredits();
}

// In lumps, so that most pieces cost no frame back.
void Link::ReturnCredits() {
  if (session_->owed < kPieceWindow / 2 || inbox_bytes_ > host_->options().inbox_bytes_max) return;
  QueueControl(FrameKind::kCredit, Credit{std::exchange(session_->owed, 0)});
  Pump();
}

// --- reads --------------------------------------------------------------------------------------------------------------------

void Link::Read(ReadRequest request) {
  const RemoteMemory& memory = request.memory;
  Status refused;
  if (request.bytes == 0 || request.bytes > kReadBytesMax || request.offset > memory.bytes ||
      request.bytes > memory.bytes - request.offset) {
    refused = Status(Code::kInvalidArgument, fmt::format("{} bytes at {} are not within the {} bytes of {}", request.bytes,
                                                         request.offset, memory.bytes, Name()));
  } else if (SystemClock().NowNs() > memory.end_ns) {
    refused = LeaseIsOver(Name());
  }
  if (!refused.ok()) {
    host_->DeliverRead([done = std::move(request.done), refused] { done(refused); });
    return;
  }
  if (read_queue_.size() >= host_->options().queued_reads_max) {
    host_->DeliverRead([done = std::move(request.done), name = Name()] {
      done(Status(Code::kNoSpace, fmt::format("too many reads from {} wait for their turn", name)));
    });
    return;
  }
  const uint64_t token = next_read_++;
  const Timers::Id timer = AddReadTimer(token, request.asked_ns, request.timeout);
  read_queue_.push_back({token, std::move(request), timer});
  Connect();
  BeginReads();
}

bool Link::BeginReads() {
  bool began = false;
  while (Up() && channel_ && channel_->CanRead() && !read_queue_.empty()) {
    // It would cost the session, and all that is under way with it.
    if (SystemClock().NowNs() > read_queue_.front().request.memory.end_ns) {
      RefuseQueuedRead(read_queue_.begin(), LeaseIsOver(Name()));
      continue;
    }
    const auto buffer = host_->pool()->Acquire();
    if (!buffer) break;
    QueuedRead& next = read_queue_.front();
    const ReadRequest& request = next.request;
    const auto posted = channel_->Read(host_->pool()->memory(*buffer).first(request.bytes), host_->pool_descriptor(),
                                       request.memory.address + request.offset, request.memory.key, next.token);
    if (!posted.ok() || !*posted) host_->pool()->Release(*buffer);
    if (!posted.ok()) {
      OnChannelFailure(posted.status());
      break;
    }
    if (!*posted) break;
    active_reads_[next.token] = {std::move(next.request), next.timer, *buffer};
    read_queue_.pop_front();
    began = true;
  }
  return began;
}

void Link::OnReadDone(const Channel::DoneRead& done) {
  auto node = active_reads_.extract(done.token);
  if (node.empty()) return;
  ActiveRead& read = node.mapped();
  host_->timers()->Cancel(read.timer);
  if (done.status.ok()) {
    read_ns_ = SystemClock().NowNs();
    host_->ChangeState(state_, [this](PeerState* state) { state->read_ns = read_ns_; });
    const size_t bytes = read.request.bytes;
    host_->Count([bytes](NetworkCounters* counters) { counters->bytes_read += bytes; });
    auto buffer = std::make_shared<ReadBuffer>(host_->pool()->Wrap(read.buffer, bytes));
    host_->DeliverRead([done = std::move(read.request.done), buffer] { done(std::move(*buffer)); });
    return;
  }
  host_->pool()->Release(read.buffer);
  host_->Count([](NetworkCounters* counters) { ++counters->reads_failed; });
  const Status error(Code::kUnavailable,
                     fmt::format("reading from {}: {}; the memory's lease may have ended", Name(), done.status.message()));
  host_->DeliverRead([done = std::move(read.request.done), error] { done(error); });
  // Providers end the connection with it, now or with the next operation: begin anew.
  Lose(Status(Code::kUnavailable, fmt::format("lost {}: a read failed: {}", Name(), done.status.message())));
}

Timers::Id Link::AddReadTimer(uint64_t token, int64_t since_ns, Duration timeout) {
  return host_->timers()->Add(since_ns + timeout.count(), [this, token] { OnReadTimeout(token); });
}

void Link::RefuseQueuedRead(std::deque<QueuedRead>::iterator read, const Status& why) {
  host_->timers()->Cancel(read->timer);
  host_->DeliverRead([done = std::move(read->request.done), why] { done(why); });
  read_queue_.erase(read);
  host_->Count([](NetworkCounters* counters) { ++counters->reads_failed; });
}

void Link::OnReadTimeout(uint64_t token) {
  const auto queued =
      std::find_if(read_queue_.begin(), read_queue_.end(), [token](const QueuedRead& read) { return read.token == token; });
  const auto active = active_reads_.find(token);
  if (queued == read_queue_.end() && active == active_reads_.end()) return;
  // Others have been done meanwhile: the link is slow, not dead.
  const bool is_queued = queued != read_queue_.end();
  const Duration timeout = is_queued ? queued->request.timeout : active->second.request.timeout;
  if (read_ns_ + timeout.count() > SystemClock().NowNs()) {
    (is_queued ? queued->timer : active->second.timer) = AddReadTimer(token, read_ns_, timeout);
    return;
  }
  const Status late(Code::kTimeout, fmt::format("a read from {} was not done in time", Name()));
  if (is_queued) return RefuseQueuedRead(queued, late.WithContext(Up() ? "waiting for its turn" : "not connected"));
  auto node = active_reads_.extract(active);
  host_->DeliverRead([done = std::move(node.mapped().request.done), late] { done(late); });
  host_->Count([](NetworkCounters* counters) { ++counters->reads_failed; });
  late_buffers_.push_back(node.mapped().buffer);
  Lose(late);
}

}  // namespace kedge::net
