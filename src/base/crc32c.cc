#include "base/crc32c.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <cstring>

namespace kedge::crc32c {
namespace {

// ISA-L takes an int length.
constexpr size_t kBytesPerCallMax = size_t{1} << 30;
// Small enough that source and copy stay in the second-level cache, large enough that the calls do not show.
constexpr size_t kBlockBytes = 32 * 1024;

// The polynomial, reflected: bit 31 is x^0.
constexpr uint32_t kPolynomial = 0x82F63B78u;

// a * b modulo the polynomial, both reflected.
uint32_t MultiplyModulo(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (uint32_t bit = 1u << 31; bit != 0; bit >>= 1) {
    if (a & bit) product ^= b;
    b = (b & 1) ? (b >> 1) ^ kPolynomial : b >> 1;
  }
  return product;
}

// x^(8 * bytes) modulo the polynomial, by repeated squaring.
uint32_t PowerOfXBytes(uint64_t bytes) {
  uint32_t power = 1u << 31;          // x^0
  uint32_t square = 1u << (31 - 8);   // x^8
  for (; bytes != 0; bytes >>= 1) {
    if (bytes & 1) power = MultiplyModulo(square, power);
    square = MultiplyModulo(square, square);
  }
  return power;
}

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
  return crc;
}

uint32_t Combine(uint32_t crc_a, uint32_t crc_b, uint64_t bytes_b) {
  // The inversions of the two finished checksums cancel: crc(AB) = crc(A) * x^(8|B|) + crc(B).
  return MultiplyModulo(PowerOfXBytes(bytes_b), crc_a) ^ crc_b;
}

uint32_t CopyAndChecksum(void* dst, const void* src, size_t bytes, uint32_t crc) {
  auto* to = static_cast<unsigned char*>(dst);
  const auto* from = static_cast<const unsigned char*>(src);
  while (bytes > 0) {
    const size_t part = std::min(bytes, kBlockBytes);
    std::memcpy(to, from, part);
    crc = Extend(crc, to, part);
    to += part;
    from += part;
    bytes -= part;
  }
  return crc;
}

}  // namespace kedge::crc32c
