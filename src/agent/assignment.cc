#include "agent/assignment.h"

#include <algorithm>

#include "agent/agent.h"
#include "agent/flush.h"
#include "agent/images.h"
#include "agent/sessions.h"
#include "agent/tiers.h"
#include "base/log.h"
#include "os/kill_point.h"

namespace kedge {
namespace {

// How long a recall may take before it counts as answered, and how long it then counts.
constexpr Duration kRecallAnswer = std::chrono::milliseconds(50);
constexpr Duration kRecallPause = std::chrono::milliseconds(500);
// Of one session that wait at a time. A client makes one for each thread that captures; the bound is against broken ones.
constexpr std::ptrdiff_t kRequestsMax = kClientRingEntries;

}  // namespace

Status Assignment::Add(Session& session, const ClientMessage& message) {
  const auto waiting =
      std::count_if(queue_.begin(), queue_.end(), [&](const Request& other) { return other.session_id == session.id; });
  if (waiting >= kRequestsMax) return Status(Code::kInvalidArgument, "too many requests for a place at a time");
  Request request;
  request.session_id = session.id;
  request.number = message.image_serial;
  request.kind = message.chunk == static_cast<uint32_t>(PlaceKind::kFullChunk) ? PlaceKind::kFullChunk : PlaceKind::kOpenSlot;
  request.bytes = message.range.bytes;
  request.since_ns = agent_.clock().NowNs();
  queue_.push_back(request);
  return Status::Ok();
}

uint64_t Assignment::waiting_bytes() const {
  uint64_t bytes = 0;
  for (const Request& request : queue_) bytes += request.bytes;
  return bytes;
}

void Assignment::Drop(const Session& session) {
  std::erase_if(queue_, [&](const Request& request) { return request.session_id == session.id; });
  std::erase_if(recalled_ns_, [&](const auto& entry) { return entry.first == session.tiers; });
}

void Assignment::Pump() {
  // Serving may drop cached images, which may free slots, which asks to pump.
  pump_again_ = true;
  if (pumping_) return;
  pumping_ = true;
  while (pump_again_) {
    pump_again_ = false;
    std::set<std::vector<TierUnit*>> blocked;
    for (size_t i = 0; i < queue_.size();) {
      Session* session = agent_.sessions().Find(queue_[i].session_id);
      if (session == nullptr) {
        queue_.erase(queue_.begin() + static_cast<std::ptrdiff_t>(i));
        continue;
      }
      if (blocked.contains(session->tiers) || !Serve(*session, queue_[i])) {
        blocked.insert(session->tiers);
        ++i;
        continue;
      }
      queue_.erase(queue_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  pumping_ = false;
}

void Assignment::PumpSoon() {
  if (pump_posted_ || queue_.empty()) return;
  pump_posted_ = true;
  agent_.loop().Post([this] {
    pump_posted_ = false;
    Pump();
  });
}

bool Assignment::Serve(Session& session, Request& request) {
  std::vector<TierLoad> loads;
  for (const TierUnit* unit : session.tiers) loads.push_back(agent_.tiers().LoadOf(*unit));
  for (;;) {
    NodeLoad load;
    load.tiers = loads;
    load.flush_bytes_per_second = agent_.flush().bytes_per_second();
    load.flushes_in_flight = agent_.flush().in_flight();
    load.waiting = static_cast<uint32_t>(queue_.size());
    load.waiting_bytes = queue_.size() * request.bytes;
    load.head_since_ns = request.since_ns;
    const PlaceDecision decision = agent_.policy().Place(load, request.bytes);
    if (decision.kind == PlaceDecision::Kind::kTier) {
      TierUnit* unit = session.tiers[decision.tier];
      // A faster one that is still being made ready is worth the moment.
      const bool faster_comes =
          std::any_of(session.tiers.begin(), session.tiers.begin() + static_cast<std::ptrdiff_t>(decision.tier),
                      [](const TierUnit* earlier) { return earlier->reserving && !earlier->lost; });
      if (faster_comes) return false;
      if (AssignIn(session, request, unit)) return true;
      loads[decision.tier].present = false;  // its device has no space for the slot: the policy is asked again without it
      continue;
    }
    if (agent_.tiers().IsReserving(session.tiers)) return false;
    // No tier is worth it as they are: a flushed chunk of an image under way makes room where it lies.
    const auto released = std::find_if(session.tiers.begin(), session.tiers.end(), [this](TierUnit* unit) {
      return !agent_.tiers().LoadOf(*unit).HasRoom() && agent_.images().ReleaseFlushed(unit);
    });
    if (released != session.tiers.end()) {
      loads[static_cast<size_t>(released - session.tiers.begin())] = agent_.tiers().LoadOf(**released);
      continue;
    }
    if (!request.waited) {
      request.waited = true;
      ++agent_.counters().places_waited;
    }
    const bool recalling = Recall(session);
    if (decision.kind == PlaceDecision::Kind::kWait || recalling) {
      AskAgain(decision.ask_again);
      return false;
    }
    ++agent_.counters().places_through;
    Answer(session, request, AssignOutcome::kThrough, SlotRange{}, Status::Ok());
    return true;
  }
}

void Assignment::AskAgain(Duration after) {
  if (after <= Duration::zero() || asking_again_) return;
  asking_again_ = true;
  agent_.loop().AddTimer(after, [this] {
    asking_again_ = false;
    Pump();
  });
}

bool Assignment::AssignIn(Session& session, const Request& request, TierUnit* unit) {
  if (!agent_.images().MakeRoom(unit)) return false;
  const auto slot = unit->space->PickFree(session.id);
  if (!slot.has_value()) return false;
  if (unit->info().kind == TierKind::kDirectory) {
    Status reserved = unit->tier->Reserve(*slot);
    if (!reserved.ok()) {
      static LogRateLimit limit(std::chrono::seconds(10));
      LogLimited(limit, LogLevel::kWarning, "agent", "tier {}: {}", unit->info().name, reserved.ToString());
      return false;
    }
  }
  SlotRange range{};
  range.tier = static_cast<uint32_t>(std::find(session.tiers.begin(), session.tiers.end(), unit) - session.tiers.begin());
  range.slot = *slot;
  range.slot_generation = unit->space->Assign(*slot, session.id);
  range.bytes = unit->info().slot_bytes;
  os::KillPoint("slot-assigned");
  if (request.kind == PlaceKind::kFullChunk) session.full_slots.insert(SlotId{unit->id, *slot});
  ++agent_.counters().places_assigned;
  Answer(session, request, AssignOutcome::kSlot, range, Status::Ok());
  return true;
}

bool Assignment::Recall(const Session& for_whom) {
  const int64_t now_ns = agent_.clock().NowNs();
  const auto asked = recalled_ns_.find(for_whom.tiers);
  if (asked != recalled_ns_.end() && now_ns - asked->second < kRecallAnswer.count()) return true;
  if (asked != recalled_ns_.end() && now_ns - asked->second < kRecallPause.count()) return false;
  bool anyone = false;
  for (Session* session : agent_.sessions().all()) {
    const bool shares = std::any_of(session->tiers.begin(), session->tiers.end(), [&](const TierUnit* unit) {
      return std::find(for_whom.tiers.begin(), for_whom.tiers.end(), unit) != for_whom.tiers.end() &&
             unit->space->AssignedTo(session->id) > 0;
    });
    if (!shares || session->id == for_whom.id) continue;
    AgentMessage message{};
    message.kind = AgentMessageKind::kRecall;
    agent_.sessions().Send(*session, message);
    anyone = true;
  }
  if (!anyone) return false;
  recalled_ns_[for_whom.tiers] = now_ns;
  ++agent_.counters().recalls;
  agent_.loop().AddTimer(kRecallAnswer, [this] { Pump(); });
  return true;
}

void Assignment::Answer(Session& session, const Request& request, AssignOutcome outcome, const SlotRange& range,
                        const Status& why) {
  AgentMessage message{};
  message.kind = AgentMessageKind::kAssign;
  message.outcome = outcome;
  message.number = request.number;
  message.range = range;
  message.code = static_cast<int32_t>(why.code());
  message.errno_value = why.errno_value();
  why.message().copy(message.text, sizeof(message.text) - 1);
  agent_.sessions().Send(session, message);
}

}  // namespace kedge
