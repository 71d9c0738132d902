#include "fmi/handles/type_map.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "fmi/testing/seed.h"

namespace kedge::fmi {
namespace {

using Runs = std::vector<TypeMap::Run>;

const TypeMap kByte = TypeMap::Basic(1);
const TypeMap kInt = TypeMap::Basic(4);
const TypeMap kDouble = TypeMap::Basic(8);

TEST(TypeMap, KnowsTypesThatLieSideBySide) {
  const TypeMap row = *TypeMap::Contiguous(10, kDouble);
  EXPECT_EQ(row.bytes(), 80u);
  EXPECT_EQ(row.extent(), 80);
  EXPECT_EQ(row.runs(), (Runs{{0, 80, 1, 0}}));
  EXPECT_EQ(row.Place(3), 0);
  // A vector without gaps is none.
  EXPECT_EQ(TypeMap::Vector(5, 2, 16, kDouble)->runs(), (Runs{{0, 80, 1, 0}}));
  EXPECT_EQ(TypeMap::Contiguous(0, kDouble)->bytes(), 0u);
}

TEST(TypeMap, MakesAColumnOneRun) {
  const TypeMap column = *TypeMap::Vector(100, 1, 80, kDouble);
  EXPECT_EQ(column.runs(), (Runs{{0, 8, 100, 80}}));
  EXPECT_EQ(column.bytes(), 800u);
  EXPECT_EQ(column.extent(), 99 * 80 + 8);
  EXPECT_FALSE(column.Place(1));
  // Columns side by side, as a resized one has them.
  const TypeMap next = *TypeMap::Resized(column, 0, 8);
  EXPECT_EQ(TypeMap::Contiguous(2, next)->runs(), (Runs{{0, 8, 100, 80}, {8, 8, 100, 80}}));
  // The rest of a box goes on in the same steps, or is a run a plane.
  EXPECT_EQ(TypeMap::Vector(3, 1, 8000, column)->runs(), (Runs{{0, 8, 300, 80}}));
  EXPECT_EQ(TypeMap::Vector(2, 1, 9000, column)->runs(), (Runs{{0, 8, 100, 80}, {9000, 8, 100, 80}}));
  EXPECT_EQ(TypeMap::Vector(2, 1, -16, kDouble)->runs(), (Runs{{0, 8, 2, -16}}));
  EXPECT_EQ(TypeMap::Vector(2, 1, -16, kDouble)->lower(), -16);
}

TEST(TypeMap, GivesStructsThePaddingOfC) {
  struct Particle {
    char kind;
    double place[3];
    int neighbours;
  };
  const TypeMap map = *TypeMap::Struct({{offsetof(Particle, kind), 1, &kByte},
                                        {offsetof(Particle, place), 3, &kDouble},
                                        {offsetof(Particle, neighbours), 1, &kInt}});
  EXPECT_EQ(map.bytes(), 29u);
  EXPECT_EQ(map.extent(), static_cast<int64_t>(sizeof(Particle)));
  EXPECT_EQ(map.runs(), (Runs{{0, 1, 1, 0}, {8, 28, 1, 0}}));
  EXPECT_EQ(TypeMap::Struct({{0, 1, &map}, {64, 1, &kInt}})->extent(), 72);
  const TypeMap resized = *TypeMap::Resized(kInt, -4, 9);
  EXPECT_EQ(TypeMap::Struct({{0, 2, &resized}})->extent(), 18) << "what was resized is not padded";
  // One piece that does not begin at the element.
  EXPECT_EQ(TypeMap::Struct({{16, 1, &kDouble}})->Place(1), 16);
}

TEST(TypeMap, CutsBoxesOutOfArrays) {
  const TypeMap box = *TypeMap::Subarray({{4, 2, 1}, {5, 3, 2}}, kInt);
  EXPECT_EQ(box.runs(), (Runs{{28, 12, 2, 20}}));
  EXPECT_EQ(box.extent(), 80);
  EXPECT_EQ(box.lower(), 0);
  EXPECT_EQ(box.Reach(), (std::pair<int64_t, int64_t>{28, 60}));
  EXPECT_EQ(TypeMap::Subarray({{7, 7, 0}}, kDouble)->Place(3), 0);
  EXPECT_EQ(TypeMap::Subarray({}, kDouble)->bytes(), 8u);
  EXPECT_FALSE(TypeMap::Subarray({{4, 0, 0}}, kInt).ok());
  EXPECT_FALSE(TypeMap::Subarray({{4, 5, 0}}, kInt).ok());
  EXPECT_FALSE(TypeMap::Subarray({{4, 2, 3}}, kInt).ok());
  EXPECT_FALSE(TypeMap::Subarray({{INT32_MAX, 1, 0}, {INT32_MAX, 1, 0}, {INT32_MAX, 1, 0}}, kInt).ok());
}

TEST(TypeMap, KnowsHowFarItsBytesReach) {
  EXPECT_EQ(TypeMap::Vector(3, 1, -16, kDouble)->Reach(), (std::pair<int64_t, int64_t>{-32, 8}));
  EXPECT_EQ(TypeMap::Resized(kInt, -4, 100)->Reach(), (std::pair<int64_t, int64_t>{0, 4}));
  EXPECT_EQ(TypeMap().Reach(), (std::pair<int64_t, int64_t>{0, 0}));
}

TEST(TypeMap, RefusesWhatReachesTooFar) {
  const TypeMap far = *TypeMap::Resized(kByte, 0, TypeMap::kSpanMax);
  EXPECT_FALSE(TypeMap::Contiguous(3, far).ok());
  EXPECT_FALSE(TypeMap::Contiguous(UINT64_MAX, kDouble).ok());
  EXPECT_FALSE(TypeMap::Vector(2, 1, INT64_MIN, kDouble).ok());
  EXPECT_FALSE(TypeMap::Resized(kByte, INT64_MIN, 1).ok());
  EXPECT_FALSE(TypeMap::Struct({{INT64_MAX, 1, &kByte}}).ok());
  const TypeMap gaps = *TypeMap::Struct({{0, 1, &kByte}, {2, 1, &kInt}, {16, 1, &kByte}});
  EXPECT_FALSE(TypeMap::Contiguous(TypeMap::kRunsMax, gaps).ok());
  EXPECT_TRUE(TypeMap::Contiguous(0, far).ok());
}

// What a type is, byte by byte: the offsets of its bytes in the order in which they travel.
struct Plain {
  TypeMap map;
  std::vector<int64_t> offsets;
  int64_t lower = 0;
  int64_t upper = 0;
  int64_t extent() const { return upper - lower; }

  void Append(int64_t at, const Plain& other) {
    const bool is_first = offsets.empty();
    for (const int64_t offset : other.offsets) offsets.push_back(at + offset);
    lower = is_first ? at + other.lower : std::min(lower, at + other.lower);
    upper = is_first ? at + other.upper : std::max(upper, at + other.upper);
  }
};

class AnyType {
 public:
  explicit AnyType(uint32_t seed) : random_(seed) {}

  Plain Make(int depth) {
    Plain made;
    if (depth == 0) {
      const size_t bytes = size_t{1} << random_() % 4;
      made.map = TypeMap::Basic(bytes);
      made.offsets.resize(bytes);
      std::iota(made.offsets.begin(), made.offsets.end(), 0);
      made.upper = static_cast<int64_t>(bytes);
      return made;
    }
    const Plain of = Make(depth - 1);
    switch (random_() % 4) {
      case 0: {
        const uint64_t count = 1 + random_() % 4;
        for (uint64_t i = 0; i < count; ++i) made.Append(static_cast<int64_t>(i) * of.extent(), of);
        made.map = *TypeMap::Contiguous(count, of.map);
        break;
      }
      case 1: {
        const uint64_t count = 1 + random_() % 3, length = 1 + random_() % 3;
        const int64_t stride = static_cast<int64_t>(random_() % 4) * of.extent() - static_cast<int64_t>(random_() % 3) * 8;
        for (uint64_t i = 0; i < count; ++i) {
          for (uint64_t k = 0; k < length; ++k) {
            made.Append(static_cast<int64_t>(i) * stride + static_cast<int64_t>(k) * of.extent(), of);
          }
        }
        made.map = *TypeMap::Vector(count, length, stride, of.map);
        break;
      }
      case 2: {
        const Plain other = Make(depth - 1);
        const auto first = static_cast<int64_t>(random_() % 100), second = static_cast<int64_t>(random_() % 200) - 100;
        made.Append(first, of);
        made.Append(second, other);
        made.Append(second + other.extent(), other);
        // The padding is tested elsewhere.
        made.map = *TypeMap::Struct({{first, 1, &of.map}, {second, 2, &other.map}});
        made.map = *TypeMap::Resized(made.map, made.lower, made.extent());
        break;
      }
      default: {
        made = of;
        made.lower = static_cast<int64_t>(random_() % 16) - 8;
        made.upper = made.lower + static_cast<int64_t>(random_() % 64);
        made.map = *TypeMap::Resized(of.map, made.lower, made.extent());
      }
    }
    return made;
  }

 private:
  std::mt19937 random_;
};

TEST(TypeMap, FlattensAnyTypeToItsBytes) {
  const uint32_t seed = testing::Seed();
  SCOPED_TRACE(seed);
  AnyType any(seed);
  constexpr int64_t kMiddle = 1 << 17;
  std::vector<std::byte> memory(2 * kMiddle);
  for (size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<std::byte>(i * 7 + i / 256);
  for (int round = 0; round < 400; ++round) {
    const Plain type = any.Make(round % 4);
    ASSERT_EQ(type.map.bytes(), type.offsets.size());
    ASSERT_EQ(type.map.lower(), type.lower);
    ASSERT_EQ(type.map.extent(), type.extent());
    std::vector<int64_t> offsets;
    for (const TypeMap::Run& run : type.map.runs()) {
      for (uint64_t piece = 0; piece < run.count; ++piece) {
        for (uint64_t byte = 0; byte < run.bytes; ++byte) {
          offsets.push_back(run.offset + static_cast<int64_t>(piece) * run.stride + static_cast<int64_t>(byte));
        }
      }
    }
    ASSERT_EQ(offsets, type.offsets);

    // Packed it is these bytes, and a part of it that is unpacked touches no others.
    constexpr uint64_t kCount = 3;
    std::vector<std::byte> packed(kCount * type.map.bytes());
    type.map.Pack(memory.data() + kMiddle, kCount, packed.data());
    for (size_t i = 0; i < packed.size(); ++i) {
      const auto element = static_cast<int64_t>(i / type.offsets.size());
      const int64_t at = element * type.extent() + type.offsets[i % type.offsets.size()];
      ASSERT_EQ(packed[i], memory[static_cast<size_t>(kMiddle + at)]);
    }
    const size_t some = packed.size() * static_cast<size_t>(round) / 400;
    std::vector<std::byte> other(memory.size()), expected(memory.size());
    type.map.Unpack(packed.data(), some, other.data() + kMiddle);
    for (size_t i = 0; i < some; ++i) {
      const auto element = static_cast<int64_t>(i / type.offsets.size());
      expected[static_cast<size_t>(kMiddle + element * type.extent() + type.offsets[i % type.offsets.size()])] = packed[i];
    }
    ASSERT_EQ(other, expected);
    if (const auto place = type.map.Place(kCount)) {
      for (size_t i = 0; i < packed.size(); ++i) {
        ASSERT_EQ(packed[i], memory[static_cast<size_t>(kMiddle + *place) + i]);
      }
    }

    Buffer encoded;
    {
      Encoder encoder(encoded);
      type.map.Encode(&encoder);
    }
    Decoder decoder(encoded);
    const auto decoded = TypeMap::Decode(&decoder);
    ASSERT_TRUE(decoded.ok() && decoder.Finish("a type").ok());
    ASSERT_EQ(*decoded, type.map);
  }
}

}  // namespace
}  // namespace kedge::fmi
