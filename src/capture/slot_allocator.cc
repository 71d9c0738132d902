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
// What is asked for ahead of need: some small checkpoints; as many as the mailbox holds, when they come fast.
constexpr uint64_t kOpenAheadBytes = uint64_t{256} << 10;
constexpr uint64_t kOpenAheadBytesMax = uint64_t{8} << 20;
// This is small.
constexpr uint64_t kSmallBytesMax = uint64_t{64} << 10;
constexpr Duration kPauseWithoutAgent = std::chrono::milliseconds(10);
constexpr Duration kPauseWhileRingIsFull = std::chrono::microseconds(200);

Status AgentIsGone(const AgentChannel& channel) {
  return Status(Code::kUnavailable, channel.replaced() ? "the agent is gone, and its successor does not have what this image had"
                                                       : "the agent is gone, and no other could be started in time");
}

HeldSlot Held(const SlotRange& range, PlaceKind kind) {
  return {range.tier, range.slot, range.slot_generation, kind == PlaceKind::kFullChunk};
}

bool IsSame(const SlotRange& one, const SlotRange& other) {
  return one.tier == other.tier && one.slot == other.slot && one.slot_generation == other.slot_generation;
}

}  // namespace

void SlotAllocator::Request(Ahead* ahead, const FullChunk& wanted) {
  if (ahead->requested != 0 || ahead->answer) return;
  RequestPlace request{
      .place = ahead->kind, .number = ++last_number_, .bytes = wanted.bytes, .bytes_to_come = wanted.bytes_to_come};
  if (ahead == &open_ahead_ && open_) {
    request.grow = open_->range;
    request.grow.bytes = std::max(open_->cursor + wanted.bytes, open_->range.bytes + 1);
  }
  ahead->grows = request.grow;
  if (channel_->TryPush(request)) ahead->requested = last_number_;
}

void SlotAllocator::ExpectFull(const FullChunk& chunk) {
  Request(&full_ahead_, chunk);
}

void SlotAllocator::ExpectOpen(uint64_t last_bytes) {
  const uint64_t wanted_bytes = std::min(kOpenAheadBytes, limits_.piece_bytes);
  uint64_t enough_bytes = wanted_bytes;
  // The request lies behind all that is in the mailbox, and this client goes on meanwhile.
  const uint64_t half_bytes = open_ ? open_->range.bytes / 2 : 0;
  const bool is_half_used = open_ && last_bytes <= kSmallBytesMax && !HasOpen(half_bytes);
  if (is_half_used && half_bytes > kFastOpenBytesPerSecond * ToSeconds(Duration(SystemClock().NowNs() - open_->used_since_ns))) {
    enough_bytes = std::max(enough_bytes, std::min(half_bytes, kOpenAheadBytesMax));
  }
  if (!HasOpen(enough_bytes)) Request(&open_ahead_, {wanted_bytes});
}

Result<std::optional<AssignPlace>> SlotAllocator::TakeAnswer(Ahead* ahead, const FullChunk& wanted, const Deadline& deadline) {
  const auto has_grown = [&] { return ahead == &open_ahead_ && HasOpen(wanted.bytes); };
  pump_();
  if (has_grown()) return std::optional<AssignPlace>();
  // What was refused ahead of time may have room by now: ask again.
  if (ahead->answer && ahead->answer->outcome != AssignOutcome::kSlot) ahead->answer.reset();
  Request(ahead, wanted);
  if (!ahead->answer) {
    const int64_t begin = SystemClock().NowNs();
    std::optional<Deadline> return_of_agent;
    while (!ahead->answer && !has_grown() && !deadline.Passed()) {
      if (!channel_->lost()) {
        return_of_agent.reset();
        Request(ahead, wanted);  // anew when the ring was full, or the session was attached again
        // Nobody tells when the ring has room.
        const bool is_asked = ahead->requested != 0;
        channel_->WaitForMessage(is_asked ? deadline.Remaining()
                                          : std::min<Duration>(deadline.Remaining(), kPauseWhileRingIsFull));
      } else if (!AwaitAgent(&return_of_agent)) {
        break;
      }
      pump_();
    }
    waited_ += Duration(SystemClock().NowNs() - begin);
  }
  if (has_grown()) return std::optional<AssignPlace>();
  if (!ahead->answer) {
    if (channel_->lost()) return AgentIsGone(*channel_);
    return Status(Code::kTimeout,
                  "the agent has not assigned a slot: its tiers are full, and the flush that would free "
                  "one has not ended");
  }
  const AssignPlace answer = *ahead->answer;
  ahead->answer.reset();
  return std::optional(answer);
}

Result<AssignedPlace> SlotAllocator::TakeOpen(uint64_t bytes, const Deadline& deadline) {
  AssignedPlace place;
  if (bytes > limits_.chunk_bytes) {
    return Status(Code::kNoSpace,
                  fmt::format("{} bytes do not fit a slot of {} bytes; choose a greater chunk.size", bytes, limits_.chunk_bytes));
  }
  while (!HasOpen(bytes)) {
    KEDGE_ASSIGN_OR_RETURN(const std::optional<AssignPlace> answer, TakeAnswer(&open_ahead_, {bytes}, deadline));
    if (!answer.has_value()) continue;
    if (answer->outcome == AssignOutcome::kThrough) {
      place.through = true;
      return place;
    }
    // One that was asked for ahead may be too small; the agent is asked to back it further then.
    if (open_) filled_.push_back(open_->range);
    open_ = Slot{answer->range};
    open_->range.offset = 0;
  }
  if (open_->cursor == 0) open_->used_since_ns = SystemClock().NowNs();
  place.range = open_->range;
  place.range.offset = open_->cursor;
  place.range.bytes = bytes;
  open_->cursor = std::min(AlignChunkOffset(open_->cursor + bytes), open_->range.bytes);
  ExpectOpen(bytes);
  return place;
}

Result<AssignedPlace> SlotAllocator::TakeFull(const FullChunk& chunk, const Deadline& deadline) {
  AssignedPlace place;
  for (int tries = 0; tries < 2; ++tries) {
    KEDGE_ASSIGN_OR_RETURN(const std::optional<AssignPlace> answer, TakeAnswer(&full_ahead_, chunk, deadline));
    place.through = answer->outcome == AssignOutcome::kThrough;
    if (place.through) return place;
    place.range = answer->range;
    if (chunk.bytes <= answer->range.bytes) break;
    // It was asked for ahead, for a smaller chunk.
    Return(answer->range);
  }
  if (chunk.bytes > place.range.bytes) {
    return Status(Code::kInternal, fmt::format("the agent assigned a slot of {} bytes for {}", place.range.bytes, chunk.bytes));
  }
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

void SlotAllocator::OnAssigned(const AssignPlace& assigned) {
  // The open slot has grown; perhaps it has become full meanwhile, or was returned, or another agent has come since.
  const bool is_slot = assigned.outcome == AssignOutcome::kSlot;
  const bool is_open = is_slot && open_ && IsSame(assigned.range, open_->range);
  const bool is_filled = is_slot && std::any_of(filled_.begin(), filled_.end(),
                                                [&](const SlotRange& filled) { return IsSame(assigned.range, filled); });
  if (is_open) {
    open_->range.bytes = std::max(open_->range.bytes, assigned.range.bytes);
    open_->used_since_ns = SystemClock().NowNs();
  }
  for (Ahead* ahead : {&open_ahead_, &full_ahead_}) {
    if (ahead->requested != 0 && ahead->requested == assigned.number) {
      ahead->requested = 0;
      if (!is_slot || !IsSame(assigned.range, ahead->grows)) ahead->answer = assigned;
      return;
    }
  }
  // An answer to a request of before the agent's loss: nobody waits for it.
  if (is_slot && !is_open && !is_filled) Return(assigned.range);
}

void SlotAllocator::Return(const SlotRange& range) {
  // A lost return frees the slot late, with the session; it never harms what lies in it.
  (void)channel_->Push(ReturnSlot{.slot = range}, Deadline(SystemClock(), std::chrono::seconds(10)));
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
