// Arithmetic on CRC32C remainders: what combining and interleaving checksums needs. Internal to crc32c.
//
// A 32-bit value is a polynomial over GF(2) modulo the CRC's, reflected: bit 31 is x^0.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace kedge::crc32c {

inline constexpr uint32_t kPolynomial = 0x82F63B78u;

constexpr uint32_t MultiplyModulo(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (uint32_t bit = 1u << 31; bit != 0; bit >>= 1) {
    if (a & bit) product ^= b;
    b = (b & 1) ? (b >> 1) ^ kPolynomial : b >> 1;
  }
  return product;
}

// x^(8 * bytes), by repeated squaring: multiplying by it appends that many zero bytes.
constexpr uint32_t PowerOfXBytes(uint64_t bytes) {
  uint32_t power = 1u << 31;         // x^0
  uint32_t square = 1u << (31 - 8);  // x^8
  for (; bytes != 0; bytes >>= 1) {
    if (bytes & 1) power = MultiplyModulo(square, power);
    square = MultiplyModulo(square, square);
  }
  return power;
}

// Multiplication by one x^(8 * bytes), a table lookup for each byte of the remainder.
class ShiftTable {
 public:
  constexpr explicit ShiftTable(uint64_t bytes) : table_{} {
    const uint32_t power = PowerOfXBytes(bytes);
    for (uint32_t place = 0; place < 4; ++place) {
      for (uint32_t value = 0; value < 256; ++value) table_[place][value] = MultiplyModulo(power, value << (8 * place));
    }
  }
  uint32_t Shift(uint32_t crc) const {
    return table_[0][crc & 0xFF] ^ table_[1][(crc >> 8) & 0xFF] ^ table_[2][(crc >> 16) & 0xFF] ^ table_[3][crc >> 24];
  }

 private:
  std::array<std::array<uint32_t, 256>, 4> table_;
};

}  // namespace kedge::crc32c
