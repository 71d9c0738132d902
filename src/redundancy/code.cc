#include "redundancy/code.h"

#include <isa-l/erasure_code.h>

#include <algorithm>
#include <array>

#include "base/vector_registers.h"
#include "format/set_records.h"

namespace kedge::redundancy {

namespace {

constexpr size_t kTableBytes = 32;  // ISA-L's, for each factor
// ISA-L takes an int length; parts of this size also keep the sum in the cache while sources pass.
constexpr size_t kPartBytes = 1u << 20;

unsigned char* Writable(const std::byte* bytes) {
  // ISA-L's prototypes lack const; it only reads.
  return const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(bytes));
}

}  // namespace

StripeCode::StripeCode(uint32_t members, uint32_t parity) : members_(members), parity_(parity) {
  KEDGE_CHECK(parity >= 1 && parity < members && members <= kSetMembersMax);
}

uint8_t StripeCode::Coefficient(uint32_t row, uint32_t column) const {
  const auto scale = static_cast<uint8_t>(data() ^ column);
  const auto cauchy = static_cast<uint8_t>((data() + row) ^ column);
  return gf_mul(scale, gf_inv(cauchy));
}

std::vector<uint8_t> StripeCode::Factors(std::span<const uint32_t> available, uint32_t wanted) const {
  const uint32_t d = data();
  KEDGE_CHECK(available.size() == d && wanted < members_);
  // A row for each position: how it is made of the data columns.
  const auto row_of = [this, d](uint32_t position, uint8_t* row) {
    for (uint32_t c = 0; c < d; ++c) {
      row[c] = position < parity_ ? Coefficient(position, c) : static_cast<uint8_t>(position - parity_ == c);
    }
  };
  std::vector<uint8_t> matrix(size_t{d} * d);
  for (uint32_t i = 0; i < d; ++i) row_of(available[i], &matrix[size_t{i} * d]);
  std::vector<uint8_t> inverse(matrix.size());
  // Does not fail: any d rows of this matrix are independent, and the caller promises that they are distinct.
  KEDGE_CHECK(gf_invert_matrix(matrix.data(), inverse.data(), static_cast<int>(d)) == 0);
  std::vector<uint8_t> wanted_row(d);
  row_of(wanted, wanted_row.data());
  std::vector<uint8_t> factors(d, 0);
  for (uint32_t i = 0; i < d; ++i) {
    for (uint32_t c = 0; c < d; ++c) factors[i] ^= gf_mul(wanted_row[c], inverse[size_t{c} * d + i]);
  }
  return factors;
}

void MultiplyAdd(uint8_t factor, const std::byte* source, std::byte* sum, size_t bytes) {
  if (factor == 0) return;
  std::array<uint8_t, kTableBytes> table;
  ec_init_tables(1, 1, &factor, table.data());
  for (size_t done = 0; done < bytes; done += kPartBytes) {
    auto* to = reinterpret_cast<unsigned char*>(sum + done);
    ec_encode_data_update(static_cast<int>(std::min(kPartBytes, bytes - done)), 1, 1, 0, table.data(), Writable(source + done),
                          &to);
  }
  ReleaseUpperHalves();
}

void LinearSum(std::span<const uint8_t> factors, std::span<const std::byte* const> sources, std::byte* sum, size_t bytes) {
  KEDGE_CHECK(!sources.empty() && factors.size() == sources.size() && sources.size() <= kSetMembersMax);
  const auto count = static_cast<int>(sources.size());
  std::vector<uint8_t> coefficients(factors.begin(), factors.end());
  std::vector<uint8_t> tables(kTableBytes * sources.size());
  ec_init_tables(count, 1, coefficients.data(), tables.data());
  std::array<unsigned char*, kSetMembersMax> from;
  for (size_t done = 0; done < bytes; done += kPartBytes) {
    for (size_t i = 0; i < sources.size(); ++i) from[i] = Writable(sources[i] + done);
    auto* to = reinterpret_cast<unsigned char*>(sum + done);
    ec_encode_data(static_cast<int>(std::min(kPartBytes, bytes - done)), count, 1, tables.data(), from.data(), &to);
  }
  ReleaseUpperHalves();
}

}  // namespace kedge::redundancy
