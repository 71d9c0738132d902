// Every how many versions of a name get a level above local: the counts that a job goes by.
//
// They begin as the configured ones and travel with the ranks, which change them all at the same call (client/checkpoint/pace.h):
// what a version is to reach follows from the rank that takes it, and from nothing that an agent would have to remember.
#pragma once

#include <cstdint>

namespace kedge {

// As the configuration allows; what exceeds it was scribbled.
inline constexpr uint32_t kLevelEveryMax = 1'000'000'000;

struct LevelCounts {
  uint32_t node_every = 0;   // every n-th version is protected across nodes; 0: none
  uint32_t store_every = 0;  // every n-th version goes to the store; 0: none

  // Without any, as in "nothing was said of them".
  bool none() const { return node_every == 0 && store_every == 0; }
  friend bool operator==(const LevelCounts&, const LevelCounts&) = default;
};

// As one word of shared memory: never half of one and half of another.
constexpr uint64_t Packed(const LevelCounts& counts) {
  return uint64_t{counts.node_every} << 32 | counts.store_every;
}
// None for what cannot be counts.
constexpr LevelCounts UnpackedLevels(uint64_t packed) {
  const LevelCounts counts{static_cast<uint32_t>(packed >> 32), static_cast<uint32_t>(packed)};
  return counts.node_every > kLevelEveryMax || counts.store_every > kLevelEveryMax ? LevelCounts{} : counts;
}

}  // namespace kedge
