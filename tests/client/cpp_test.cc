// The C++ face: lifetimes, spans, groups, serializers from lambdas, errors as values.
#include "kedge/kedge.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/support/scenario_folder.h"

namespace kedge::testing {
namespace {

class CppTest : public ::testing::Test {
 protected:
  OpenOptions Options() const {
    return {.job = "cpp",
            .overrides = "job.mode=sync\nstore.path=" + folder_.store() + "\nnode.run_folder=" + folder_.run_folder()};
  }
  ScenarioFolder folder_;
};

TEST_F(CppTest, ProtectCheckpointRestart) {
  std::vector<double> field(100, 1.0);
  int64_t step = 7;
  {
    auto context = Context::Open(Options());
    ASSERT_TRUE(context) << context.error().message();
    ASSERT_TRUE(context->Protect(0, std::span(field),
                                 {.name = "field", .shape = {10, 10}, .global_shape = {30, 10}, .global_offset = {20, 0}}));
    ASSERT_TRUE(context->Protect(1, step));
    ASSERT_TRUE(context->Checkpoint("state", 7));
    ASSERT_TRUE(context->Wait());
    auto moved = std::move(*context);
    ASSERT_TRUE(moved.Test("state", 7));
  }  // ended here: the next one would be refused otherwise
  auto context = Context::Open(Options());
  ASSERT_TRUE(context) << context.error().message();
  EXPECT_EQ(context->Newest("state").value_or(-1), 7);
  ASSERT_TRUE(context->RestartBegin("state", 7));
  auto saved = context->Saved(0);
  ASSERT_TRUE(saved);
  EXPECT_EQ(saved->type, KEDGE_TYPE_FLOAT64);
  EXPECT_EQ(saved->name, "field");
  EXPECT_EQ(saved->shape, (std::vector<int64_t>{10, 10}));
  EXPECT_EQ(saved->global_shape, (std::vector<int64_t>{30, 10}));
  EXPECT_EQ(saved->global_offset, (std::vector<int64_t>{20, 0}));
  EXPECT_TRUE(context->Saved(1)->global_shape.empty());
  ASSERT_TRUE(context->RestartEnd());
  field.assign(100, 0.0);
  step = 0;
  ASSERT_TRUE(context->Protect(0, std::span(field), {.shape = {10, 10}}));
  ASSERT_TRUE(context->Protect(1, step));
  auto restored = context->Restart("state");
  ASSERT_TRUE(restored) << restored.error().message();
  EXPECT_EQ(*restored, 7);
  EXPECT_EQ(step, 7);
  EXPECT_EQ(field, std::vector<double>(100, 1.0));
  EXPECT_TRUE(context->Finalize());
}

TEST_F(CppTest, ContainersThatGrowAreTakenAsTheyAre) {
  std::vector<double> particles(10, 1.0);
  std::string notes = "begun";
  OpenOptions options = Options();
  options.overrides += "\nkeep.versions=5";
  auto context = Context::Open(options);
  ASSERT_TRUE(context) << context.error().message();
  ASSERT_TRUE(context->Protect(0, particles, {.name = "particles"}));
  ASSERT_TRUE(context->Protect(1, notes));
  ASSERT_TRUE(context->Checkpoint("state", 1));
  particles.resize(100'000, 2.0);  // elsewhere now
  notes = "a text that is longer than what lies within the string itself";
  ASSERT_TRUE(context->Checkpoint("state", 2));
  const auto then = particles;
  const auto noted = notes;
  particles.clear();
  particles.shrink_to_fit();
  notes.clear();
  ASSERT_TRUE(context->Checkpoint("state", 3)) << "an empty one is one, too";

  auto restored = context->Restart("state", 2);
  ASSERT_TRUE(restored) << restored.error().message();
  EXPECT_EQ(particles, then);
  EXPECT_EQ(notes, noted);
  ASSERT_TRUE(context->Restart("state", 1));
  EXPECT_EQ(particles, std::vector<double>(10, 1.0));
  EXPECT_EQ(notes, "begun");
  ASSERT_TRUE(context->RestartBegin("state", 1));
  EXPECT_EQ(context->Saved(0)->shape, std::vector<int64_t>{10});
  ASSERT_TRUE(context->RestartEnd());

  std::vector<int64_t> others(10);
  ASSERT_TRUE(context->Protect(0, others));
  EXPECT_EQ(context->Restart("state", 1).error().code(), KEDGE_ERROR_MISMATCH) << "of another type";
  EXPECT_EQ(context->Protect(0, others, {.shape = {2, 5}}).error().code(), KEDGE_ERROR_INVALID_ARGUMENT);
}

TEST_F(CppTest, SerializersAndTheirErrors) {
  auto context = Context::Open(Options());
  ASSERT_TRUE(context) << context.error().message();
  std::string text = "hello";
  bool fail = false;
  Serializer serializer;
  serializer.size = [&] { return text.size(); };
  serializer.serialize = [&](Writer& writer) {
    if (fail) throw std::runtime_error("no");
    return writer.Write(std::span<const char>(text)).has_value();
  };
  serializer.deserialize = [&](Reader& reader, size_t bytes) {
    text.resize(bytes);
    return reader.Read(std::span<char>(text)).has_value();
  };
  ASSERT_TRUE(context->Protect(3, serializer, "text"));
  ASSERT_TRUE(context->CheckpointBegin("t", 1));
  ASSERT_TRUE(context->Annotate("who", "me"));
  ASSERT_TRUE(context->CheckpointRest());
  ASSERT_TRUE(context->CheckpointEnd());
  text = "something else";
  ASSERT_TRUE(context->Restart("t"));
  EXPECT_EQ(text, "hello");
  ASSERT_TRUE(context->RestartBegin("t", 1));
  EXPECT_EQ(context->Annotation("who").value_or(""), "me");
  ASSERT_TRUE(context->RestartEnd());
  fail = true;
  auto result = context->Checkpoint("t", 2);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code(), KEDGE_ERROR_FAILED_PRECONDITION);
  auto none = context->Restart("nothing");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code(), KEDGE_ERROR_NOT_FOUND);
  EXPECT_NE(none.error().message(), "");
}

TEST_F(CppTest, Groups) {
  auto context = Context::Open(Options());
  ASSERT_TRUE(context) << context.error().message();
  int a = 1;
  int b = 2;
  ASSERT_TRUE(context->Protect(0, a));
  ASSERT_TRUE(context->SelectGroup("second"));
  ASSERT_TRUE(context->Protect(0, b));
  ASSERT_TRUE(context->Checkpoint("of the second", 1));
  a = b = 0;
  ASSERT_TRUE(context->Restart("of the second"));
  EXPECT_EQ(a, 0);
  EXPECT_EQ(b, 2);
}

}  // namespace
}  // namespace kedge::testing
