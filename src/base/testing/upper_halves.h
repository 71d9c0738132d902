// What the processor says of the upper halves of its vector registers.
#pragma once

#include <cstdint>
#include <optional>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace kedge {

// Whether this thread's upper halves are in use, those of AVX or of AVX-512. Nothing where the processor does not tell.
inline std::optional<bool> AreUpperHalvesInUse() {
#if defined(__x86_64__)
  constexpr unsigned kUsesXsave = 1u << 27;
  constexpr unsigned kTellsUse = 1u << 2;
  constexpr uint32_t kUpperHalves = 1u << 2 | 1u << 6;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & kUsesXsave) == 0) return std::nullopt;
  if (__get_cpuid_count(0xd, 1, &a, &b, &c, &d) == 0 || (a & kTellsUse) == 0) return std::nullopt;
  uint32_t low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(1));
  return (low & kUpperHalves) != 0;
#else
  return std::nullopt;
#endif
}

}  // namespace kedge
