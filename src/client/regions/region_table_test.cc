// What is declared, replaced and refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "client/regions/region_table.h"

namespace kedge::client {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Memory that moves, as the application tells of it.
struct Moving {
  std::vector<double> elements;
  int fails = 0;
  size_t cut = 0;  // elements that a resize leaves out

  static int Locate(void* user, void** address, size_t* count) {
    auto* self = static_cast<Moving*>(user);
    *address = self->elements.data();
    *count = self->elements.size();
    return self->fails;
  }
  static int Resize(void* user, size_t count) {
    auto* self = static_cast<Moving*>(user);
    self->elements.resize(count - self->cut);
    return self->fails;
  }
  kedge_region_info Info() {
    kedge_region_info info{};
    info.struct_size = sizeof info;
    info.locate = Locate;
    info.resize = Resize;
    info.user = this;
    return info;
  }
};

class RegionGroupTest : public ::testing::Test {
 protected:
  static kedge_region_info Named(const char* name) {
    kedge_region_info info{};
    info.struct_size = sizeof info;
    info.name = name;
    return info;
  }
  static kedge_object Object() {
    kedge_object object{};
    object.struct_size = sizeof object;
    object.size = [](void*, size_t*) { return 0; };
    object.serialize = [](void*, kedge_writer*) { return 0; };
    object.deserialize = [](void*, kedge_reader*, size_t) { return 0; };
    return object;
  }
  Code Protect(int id, const kedge_region_info& info) { return group_.Protect(id, memory_, 4, 8, &info).code(); }
  std::vector<int> Ids() {
    std::vector<int> ids;
    for (const DeclaredRegion& region : group_.regions()) ids.push_back(region.description.id);
    return ids;
  }

  double memory_[4] = {};
  RegionGroup group_;
};

TEST_F(RegionGroupTest, AnIdIsOneRegionsOrObjectsAndKeepsItsPlace) {
  ASSERT_TRUE(group_.Protect(7, memory_, 4, 8, nullptr).ok());
  ASSERT_TRUE(group_.Protect(-3, memory_, 2, 8, nullptr).ok());
  ASSERT_TRUE(group_.ProtectObject(5, "tree", Object()).ok());
  EXPECT_THAT(Ids(), ElementsAre(7, -3, 5));
  group_.Find(5)->description.bytes = 1000;  // as the last checkpoint found it
  EXPECT_EQ(group_.bytes(), 48u) << "of memory alone";
  kedge_region_info info = Named(nullptr);
  info.reinterpret = 1;
  ASSERT_TRUE(group_.Protect(7, memory_ + 1, 3, 8, &info).ok());
  EXPECT_TRUE(group_.Find(7)->reinterpret);
  ASSERT_TRUE(group_.ProtectObject(7, nullptr, Object()).ok());
  EXPECT_EQ(group_.Find(7)->address, nullptr);
  ASSERT_TRUE(group_.Protect(5, memory_, 1, 8, nullptr).ok());
  EXPECT_EQ(group_.Find(5)->object.size, nullptr);
  EXPECT_THAT(Ids(), ElementsAre(7, -3, 5));
  EXPECT_EQ(group_.size(), 3u);
  EXPECT_EQ(group_.bytes(), 24u);
  EXPECT_TRUE(group_.Unprotect(-3).ok());
  EXPECT_EQ(group_.Unprotect(-3).code(), Code::kNotFound);
  EXPECT_EQ(group_.Find(-3), nullptr);
  EXPECT_THAT(Ids(), ElementsAre(7, 5));
}

TEST_F(RegionGroupTest, ASelectionIsWalkedInItsOrderUntilOneIsRefused) {
  for (const int id : {7, 3, 5}) ASSERT_TRUE(group_.Protect(id, memory_, 4, 8, nullptr).ok());
  group_.Find(3)->taken_by = 9;
  std::vector<int> walked;
  int refused = 0;
  const auto walk = [&](kedge_selection selection, const std::vector<int>& ids) {
    walked.clear();
    return group_.ForEachSelected(selection, ids.data(), ids.size(), /*number=*/9, [&](DeclaredRegion* declared) {
      walked.push_back(declared->description.id);
      return declared->description.id == refused ? Status(Code::kIo, "this one") : Status::Ok();
    });
  };
  EXPECT_TRUE(walk(KEDGE_ALL, {}).ok());
  EXPECT_THAT(walked, ElementsAre(7, 3, 5));
  EXPECT_TRUE(walk(KEDGE_REST, {}).ok());
  EXPECT_THAT(walked, ElementsAre(7, 5));
  EXPECT_TRUE(walk(KEDGE_SOME, {5, 3}).ok());
  EXPECT_THAT(walked, ElementsAre(5, 3)) << "also what was taken already: whoever takes it says so";
  EXPECT_EQ(walk(KEDGE_SOME, {5, 4, 7}).code(), Code::kNotFound);
  EXPECT_THAT(walked, ElementsAre(5));
  refused = 3;
  EXPECT_EQ(walk(KEDGE_ALL, {}).code(), Code::kIo);
  EXPECT_THAT(walked, ElementsAre(7, 3));
}

TEST_F(RegionGroupTest, ANameIsOneRegionsUntilItLetsGo) {
  ASSERT_EQ(Protect(1, Named("u")), Code::kOk);
  EXPECT_EQ(Protect(2, Named("u")), Code::kInvalidArgument);
  EXPECT_EQ(group_.ProtectObject(2, "u", Object()).code(), Code::kInvalidArgument);
  EXPECT_EQ(Protect(1, Named("u")), Code::kOk) << "its own";
  ASSERT_EQ(Protect(1, Named("v")), Code::kOk);
  EXPECT_EQ(Protect(2, Named("u")), Code::kOk) << "region 1 is called otherwise now";
  EXPECT_EQ(Protect(2, Named("v")), Code::kInvalidArgument);
  EXPECT_EQ(group_.Find(2)->description.name, "u");
  ASSERT_TRUE(group_.Unprotect(1).ok());
  EXPECT_EQ(Protect(3, Named("v")), Code::kOk);
  // None is no name.
  EXPECT_EQ(Protect(4, Named("")), Code::kOk);
  EXPECT_EQ(Protect(5, Named(nullptr)), Code::kOk);
  group_.Clear();
  EXPECT_EQ(Protect(6, Named("u")), Code::kOk);
  EXPECT_THAT(Ids(), ElementsAre(6));
}

TEST_F(RegionGroupTest, WhatIsRefusedLeavesTheRegionAsItWas) {
  ASSERT_EQ(Protect(1, Named("u")), Code::kOk);
  ASSERT_EQ(Protect(2, Named("v")), Code::kOk);
  EXPECT_EQ(group_.Protect(1, memory_, 4, 0, nullptr).code(), Code::kInvalidArgument);
  EXPECT_EQ(group_.Protect(1, memory_, std::numeric_limits<size_t>::max() / 4, 8, nullptr).code(), Code::kInvalidArgument);
  EXPECT_EQ(group_.Protect(1, nullptr, 1, 8, nullptr).code(), Code::kInvalidArgument);
  EXPECT_EQ(Protect(1, Named("v")), Code::kInvalidArgument);
  kedge_region_info info = Named("w");
  info.memory = KEDGE_MEMORY_DEVICE;
  EXPECT_EQ(Protect(1, info), Code::kUnsupported);
  // A program in C may put any number there.
  for (const int number : {-1, KEDGE_TYPE_BOOL + 1, 99}) {
    info = Named("w");
    std::memcpy(&info.type, &number, sizeof number);
    EXPECT_EQ(Protect(1, info), Code::kInvalidArgument) << number;
    info = Named("w");
    std::memcpy(&info.memory, &number, sizeof number);
    EXPECT_EQ(Protect(1, info), Code::kInvalidArgument) << number;
  }
  for (const int dimensions : {-1, KEDGE_MAX_DIMENSIONS + 1}) {
    info = Named("w");
    info.dimensions = dimensions;
    EXPECT_EQ(Protect(1, info), Code::kInvalidArgument) << dimensions;
  }
  info = Named("w");
  info.dimensions = 2;
  info.shape[0] = 2;
  info.shape[1] = 3;
  EXPECT_EQ(Protect(1, info), Code::kInvalidArgument) << "4 elements are not 2 x 3";
  kedge_object object = Object();
  object.serialize = nullptr;
  EXPECT_EQ(group_.ProtectObject(1, "w", object).code(), Code::kInvalidArgument);
  EXPECT_EQ(group_.Find(1)->description.name, "u");
  EXPECT_EQ(group_.Find(1)->address, memory_);
  EXPECT_EQ(group_.Find(1)->description.bytes, 32u);
  EXPECT_EQ(Protect(3, Named("w")), Code::kOk) << "nobody has the name";
  EXPECT_TRUE(group_.Protect(4, nullptr, 0, 8, nullptr).ok()) << "an empty region needs no memory";
}

// A program that was built against a header without the later fields.
TEST_F(RegionGroupTest, OfAShorterStructTheRestIsNeitherReadNorWritten) {
  kedge_region_info info = Named("u");
  info.type = KEDGE_TYPE_FLOAT64;
  info.dimensions = 77;
  info.reinterpret = 1;
  info.struct_size = offsetof(kedge_region_info, memory);
  ASSERT_EQ(Protect(1, info), Code::kOk);
  EXPECT_EQ(group_.Find(1)->description.type, ElementType::kFloat64);
  EXPECT_FALSE(group_.Find(1)->reinterpret);
  EXPECT_THAT(group_.Find(1)->description.shape, IsEmpty());

  kedge_region_info full = Named("a");
  full.type = KEDGE_TYPE_INT64;
  full.column_major = 1;
  full.dimensions = 2;
  full.shape[0] = full.shape[1] = 2;
  full.global_shape[0] = 8;
  full.global_shape[1] = 2;
  full.global_offset[0] = 6;
  full.halo[1] = 1;
  ASSERT_EQ(Protect(2, full), Code::kOk);
  kedge_region_info told;
  std::memset(static_cast<void*>(&told), 0x77, sizeof told);
  told.struct_size = sizeof told;
  FillRegionInfo(group_.Find(2)->description, &told);
  EXPECT_STREQ(told.name, "a");
  full.name = told.name;
  EXPECT_EQ(std::memcmp(&told, &full, sizeof told), 0);
  std::memset(static_cast<void*>(&told), 0x77, sizeof told);
  told.struct_size = offsetof(kedge_region_info, dimensions);
  FillRegionInfo(group_.Find(2)->description, &told);
  EXPECT_EQ(told.column_major, 1);
  EXPECT_EQ(told.dimensions, 0x77777777);
}

TEST_F(RegionGroupTest, WhatAllRanksHaveIsAGlobalArray) {
  kedge_region_info info = Named("step");
  info.replicated = 1;
  ASSERT_EQ(Protect(1, info), Code::kOk);
  const Region& step = group_.Find(1)->description;
  EXPECT_EQ(step.global_shape, step.shape);
  EXPECT_EQ(step.shape.size(), 1u) << "also where none is given";
  EXPECT_EQ(step.global_offset, std::vector<int64_t>{0});
  kedge_region_info told{};
  told.struct_size = sizeof told;
  FillRegionInfo(step, &told);
  EXPECT_EQ(told.replicated, 1);
  info.dimensions = 1;
  info.shape[0] = step.shape[0];
  info.global_shape[0] = step.shape[0] + 1;
  EXPECT_EQ(Protect(1, info), Code::kInvalidArgument) << "a part is not what all have";
}

TEST(RegionTable, GroupsAreApartAndKeptWhileAnotherIsSelected) {
  RegionTable table;
  int value = 0;
  ASSERT_TRUE(table.current().Protect(1, &value, 1, sizeof value, nullptr).ok());
  table.Select("other");
  EXPECT_EQ(table.current_name(), "other");
  EXPECT_EQ(table.current().size(), 0u);
  ASSERT_TRUE(table.current().Protect(1, nullptr, 0, 1, nullptr).ok());
  table.current().Clear();
  table.Select("");
  EXPECT_EQ(table.current().bytes(), sizeof value);
}

TEST_F(RegionGroupTest, MemoryThatMovesIsFoundWhereItIs) {
  Moving moving{std::vector<double>(5)};
  const kedge_region_info info = moving.Info();
  ASSERT_TRUE(group_.Protect(1, nullptr, 0, sizeof(double), &info).ok());
  DeclaredRegion* const region = group_.Find(1);
  EXPECT_EQ(region->address, moving.elements.data()) << "its size is known before the first checkpoint";
  EXPECT_EQ(group_.bytes(), 5 * sizeof(double));
  moving.elements.resize(1000);
  ASSERT_TRUE(region->Locate().ok());
  EXPECT_EQ(region->address, moving.elements.data());
  EXPECT_EQ(region->description.bytes, 1000 * sizeof(double));
  EXPECT_THAT(region->description.shape, ElementsAre(1000));
  ASSERT_TRUE(region->Resize(3 * sizeof(double)).ok());
  EXPECT_EQ(moving.elements.size(), 3u);
  EXPECT_EQ(region->description.bytes, 3 * sizeof(double));
  moving.cut = 1;
  EXPECT_EQ(region->Resize(9 * sizeof(double)).code(), Code::kFailedPrecondition) << "it is not as long as it was told to be";
  moving.fails = 7;
  EXPECT_THAT(region->Locate().message(), ::testing::HasSubstr("returned 7"));
  EXPECT_EQ(group_.Protect(2, nullptr, 0, sizeof(double), &info).code(), Code::kFailedPrecondition);
  EXPECT_EQ(group_.Find(2), nullptr);
  moving.fails = 0;
  kedge_region_info wrong = info;
  wrong.dimensions = 2;
  EXPECT_EQ(group_.Protect(2, nullptr, 0, sizeof(double), &wrong).code(), Code::kInvalidArgument);
  wrong = info;
  wrong.locate = nullptr;
  EXPECT_EQ(group_.Protect(2, memory_, 4, sizeof(double), &wrong).code(), Code::kInvalidArgument);
  // The same id, at one place from now on.
  ASSERT_TRUE(group_.Protect(1, memory_, 4, 8, nullptr).ok());
  EXPECT_FALSE(region->moves());
}

}  // namespace
}  // namespace kedge::client
