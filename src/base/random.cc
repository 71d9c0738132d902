#include "base/random.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "base/status.h"

namespace kedge {
namespace {

uint64_t SplitMix64(uint64_t& state) {
  uint64_t z = (state += 0x9E3779B97F4A7C15u);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

}  // namespace

Random::Random(uint64_t seed) {
  for (uint64_t& word : state_) word = SplitMix64(seed);
}

uint64_t Random::Next() {
  const uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  const uint64_t t = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= t;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

uint64_t Random::Below(uint64_t bound) {
  KEDGE_CHECK(bound > 0);
  // The values below `excess` would make some results likelier than others.
  const uint64_t excess = (0 - bound) % bound;
  uint64_t value = Next();
  while (value < excess) value = Next();
  return value % bound;
}

void Random::Fill(void* data, size_t bytes) {
  auto* position = static_cast<unsigned char*>(data);
  while (bytes > 0) {
    const uint64_t value = Next();
    const size_t part = std::min(bytes, sizeof value);
    std::memcpy(position, &value, part);
    position += part;
    bytes -= part;
  }
}

uint64_t MixSeed(uint64_t seed, uint64_t stream) {
  uint64_t state = seed ^ std::rotl(stream * 0xD1342543DE82EF95u, 32);
  return SplitMix64(state);
}

void FillFromKernel(void* data, size_t bytes) {
  size_t filled = 0;
  while (filled < bytes) {
    const ssize_t got = getrandom(static_cast<char*>(data) + filled, bytes - filled, 0);
    if (got < 0) KEDGE_CHECK(errno == EINTR);  // the kernel documents no other failure for these arguments
    if (got > 0) filled += static_cast<size_t>(got);
  }
}

Id128 Id128::Generate() {
  Id128 id;
  while (id.IsZero()) {
    unsigned char bytes[16];
    FillFromKernel(bytes, sizeof bytes);
    std::memcpy(&id.high, bytes, 8);
    std::memcpy(&id.low, bytes + 8, 8);
  }
  return id;
}

std::optional<Id128> Id128::FromHex(std::string_view text) {
  if (text.size() != 32) return std::nullopt;
  Id128 id;
  for (int half = 0; half < 2; ++half) {
    const char* begin = text.data() + half * 16;
    const auto parsed = std::from_chars(begin, begin + 16, half == 0 ? id.high : id.low, 16);
    if (parsed.ec != std::errc() || parsed.ptr != begin + 16) return std::nullopt;
  }
  return id;
}

std::string Id128::ToHex() const {
  return fmt::format("{:016x}{:016x}", high, low);
}

}  // namespace kedge
