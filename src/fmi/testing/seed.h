// The seed of a test with random input: KEDGE_TEST_SEED, or another one each time.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <random>

namespace kedge::fmi::testing {

inline uint32_t Seed() {
  const char* given = std::getenv("KEDGE_TEST_SEED");
  return given != nullptr ? static_cast<uint32_t>(std::strtoul(given, nullptr, 10)) : std::random_device()();
}

}  // namespace kedge::fmi::testing
