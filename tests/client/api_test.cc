// The C API call by call, in one process: what each promises, with an agent and without.
#include <gmock/gmock.h>

#include <chrono>
#include <cstring>
#include <numeric>
#include <set>
#include <thread>

#include "base/testing/upper_halves.h"
#include "base/vector_registers.h"
#include "tests/client/api_fixture.h"

namespace kedge::testing {
namespace {

using ::testing::HasSubstr;

INSTANTIATE_TEST_SUITE_P(Modes, ApiTest, ::testing::Values(kInline, kAgent), ModeName);

std::vector<int> Numbers(size_t count, int first) {
  std::vector<int> numbers(count);
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

TEST_P(ApiTest, RestoresWhatWasCaptured) {
  kedge_context* context = Open();
  std::vector<int> a = Numbers(1000, 1);
  std::vector<int> b = Numbers(3000000, 7);
  ASSERT_KEDGE_OK(kedge_protect(context, 1, a.data(), a.size(), sizeof(int), nullptr));
  ASSERT_KEDGE_OK(kedge_protect(context, -5, b.data(), b.size(), sizeof(int), nullptr));
  ASSERT_KEDGE_OK(kedge_checkpoint(context, "state", 3, 0));
  const std::vector<int> a_before = a;
  const std::vector<int> b_before = b;
  std::fill(a.begin(), a.end(), 0);
  std::fill(b.begin(), b.end(), 0);
  int64_t version = -1;
  ASSERT_KEDGE_OK(kedge_restart(context, "state", -1, &version));
  EXPECT_EQ(version, 3);
  EXPECT_EQ(a, a_before);
  EXPECT_EQ(b, b_before);
  EXPECT_EQ(Statistics(context).checkpoints, 1u);
  const kedge_statistics statistics = Statistics(context);
  const uint64_t bytes = (a.size() + b.size()) * sizeof(int);
  EXPECT_EQ(statistics.bytes_captured, bytes);
  const bool agent = std::string(GetParam().name) == "Agent";
  EXPECT_EQ(statistics.checkpoints_inline, agent ? 0u : 1u);
  EXPECT_EQ(statistics.bytes_pool, agent ? bytes : 0u);
  EXPECT_EQ(statistics.bytes_restored_pool, agent ? bytes : 0u);
  EXPECT_EQ(statistics.bytes_restored_store, agent ? 0u : bytes);
}

// As one does whose program leaves the field out of an initializer.
TEST_P(ApiTest, AStructThatDoesNotSayItsSizeIsRefused) {
  kedge_context* context = nullptr;
  kedge_options options{};
  options.job = "another";
  EXPECT_EQ(kedge_init(&options, nullptr, &context), KEDGE_ERROR_INVALID_ARGUMENT);
  EXPECT_THAT(kedge_error_message(), HasSubstr("kedge_options.struct_size is 0: set it to sizeof(kedge_options)"));
  kedge_bootstrap bootstrap{};
  bootstrap.ranks = 1;
  EXPECT_EQ(kedge_init(nullptr, &bootstrap, &context), KEDGE_ERROR_INVALID_ARGUMENT);
  context = Open();
  int value = 0;
  kedge_region_info info{};
  info.name = "vector";
  EXPECT_EQ(kedge_protect(context, 0, &value, 1, sizeof value, &info), KEDGE_ERROR_INVALID_ARGUMENT);
  EXPECT_THAT(kedge_error_message(), HasSubstr("kedge_region_info.struct_size is 0"));
  void* block = nullptr;
  EXPECT_EQ(kedge_alloc(context, "block", 1, 8, &info, &block), KEDGE_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kedge_find(context, "block", &block, nullptr, &info), KEDGE_ERROR_INVALID_ARGUMENT);
  kedge_object object{};
  object.size = [](void*, size_t* bytes) { return *bytes = 1, 0; };
  EXPECT_EQ(kedge_protect_object(context, 1, "object", &object), KEDGE_ERROR_INVALID_ARGUMENT);
  EXPECT_THAT(kedge_error_message(), HasSubstr("kedge_object.struct_size is 0"));
  kedge_statistics statistics{};
  EXPECT_EQ(kedge_get_statistics(context, &statistics), KEDGE_ERROR_INVALID_ARGUMENT);
  ASSERT_KEDGE_OK(kedge_protect(context, 0, &value, 1, sizeof value, nullptr));
  ASSERT_KEDGE_OK(kedge_checkpoint(context, "state", 1, 0));
  ASSERT_KEDGE_OK(kedge_restart_begin(context, "state", 1));
  size_t bytes = 0;
  EXPECT_EQ(kedge_saved_region(context, 0, &bytes, &info), KEDGE_ERROR_INVALID_ARGUMENT);
  ASSERT_KEDGE_OK(kedge_restart_end(context, 1));
}

kedge_region_info Described(const char* name, kedge_type type, const std::vector<int64_t>& shape, bool column_major = false) {
  kedge_region_info info{};
  info.struct_size = sizeof info;
  info.name = name;
  info.type = type;
  info.column_major = column_major ? 1 : 0;
  info.dimensions = static_cast<int>(shape.size());
  std::copy(shape.begin(), shape.end(), info.shape);
  return info;
}

TEST_P(ApiTest, BytesOfAnotherMeaningAreNotRestoredUnlessThatIsAskedFor) {
  kedge_context* context = Open();
  std::vector<double> values(12, 1.5);
  const kedge_region_info saved = Described("x", KEDGE_TYPE_FLOAT64, {3, 4});
  ASSERT_KEDGE_OK(kedge_protect(context, 0, values.data(), values.size(), 8, &saved));
  ASSERT_KEDGE_OK(kedge_checkpoint(context, "s", 1, 0));
  std::fill(values.begin(), values.end(), 0.0);
  struct Case {
    kedge_region_info info;
    const char* named;  // empty: it fits
  };
  const Case cases[] = {{Described("x", KEDGE_TYPE_INT64, {3, 4}), "float64 of shape 3 x 4, row-major, and int64 of shape 3 x 4"},
                        {Described("x", KEDGE_TYPE_FLOAT64, {4, 3}), "of shape 4 x 3"},
                        {Described("x", KEDGE_TYPE_FLOAT64, {3, 4}, true), "column-major"},
                        {Described("x", KEDGE_TYPE_BYTES, {3, 4}), ""},
                        {Described("x", KEDGE_TYPE_FLOAT64, {}), ""},
                        {Described("y", KEDGE_TYPE_FLOAT64, {3, 4}), ""}};
  for (const Case& one : cases) {
    std::fill(values.begin(), values.end(), 0.0);
    kedge_region_info info = one.info;
    ASSERT_KEDGE_OK(kedge_protect(context, 0, values.data(), values.size(), 8, &info));
    if (*one.named != '\0') {
      EXPECT_EQ(kedge_restart(context, "s", -1, nullptr), KEDGE_ERROR_MISMATCH);
      EXPECT_THAT(kedge_error_message(), HasSubstr(one.named));
      EXPECT_EQ(values, std::vector<double>(12, 0.0)) << "nothing was overwritten";
      info.reinterpret = 1;
      ASSERT_KEDGE_OK(kedge_protect(context, 0, values.data(), values.size(), 8, &info));
    }
    EXPECT_KEDGE_OK(kedge_restart(context, "s", -1, nullptr));
    EXPECT_EQ(values, std::vector<double>(12, 1.5));
  }
}

// Else a program that was compiled without AVX is slow from its first checkpoint on.
TEST_P(ApiTest, TheUpperHalvesOfVectorRegistersAreTheProgramsAfterEachCall) {
  kedge_context* context = Open("reduce.incremental=on\nreduce.compress=on\nreduce.deduplicate=rank\n");
  std::vector<int> numbers = Numbers(3000000, 7);
  ReleaseUpperHalves();
  if (!AreUpperHalvesInUse().has_value()) GTEST_SKIP() << "this processor does not tell";
  ASSERT_KEDGE_OK(kedge_protect(context, 1, numbers.data(), numbers.size(), sizeof(int), nullptr));
  EXPECT_EQ(AreUpperHalvesInUse(), false) << "protect";
  for (int64_t version = 1; version <= 2; ++version) {
    ASSERT_KEDGE_OK(kedge_checkpoint(context, "state", version, 0));
    EXPECT_EQ(AreUpperHalvesInUse(), false) << "checkpoint";
    ASSERT_KEDGE_OK(kedge_wait(context, "state", version, KEDGE_LEVEL_STORE, 60));
    EXPECT_EQ(AreUpperHalvesInUse(), false) << "wait";
  }
  int64_t version = -1;
  ASSERT_KEDGE_OK(kedge_restart(context, "state", -1, &version));
  EXPECT_EQ(AreUpperHalvesInUse(), false) << "restart";
}

TEST_P(ApiTest, TwoRegionsOfOneNameAreRefused) {
  kedge_context* context = Open();
  int value = 1;
  const kedge_region_info info = Described("x", KEDGE_TYPE_INT32, {});
  ASSERT_KEDGE_OK(kedge_protect(context, 3, &value, 1, sizeof value, &info));
  EXPECT_EQ(kedge_protect(context, 4, &value, 1, sizeof value, &info), KEDGE_ERROR_INVALID_ARGUMENT);
  EXPECT_THAT(kedge_error_message(), HasSubstr("region 3 is called 'x' already"));
  EXPECT_KEDGE_OK(kedge_protect(context, 3, &value, 1, sizeof value, &info)) << "the same region again";
  ASSERT_KEDGE_OK(kedge_group(context, "other"));
  EXPECT_KEDGE_OK(kedge_protect(context, 4, &value, 1, sizeof value, &info)) << "a group has names of its own";
  ASSERT_KEDGE_OK(kedge_group(context, nullptr));
  const kedge_region_info renamed = Described("y", KEDGE_TYPE_INT32, {});
  ASSERT_KEDGE_OK(kedge_protect(context, 3, &value, 1, sizeof value, &renamed));
  EXPECT_KEDGE_OK(kedge_protect(context, 4, &value, 1, sizeof value, &info)) << "nobody has the name any more";
  ASSERT_KEDGE_OK(kedge_unprotect(context, 4));
  EXPECT_KEDGE_OK(kedge_protect(context, 5, &value, 1, sizeof value, &info));
  ASSERT_KEDGE_OK(kedge_clear(context));
  EXPECT_KEDGE_OK(kedge_protect(context, 6, &value, 1, sizeof value, &info));
}

TEST_P(ApiTest, RestoresInALaterContext) {
  std::vector<double> x(500, 1.5);
  kedge_context* first = Open();
  ASSERT_KEDGE_OK(kedge_protect(first, 0, x.data(), x.size(), sizeof(double), nullptr));
  for (int version = 0; version < 4; ++version) {
    std::fill(x.begin(), x.end(), version + 0.5);
    ASSERT_KEDGE_OK(kedge_checkpoint(first, "s", version, 0));
  }
  Close(first);
  kedge_context* second = Open();
  ASSERT_KEDGE_OK(kedge_protect(second, 0, x.data(), x.size(), sizeof(double), nullptr));
  int64_t version = -1;
  EXPECT_KEDGE_OK(kedge_newest(second, "s", -1, &version));
  EXPECT_EQ(version, 3);
  EXPECT_KEDGE_OK(kedge_newest(second, "s", 2, &version));
  EXPECT_EQ(version, 2);
  EXPECT_EQ(kedge_newest(second, "other", -1, &version), KEDGE_ERROR_NOT_FOUND);
  ASSERT_KEDGE_OK(kedge_restart(second, "s", 2, &version));
  EXPECT_EQ(version, 2);
  EXPECT_EQ(x, std::vector<double>(500, 2.5));
}

TEST_P(ApiTest, VersionsMustIncreaseUnlessOverwritten) {
  kedge_context* context = Open();
  int value = 1;
  ASSERT_KEDGE_OK(kedge_protect(context, 0, &value, 1, sizeof value, nullptr));
  ASSERT_KEDGE_OK(kedge_checkpoint(context, "v", 5, 0));
  EXPECT_EQ(kedge_checkpoint(context, "v", 5, 0), KEDGE_ERROR_ALREADY_EXISTS);
  EXPECT_THAT(kedge_error_message(), HasSubstr("version 5"));
  EXPECT_EQ(kedge_checkpoint(context, "v", 4, 0), KEDGE_ERROR_ALREADY_EXISTS);
  EXPECT_EQ(kedge_checkpoint(context, "v", -1, KEDGE_OVERWRITE), KEDGE_ERROR_INVALID_ARGUMENT);
  value = 2;
  ASSERT_KEDGE_OK(kedge_checkpoint(context, "v", 5, KEDGE_OVERWRITE));
  value = 0;
  int64_t version = 0;
  ASSERT_KEDGE_OK(kedge_restart(context, "v", -1, &version));
  EXPECT_EQ(value, 2);
  // A version of an earlier launch counts as well; after a restart from it the application goes on.
  Close(context);
  context = Open();
  ASSERT_KEDGE_OK(kedge_protect(context, 0, &value, 1, sizeof value, nullptr));
  EXPECT_EQ(kedge_checkpoint(context, "v", 5, 0), KEDGE_ERROR_ALREADY_EXISTS);
  ASSERT_KEDGE_OK(kedge_checkpoint(context, "v", 6, 0));
  ASSERT_KEDGE_OK(kedge_restart(context, "v", 5, &version));
  EXPECT_KEDGE_OK(kedge_checkpoint(context, "v", 6, 0));
}

// Launches of a job that holds one number, which is the version that it was saved in.
class GoingBackTest : public ApiTest {
 protected:
  void Launch(const std::string& more = "") {
    if (context_ != nullptr) Close(context_);
    context_ = Open("keep.versions=9\n" + more);
    ASSERT_KEDGE_OK(kedge_protect(context_, 0, &value_, 1, sizeof value_, nullptr));
  }
  void Take(int version, unsigned flags = 0) {
    value_ = version;
    ASSERT_KEDGE_OK(kedge_checkpoint(context_, "v", version, flags));
  }
  // What a restart brings back, in number and in content; -1: nothing.
  int Restart(int64_t at_most = -1) {
    int64_t version = -1;
    value_ = -1;
    if (kedge_restart(context_, "v", at_most, &version) != KEDGE_OK) return -1;
    EXPECT_EQ(version, value_);
    return value_;
  }

  kedge_context* context_ = nullptr;
  int value_ = 0;
};
INSTANTIATE_TEST_SUITE_P(Modes, GoingBackTest, ::testing::Values(kInline, kAgent), ModeName);

TEST_P(GoingBackTest, WhatItWentBackFromDoesNotComeBack) {
  Launch();
  for (const int version : {30, 40, 50}) Take(version);
  Launch();
  ASSERT_EQ(Restart(40), 40);
  Launch();
  EXPECT_EQ(Restart(), 40) << "also when nothing has been taken since";
  Take(42);
  Take(44);
  Launch();
  EXPECT_EQ(Restart(), 44);
  EXPECT_EQ(Restart(43), 42);
  EXPECT_EQ(kedge_restart_begin(context_, "v", 50), KEDGE_ERROR_NOT_FOUND);
  EXPECT_THAT(kedge_error_message(), HasSubstr("restart.version = 50 with restart.attempt = 1 goes back to it"));
}

// The launches after the first one have the same environment (kedge run).
TEST_P(GoingBackTest, AnAbandonedVersionThatIsAskedForComesBackOnce) {
  constexpr char kAsked[] = "restart.version=50\nrestart.attempt=1\n";
  Launch();
  for (const int version : {30, 40, 50, 55}) Take(version);
  Launch();
  ASSERT_EQ(Restart(40), 40);
  for (const int version : {42, 50, 70}) Take(version);
  Launch(kAsked);
  int64_t newest = -1;
  EXPECT_KEDGE_OK(kedge_newest(context_, "v", -1, &newest));
  EXPECT_EQ(newest, 50);
  EXPECT_EQ(Restart(45), 42) << "asked for by the call, which knows better";
  Launch(kAsked);
  EXPECT_EQ(Restart(), 50);
  EXPECT_EQ(kedge_restart_begin(context_, "v", 70), KEDGE_ERROR_NOT_FOUND) << "the job has gone back from that";
  Take(60);
  EXPECT_EQ(Restart(), 60) << "in the same launch, too";
  Launch(kAsked);
  EXPECT_EQ(Restart(), 60);
  Take(65);
  Launch(kAsked);
  EXPECT_EQ(Restart(), 65);
  Launch();
  EXPECT_EQ(Restart(), 65);
}

TEST_P(GoingBackTest, AVersionThatIsAskedForAndNotThereIsNotWaitedFor) {
  Launch();
  for (const int version : {30, 40}) Take(version);
  Launch("restart.version=41\nrestart.attempt=1\n");
  EXPECT_EQ(Restart(), 40);
}

TEST_P(GoingBackTest, AVersionOfNoAttemptAndAnAttemptWithoutAVersionAreRefused) {
  for (const char* one : {"restart.version=41\n", "restart.attempt=1\n"}) {
    const std::string overrides = Overrides(one);
    kedge_options options = KEDGE_OPTIONS_INIT;
    options.overrides = overrides.c_str();
    kedge_context* context = nullptr;
    EXPECT_EQ(kedge_init(&options, nullptr, &context), KEDGE_ERROR_INVALID_ARGUMENT);
    EXPECT_THAT(kedge_error_message(), HasSubstr("expected both or none"));
  }
}

// To read a version, here or of another rank, is not to go back to it.
TEST_P(GoingBackTest, WhatIsOnlyReadLeavesAllAsItWas) {
  Launch();
  for (const int version : {30, 40, 50}) Take(version);
  Launch("schedule.interval=1h\n");
  ASSERT_EQ(Restart(), 50);
  const auto read = [&](auto begin) {
    value_ = 50;
    ASSERT_KEDGE_OK(begin(context_, "v", 30));
    int seen = 0;
    ASSERT_KEDGE_OK(kedge_protect(context_, 0, &seen, 1, sizeof seen, nullptr));
    EXPECT_KEDGE_OK(kedge_restart_part(context_, KEDGE_ALL, nullptr, 0));
    EXPECT_KEDGE_OK(kedge_restart_end(context_, 1));
    EXPECT_EQ(seen, 30);
    ASSERT_KEDGE_OK(kedge_protect(context_, 0, &value_, 1, sizeof value_, nullptr));
    EXPECT_KEDGE_OK(kedge_wait(context_, "v", 50, KEDGE_LEVEL_STORE, 10));
    EXPECT_EQ(kedge_checkpoint(context_, "v", 45, 0), KEDGE_ERROR_ALREADY_EXISTS);
    int64_t newest = -1;
    EXPECT_KEDGE_OK(kedge_newest(context_, "v", -1, &newest));
    EXPECT_EQ(newest, 50);
  };
  read(kedge_load_begin);
  ASSERT_KEDGE_OK(kedge_restart_as(context_, 0));
  read(kedge_restart_begin);
  ASSERT_KEDGE_OK(kedge_restart_as(context_, -1));
  Launch();
  EXPECT_EQ(Restart(), 50);
  ASSERT_KEDGE_OK(kedge_restart_begin(context_, "v", 30));
  ASSERT_KEDGE_OK(kedge_restart_end(context_, 1));
  EXPECT_EQ(Restart(), 30) << "what was not begun to be read is gone on from";
}

// Another rank may have taken that number again: what the store has of it is not what is asked for.
TEST_P(GoingBackTest, WhatItWentBackFromIsAtNoLevel) {
  Launch();
  for (const int version : {30, 40, 50}) Take(version);
  Launch();
  ASSERT_EQ(Restart(40), 40);
  kedge_level level = KEDGE_LEVEL_NONE;
  EXPECT_KEDGE_OK(kedge_wait(context_, "v", 40, KEDGE_LEVEL_STORE, 10));
  EXPECT_EQ(kedge_wait(context_, "v", 50, KEDGE_LEVEL_STORE, 10), KEDGE_ERROR_NOT_FOUND);
  EXPECT_THAT(kedge_error_message(), HasSubstr("abandoned"));
  EXPECT_EQ(kedge_test(context_, "v", 50, &level), KEDGE_ERROR_NOT_FOUND);
  Take(50);
  EXPECT_KEDGE_OK(kedge_wait(context_, "v", 50, KEDGE_LEVEL_STORE, 10));
}

TEST_P(GoingBackTest, BackAndForthInOneAttempt) {
  Launch();
  for (const int version : {10, 20, 30}) Take(version);
  ASSERT_EQ(Restart(20), 20);
  ASSERT_EQ(Restart(10), 10);
  Take(15);
  EXPECT_EQ(Restart(), 15);
  EXPECT_EQ(Restart(25), 15);
  Take(20);
  EXPECT_EQ(Restart(), 20);
  Launch();
  EXPECT_EQ(Restart(), 20);
}

TEST_P(GoingBackTest, WhoBeginsAnewIsNotSentBackToTheOldEnd) {
  Launch();
  for (const int version : {1, 2, 3}) Take(version);
  Launch();
  Take(1, KEDGE_OVERWRITE);
  Take(2, KEDGE_OVERWRITE);
  Launch();
  EXPECT_EQ(Restart(), 2);
}

TEST_P(ApiTest, AMisfitIsRefusedBeforeAnythingIsOverwritten) {
  kedge_context* context = Open();
  std::vector<int> a(100, 1);
  std::vector<int> b(100, 2);
  ASSERT_KEDGE_OK(kedge_protect(context, 0, a.data(), 100, sizeof(int), nullptr));
  ASSERT_KEDGE_OK(kedge_protect(context, 1, b.data(), 100, sizeof(int), nullptr));
  ASSERT_KEDGE_OK(kedge_checkpoint(context, "m", 1, 0));
  std::fill(a.begin(), a.end(), 9);
  for (size_t count : {99, 101}) {
    b.resize(count);
    ASSERT_KEDGE_OK(kedge_protect(context, 1, b.data(), count, sizeof(int), nullptr));
    EXPECT_EQ(kedge_restart(context, "m", -1, nullptr), KEDGE_ERROR_MISMATCH);
    EXPECT_THAT(kedge_error_message(), HasSubstr("400"));
    EXPECT_EQ(a, std::vector<int>(100, 9));
  }
  b.resize(100);
  ASSERT_KEDGE_OK(kedge_protect(context, 1, b.data(), 100, sizeof(int), nullptr));
  ASSERT_KEDGE_OK(kedge_protect(context, 2, b.data(), 1, sizeof(int), nullptr));
  EXPECT_EQ(kedge_restart(context, "m", -1, nullptr), KEDGE_ERROR_MISMATCH);
  EXPECT_THAT(kedge_error_message(), HasSubstr("region 2"));
  EXPECT_EQ(a, std::vector<int>(100, 9));
  ASSERT_KEDGE_OK(kedge_unprotect(context, 2));
  EXPECT_EQ(kedge_unprotect(context, 2), KEDGE_ERROR_NOT_FOUND);
  ASSERT_KEDGE_OK(kedge_restart(context, "m", -1, nullptr));
  EXPECT_EQ(a, std::vector<int>(100, 1));
}

TEST_P(ApiTest, PartsAndAnnotationsAndSavedRegions) {
  kedge_context* context = Open();
  std::vector<float> grid(24);
  std::iota(grid.begin(), grid.end(), 0.f);
  int step = 12;
  kedge_region_info info{};
  info.struct_size = sizeof info;
  info.name = "temperature";
  info.type = KEDGE_TYPE_FLOAT32;
  info.dimensions = 2;
  info.shape[0] = 4;
  info.shape[1] = 6;
  ASSERT_KEDGE_OK(kedge_protect(context, 7, grid.data(), grid.size(), sizeof(float), &info));
  ASSERT_KEDGE_OK(kedge_protect(context, 8, &step, 1, sizeof step, nullptr));
  ASSERT_KEDGE_OK(kedge_protect(context, 9, nullptr, 0, 8, nullptr));

  EXPECT_EQ(kedge_checkpoint_part(context, KEDGE_ALL, nullptr, 0), KEDGE_ERROR_FAILED_PRECONDITION);
  ASSERT_KEDGE_OK(kedge_checkpoint_begin(context, "p", 1, 0));
  EXPECT_EQ(kedge_checkpoint_begin(context, "p", 2, 0), KEDGE_ERROR_FAILED_PRECONDITION);
  int id = 8;
  ASSERT_KEDGE_OK(kedge_checkpoint_part(context, KEDGE_SOME, &id, 1));
  EXPECT_EQ(kedge_checkpoint_part(context, KEDGE_SOME, &id, 1), KEDGE_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kedge_checkpoint_part(context, KEDGE_ALL, nullptr, 0), KEDGE_ERROR_INVALID_ARGUMENT);
  id = 77;
  EXPECT_EQ(kedge_checkpoint_part(context, KEDGE_SOME, &id, 1), KEDGE_ERROR_NOT_FOUND);
  step = 99;  // captured already
  ASSERT_KEDGE_OK(kedge_annotate(context, "units", "kelvin", 6));
  ASSERT_KEDGE_OK(kedge_annotate(context, "empty", nullptr, 0));
  ASSERT_KEDGE_OK(kedge_annotate(context, "units", "K", 1));
  ASSERT_KEDGE_OK(kedge_checkpoint_part(context, KEDGE_REST, nullptr, 0));
  ASSERT_KEDGE_OK(kedge_checkpoint_end(context, 1));

  EXPECT_EQ(kedge_restart_begin(context, "p", 2), KEDGE_ERROR_NOT_FOUND);
  ASSERT_KEDGE_OK(kedge_restart_begin(context, "p", 1));
  size_t bytes = 0;
  kedge_region_info saved{};
  saved.struct_size = sizeof saved;
  ASSERT_KEDGE_OK(kedge_saved_region(context, 7, &bytes, &saved));
  EXPECT_EQ(bytes, 24 * sizeof(float));
  EXPECT_STREQ(saved.name, "temperature");
  EXPECT_EQ(saved.type, KEDGE_TYPE_FLOAT32);
  EXPECT_EQ(saved.dimensions, 2);
  EXPECT_EQ(saved.shape[1], 6);
  EXPECT_EQ(kedge_saved_region(context, 5, &bytes, nullptr), KEDGE_ERROR_NOT_FOUND);
  EXPECT_EQ(bytes, 0u);
  int ids[8];
  size_t count = 0;
  ASSERT_KEDGE_OK(kedge_saved_ids(context, ids, 8, &count));
  EXPECT_EQ(std::set<int>(ids, ids + count), (std::set<int>{7, 8, 9}));
  char value[8];
  ASSERT_KEDGE_OK(kedge_annotation(context, "units", value, sizeof value, &bytes));
  EXPECT_EQ(std::string(value, bytes), "K");
  EXPECT_EQ(kedge_annotation(context, "units", value, 0, &bytes), KEDGE_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(bytes, 1u);
  EXPECT_KEDGE_OK(kedge_annotation(context, "empty", nullptr, 0, &bytes));
  EXPECT_EQ(kedge_annotation(context, "none", value, sizeof value, &bytes), KEDGE_ERROR_NOT_FOUND);
  const std::vector<float> before = grid;
  std::fill(grid.begin(), grid.end(), -1.f);
  id = 8;
  ASSERT_KEDGE_OK(kedge_restart_part(context, KEDGE_SOME, &id, 1));
  EXPECT_EQ(step, 12);
  EXPECT_NE(grid, before);
  ASSERT_KEDGE_OK(kedge_restart_part(context, KEDGE_REST, nullptr, 0));
  EXPECT_EQ(grid, before);
  ASSERT_KEDGE_OK(kedge_restart_end(context, 1));
}

TEST_P(ApiTest, AnAbandonedCheckpointLeavesTheOlderOne) {
  kedge_context* context = Open();
  std::vector<char> data(5000000, 'a');
  ASSERT_KEDGE_OK(kedge_protect(context, 0, data.data(), data.size(), 1, nullptr));
  ASSERT_KEDGE_OK(kedge_checkpoint(context, "x", 1, 0));
  data.assign(data.size(), 'b');
  ASSERT_KEDGE_OK(kedge_checkpoint_begin(context, "x", 2, 0));
  ASSERT_KEDGE_OK(kedge_checkpoint_part(context, KEDGE_ALL, nullptr, 0));
  ASSERT_KEDGE_OK(kedge_checkpoint_end(context, 0));
  int64_t version = 0;
  ASSERT_KEDGE_OK(kedge_restart(context, "x", -1, &version));
  EXPECT_EQ(version, 1);
  EXPECT_EQ(data[4999999], 'a');
  // The number is free again, and the new taking is what counts.
  data.assign(data.size(), 'c');
  ASSERT_KEDGE_OK(kedge_checkpoint(context, "x", 2, 0));
  data.assign(data.size(), ' ');
  ASSERT_KEDGE_OK(kedge_restart(context, "x", -1, &version));
  EXPECT_EQ(version, 2);
  EXPECT_EQ(data[4999999], 'c');
}

struct Text {
  std::string value;
  bool fail = false;
  static int Size(void* user, size_t* bytes) { return *bytes = static_cast<Text*>(user)->value.size(), 0; }
  static int Serialize(void* user, kedge_writer* writer) {
    auto* self = static_cast<Text*>(user);
    if (self->fail) return 42;
    for (char c : self->value) {
      if (kedge_write(writer, &c, 1) != KEDGE_OK) return 1;
    }
    return 0;
  }
  static int Deserialize(void* user, kedge_reader* reader, size_t bytes) {
    auto* self = static_cast<Text*>(user);
    self->value.assign(bytes, ' ');
    for (char& c : self->value) {
      if (kedge_read(reader, &c, 1) != KEDGE_OK) return 1;
    }
    return kedge_read(reader, &self->fail, 1) == KEDGE_OK ? 2 : 0;  // nothing is left
  }
};

TEST_P(ApiTest, ObjectsAreWrittenAndReadThroughTheirCallBacks) {
  kedge_context* context = Open();
  Text text{std::string(3000000, 'x') + "end"};
  kedge_object object{sizeof(kedge_object), &text, Text::Size, Text::Serialize, Text::Deserialize};
  ASSERT_KEDGE_OK(kedge_protect_object(context, 4, "text", &object));
  ASSERT_KEDGE_OK(kedge_checkpoint(context, "o", 1, 0));
  const std::string before = text.value;
  text.value = "other";
  EXPECT_EQ(kedge_restart(context, "o", -1, nullptr), KEDGE_ERROR_INVALID_ARGUMENT) << "it reads one byte too many";
  object.deserialize = [](void* user, kedge_reader* reader, size_t bytes) {
    auto* self = static_cast<Text*>(user);
    self->value.assign(bytes, ' ');
    return kedge_read(reader, self->value.data(), bytes);
  };
  ASSERT_KEDGE_OK(kedge_protect_object(context, 4, "text", &object));
  ASSERT_KEDGE_OK(kedge_restart(context, "o", -1, nullptr));
  EXPECT_EQ(text.value, before);
  text.fail = true;
  EXPECT_EQ(kedge_checkpoint(context, "o", 2, 0), KEDGE_ERROR_FAILED_PRECONDITION);
  EXPECT_THAT(kedge_error_message(), HasSubstr("42"));
  object.size = [](void*, size_t* bytes) { return *bytes = 1, 0; };
  text.fail = false;
  ASSERT_KEDGE_OK(kedge_protect_object(context, 4, "text", &object));
  EXPECT_EQ(kedge_checkpoint(context, "o", 2, 0), KEDGE_ERROR_INVALID_ARGUMENT) << "more than announced";
}

TEST_P(ApiTest, GroupsHaveRegionsAndVersionsOfTheirOwn) {
  kedge_context* context = Open();
  int a = 1;
  int b = 2;
  ASSERT_KEDGE_OK(kedge_protect(context, 0, &a, 1, sizeof a, nullptr));
  ASSERT_KEDGE_OK(kedge_group(context, "other group"));
  ASSERT_KEDGE_OK(kedge_protect(context, 0, &b, 1, sizeof b, nullptr));
  ASSERT_KEDGE_OK(kedge_checkpoint(context, "second", 1, 0));
  ASSERT_KEDGE_OK(kedge_group(context, nullptr));
  ASSERT_KEDGE_OK(kedge_checkpoint(context, "first", 1, 0));
  a = b = 0;
  ASSERT_KEDGE_OK(kedge_restart(context, "first", -1, nullptr));
  EXPECT_EQ(a, 1);
  EXPECT_EQ(b, 0);
  ASSERT_KEDGE_OK(kedge_group(context, "other group"));
  ASSERT_KEDGE_OK(kedge_restart(context, "second", -1, nullptr));
  EXPECT_EQ(b, 2);
  ASSERT_KEDGE_OK(kedge_clear(context));
  ASSERT_KEDGE_OK(kedge_group(context, nullptr));
  ASSERT_KEDGE_OK(kedge_restart(context, "first", -1, nullptr));
}

TEST_P(ApiTest, AnyNameIsSafe) {
  kedge_context* context = Open();
  int value = 0;
  ASSERT_KEDGE_OK(kedge_protect(context, 0, &value, 1, sizeof value, nullptr));
  const std::vector<std::string> names = {
      "a/b", "..", ".", "../../x", "a.*[b]$", "naïve ☃", std::string(1000, 'n'), std::string(1000, '%'), " ", "a\nb"};
  for (const std::string& name : names) {
    ++value;
    ASSERT_KEDGE_OK(kedge_checkpoint(context, name.c_str(), 1, 0)) << name;
  }
  for (size_t i = 0; i < names.size(); ++i) {
    ASSERT_KEDGE_OK(kedge_restart(context, names[i].c_str(), -1, nullptr)) << names[i];
    EXPECT_EQ(value, static_cast<int>(i) + 1);
  }
  EXPECT_EQ(kedge_checkpoint(context, "", 1, 0), KEDGE_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kedge_checkpoint(context, std::string(1024, 'n').c_str(), 1, 0), KEDGE_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kedge_checkpoint(context, nullptr, 1, 0), KEDGE_ERROR_INVALID_ARGUMENT);
}

TEST_P(ApiTest, TenThousandRegions) {
  kedge_context* context = Open();
  std::vector<std::vector<int>> regions(10000);
  for (size_t i = 0; i < regions.size(); ++i) {
    regions[i].assign(i % 300, static_cast<int>(i));
    ASSERT_KEDGE_OK(kedge_protect(context, static_cast<int>(i), regions[i].data(), regions[i].size(), sizeof(int), nullptr));
  }
  ASSERT_KEDGE_OK(kedge_checkpoint(context, "many", 1, 0));
  const auto before = regions;
  for (auto& region : regions) std::fill(region.begin(), region.end(), -1);
  ASSERT_KEDGE_OK(kedge_restart(context, "many", -1, nullptr));
  EXPECT_EQ(regions, before);
  for (size_t i = 0; i < regions.size(); ++i) ASSERT_KEDGE_OK(kedge_unprotect(context, static_cast<int>(i)));
  ASSERT_KEDGE_OK(kedge_checkpoint(context, "many", 2, 0)) << "no region at all is a checkpoint, too";
  ASSERT_KEDGE_OK(kedge_restart(context, "many", -1, nullptr));
}

TEST_P(ApiTest, OneRegionAPartTenThousandTimes) {
  kedge_context* context = Open();
  std::vector<int> values = Numbers(10000, 5);
  for (int i = 0; i < 10000; ++i) {
    ASSERT_KEDGE_OK(kedge_protect(context, i, &values[static_cast<size_t>(i)], 1, sizeof(int), nullptr));
  }
  ASSERT_KEDGE_OK(kedge_checkpoint_begin(context, "parts", 1, 0));
  for (int i = 0; i < 10000; ++i) ASSERT_KEDGE_OK(kedge_checkpoint_part(context, KEDGE_SOME, &i, 1));
  ASSERT_KEDGE_OK(kedge_checkpoint_end(context, 1));
  std::fill(values.begin(), values.end(), 0);
  ASSERT_KEDGE_OK(kedge_restart(context, "parts", -1, nullptr));
  EXPECT_EQ(values, Numbers(10000, 5));
}

TEST_P(ApiTest, WaitTestAndPending) {
  kedge_context* context = Open();
  std::vector<char> data(3000000, 'a');
  ASSERT_KEDGE_OK(kedge_protect(context, 0, data.data(), data.size(), 1, nullptr));
  EXPECT_EQ(kedge_wait(context, nullptr, 0, KEDGE_LEVEL_STORE, 1), KEDGE_ERROR_NOT_FOUND);
  EXPECT_KEDGE_OK(kedge_pending(context));
  ASSERT_KEDGE_OK(kedge_checkpoint(context, "w", 1, 0));
  EXPECT_KEDGE_OK(kedge_wait(context, "w", 1, KEDGE_LEVEL_LOCAL, 30));
  EXPECT_KEDGE_OK(kedge_wait(context, "w", 1, KEDGE_LEVEL_BUFFER, 30));
  EXPECT_KEDGE_OK(kedge_wait(context, "w", 1, KEDGE_LEVEL_STORE, 0)) << "no burst buffer lies before it";
  EXPECT_KEDGE_OK(kedge_wait(context, nullptr, 0, KEDGE_LEVEL_LAST, 30));
  kedge_level level = KEDGE_LEVEL_NONE;
  EXPECT_KEDGE_OK(kedge_test(context, "w", 1, &level));
  EXPECT_EQ(level, KEDGE_LEVEL_STORE);
  EXPECT_KEDGE_OK(kedge_pending(context));
  EXPECT_EQ(kedge_test(context, "w", 2, &level), KEDGE_ERROR_NOT_FOUND);
  char name[16] = "";
  int64_t version = 0;
  EXPECT_KEDGE_OK(kedge_last_flush_error(context, name, sizeof name, &version));
}

TEST_P(ApiTest, PinnedVersionsStayOutsideKeep) {
  kedge_context* context = Open();
  int value = 0;
  ASSERT_KEDGE_OK(kedge_protect(context, 0, &value, 1, sizeof value, nullptr));
  for (value = 1; value <= 5; ++value) {
    ASSERT_KEDGE_OK(kedge_checkpoint(context, "k", value, 0));
    ASSERT_KEDGE_OK(kedge_wait(context, "k", value, KEDGE_LEVEL_STORE, 30));
    if (value == 2) {
      ASSERT_KEDGE_OK(kedge_pin(context, "k", 2, 1));
    }
  }
  EXPECT_EQ(kedge_pin(context, "k", 9, 1), KEDGE_ERROR_FAILED_PRECONDITION);
  ASSERT_KEDGE_OK(kedge_cleanup(context, "k"));
  int64_t version = 0;
  // The agent applies retention in the background.
  for (int i = 0; i < 500; ++i) {
    ASSERT_KEDGE_OK(kedge_newest(context, "k", 3, &version));
    if (version == 2) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_EQ(version, 2) << "3 is beyond keep.versions=2";
  EXPECT_KEDGE_OK(kedge_restart(context, "k", 3, nullptr));
  EXPECT_EQ(value, 2);
}

TEST_P(ApiTest, ASecondLaunchOfALivingJobIsRefused) {
  kedge_context* context = Open();
  const std::string overrides = Overrides();
  kedge_options options = KEDGE_OPTIONS_INIT;
  options.overrides = overrides.c_str();
  kedge_context* second = nullptr;
  EXPECT_EQ(kedge_init(&options, nullptr, &second), KEDGE_ERROR_BUSY);
  EXPECT_EQ(second, nullptr);
  EXPECT_NE(std::string(kedge_error_message()), "");
  options.job = "another";
  ASSERT_KEDGE_OK(kedge_init(&options, nullptr, &second));
  int a = 1;
  int b = 2;
  ASSERT_KEDGE_OK(kedge_protect(context, 0, &a, 1, sizeof a, nullptr));
  ASSERT_KEDGE_OK(kedge_protect(second, 0, &b, 1, sizeof b, nullptr));
  ASSERT_KEDGE_OK(kedge_checkpoint(context, "same", 1, 0));
  ASSERT_KEDGE_OK(kedge_checkpoint(second, "same", 1, 0));
  a = b = 0;
  ASSERT_KEDGE_OK(kedge_restart(context, "same", -1, nullptr));
  ASSERT_KEDGE_OK(kedge_restart(second, "same", -1, nullptr));
  EXPECT_EQ(a, 1);
  EXPECT_EQ(b, 2);
  EXPECT_KEDGE_OK(kedge_finalize(second, 0));
}

// Rank 0 of two, whose other rank says what it says itself, until it is gone.
struct Dying {
  int calls_left = 0;

  kedge_bootstrap Face() {
    kedge_bootstrap face{};
    face.struct_size = sizeof face;
    face.user = this;
    face.ranks = 2;
    face.allgather = [](void* user, const void* send, void* receive, size_t bytes) {
      std::memcpy(receive, send, bytes);
      std::memcpy(static_cast<char*>(receive) + bytes, send, bytes);
      return Answer(user);
    };
    face.broadcast = [](void* user, void*, size_t, int) { return Answer(user); };
    face.barrier = Answer;
    return face;
  }
  static int Answer(void* user) { return static_cast<Dying*>(user)->calls_left-- > 0 ? 0 : 1; }
};

TEST_P(ApiTest, AnInitInWhichARankDiesLeavesTheJobToTheNext) {
  const std::string overrides = Overrides();
  kedge_options options = KEDGE_OPTIONS_INIT;
  options.overrides = overrides.c_str();
  for (int calls = 0;; ++calls) {
    Dying other{calls};
    const kedge_bootstrap bootstrap = other.Face();
    kedge_context* context = nullptr;
    const int status = kedge_init(&options, &bootstrap, &context);
    if (status == KEDGE_OK) {
      EXPECT_GT(calls, 3);
      EXPECT_KEDGE_OK(kedge_finalize(context, 0));
      return;
    }
    ASSERT_EQ(status, KEDGE_ERROR_UNAVAILABLE) << calls << ": " << kedge_error_message();
    ASSERT_EQ(kedge_init(&options, nullptr, &context), KEDGE_OK) << calls << ": " << kedge_error_message();
    ASSERT_KEDGE_OK(kedge_finalize(context, 0));
  }
}

TEST_P(ApiTest, BadArgumentsAreNamed) {
  kedge_context* context = Open();
  int value = 0;
  EXPECT_EQ(kedge_protect(context, 0, nullptr, 1, 4, nullptr), KEDGE_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kedge_protect(context, 0, &value, SIZE_MAX, 4, nullptr), KEDGE_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kedge_protect(context, 0, &value, 1, 0, nullptr), KEDGE_ERROR_INVALID_ARGUMENT);
  kedge_region_info info{};
  info.struct_size = sizeof info;
  info.memory = KEDGE_MEMORY_DEVICE;
  EXPECT_EQ(kedge_protect(context, 0, &value, 1, 4, &info), KEDGE_ERROR_UNSUPPORTED);
  info.memory = KEDGE_MEMORY_HOST;
  info.dimensions = 1;
  info.shape[0] = 2;
  EXPECT_EQ(kedge_protect(context, 0, &value, 1, 4, &info), KEDGE_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kedge_checkpoint(nullptr, "x", 1, 0), KEDGE_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kedge_wait(context, "x", 1, KEDGE_LEVEL_NODE, 0), KEDGE_ERROR_UNSUPPORTED);
  EXPECT_EQ(kedge_wait(context, "x", 1, static_cast<kedge_level>(KEDGE_LEVEL_STORE + 1), 0), KEDGE_ERROR_INVALID_ARGUMENT);
  EXPECT_THAT(kedge_error_message(), HasSubstr("KEDGE_LEVEL_BUFFER"));
  kedge_options options = KEDGE_OPTIONS_INIT;
  options.overrides = "no.such.key=1";
  kedge_context* other = nullptr;
  EXPECT_EQ(kedge_init(&options, nullptr, &other), KEDGE_ERROR_INVALID_ARGUMENT);
  EXPECT_THAT(kedge_error_message(), HasSubstr("no.such.key"));
  EXPECT_STREQ(kedge_status_name(KEDGE_ERROR_NO_SPACE), "no space");
  EXPECT_STREQ(kedge_status_name(KEDGE_ERROR_LOST), "lost");
}

}  // namespace
}  // namespace kedge::testing
