#include "base/crc32c.h"

#include <isa-l/crc.h>

#include <algorithm>

#include "base/crc32c_polynomial.h"
#include "base/vector_registers.h"

namespace kedge::crc32c {
namespace {

// ISA-L takes an int length.
constexpr size_t kBytesPerCallMax = size_t{1} << 30;

}  // namespace

uint32_t Extend(uint32_t crc, const void* data, size_t bytes) {
  const auto* position = static_cast<const unsigned char*>(data);
  while (bytes > 0) {
    const size_t part = std::min(bytes, kBytesPerCallMax);
    // ISA-L's prototype lacks const; it only reads. It also leaves both inversions to the caller.
    crc = ~crc32_iscsi(const_cast<unsigned char*>(position), static_cast<int>(part), ~crc);
    position += part;
    bytes -= part;
  }
  ReleaseUpperHalves();
  return crc;
}

uint32_t Combine(uint32_t crc_a, uint32_t crc_b, uint64_t bytes_b) {
  // The inversions of the two finished checksums cancel: crc(AB) = crc(A) * x^(8|B|) + crc(B).
  return MultiplyModulo(PowerOfXBytes(bytes_b), crc_a) ^ crc_b;
}

}  // namespace kedge::crc32c
