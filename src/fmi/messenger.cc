#include "fmi/messenger.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "os/memory/other_process.h"

namespace kedge::fmi {
namespace {

Status Failed() {
  return Status(Code::kUnavailable, "a rank has died");
}

}  // namespace

Messenger::Messenger(Board* board, uint32_t rank)
    : board_(board),
      rank_(rank),
      far_ranks_(board, rank, this),
      writers_(board->ranks()),
      readers_(board->ranks()),
      pending_(board->ranks()) {}

void Messenger::Adopt(uint32_t epoch) {
  epoch_ = epoch;
  far_ranks_.Adopt(epoch);
  requests_.clear();
  free_.clear();
  posted_.clear();
  unexpected_.clear();
  for (auto& messages : pending_) messages.clear();
  pending_count_ = 0;
}

uint32_t Messenger::NewRequest() {
  if (free_.empty()) {
    requests_.emplace_back();
    return static_cast<uint32_t>(requests_.size() - 1);
  }
  const uint32_t index = free_.back();
  free_.pop_back();
  // What it was asked for is set by whoever takes it; its error and its group went with the former one (Wait).
  Request& request = requests_[index];
  request.is_free = request.is_send = request.is_complete = false;
  request.received = {};
  return index;
}

Messenger::Request* Messenger::Find(RequestId id) {
  const auto index = static_cast<uint64_t>(id & UINT32_MAX) - 1;
  if (index >= requests_.size() || requests_[index].is_free) return nullptr;
  return &requests_[index];
}

bool Messenger::Takes(const Request& request, uint32_t source, const MessageHead& head) const {
  return static_cast<uint32_t>(request.context) == head.context &&
         (request.peer == kAnySource || request.peer == static_cast<int>(source)) &&
         (request.tag == kAnyTag || request.tag == head.tag);
}

std::list<Messenger::Unexpected>::const_iterator Messenger::FindFor(const Request& request) const {
  return std::find_if(unexpected_.begin(), unexpected_.end(),
                      [&](const Unexpected& message) { return Takes(request, message.source, message.head); });
}

bool Messenger::HasLeft(const Request& request) const {
  const auto has_left = [&](uint32_t rank) {
    return board_->is_here(rank) ? board_->place(rank) == Place{epoch_, Phase::kLeaving} : far_ranks_.HasLeft(rank);
  };
  if (request.peer != kAnySource) return has_left(static_cast<uint32_t>(request.peer));
  const uint32_t members = request.group ? request.group->size() : ranks();
  for (uint32_t member = 0; member < members; ++member) {
    const uint32_t rank = request.group ? (*request.group)[member] : member;
    if (rank != rank_ && !has_left(rank)) return false;
  }
  return members > 1;
}

int Messenger::NameOf(const Request& request, uint32_t source) {
  if (request.peer != kAnySource) return request.name;
  if (!request.group) return static_cast<int>(source);
  const std::optional<uint32_t> member = request.group->Find(source);
  KEDGE_CHECK(member);
  return static_cast<int>(*member);
}

RequestId Messenger::BeginSend(Context context, uint32_t to, int tag, const void* data, uint64_t bytes, SendMode mode) {
  if (is_broken()) return kGone;
  const uint32_t index = NewRequest();
  Request& request = requests_[index];
  request.is_send = true;
  request.peer = static_cast<int>(to);
  Pending message;
  message.head.epoch = epoch_;
  message.head.tag = tag;
  message.head.context = static_cast<uint32_t>(context);
  message.head.bytes = bytes;
  message.head.request = index;
  if (bytes <= kEagerBytesMax && mode == SendMode::kStandard) {
    message.head.kind = MessageKind::kEager;
    message.head.bytes_in_ring = static_cast<uint32_t>(bytes);
    message.data = data;
    message.request = index;
  } else {
    message.head.kind = MessageKind::kOffer;
    message.head.address = reinterpret_cast<uint64_t>(data);
    request.data = const_cast<void*>(data);
    request.bytes = bytes;
  }
  Post(to, message);
  return IdOf(index);
}

void Messenger::Ask(Request* request, Context context, int from, int tag, const std::shared_ptr<const Group>& group) {
  request->context = context;
  request->name = from;
  if (from == kAnySource) {
    request->peer = kAnySource;
    request->group = group;
  } else {
    request->peer = group ? static_cast<int>((*group)[static_cast<uint32_t>(from)]) : from;
  }
  request->tag = tag;
}

RequestId Messenger::BeginReceive(Context context, int from, int tag, void* data, uint64_t bytes_max,
                                  const std::shared_ptr<const Group>& group) {
  if (is_broken()) return kGone;
  const uint32_t index = NewRequest();
  Request& request = requests_[index];
  Ask(&request, context, from, tag, group);
  request.data = data;
  request.bytes = bytes_max;
  const auto found = FindFor(request);
  if (found == unexpected_.end()) {
    posted_.push_back(index);
  } else {
    Deliver(index, found->source, found->head, found->data.data());
    unexpected_.erase(found);
  }
  return IdOf(index);
}

bool Messenger::IsComplete(RequestId id) {
  const Request* request = Find(id);
  if (IsGone(id) || request == nullptr || request->is_complete) return true;
  Poll();
  return request->is_complete || is_broken();
}

size_t Messenger::WaitAny(const std::vector<RequestId>& ids) {
  size_t found = 0;
  Await([&] {
    found = 0;
    // Whoever has left sends nothing more, which Wait says.
    while (found < ids.size() && !IsComplete(ids[found]) && !HasLeft(*Find(ids[found]))) ++found;
    return found < ids.size();
  });
  return found;
}

std::optional<Received> Messenger::FindMessage(Context context, int from, int tag, const std::shared_ptr<const Group>& group) {
  Request asked;
  Ask(&asked, context, from, tag, group);
  return FindMessage(asked);
}

std::optional<Received> Messenger::FindMessage(const Request& asked) {
  if (is_broken()) return std::nullopt;
  Poll();
  const auto found = FindFor(asked);
  if (found == unexpected_.end()) return std::nullopt;
  return Received{NameOf(asked, found->source), found->head.tag, found->head.bytes};
}

Status Messenger::WaitForMessage(Context context, int from, int tag, const std::shared_ptr<const Group>& group,
                                 Received* received) {
  Request asked;
  Ask(&asked, context, from, tag, group);
  std::optional<Received> found;
  bool never_comes = false;
  Await([&] {
    const bool has_left = HasLeft(asked);
    found = FindMessage(asked);
    never_comes = has_left && !found;
    return found || never_comes || is_broken();
  });
  if (is_broken()) return Failed();
  if (never_comes) return NeverComes(asked);
  *received = *found;
  return Status::Ok();
}

Status Messenger::NeverComes(const Request& request) {
  const char* what = request.is_send ? "takes" : "sends";
  const std::string who = request.peer == kAnySource ? "every other rank" : fmt::format("rank {}", request.peer);
  return Status(Code::kMismatch, fmt::format("{} has called FMI_Finalize, and never {} this message", who, what));
}

Status Messenger::Wait(RequestId id, Received* received) {
  if (IsGone(id)) return Failed();
  Request* request = Find(id);
  if (request == nullptr) return Status(Code::kInvalidArgument, "there is no such request");
  bool never_comes = false;
  Await([&] {
    // Looked at before the rings: what it has sent is in them by then.
    const bool has_left = HasLeft(*request);
    if (!request->is_complete) Poll();
    never_comes = has_left && !request->is_complete;
    return request->is_complete || never_comes || is_broken();
  });
  // Also of what was read from a sender's memory, which may have changed it since the failure.
  if (is_broken()) return Failed();
  if (never_comes) return NeverComes(*request);
  if (received != nullptr) *received = request->received;
  Status status = std::move(request->error);
  if (request->group) request->group.reset();
  request->is_free = true;
  free_.push_back(static_cast<uint32_t>(id & UINT32_MAX) - 1);
  return status;
}

Status Messenger::Send(Context context, uint32_t to, int tag, const void* data, uint64_t bytes) {
  return Wait(BeginSend(context, to, tag, data, bytes));
}

Status Messenger::Receive(Context context, int from, int tag, void* data, uint64_t bytes_max, Received* received) {
  return Wait(BeginReceive(context, from, tag, data, bytes_max), received);
}

void Messenger::Poll() {
  board_->ForEachSender(rank_, [this](uint32_t source) { PollFrom(source); });
  far_ranks_.Poll();
  if (pending_count_ > 0) WritePending();
}

void Messenger::PollFrom(uint32_t source) {
  const std::byte* data = nullptr;
  bool is_nonsense = false;
  bool has_read = false;
  std::optional<RingReader>& reader = readers_[source];
  if (!reader) reader.emplace(board_->ring(source, rank_));
  while (const MessageHead* head = reader->Front(&data, &is_nonsense)) {
    // Of a former epoch: dropped.
    if (head->epoch == epoch_) OnMessage(source, *head, data);
    reader->Pop();
    has_read = true;
  }
  KEDGE_CHECK(!is_nonsense);
  if (has_read && reader->TakeWriterWaits()) board_->Ring(source);
}

void Messenger::OnMessage(uint32_t source, const MessageHead& head, const std::byte* data) {
  if (head.kind == MessageKind::kTaken) {
    KEDGE_CHECK(head.request < requests_.size());
    requests_[head.request].is_complete = true;
    return;
  }
  if (head.kind == MessageKind::kWanted) {
    KEDGE_CHECK(head.request < requests_.size());
    Pending data_message;
    data_message.head.kind = MessageKind::kData;
    data_message.head.epoch = epoch_;
    data_message.head.request = static_cast<uint32_t>(head.address);
    data_message.head.bytes = requests_[head.request].bytes;
    data_message.data = requests_[head.request].data;
    data_message.request = static_cast<int64_t>(head.request);
    return Post(source, data_message);
  }
  const auto found =
      std::find_if(posted_.begin(), posted_.end(), [&](uint32_t index) { return Takes(requests_[index], source, head); });
  if (found == posted_.end()) {
    unexpected_.push_back({source, head, {data, data + head.bytes_in_ring}});
    return;
  }
  const uint32_t index = *found;
  posted_.erase(found);
  Deliver(index, source, head, data);
}

std::byte* Messenger::PlaceOf(const MessageHead& head) {
  KEDGE_CHECK(head.request < requests_.size() && head.bytes == requests_[head.request].received.bytes);
  return static_cast<std::byte*>(requests_[head.request].data);
}

void Messenger::OnData(const MessageHead& head) {
  requests_[head.request].is_complete = true;
}

void Messenger::Deliver(uint32_t index, uint32_t source, const MessageHead& head, const void* data) {
  Request& request = requests_[index];
  request.received = {NameOf(request, source), head.tag, head.bytes};
  if (head.bytes > request.bytes) {
    request.error =
        Status(Code::kMismatch, fmt::format("the message of {} bytes from rank {} (tag {}) does not fit into {} bytes",
                                            head.bytes, source, head.tag, request.bytes));
  } else if (head.kind == MessageKind::kEager) {
    if (head.bytes_in_ring > 0) std::memcpy(request.data, data, head.bytes_in_ring);
  } else if (head.bytes > 0 && !board_->is_here(source)) {
    Pending wanted;
    wanted.head.kind = MessageKind::kWanted;
    wanted.head.epoch = epoch_;
    wanted.head.request = head.request;
    wanted.head.address = index;
    return Post(source, wanted);
  } else if (head.bytes > 0 && !Pull(&request, source, head)) {
    return;
  }
  request.is_complete = true;
  if (head.kind != MessageKind::kOffer) return;
  Pending taken;
  taken.head.kind = MessageKind::kTaken;
  taken.head.epoch = epoch_;
  taken.head.request = head.request;
  Post(source, taken);
}

bool Messenger::Pull(Request* request, uint32_t source, const MessageHead& head) {
  const Status status = os::ReadOtherMemory(board_->row(source).process_id.load(), head.address, request->data, head.bytes);
  // Whose process has ended is known to all in a moment.
  if (status.code() == Code::kNotFound) return false;
  if (!status.ok()) request->error = status.WithContext(fmt::format("the message of rank {}", source));
  return true;
}

void Messenger::Post(uint32_t to, const Pending& message) {
  if (pending_[to].empty() && Write(to, message)) return;
  pending_[to].push_back(message);
  ++pending_count_;
}

bool Messenger::Write(uint32_t to, const Pending& message) {
  if (!board_->is_here(to)) {
    const bool has_data = message.head.kind == MessageKind::kEager || message.head.kind == MessageKind::kData;
    bool* sent = message.request >= 0 ? &requests_[static_cast<size_t>(message.request)].is_complete : nullptr;
    return far_ranks_.Send(to, message.head, message.data, has_data ? message.head.bytes : 0, sent);
  }
  std::optional<RingWriter>& writer = writers_[to];
  if (!writer) {
    board_->NoteSender(rank_, to);
    writer.emplace(board_->ring(rank_, to));
  }
  if (!writer->Write(message.head, message.data)) return false;
  if (message.request >= 0) requests_[static_cast<size_t>(message.request)].is_complete = true;
  board_->Ring(to);
  return true;
}

void Messenger::WritePending() {
  for (uint32_t to = 0; to < ranks(); ++to) {
    for (auto& messages = pending_[to]; !messages.empty() && Write(to, messages.front()); --pending_count_) messages.pop_front();
  }
}

}  // namespace kedge::fmi
