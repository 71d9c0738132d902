// Random numbers: a small seeded generator whose sequence is the same everywhere and for ever (failing seeds replay),
// and 128-bit identities from the kernel.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kedge {

// xoshiro256** seeded by SplitMix64 (Blackman and Vigna, "Scrambled linear pseudorandom number generators", 2018).
// Not for secrets. Not thread safe. Copyable: a copy continues the same sequence.
class Random {
 public:
  explicit Random(uint64_t seed);
  uint64_t Next();
  // Uniform in [0, bound); bound > 0.
  uint64_t Below(uint64_t bound);
  // Uniform in [0, 1).
  double Unit() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }
  // True with the given probability.
  bool Chance(double probability) { return Unit() < probability; }
  void Fill(void* data, size_t bytes);

  using result_type = uint64_t;  // so that std::shuffle and distributions accept it
  static constexpr uint64_t min() { return 0; }
  static constexpr uint64_t max() { return ~uint64_t{0}; }
  uint64_t operator()() { return Next(); }

 private:
  uint64_t state_[4];
};

// One step of SplitMix64: a well mixed value from any two, to derive independent seeds.
uint64_t MixSeed(uint64_t seed, uint64_t stream);

// From getrandom(2): fit for secrets.
void FillFromKernel(void* data, size_t bytes);

// The identity of a store, attempt or agent. Zero means none.
struct Id128 {
  uint64_t high = 0;
  uint64_t low = 0;

  // From getrandom(2); never zero.
  static Id128 Generate();
  // Exactly 32 hexadecimal digits.
  static std::optional<Id128> FromHex(std::string_view text);
  std::string ToHex() const;
  bool IsZero() const { return high == 0 && low == 0; }
  friend auto operator<=>(const Id128&, const Id128&) = default;
};

}  // namespace kedge
