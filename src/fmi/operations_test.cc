#include "fmi/operations.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <vector>

namespace kedge::fmi {
namespace {

// x -> factor * x + add: an operation whose order counts.
struct Line {
  int factor;
  double add;
};

void Compose(void* in, void* inout, int* count, FMI_Datatype* type) {
  EXPECT_EQ(*type, 77);
  const auto* first = static_cast<Line*>(in);
  auto* second = static_cast<Line*>(inout);
  for (int i = 0; i < *count; ++i) {
    second[i].add += second[i].factor * first[i].add;
    second[i].factor *= first[i].factor;
  }
}

TypeMap OfLine() {
  const TypeMap number = TypeMap::Basic(sizeof(int)), real = TypeMap::Basic(sizeof(double));
  return TypeMap::Struct({{offsetof(Line, factor), 1, &number}, {offsetof(Line, add), 1, &real}}).value();
}

std::vector<std::byte> Packed(const TypeMap& map, const std::vector<Line>& lines) {
  std::vector<std::byte> packed(lines.size() * map.bytes());
  map.Pack(lines.data(), lines.size(), packed.data());
  return packed;
}

TEST(Operations, CombineElementsThatHaveGaps) {
  Operation operation;
  operation.function = Compose;
  const auto map = std::make_shared<const TypeMap>(OfLine());
  ASSERT_LT(map->bytes(), sizeof(Line));
  auto into = Packed(*map, {{2, 1}, {3, -1}}), from = Packed(*map, {{5, 7}, {-1, 0.5}});
  CombineBy(operation, 77, map)(into.data(), from.data(), 2);
  std::vector<Line> combined(2);
  map->Unpack(into.data(), into.size(), combined.data());
  EXPECT_EQ(combined[0].factor, 10);
  EXPECT_EQ(combined[0].add, 12);
  EXPECT_EQ(combined[1].factor, -3);
  EXPECT_EQ(combined[1].add, 1.5);
  CombineBy(operation, 77, map)(nullptr, nullptr, 0);
}

void AddUp(void* in, void* inout, size_t count, FMI_Datatype, void* state) {
  ++*static_cast<int*>(state);
  for (size_t i = 0; i < count; ++i) static_cast<int*>(inout)[i] += static_cast<int*>(in)[i];
}

TEST(Operations, FindElementsWhereverTheirTypeHasThem) {
  int calls = 0;
  Operation operation;
  operation.function_x = AddUp;
  operation.state = &calls;
  int into[] = {1, 2, 3}, from[] = {10, 20, 30};
  CombineBy(operation, FMI_INT, std::make_shared<const TypeMap>(TypeMap::Basic(sizeof(int))))(into, from, 3);
  EXPECT_EQ(std::vector<int>(into, into + 3), (std::vector<int>{11, 22, 33}));
  // Before the element's begin, and from the last to the first one.
  const TypeMap number = TypeMap::Basic(sizeof(int));
  const auto backwards = std::make_shared<const TypeMap>(TypeMap::Vector(3, 1, -4, number).value());
  operation.function_x = [](void* in, void* inout, size_t count, FMI_Datatype, void*) {
    ASSERT_EQ(count, 1u);
    for (int i = 0; i > -3; --i) static_cast<int*>(inout)[i] -= static_cast<int*>(in)[i];
  };
  int first[] = {1, 2, 3}, second[] = {10, 20, 30};
  CombineBy(operation, 64, backwards)(first, second, 1);
  EXPECT_EQ(std::vector<int>(first, first + 3), (std::vector<int>{9, 18, 27}));
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace kedge::fmi
