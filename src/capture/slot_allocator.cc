// See slot_allocator.h.
#include "capture/slot_allocator.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "format/image_record.h"

namespace kedge {
namespace {

// A capture that needs a slot waits this long for the successor of an agent that died.
constexpr Duration kAgentReturnTimeout = std::chrono::seconds(15);
constexpr Duration kPauseWithoutAgent = std::chrono::milliseconds(10);

Status AgentIsGone(const AgentChannel& channel) {
  return Status(Code::kUnavailable, channel.replaced() ? "the agent is gone, and its successor does not have what this image had"
                                                       : "the agent is gone, and no other could be started in time");
}

HeldSlot Held(const SlotRange& range, PlaceKind kind) {
  return {range.tier, range.slot, range.slot_generation, kind == PlaceKind::kFullChunk};
}

// The agent answers Failed where neither tier nor store has room.
Status FailureOf(const AgentMessage& message) {
  const auto code = static_cast<Code>(message.code);
  return Status(code == Code::kOk ? Code::kNoSpace : code, message.text);
}

}  // namespace

void SlotAllocator::Request(Ahead* ahead, const FullChunk& wanted) {
  if (ahead->requested != 0 || ahead->answer) return;
  ClientMessage message{};
  message.kind = ClientMessageKind::kRequestPlace;
  message.chunk = static_cast<uint32_t>(ahead->kind);
  message.image_serial = ++last_number_;
  message.range.bytes = wanted.bytes;
  message.amount = wanted.bytes_to_come;
  if (channel_->TryPush(message)) ahead->requested = last_number_;
}

void SlotAllocator::ExpectFull(const FullChunk& chunk) {
  Request(&full_ahead_, chunk);
}

void SlotAllocator::ExpectOpen() {
  if (!open_ || open_->range.bytes - open_->cursor < limits_.piece_bytes) Request(&open_ahead_, {limits_.chunk_bytes});
}

Result<AgentMessage> SlotAllocator::TakeAnswer(Ahead* ahead, const FullChunk& wanted, const Deadline& deadline) {
  pump_();
  // What was refused ahead of time may have room by now: ask again.
  if (ahead->answer && ahead->answer->outcome != AssignOutcome::kSlot) ahead->answer.reset();
  Request(ahead, wanted);
  if (!ahead->answer) {
    const int64_t begin = SystemClock().NowNs();
    std::optional<Deadline> return_of_agent;
    while (!ahead->answer && !deadline.Passed()) {
      if (!channel_->lost()) {
        return_of_agent.reset();
        Request(ahead, wanted);  // anew when the ring was full, or the session was attached again
        channel_->WaitForMessage(deadline.Remaining());
      } else if (!AwaitAgent(&return_of_agent)) {
        break;
      }
      pump_();
    }
    waited_ += Duration(SystemClock().NowNs() - begin);
  }
  if (!ahead->answer) {
    if (channel_->lost()) return AgentIsGone(*channel_);
    return Status(Code::kTimeout,
                  "the agent has not assigned a slot: its tiers are full, and the flush that would free "
                  "one has not ended");
  }
  AgentMessage answer = *ahead->answer;
  ahead->answer.reset();
  return answer;
}

Result<AssignedPlace> SlotAllocator::TakeOpen(uint64_t bytes, const Deadline& deadline) {
  if (open_ && open_->range.bytes - open_->cursor < bytes) {
    filled_.push_back(open_->range);
    open_.reset();
  }
  AssignedPlace place;
  if (!open_) {
    KEDGE_ASSIGN_OR_RETURN(const AgentMessage answer, TakeAnswer(&open_ahead_, {limits_.chunk_bytes}, deadline));
    if (answer.outcome == AssignOutcome::kFailed) return FailureOf(answer);
    if (answer.outcome == AssignOutcome::kThrough) {
      place.through = true;
      return place;
    }
    open_ = Slot{answer.range, 0};
    open_->range.offset = 0;
  }
  if (bytes > open_->range.bytes) {
    return Status(Code::kNoSpace,
                  fmt::format("{} bytes do not fit a slot of {} bytes; choose a greater chunk.size", bytes, open_->range.bytes));
  }
  place.range = open_->range;
  place.range.offset = open_->cursor;
  place.range.bytes = bytes;
  open_->cursor = std::min(AlignChunkOffset(open_->cursor + bytes), open_->range.bytes);
  ExpectOpen();
  return place;
}

Result<AssignedPlace> SlotAllocator::TakeFull(const FullChunk& chunk, const Deadline& deadline) {
  KEDGE_ASSIGN_OR_RETURN(const AgentMessage answer, TakeAnswer(&full_ahead_, chunk, deadline));
  if (answer.outcome == AssignOutcome::kFailed) return FailureOf(answer);
  AssignedPlace place;
  place.through = answer.outcome == AssignOutcome::kThrough;
  if (place.through) return place;
  if (chunk.bytes > answer.range.bytes) {
    Return(answer.range);
    return Status(Code::kInternal, fmt::format("the agent assigned a slot of {} bytes for {}", answer.range.bytes, chunk.bytes));
  }
  place.range = answer.range;
  place.range.offset = 0;
  place.range.bytes = chunk.bytes;
  return place;
}

bool SlotAllocator::GrowOpen(SlotRange* place, uint64_t extra_bytes) {
  if (!open_ || place->tier != open_->range.tier || place->slot != open_->range.slot ||
      AlignChunkOffset(place->offset + place->bytes) != open_->cursor ||
      place->offset + place->bytes + extra_bytes > open_->range.bytes) {
    return false;
  }
  place->bytes += extra_bytes;
  open_->cursor = std::min(AlignChunkOffset(place->offset + place->bytes), open_->range.bytes);
  return true;
}

void SlotAllocator::OnMessage(const AgentMessage& message) {
  if (message.kind == AgentMessageKind::kRecall) {
    ReturnUnused();
    return;
  }
  if (message.kind != AgentMessageKind::kAssign) return;
  for (Ahead* ahead : {&open_ahead_, &full_ahead_}) {
    if (ahead->requested != 0 && ahead->requested == message.number) {
      ahead->requested = 0;
      ahead->answer = message;
      return;
    }
  }
  // An answer to a request of before the agent's loss: nobody waits for it.
  if (message.outcome == AssignOutcome::kSlot) Return(message.range);
}

void SlotAllocator::Return(const SlotRange& range) {
  ClientMessage message{};
  message.kind = ClientMessageKind::kReturnSlot;
  message.range = range;
  // A lost return frees the slot late, with the session; it never harms what lies in it.
  (void)channel_->Push(message, Deadline(SystemClock(), std::chrono::seconds(10)));
}

bool SlotAllocator::AwaitAgent(std::optional<Deadline>* until) const {
  if (channel_->replaced()) return false;
  if (!*until) until->emplace(SystemClock(), kAgentReturnTimeout);
  if ((*until)->Passed()) return false;
  std::this_thread::sleep_for(kPauseWithoutAgent);
  return true;
}

Status SlotAllocator::Send(const ClientMessage& message, const Deadline& deadline) {
  std::optional<Deadline> return_of_agent;
  for (;;) {
    Status pushed = channel_->Push(message, deadline);
    if (pushed.code() != Code::kUnavailable) return pushed;
    if (deadline.Passed() || !AwaitAgent(&return_of_agent)) return AgentIsGone(*channel_);
    pump_();
    if (!channel_->lost()) return_of_agent.reset();
  }
}

void SlotAllocator::ReturnFilled() {
  for (const SlotRange& range : filled_) Return(range);
  filled_.clear();
}

void SlotAllocator::ReturnUnused() {
  for (Ahead* ahead : {&open_ahead_, &full_ahead_}) {
    if (ahead->answer && ahead->answer->outcome == AssignOutcome::kSlot) Return(ahead->answer->range);
    ahead->answer.reset();
  }
  if (open_ && open_->cursor == 0) {
    Return(open_->range);
    open_.reset();
  }
}

std::vector<HeldSlot> SlotAllocator::HeldAfterAgentLoss() {
  std::vector<HeldSlot> held;
  for (Ahead* ahead : {&open_ahead_, &full_ahead_}) {
    ahead->requested = 0;
    if (ahead->answer && ahead->answer->outcome == AssignOutcome::kSlot) {
      held.push_back(Held(ahead->answer->range, ahead->kind));
    } else {
      ahead->answer.reset();
    }
  }
  if (open_) held.push_back(Held(open_->range, PlaceKind::kOpenSlot));
  for (const SlotRange& range : filled_) held.push_back(Held(range, PlaceKind::kOpenSlot));
  return held;
}

std::optional<SlotRange> SlotAllocator::Unused() const {
  for (const Ahead* ahead : {&open_ahead_, &full_ahead_}) {
    if (ahead->answer && ahead->answer->outcome == AssignOutcome::kSlot) return ahead->answer->range;
  }
  if (!open_) return std::nullopt;
  SlotRange rest = open_->range;
  rest.offset = open_->cursor;
  rest.bytes -= open_->cursor;
  return rest;
}

}  // namespace kedge
