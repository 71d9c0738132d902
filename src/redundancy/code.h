// The code of a stripe: n positions of which any n - k give back the others.
//
// Arithmetic is in GF(2^8) with the polynomial 0x11d, as in ISA-L. Positions are those of geometry.h: parity rows 0 to
// k-1, then data columns. With d = n - k, the coefficient of data column c in parity row r is
// (d XOR c) / ((d + r) XOR c): a Cauchy matrix whose columns are scaled so that row 0 is all ones. So XOR is the code
// with k = 1, and every square part of the matrix can be inverted, which is what "any n - k" needs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"

namespace kedge::redundancy {

class StripeCode {
 public:
  // 1 <= parity < members <= kSetMembersMax.
  StripeCode(uint32_t members, uint32_t parity);

  uint32_t members() const { return members_; }
  uint32_t parity() const { return parity_; }
  uint32_t data() const { return members_ - parity_; }
  // row < parity(), column < data(). Never zero.
  uint8_t Coefficient(uint32_t row, uint32_t column) const;

  // Factors f such that position `wanted` is the sum of f[i] times position available[i]. `available` are data() distinct
  // positions, `wanted` any position. O(data()^3): once for a stripe, not for a block.
  std::vector<uint8_t> Factors(std::span<const uint32_t> available, uint32_t wanted) const;

 private:
  uint32_t members_;
  uint32_t parity_;
};

// sum += factor * bytes, in GF(2^8). Any length, any alignment, no overlap; `factor` 0 does nothing.
void MultiplyAdd(uint8_t factor, const std::byte* source, std::byte* sum, size_t bytes);

// sum = the sum of factors[i] * sources[i]: one pass over memory. At least one source.
void LinearSum(std::span<const uint8_t> factors, std::span<const std::byte* const> sources, std::byte* sum, size_t bytes);

}  // namespace kedge::redundancy
