// The states of a rank (K. Sato's thesis, 5.4.1), as a pure function of what all ranks have said.
//
//   launched ──► H1 bootstrapping ──► H2 connecting ──► H3 running ──► leaving ──► finished
//                     ▲   everybody is here   everybody is connected       everybody leaves
//                     └───────────── a failure: the next epoch ◄──┴──────────────┘
//
// A rank says what it has done: it is here, and has dropped what belonged to former epochs (H1); it is connected with the others,
// and has its checkpoint back (H2). It goes on when all others have done as much in the same epoch. Each failure begins an epoch;
// who is in an older one computes on, with errors from each communication, until it calls FMI_Loop, and then begins at H1.
#pragma once

#include <cstdint>
#include <vector>

namespace kedge::fmi {

enum class Phase : uint32_t { kLaunched = 0, kBootstrapping = 1, kConnecting = 2, kRunning = 3, kLeaving = 4 };

// What a rank has said of itself.
struct Place {
  uint32_t epoch = 0;
  Phase phase = Phase::kLaunched;
  friend bool operator==(const Place&, const Place&) = default;
};

// One word, so that it is said at once.
constexpr uint64_t Pack(Place place) {
  return uint64_t{place.epoch} << 32 | static_cast<uint32_t>(place.phase);
}
constexpr Place Unpack(uint64_t word) {
  return {static_cast<uint32_t>(word >> 32), static_cast<Phase>(word & UINT32_MAX)};
}

enum class Step {
  kWait,     // for others
  kAdvance,  // to the next phase; from kLeaving: the job has finished
  kBroken,   // a newer epoch has begun
};

// What a rank at `own` does next, given the job's epoch and everybody's place, its own among them.
Step NextStep(Place own, uint32_t epoch, const std::vector<Place>& all);

// The ranks that those at `own` wait for.
std::vector<uint32_t> Missing(Place own, const std::vector<Place>& all);

}  // namespace kedge::fmi
