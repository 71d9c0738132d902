#include "redundancy/code.h"

#include <gtest/gtest.h>

#include <numeric>

#include "base/random.h"
#include "base/testing/upper_halves.h"
#include "base/vector_registers.h"
#include "format/set_records.h"

namespace kedge::redundancy {
namespace {

using Bytes = std::vector<std::byte>;

Bytes RandomBytes(Random& random, size_t bytes) {
  Bytes result(bytes);
  random.Fill(result.data(), bytes);
  return result;
}

// Multiplication by its definition: shift and add modulo 0x11d.
uint8_t SlowMultiply(uint8_t a, uint8_t b) {
  unsigned product = 0;
  unsigned shifted = a;
  for (; b != 0; b >>= 1) {
    if (b & 1) product ^= shifted;
    shifted <<= 1;
    if (shifted & 0x100) shifted ^= 0x11d;
  }
  return static_cast<uint8_t>(product);
}

// All positions of one code word, from its data columns.
std::vector<Bytes> MakeWord(Random& random, const StripeCode& code, size_t bytes) {
  std::vector<Bytes> word(code.members());
  for (uint32_t c = 0; c < code.data(); ++c) word[code.parity() + c] = RandomBytes(random, bytes);
  for (uint32_t row = 0; row < code.parity(); ++row) {
    word[row].assign(bytes, std::byte{0});
    for (uint32_t c = 0; c < code.data(); ++c) {
      MultiplyAdd(code.Coefficient(row, c), word[code.parity() + c].data(), word[row].data(), bytes);
    }
  }
  return word;
}

// Gives `f` every choice of `count` out of 0..n-1.
void ForEachChoice(uint32_t n, uint32_t count, const std::function<void(const std::vector<uint32_t>&)>& f) {
  std::vector<uint32_t> choice(count);
  std::iota(choice.begin(), choice.end(), 0);
  for (;;) {
    f(choice);
    uint32_t i = count;
    while (i > 0 && choice[i - 1] == n - count + i - 1) --i;
    if (i == 0) return;
    ++choice[i - 1];
    for (uint32_t j = i; j < count; ++j) choice[j] = choice[j - 1] + 1;
  }
}

TEST(Code, ArithmeticIsThatOfItsDefinition) {
  Random random(1);
  for (const size_t bytes : {1u, 15u, 16u, 31u, 33u, 4096u, 70001u}) {
    const Bytes source = RandomBytes(random, bytes + 1);
    const Bytes before = RandomBytes(random, bytes + 1);
    for (const int factor : {0, 1, 2, 0x8e, 0xff}) {
      Bytes sum = before;
      MultiplyAdd(static_cast<uint8_t>(factor), source.data() + 1, sum.data() + 1, bytes);
      EXPECT_EQ(sum[0], before[0]);
      for (size_t i = 1; i <= bytes; ++i) {
        const uint8_t expected =
            static_cast<uint8_t>(before[i]) ^ SlowMultiply(static_cast<uint8_t>(factor), static_cast<uint8_t>(source[i]));
        ASSERT_EQ(static_cast<uint8_t>(sum[i]), expected) << "factor " << factor << " byte " << i << " of " << bytes;
      }
    }
  }
}

TEST(Code, ASumAtOnceIsTheSumOfItsTerms) {
  Random random(2);
  for (const size_t bytes : {1u, 17u, 4096u, (1u << 20) + 5}) {
    const std::vector<Bytes> sources = {RandomBytes(random, bytes), RandomBytes(random, bytes), RandomBytes(random, bytes)};
    const std::vector<uint8_t> factors = {1, 0, 0x53};
    const std::vector<const std::byte*> from = {sources[0].data(), sources[1].data(), sources[2].data()};
    Bytes at_once(bytes);
    LinearSum(factors, from, at_once.data(), bytes);
    Bytes one_by_one(bytes, std::byte{0});
    for (size_t i = 0; i < 3; ++i) MultiplyAdd(factors[i], from[i], one_by_one.data(), bytes);
    EXPECT_EQ(at_once, one_by_one) << bytes;
  }
}

TEST(Code, RowZeroIsXor) {
  for (const auto& [members, parity] : {std::pair{2u, 1u}, {9u, 1u}, {10u, 4u}, {255u, 3u}}) {
    const StripeCode code(members, parity);
    for (uint32_t c = 0; c < code.data(); ++c) EXPECT_EQ(code.Coefficient(0, c), 1);
  }
}

TEST(Code, LeavesTheUpperHalvesOfVectorRegistersToTheCaller) {
  ReleaseUpperHalves();
  if (!AreUpperHalvesInUse().has_value()) GTEST_SKIP() << "this processor does not tell";
  Random random(5);
  for (const size_t bytes : {64ul, 1000ul, 100000ul}) {
    const Bytes first = RandomBytes(random, bytes), second = RandomBytes(random, bytes);
    Bytes sum(bytes);
    MultiplyAdd(7, first.data(), sum.data(), bytes);
    EXPECT_EQ(AreUpperHalvesInUse(), false) << "after a product of " << bytes;
    LinearSum(std::vector<uint8_t>{3, 5}, std::vector<const std::byte*>{first.data(), second.data()}, sum.data(), bytes);
    EXPECT_EQ(AreUpperHalvesInUse(), false) << "after a sum of " << bytes;
  }
}

// The numbers are part of the format: parity on disk was made with them.
TEST(Code, CoefficientsStay) {
  const StripeCode code(6, 2);
  const std::vector<uint8_t> row = {code.Coefficient(1, 0), code.Coefficient(1, 1), code.Coefficient(1, 2),
                                    code.Coefficient(1, 3)};
  for (uint32_t c = 0; c < 4; ++c) EXPECT_EQ(SlowMultiply(row[c], static_cast<uint8_t>(5 ^ c)), 4 ^ c);
}

TEST(Code, AnyDataCountOfPositionsGivesAllOthers) {
  Random random(3);
  constexpr size_t kBytes = 67;
  for (const auto& [members, parity] :
       {std::pair{2u, 1u}, {3u, 1u}, {3u, 2u}, {4u, 2u}, {5u, 3u}, {8u, 1u}, {8u, 4u}, {9u, 7u}, {10u, 2u}}) {
    const StripeCode code(members, parity);
    const std::vector<Bytes> word = MakeWord(random, code, kBytes);
    ForEachChoice(members, code.data(), [&](const std::vector<uint32_t>& available) {
      for (uint32_t wanted = 0; wanted < code.members(); ++wanted) {
        const std::vector<uint8_t> factors = code.Factors(available, wanted);
        Bytes sum(kBytes, std::byte{0});
        for (size_t i = 0; i < factors.size(); ++i) MultiplyAdd(factors[i], word[available[i]].data(), sum.data(), kBytes);
        ASSERT_EQ(sum, word[wanted]) << "position " << wanted << " of " << code.members() << " (" << code.parity() << " parity)";
      }
    });
  }
}

TEST(Code, TheLargestGroupsWork) {
  Random random(4);
  const StripeCode code(kSetMembersMax, 100);
  const std::vector<Bytes> word = MakeWord(random, code, 64);
  std::vector<uint32_t> positions(code.members());
  std::iota(positions.begin(), positions.end(), 0);
  for (int round = 0; round < 5; ++round) {
    std::shuffle(positions.begin(), positions.end(), random);
    const std::span<const uint32_t> available(positions.data(), code.data());
    const uint32_t wanted = positions.back();
    const std::vector<uint8_t> factors = code.Factors(available, wanted);
    Bytes sum(64, std::byte{0});
    for (size_t i = 0; i < factors.size(); ++i) MultiplyAdd(factors[i], word[available[i]].data(), sum.data(), 64);
    EXPECT_EQ(sum, word[wanted]);
  }
}

}  // namespace
}  // namespace kedge::redundancy
