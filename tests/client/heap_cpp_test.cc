// The heap's C++ face: containers whose elements a restart brings back.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <list>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kedge/kedge.hpp"
#include "tests/support/scenario_folder.h"

namespace kedge::testing {
namespace {

using Text = std::basic_string<char, std::char_traits<char>, Allocator<char>>;
using Values = std::vector<double, Allocator<double>>;
using Book = std::map<int, std::pair<Text, Values>, std::less<>, Allocator<std::pair<const int, std::pair<Text, Values>>>>;

struct alignas(128) Wide {
  double values[16];
};

class HeapCppTest : public ::testing::Test {
 protected:
  OpenOptions Options() const {
    return {.job = "cpp",
            .overrides = "job.mode=sync\nstore.path=" + folder_.store() + "\nnode.run_folder=" + folder_.run_folder()};
  }
  ScenarioFolder folder_;
};

// The first life of a job: a book of 500 pages, and numbers beside it.
bool Write(const OpenOptions& options) {
  auto context = Context::Open(options);
  if (!context) return false;
  auto book = context->Make<Book>("book", Allocator<Book::value_type>(*context));
  if (!book) return false;
  for (int i = 0; i < 500; ++i) {
    Values values(static_cast<size_t>(i), i * 0.5, Allocator<double>(*context));
    Text text(std::to_string(i) + std::string(static_cast<size_t>(i % 40), 'x'), Allocator<char>(*context));
    (*book)->emplace(i, std::pair(std::move(text), std::move(values)));
  }
  auto field = context->MakeArray<float>("field", 1000);
  if (!field) return false;
  (*field)[999] = 2.5f;
  return context->Checkpoint("state", 1) && context->Finalize();
}

TEST_F(HeapCppTest, ContainersComeBackWithWhatTheyHoldInAnotherProcess) {
  const pid_t child = fork();
  if (child == 0) _exit(Write(Options()) ? 0 : 1);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  auto context = Context::Open(Options());
  ASSERT_TRUE(context) << context.error().message();
  auto restored = context->Restart("state");
  ASSERT_TRUE(restored) << restored.error().message();
  Book* const book = *context->Find<Book>("book");
  ASSERT_EQ(book->size(), 500u);
  const auto& [text, values] = book->at(77);
  EXPECT_EQ(text, ("77" + std::string(37, 'x')).c_str());
  EXPECT_EQ(values.size(), 77u);
  EXPECT_EQ(values.back(), 38.5);
  EXPECT_EQ((*context->FindArray<float>("field"))[999], 2.5f);
  // It goes on with the allocators that it holds, which name this process's context now.
  for (int i = 0; i < 400; ++i) book->erase(i);
  for (auto& [number, page] : *book) page.second.resize(1000, 1.0);
  ASSERT_TRUE(context->Checkpoint("state", 2));
  ASSERT_TRUE(context->Destroy(book));
  ASSERT_TRUE(context->Restart("state"));
  Book* const again = *context->Find<Book>("book");
  EXPECT_EQ(again->size(), 100u);
  EXPECT_EQ(again->at(499).second.size(), 1000u);
  ASSERT_TRUE(context->Destroy(again));
}

TEST_F(HeapCppTest, AWrongTypeIsNotFound) {
  auto context = Context::Open(Options());
  ASSERT_TRUE(context);
  ASSERT_TRUE(context->Make<double>("number", 1.5));
  EXPECT_EQ(**context->Find<double>("number"), 1.5);
  EXPECT_EQ(context->Find<int64_t>("number").error().code(), KEDGE_ERROR_MISMATCH);
  EXPECT_EQ(context->Find<float>("number").error().code(), KEDGE_ERROR_MISMATCH);
  EXPECT_EQ(context->Find<double>("other").error().code(), KEDGE_ERROR_NOT_FOUND);
  ASSERT_TRUE(context->MakeArray<int>("numbers", 12));
  EXPECT_EQ(context->FindArray<int>("numbers")->size(), 12u);
  EXPECT_EQ(context->FindArray<float>("numbers").error().code(), KEDGE_ERROR_MISMATCH);
}

TEST_F(HeapCppTest, WhatThrowsWhileItIsMadeIsNotThere) {
  struct Throws {
    Throws() { throw 1; }
  };
  auto context = Context::Open(Options());
  ASSERT_TRUE(context);
  EXPECT_THROW((void)context->Make<Throws>("x"), int);
  EXPECT_EQ(context->Find<Throws>("x").error().code(), KEDGE_ERROR_NOT_FOUND);
}

TEST_F(HeapCppTest, AllocatorsAlignAndAreComparedByTheirHeap) {
  auto context = Context::Open(Options());
  ASSERT_TRUE(context);
  const Allocator<Wide> allocator(*context);
  std::vector<Wide, Allocator<Wide>> wide(3, Wide{}, allocator);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(wide.data()) % alignof(Wide), 0u);
  std::list<Wide, Allocator<Wide>> nodes(5, Wide{}, allocator);
  for (const Wide& node : nodes) EXPECT_EQ(reinterpret_cast<uintptr_t>(&node) % alignof(Wide), 0u);
  EXPECT_TRUE(allocator == Allocator<int>(*context));
  OpenOptions options = Options();
  options.job = "other";
  auto other = Context::Open(options);
  ASSERT_TRUE(other);
  EXPECT_TRUE(allocator != Allocator<int>(*other));
  EXPECT_THROW(Allocator<char>(*context).allocate(size_t{1} << 60), std::bad_alloc);
}

TEST_F(HeapCppTest, ContainersMayBeDestroyedAfterTheContext) {
  std::optional<std::list<int, Allocator<int>>> list;
  std::optional<Allocator<int>> allocator;
  {
    auto context = Context::Open(Options());
    ASSERT_TRUE(context);
    allocator.emplace(*context);
    list.emplace({1, 2, 3}, *allocator);
    ASSERT_TRUE(context->Finalize());
  }
  EXPECT_EQ(list->back(), 3);
  EXPECT_THROW(list->push_back(4), std::bad_alloc);
  list.reset();
}

}  // namespace
}  // namespace kedge::testing
