// "adaptive": [VeloC] algorithm 2 asks what one writer gets; this asks what all of them together get done, and by when.
//
// 1. No tier has more writers than it serves well: one more must not lower the total of the fastest (most_writers of its
//    curve), and must raise that of another (best_writers).
// 2. Among the tiers with room that serve one more well, the fastest by prediction. When none is both faster and full, the
//    chunk goes there. Otherwise it may be better to wait for a slot of a faster tier, which flushes free at the node's flush
//    rate (what all flushes together achieve). The chunk goes to the slower tier if
//    a) it is there sooner than the next slot comes and is filled (a slot that is still being written comes too: when it has been
//       written and flushed), or
//    b) others have enough to write to keep the faster tiers busy until it is there: nobody waits for it at the end, or
//    c) what the faster tiers hold keeps the store busy until it is there, and enough comes afterwards to fill what is free by
//       then: that a slot stays empty for a while costs nothing, that the store has nothing to do does.
// 3. What frees the fastest tier that is short of room for what is still to come is flushed first; what lies in a tier with room
//    enough goes when there is nothing of the kind, not even under way: it would only take throughput from that, which somebody
//    waits for. One flush in kOldestEvery is the oldest.
//
// A flush that takes longer than the average lowers the rate at once, by its age, and a head that has waited for as long as the
// slower tier would have taken goes there: a store that stalls costs one chunk's time, not the length of the stall.
// Before the first flush ends that rate is unknown, and rule 1 alone keeps the start cautious.
// Nobody starves: the head waits for writers for a bounded time only, and for slots while flushes can free one.
// A tier without a curve takes any number of writers, and counts as faster than those after it. O(tiers) per decision.
#include "placement/adaptive.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

namespace kedge {
namespace {

using Kind = PlaceDecision::Kind;

constexpr uint64_t kOldestEvery = 32;
constexpr double kAskAgainSecondsMin = 1e-3;
constexpr double kAskAgainSecondsMax = 0.5;
// How long the head waits for writers of tiers that have room.
constexpr double kPatienceSeconds = 0.02;
constexpr double kPatienceChunks = 8;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// What one writer more gets. Where writers help one another (each gets more the more there are), those that wait will follow.
double Rate(const TierLoad& tier, const NodeLoad& load) {
  if (tier.curve == nullptr) return kInfinity;
  const double alone = tier.curve->PerWriter(tier.writers + 1);
  const uint32_t together = std::min(tier.curve->best_writers(), tier.writers + std::max(1u, load.waiting));
  return together > tier.writers ? std::max(alone, tier.curve->PerWriter(together)) : alone;
}

// Until the next slot of a full tier is free: by a flush under way, else by one that has yet to begin.
double NextSlotSeconds(const TierLoad& tier, const NodeLoad& load, double other_flush_seconds, double bytes) {
  if (tier.flushes_in_flight > 0) return tier.next_flush_seconds;
  const auto in_flight = static_cast<double>(std::max(1u, load.flushes_in_flight));
  const double flush_rate = std::min(static_cast<double>(load.flush_bytes_per_second),
                                     static_cast<double>(load.flush_total_bytes_per_second) / in_flight);
  const bool is_being_written = !tier.FlushCanFree() && tier.curve != nullptr;
  return (is_being_written ? bytes / tier.curve->PerWriter(tier.writers) : 0) + other_flush_seconds + bytes / flush_rate;
}

}  // namespace

// What the tiers that are faster than one, but cannot take the chunk now, could do for it.
struct Adaptive::Faster {
  bool any = false;
  double flush_rate = 0;  // bytes per second at which slots of those that are full are freed and filled; 0: unknown, or none is
  double fill_rate = 0;   // that all of them can write
  double slot_rate = 0;   // of that, what the flushes under way now do for them
  double room_rate = 0;   // bytes per second of those that have room, but writers enough
  double room_bytes = 0;  // that these still take
  double next_slot_seconds = kInfinity;
  double writer_rate = 0;  // of one writer on the fastest of them
  uint32_t writers = 0;
  double bytes_to_come = 0;  // of their writers
  double backlog_bytes = 0;  // of theirs, whose flush has not begun

  // Until they can take the next chunk: a slot is free, or a writer of one that has room has ended.
  double SecondsToNext(double bytes) const {
    const double writer = room_rate > 0 ? bytes / room_rate : kInfinity;
    const double slot = slot_rate > 0 ? std::max(next_slot_seconds, bytes / slot_rate) : kInfinity;
    return std::min(writer, slot);
  }
  bool known() const { return flush_rate + room_rate > 0; }
  double rate() const { return flush_rate + room_rate; }
  // Until they have taken so many bytes.
  double SecondsFor(double bytes) const {
    const double meanwhile = rate() * (room_rate > 0 ? room_bytes / room_rate : 0);
    if (bytes <= meanwhile || flush_rate <= 0) return bytes / rate();
    return meanwhile / rate() + (bytes - meanwhile) / flush_rate;
  }
};

Adaptive::Faster Adaptive::FasterThan(const NodeLoad& load, size_t chosen, uint64_t chunk_bytes) {
  Faster faster;
  const double chosen_rate = Rate(load.tiers[chosen], load);
  double other_flush_seconds = kInfinity;  // until a flush worker is free
  for (const TierLoad& tier : load.tiers) {
    if (tier.flushes_in_flight > 0) other_flush_seconds = std::min(other_flush_seconds, tier.next_flush_seconds);
  }
  if (other_flush_seconds == kInfinity) other_flush_seconds = 0;
  for (size_t i = 0; i < load.tiers.size(); ++i) {
    const TierLoad& tier = load.tiers[i];
    if (i == chosen || !tier.present || tier.slot_bytes < chunk_bytes) continue;
    const double rate = Rate(tier, load);
    if (rate < chosen_rate || (rate == chosen_rate && i > chosen)) continue;
    if (tier.HasRoom()) {  // it serves no more now, but will when one of its writers ends
      if (tier.curve != nullptr) faster.room_rate += tier.curve->Total(tier.writers);
      faster.room_bytes += static_cast<double>(tier.slot_bytes) * tier.room();
    } else if (tier.FlushCanFree() || tier.writers > 0) {
      const double all = static_cast<double>(load.flush_total_bytes_per_second);
      const double part = static_cast<double>(std::max(1u, tier.flushes_in_flight)) / std::max(1u, load.flushes_in_flight);
      faster.flush_rate = all;
      faster.slot_rate += std::min(1.0, part) * all;
      faster.next_slot_seconds =
          std::min(faster.next_slot_seconds, NextSlotSeconds(tier, load, other_flush_seconds, static_cast<double>(chunk_bytes)));
    } else {
      continue;
    }
    faster.any = true;
    faster.fill_rate += tier.curve == nullptr ? kInfinity : tier.curve->Total(tier.slots);
    faster.writer_rate = std::max(faster.writer_rate, rate);
    faster.writers += tier.writers;
    faster.bytes_to_come += static_cast<double>(tier.bytes_to_come);
    faster.backlog_bytes += static_cast<double>(tier.backlog_bytes);
  }
  faster.flush_rate = std::min(faster.flush_rate, faster.fill_rate);
  return faster;
}

// Rule 2c, for so many seconds.
bool Adaptive::StoreStaysBusy(const NodeLoad& load, const Faster& faster, uint64_t chunk_bytes, double seconds) {
  if (faster.flush_rate <= 0 || faster.backlog_bytes < faster.flush_rate * seconds) return false;
  double to_come = static_cast<double>(load.waiting_bytes - chunk_bytes + load.waiting_bytes_to_come);
  for (const TierLoad& tier : load.tiers) to_come += static_cast<double>(tier.bytes_to_come);
  const double refill_seconds = faster.flush_rate * seconds / faster.writer_rate;
  return seconds + refill_seconds <= faster.SecondsFor(to_come);
}

bool Adaptive::IsWorth(const NodeLoad& load, size_t chosen, uint64_t chunk_bytes) const {
  const Faster faster = FasterThan(load, chosen, chunk_bytes);
  if (!faster.any || !faster.known()) return true;
  const double bytes = static_cast<double>(chunk_bytes);
  // Those that wait need not follow, with something else to wait for.
  const TierLoad& tier = load.tiers[chosen];
  const double here = tier.curve == nullptr ? 0 : bytes / tier.curve->PerWriter(tier.writers + 1);
  const double waited = static_cast<double>(clock_.NowNs() - load.head_since_ns) * 1e-9;
  if (here <= std::max(waited, faster.SecondsToNext(bytes)) + bytes / faster.writer_rate) return true;
  const double others_needed = std::max(1.0, std::ceil(faster.rate() / faster.writer_rate));
  if (load.waiting - 1 + faster.writers < others_needed) return StoreStaysBusy(load, faster, chunk_bytes, here);
  const double others =
      static_cast<double>(load.waiting_bytes - chunk_bytes + load.waiting_bytes_to_come - load.head_bytes_to_come);
  return here <= faster.SecondsFor(others + faster.bytes_to_come);
}

PlaceDecision Adaptive::Place(const NodeLoad& load, uint64_t chunk_bytes) {
  double fastest_rate = -1;
  for (const TierLoad& tier : load.tiers) {
    if (tier.present && tier.slot_bytes >= chunk_bytes && tier.slots > 0) fastest_rate = std::max(fastest_rate, Rate(tier, load));
  }
  std::optional<size_t> best;     // serves one more well
  std::optional<size_t> crowded;  // has room, but would get less done with one more
  double best_rate = -1, crowded_rate = -1;
  for (size_t i = 0; i < load.tiers.size(); ++i) {
    const TierLoad& tier = load.tiers[i];
    if (tier.slot_bytes < chunk_bytes || !tier.HasRoom()) continue;
    const double rate = Rate(tier, load);
    const bool well =
        tier.curve == nullptr || tier.writers < (rate >= fastest_rate ? tier.curve->most_writers() : tier.curve->best_writers());
    auto [chosen, chosen_rate] = well ? std::tie(best, best_rate) : std::tie(crowded, crowded_rate);
    if (rate <= chosen_rate) continue;
    chosen = i;
    chosen_rate = rate;
  }
  if (best && IsWorth(load, *best, chunk_bytes)) return {Kind::kTier, *best};
  if (!best && !crowded) return {FlushCanFreeFor(load, chunk_bytes) ? Kind::kWait : Kind::kThrough};

  const double waited = static_cast<double>(clock_.NowNs() - load.head_since_ns) * 1e-9;
  const double chunk_seconds = static_cast<double>(chunk_bytes) / (best ? best_rate : crowded_rate);
  if (waited >= kPatienceSeconds + kPatienceChunks * chunk_seconds) return {Kind::kTier, best ? *best : *crowded};
  return {Kind::kWait, 0, FromSeconds(std::clamp(chunk_seconds / 8, kAskAgainSecondsMin, kAskAgainSecondsMax))};
}

std::optional<size_t> Adaptive::NextFlush(const NodeLoad& load, std::span<const FlushCandidate> candidates) {
  const size_t oldest = OldestCandidate(candidates);
  double demand = static_cast<double>(load.waiting_bytes) + static_cast<double>(load.waiting_bytes_to_come);
  for (const TierLoad& tier : load.tiers) demand += static_cast<double>(tier.bytes_to_come);
  if (demand == 0 || ++flushes_ % kOldestEvery == 0) return oldest;
  // Its slots are not what writers wait for, or will.
  auto has_enough = [&](const TierLoad& tier) {
    return !tier.present || static_cast<double>(tier.slot_bytes) * tier.room() >= demand;
  };
  std::optional<size_t> best;
  double best_rate = 0;
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (candidates[i].tier >= load.tiers.size() || has_enough(load.tiers[candidates[i].tier])) continue;
    const TierLoad& tier = load.tiers[candidates[i].tier];
    const double rate = Rate(tier, load);
    if (best && (rate < best_rate || (rate == best_rate && candidates[i].sequence > candidates[*best].sequence))) continue;
    best = i;
    best_rate = rate;
  }
  if (best) return best;
  // Flushes of a tier that writers wait for are under way: they have the store to themselves.
  const size_t from = candidates[oldest].tier;
  const bool held_back =
      load.waiting > 0 && from < load.tiers.size() &&
      std::any_of(load.tiers.begin(), load.tiers.end(), [&](const TierLoad& tier) {
        return tier.flushes_in_flight > 0 && !has_enough(tier) && Rate(tier, load) > Rate(load.tiers[from], load);
      });
  return held_back ? std::nullopt : std::optional<size_t>(oldest);
}

}  // namespace kedge
