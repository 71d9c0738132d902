// Memory of kedge_alloc: in one process, call by call; and in processes that are killed, whose successors find it all where it
// was.
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "base/random.h"
#include "os/memory/write_tracking.h"
#include "tests/client/api_fixture.h"
#include "tests/support/child_process.h"

namespace kedge::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

constexpr size_t kUnit = size_t{64} << 10;
constexpr uint64_t kPlace = 0x530000000000;
const std::string kAtPlace = "heap.size=64MiB\nheap.address=0x530000000000\n";

struct Link {
  Link* next;
  int value;
};

class HeapApiTest : public ApiTest {
 protected:
  static void* Make(kedge_context* context, const char* name, size_t bytes) {
    void* block = nullptr;
    EXPECT_KEDGE_OK(kedge_alloc(context, name, bytes, 1, nullptr, &block));
    return block;
  }
  static void* Find(kedge_context* context, const char* name) {
    void* block = nullptr;
    EXPECT_KEDGE_OK(kedge_find(context, name, &block, nullptr, nullptr));
    return block;
  }
  // A list of so many, whose begin is found as "list".
  static void MakeList(kedge_context* context, int count) {
    auto* const first = static_cast<Link**>(Make(context, "list", sizeof(Link*)));
    for (int i = 0; i < count; ++i) {
      auto* const link = static_cast<Link*>(Make(context, nullptr, sizeof(Link)));
      *link = {*first, i};
      *first = link;
    }
  }
  static int Length(kedge_context* context) {
    int length = 0;
    for (const Link* link = *static_cast<Link**>(Find(context, "list")); link != nullptr; link = link->next) ++length;
    return length;
  }
  static std::vector<int> SavedIds(kedge_context* context) {
    std::vector<int> ids(100);
    size_t count = 0;
    EXPECT_KEDGE_OK(kedge_saved_ids(context, ids.data(), ids.size(), &count));
    ids.resize(count);
    return ids;
  }
};
INSTANTIATE_TEST_SUITE_P(Modes, HeapApiTest, ::testing::Values(kInline, kAgent), ModeName);

TEST_P(HeapApiTest, ALaterContextHasItAllWhereItWas) {
  kedge_context* first = Open();
  MakeList(first, 5000);
  auto* const large = static_cast<char*>(Make(first, nullptr, 10 << 20));
  std::memset(large, 7, 10 << 20);
  *static_cast<char**>(Make(first, "large", sizeof(char*))) = large;
  int plain = 42;
  ASSERT_KEDGE_OK(kedge_protect(first, 0, &plain, 1, sizeof plain, nullptr));
  ASSERT_KEDGE_OK(kedge_checkpoint(first, "s", 1, 0));
  Close(first);

  kedge_context* second = Open();
  plain = 0;
  ASSERT_KEDGE_OK(kedge_protect(second, 0, &plain, 1, sizeof plain, nullptr));
  int64_t version = -1;
  ASSERT_KEDGE_OK(kedge_restart(second, "s", -1, &version));
  EXPECT_EQ(version, 1);
  EXPECT_EQ(plain, 42);
  EXPECT_EQ(Length(second), 5000);
  EXPECT_EQ(*static_cast<char**>(Find(second, "large")), large);
  EXPECT_EQ(std::count(large, large + (10 << 20), 7), 10 << 20);
  // It goes on being a heap.
  for (int i = 0; i < 1000; ++i) Make(second, nullptr, sizeof(Link));
  EXPECT_EQ(Length(second), 5000);
  EXPECT_KEDGE_OK(kedge_free(second, large));
  EXPECT_EQ(kedge_free(second, large), KEDGE_ERROR_INVALID_ARGUMENT);
}

TEST_P(HeapApiTest, GoingBackBringsBackWhatWasFreedAndTakesWhatIsNew) {
  kedge_context* context = Open();
  MakeList(context, 10);
  auto* const kept = static_cast<char*>(Make(context, nullptr, kUnit));
  kept[5] = 1;
  ASSERT_KEDGE_OK(kedge_checkpoint(context, "s", 1, 0));
  auto** const first = static_cast<Link**>(Find(context, "list"));
  kept[5] = 2;
  ASSERT_KEDGE_OK(kedge_free(context, kept));
  void* const newer = Make(context, nullptr, 3 * kUnit);
  *first = nullptr;
  ASSERT_KEDGE_OK(kedge_restart(context, "s", -1, nullptr));
  EXPECT_EQ(Length(context), 10);
  EXPECT_EQ(Find(context, "list"), first) << "pointers to it are right";
  EXPECT_EQ(kept[5], 1);
  EXPECT_EQ(kedge_free(context, newer), KEDGE_ERROR_INVALID_ARGUMENT) << "it is gone";
  EXPECT_KEDGE_OK(kedge_free(context, kept));
}

TEST_P(HeapApiTest, AFreedBlockIsInNoLaterVersion) {
  kedge_context* context = Open();
  void* const a = Make(context, "a", 10);
  Make(context, "b", 10);
  ASSERT_KEDGE_OK(kedge_checkpoint(context, "s", 1, 0));
  ASSERT_KEDGE_OK(kedge_free(context, a));
  ASSERT_KEDGE_OK(kedge_checkpoint(context, "s", 2, 0));
  for (const auto& [version, blocks] : {std::pair{1, 2u}, std::pair{2, 1u}}) {
    ASSERT_KEDGE_OK(kedge_load_begin(context, "s", version));
    EXPECT_EQ(SavedIds(context).size(), blocks);
    ASSERT_KEDGE_OK(kedge_restart_end(context, 1));
  }
}

TEST_P(HeapApiTest, NamedBlocksThatDifferAreRefusedBeforeAnythingIsOverwritten) {
  kedge_context* context = Open();
  auto* block = static_cast<char*>(Make(context, "x", 100));
  block[3] = 1;
  int plain = 1;
  ASSERT_KEDGE_OK(kedge_protect(context, 0, &plain, 1, sizeof plain, nullptr));
  ASSERT_KEDGE_OK(kedge_checkpoint(context, "s", 1, 0));
  void* resized = nullptr;
  ASSERT_KEDGE_OK(kedge_realloc(context, block, 200, &resized));
  ASSERT_EQ(resized, block);
  block[3] = 2;
  plain = 2;
  EXPECT_EQ(kedge_restart(context, "s", -1, nullptr), KEDGE_ERROR_MISMATCH);
  EXPECT_THAT(kedge_error_message(), HasSubstr("block 'x' of 200 bytes"));
  EXPECT_EQ(block[3], 2);
  EXPECT_EQ(plain, 2);
  ASSERT_KEDGE_OK(kedge_free(context, block));
  ASSERT_KEDGE_OK(kedge_restart(context, "s", -1, nullptr));
  EXPECT_EQ(static_cast<char*>(Find(context, "x"))[3], 1);
  EXPECT_EQ(plain, 1);
}

TEST_P(HeapApiTest, HeldBlocksGetTheirContentBackStayOrAreRefused) {
  kedge_context* context = Open();
  const auto make = [&](size_t bytes, int value) {
    auto* const block = static_cast<char*>(Make(context, nullptr, bytes));
    size_t held = 0;
    EXPECT_KEDGE_OK(kedge_hold(context, block, &held));
    EXPECT_EQ(held, bytes);
    std::memset(block, value, bytes);
    return block;
  };
  char* const old = make(3 * kUnit, 1);
  ASSERT_KEDGE_OK(kedge_checkpoint(context, "s", 1, 0));
  std::memset(old, 2, 3 * kUnit);
  char* const later = make(2 * kUnit, 3);
  ASSERT_KEDGE_OK(kedge_restart(context, "s", -1, nullptr));
  EXPECT_EQ(std::count(old, old + 3 * kUnit, 1), 3 * kUnit);
  EXPECT_EQ(std::count(later, later + 2 * kUnit, 3), 2 * kUnit) << "the version has nothing there";
  // It is in later versions, and the restart in parts leaves it alone as well.
  ASSERT_KEDGE_OK(kedge_restart_begin(context, "s", 1));
  ASSERT_KEDGE_OK(kedge_restart_part(context, KEDGE_ALL, nullptr, 0));
  ASSERT_KEDGE_OK(kedge_restart_end(context, 1));
  EXPECT_EQ(later[0], 3);
  ASSERT_KEDGE_OK(kedge_checkpoint(context, "s", 2, 0));
  std::memset(later, 4, 2 * kUnit);
  ASSERT_KEDGE_OK(kedge_restart(context, "s", 2, nullptr));
  EXPECT_EQ(later[2 * kUnit - 1], 3);
  // Another one in its place, of other bytes, is in the way.
  ASSERT_KEDGE_OK(kedge_free(context, old));
  char* const other = make(3 * kUnit - 1, 5);
  ASSERT_EQ(other, old);
  EXPECT_EQ(kedge_restart(context, "s", 2, nullptr), KEDGE_ERROR_MISMATCH);
  EXPECT_THAT(kedge_error_message(), HasSubstr("the program holds a block of 196607 bytes"));
  EXPECT_EQ(other[0], 5);
  ASSERT_KEDGE_OK(kedge_free(context, other));
  ASSERT_KEDGE_OK(kedge_restart(context, "s", 2, nullptr));
  EXPECT_EQ(old[0], 1);
  size_t bytes = 0;
  EXPECT_EQ(kedge_hold(context, Make(context, nullptr, 10), &bytes), KEDGE_ERROR_INVALID_ARGUMENT) << "small ones go together";
  EXPECT_EQ(kedge_hold(context, &bytes, nullptr), KEDGE_ERROR_INVALID_ARGUMENT);
}

TEST_P(HeapApiTest, APlaceThatIsTakenIsRefusedAndNamed) {
  kedge_context* first = Open(kAtPlace);
  static_cast<char*>(Make(first, "x", 100))[3] = 1;
  ASSERT_KEDGE_OK(kedge_checkpoint(first, "s", 1, 0));
  Close(first);
  void* const taken = mmap(reinterpret_cast<void*>(kPlace + (32 << 20)), kUnit, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_EQ(reinterpret_cast<uintptr_t>(taken), kPlace + (32 << 20));
  kedge_context* second = Open(kAtPlace);
  EXPECT_EQ(kedge_restart(second, "s", -1, nullptr), KEDGE_ERROR_MISMATCH);
  EXPECT_THAT(kedge_error_message(), HasSubstr("memory without a name at 0x530002000000"));
  void* block = nullptr;
  EXPECT_EQ(kedge_alloc(second, "x", 1, 1, nullptr, &block), KEDGE_ERROR_FAILED_PRECONDITION);
  EXPECT_EQ(block, nullptr);
  munmap(taken, kUnit);
  ASSERT_KEDGE_OK(kedge_restart(second, "s", -1, nullptr));
  EXPECT_EQ(static_cast<char*>(Find(second, "x"))[3], 1);
}

TEST_P(HeapApiTest, AVersionOfAnotherPlaceMovesTheHeapThere) {
  kedge_context* first = Open(kAtPlace);
  MakeList(first, 100);
  ASSERT_KEDGE_OK(kedge_checkpoint(first, "s", 1, 0));
  Close(first);
  kedge_context* second = Open();
  Make(second, nullptr, 10);
  Make(second, nullptr, 10 * kUnit);
  ASSERT_KEDGE_OK(kedge_restart(second, "s", -1, nullptr));
  EXPECT_EQ(Length(second), 100);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(Find(second, "list")) & ~uintptr_t{0xfffffff}, kPlace);
  ASSERT_KEDGE_OK(kedge_checkpoint(second, "s", 2, 0));
}

TEST_P(HeapApiTest, AVersionWithoutAHeapLeavesNoneBehind) {
  kedge_context* context = Open();
  int plain = 1;
  ASSERT_KEDGE_OK(kedge_protect(context, 0, &plain, 1, sizeof plain, nullptr));
  ASSERT_KEDGE_OK(kedge_checkpoint(context, "s", 1, 0));
  void* const unnamed = Make(context, nullptr, kUnit);
  Make(context, nullptr, 10);
  plain = 2;
  ASSERT_KEDGE_OK(kedge_restart(context, "s", -1, nullptr));
  EXPECT_EQ(plain, 1);
  EXPECT_EQ(kedge_free(context, unnamed), KEDGE_ERROR_INVALID_ARGUMENT);
  Make(context, "x", 10);
  EXPECT_EQ(kedge_restart(context, "s", -1, nullptr), KEDGE_ERROR_MISMATCH);
}

TEST_P(HeapApiTest, ItComesBackInParts) {
  kedge_context* first = Open();
  MakeList(first, 100);
  int plain = 5;
  ASSERT_KEDGE_OK(kedge_protect(first, 3, &plain, 1, sizeof plain, nullptr));
  ASSERT_KEDGE_OK(kedge_checkpoint_begin(first, "s", 1, 0));
  const int id = 3;
  ASSERT_KEDGE_OK(kedge_checkpoint_part(first, KEDGE_SOME, &id, 1));
  ASSERT_KEDGE_OK(kedge_checkpoint_part(first, KEDGE_REST, nullptr, 0));
  EXPECT_EQ(kedge_annotate(first, "kedge.heap", "0x0", 3), KEDGE_ERROR_INVALID_ARGUMENT);
  ASSERT_KEDGE_OK(kedge_checkpoint_end(first, 1));
  Close(first);

  kedge_context* second = Open();
  plain = 0;
  ASSERT_KEDGE_OK(kedge_protect(second, 3, &plain, 1, sizeof plain, nullptr));
  ASSERT_KEDGE_OK(kedge_restart_begin(second, "s", 1));
  ASSERT_KEDGE_OK(kedge_restart_part(second, KEDGE_SOME, &id, 1));
  EXPECT_EQ(plain, 5);
  void* block = nullptr;
  EXPECT_EQ(kedge_find(second, "list", &block, nullptr, nullptr), KEDGE_ERROR_NOT_FOUND);
  ASSERT_KEDGE_OK(kedge_restart_part(second, KEDGE_REST, nullptr, 0));
  EXPECT_EQ(Length(second), 100);
  // What is allocated now is not taken for something that the version lacks.
  auto* const made = static_cast<char*>(Make(second, nullptr, kUnit));
  ASSERT_KEDGE_OK(kedge_restart_part(second, KEDGE_REST, nullptr, 0));
  made[0] = 1;
  ASSERT_KEDGE_OK(kedge_restart_end(second, 1));
  EXPECT_KEDGE_OK(kedge_free(second, made));
}

TEST_P(HeapApiTest, WhoOnlyReadsGetsNoBlocks) {
  kedge_context* context = Open();
  auto* const block = static_cast<char*>(Make(context, "x", 100));
  block[3] = 1;
  ASSERT_KEDGE_OK(kedge_checkpoint(context, "s", 1, 0));
  ASSERT_KEDGE_OK(kedge_wait(context, "s", 1, KEDGE_LEVEL_STORE, 60));
  block[3] = 2;
  ASSERT_KEDGE_OK(kedge_load_begin(context, "s", 1));
  ASSERT_KEDGE_OK(kedge_restart_part(context, KEDGE_ALL, nullptr, 0));
  EXPECT_EQ(block[3], 2);
  ASSERT_KEDGE_OK(kedge_restart_end(context, 1));
  ASSERT_KEDGE_OK(kedge_restart_as(context, 0));
  ASSERT_KEDGE_OK(kedge_restart(context, "s", -1, nullptr));
  EXPECT_EQ(block[3], 2);
  // Its bytes are a region as any other.
  ASSERT_KEDGE_OK(kedge_group(context, "look"));
  ASSERT_KEDGE_OK(kedge_load_begin(context, "s", 1));
  const std::vector<int> ids = SavedIds(context);
  ASSERT_EQ(ids.size(), 1u);
  std::array<char, 100> copy{};
  ASSERT_KEDGE_OK(kedge_protect(context, ids.front(), copy.data(), copy.size(), 1, nullptr));
  ASSERT_KEDGE_OK(kedge_restart_part(context, KEDGE_ALL, nullptr, 0));
  EXPECT_EQ(copy[3], 1);
  ASSERT_KEDGE_OK(kedge_restart_end(context, 1));
}

TEST_P(HeapApiTest, BlocksBelongToTheDefaultGroup) {
  kedge_context* context = Open();
  ASSERT_KEDGE_OK(kedge_group(context, "mesh"));
  int plain = 1;
  ASSERT_KEDGE_OK(kedge_protect(context, 0, &plain, 1, sizeof plain, nullptr));
  auto* const block = static_cast<char*>(Make(context, "x", 10));
  block[0] = 1;
  ASSERT_KEDGE_OK(kedge_checkpoint(context, "mesh", 1, 0));
  ASSERT_KEDGE_OK(kedge_group(context, nullptr));
  ASSERT_KEDGE_OK(kedge_clear(context));
  ASSERT_KEDGE_OK(kedge_checkpoint(context, "s", 1, 0));
  block[0] = 2;
  ASSERT_KEDGE_OK(kedge_group(context, "mesh"));
  ASSERT_KEDGE_OK(kedge_restart(context, "mesh", -1, nullptr));
  EXPECT_EQ(block[0], 2);
  ASSERT_KEDGE_OK(kedge_group(context, nullptr));
  ASSERT_KEDGE_OK(kedge_restart(context, "mesh", -1, nullptr));
  EXPECT_EQ(block[0], 2) << "a version of another group says nothing of it";
  ASSERT_KEDGE_OK(kedge_restart(context, "s", -1, nullptr));
  EXPECT_EQ(block[0], 1);
}

TEST_P(HeapApiTest, TwoContextsHaveTwoHeaps) {
  kedge_context* one = Open();
  kedge_context* two = Open("job.name=other\n");
  auto* const first = static_cast<char*>(Make(one, "x", 10));
  auto* const second = static_cast<char*>(Make(two, "x", 10));
  ASSERT_NE(first, second);
  first[0] = 1, second[0] = 2;
  EXPECT_EQ(kedge_free(two, first), KEDGE_ERROR_INVALID_ARGUMENT);
  ASSERT_KEDGE_OK(kedge_checkpoint(one, "s", 1, 0));
  ASSERT_KEDGE_OK(kedge_checkpoint(two, "s", 1, 0));
  first[0] = second[0] = 9;
  ASSERT_KEDGE_OK(kedge_restart(one, "s", -1, nullptr));
  ASSERT_KEDGE_OK(kedge_restart(two, "s", -1, nullptr));
  EXPECT_EQ(first[0], 1);
  EXPECT_EQ(second[0], 2);
}

TEST_P(HeapApiTest, AChildHasACopyThatItCannotManage) {
  kedge_context* context = Open();
  auto* const block = static_cast<char*>(Make(context, "x", 10));
  block[0] = 1;
  const pid_t child = fork();
  if (child == 0) {
    void* made = nullptr;
    const bool is_right = block[0] == 1 && kedge_alloc(context, "y", 1, 1, nullptr, &made) == KEDGE_ERROR_FAILED_PRECONDITION &&
                          kedge_free(context, block) == KEDGE_ERROR_FAILED_PRECONDITION;
    block[0] = 2;
    _exit(is_right ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(block[0], 1);
}

TEST_P(HeapApiTest, WhatIsWrongIsSaid) {
  kedge_context* context = Open("heap.size=16MiB\n");
  void* block = nullptr;
  EXPECT_EQ(kedge_alloc(context, "", 1, 1, nullptr, &block), KEDGE_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kedge_alloc(context, "x", 1, 1, nullptr, nullptr), KEDGE_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kedge_alloc(context, "x", SIZE_MAX, 2, nullptr, &block), KEDGE_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kedge_alloc(context, "x", 20 << 20, 1, nullptr, &block), KEDGE_ERROR_NO_SPACE);
  EXPECT_THAT(kedge_error_message(), HasSubstr("heap.size"));
  kedge_region_info written{};
  written.struct_size = sizeof written;
  written.device_written = 1;
  EXPECT_EQ(kedge_alloc(context, "x", 1, 1, &written, &block), KEDGE_ERROR_UNSUPPORTED);
  int plain = 0;
  EXPECT_EQ(kedge_free(context, &plain), KEDGE_ERROR_INVALID_ARGUMENT);
  EXPECT_KEDGE_OK(kedge_free(context, nullptr));
  kedge_region_info info{};
  info.struct_size = sizeof info;
  info.name = "region";
  ASSERT_KEDGE_OK(kedge_protect(context, 0, &plain, 1, sizeof plain, &info));
  EXPECT_EQ(kedge_alloc(context, "region", 1, 1, nullptr, &block), KEDGE_ERROR_ALREADY_EXISTS);
  EXPECT_EQ(kedge_find(context, "region", &block, nullptr, nullptr), KEDGE_ERROR_NOT_FOUND);

  kedge_options options = KEDGE_OPTIONS_INIT;
  for (const char* address : {"0x1", "530000000000", "here", "0x530000010000"}) {
    const std::string overrides = Overrides("job.name=wrong\nheap.address=" + std::string(address) + "\n");
    options.overrides = overrides.c_str();
    EXPECT_EQ(kedge_init(&options, nullptr, &context), KEDGE_ERROR_INVALID_ARGUMENT) << address;
    EXPECT_THAT(kedge_error_message(), HasSubstr("heap.address"));
  }
}

// With an agent only: images that leave out what has not changed.
class TrackedHeapTest : public HeapApiTest {
 protected:
  void SetUp() override {
    const auto tracking = os::WriteTracking::Create();
    if (!tracking.ok()) GTEST_SKIP() << tracking.status().ToString();
  }
};
INSTANTIATE_TEST_SUITE_P(Modes, TrackedHeapTest, ::testing::Values(kAgent), ModeName);

TEST_P(TrackedHeapTest, PagesNotWrittenAreLeftOutAndABlockThatCameAnewIsNot) {
  constexpr size_t kBytes = size_t{4} << 20;
  kedge_context* context = Open("capture.track=on\npool.size=256MiB\n");
  auto* block = static_cast<char*>(Make(context, nullptr, kBytes));
  for (int64_t version = 1; version <= 4; ++version) {
    std::memset(block, static_cast<int>(version), version == 1 ? kBytes : 100);
    ASSERT_KEDGE_OK(kedge_checkpoint(context, "s", version, 0));
    ASSERT_KEDGE_OK(kedge_wait(context, "s", version, KEDGE_LEVEL_STORE, 60));
  }
  EXPECT_GT(Statistics(context).bytes_unchanged, kBytes);
  // Another block with the same place, size and id, of which nothing is written.
  ASSERT_KEDGE_OK(kedge_free(context, block));
  ASSERT_EQ(Make(context, nullptr, kBytes), block);
  ASSERT_KEDGE_OK(kedge_checkpoint(context, "s", 5, 0));
  ASSERT_KEDGE_OK(kedge_wait(context, "s", 5, KEDGE_LEVEL_STORE, 60));
  std::memset(block, 9, kBytes);
  ASSERT_KEDGE_OK(kedge_restart(context, "s", -1, nullptr));
  EXPECT_EQ(std::count(block, block + kBytes, 0), static_cast<ptrdiff_t>(kBytes));
}

// ---- Processes ----

const std::filesystem::path kHere = std::filesystem::read_symlink("/proc/self/exe").parent_path();

class HeapKillTest : public ::testing::TestWithParam<Mode> {
 protected:
  ~HeapKillTest() override {
    if (HasFailure()) std::printf("seed %llu\n", static_cast<unsigned long long>(seed_));
  }
  std::unique_ptr<ChildProcess> Start(std::vector<std::string> arguments, const std::string& flavour = "", int ranks = 1,
                                      const std::string& job = "heap") {
    std::vector<std::string> command;
    if (flavour == "default") command = {"mpirun.openmpi", "-n", std::to_string(ranks), kHere / "heap_app_default"};
    if (flavour == "mpich") command = {"mpiexec.mpich", "-n", std::to_string(ranks), kHere / "heap_app_mpich"};
    if (flavour.empty()) command = {kHere / "heap_app"};
    command.insert(command.end(), arguments.begin(), arguments.end());
    std::map<std::string, std::string> environment = folder_.MpiEnvironment();
    environment["KEDGE_JOB_NAME"] = job;
    if (std::string(GetParam().name) == "Inline") environment["KEDGE_JOB_MODE"] = "sync";
    return std::make_unique<ChildProcess>(command, environment, folder_.NewOutput());
  }
  // What stands behind "digest" in a line for each rank.
  static std::set<std::string> Digests(const std::string& output) {
    std::set<std::string> digests;
    for (size_t at = output.find("digest "); at != std::string::npos; at = output.find("digest ", at + 1)) {
      digests.insert(output.substr(at, output.find('\n', at) - at));
    }
    return digests;
  }
  // How many have said that they have the version that the first of them spoke of.
  static int RanksThatCaptured(const std::string& output) {
    const size_t first = output.find("captured ");
    if (first == std::string::npos) return 0;
    const std::string line = output.substr(first, output.find('\n', first) + 1 - first);
    int ranks = 0;
    for (size_t at = first; at != std::string::npos; at = output.find(line, at + line.size())) ++ranks;
    return ranks;
  }
  // Runs that are killed at random moments end as one that is not.
  void EndsAlike(const std::vector<std::string>& arguments, int kills, const std::string& flavour = "", int ranks = 1) {
    auto whole = Start(arguments, flavour, ranks, "whole");
    ASSERT_TRUE(whole->Succeeds(seconds(180)));
    ASSERT_EQ(Digests(whole->Output()).size(), static_cast<size_t>(ranks)) << whole->Output();
    std::set<std::string> places;
    for (int kill = 0; kill < kills; ++kill) {
      auto app = Start(arguments, flavour, ranks);
      ASSERT_TRUE(app->WaitForOutput("captured", seconds(60))) << app->Output();
      // Before the first version is whole there is nothing to restore.
      const auto deadline = std::chrono::steady_clock::now() + seconds(60);
      while (RanksThatCaptured(app->Output()) < ranks && std::chrono::steady_clock::now() < deadline) {
        std::this_thread::sleep_for(milliseconds(1));
      }
      ASSERT_GE(RanksThatCaptured(app->Output()), ranks) << app->Output();
      std::this_thread::sleep_for(milliseconds(random_.Below(150)));
      app->Kill();
      const std::string output = app->Output();
      ASSERT_EQ(output.find("failed"), std::string::npos) << output;
      ASSERT_EQ(output.find("WRONG"), std::string::npos) << output;
      ASSERT_EQ(output.find("restored") != std::string::npos, kill > 0) << output;
      const size_t place = output.find("at 0x");
      places.insert(output.substr(place, output.find('\n', place) - place));
    }
    auto last = Start(arguments, flavour, ranks);
    ASSERT_TRUE(last->Succeeds(seconds(180)));
    EXPECT_NE(last->Output().find("restored"), std::string::npos);
    EXPECT_EQ(Digests(last->Output()), Digests(whole->Output()));
    const int is_random = std::ifstream("/proc/sys/kernel/randomize_va_space").get();
    EXPECT_TRUE(is_random != '2' || kills < 3 || places.size() > 1) << "the program lay elsewhere each time";
  }

  ScenarioFolder folder_;
  const uint64_t seed_ = static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  Random random_{seed_};
};
INSTANTIATE_TEST_SUITE_P(Modes, HeapKillTest, ::testing::Values(kInline, kAgent), ModeName);

TEST_P(HeapKillTest, ProgramsThatAreKilledEndAsOneThatIsNot) {
  EndsAlike({"steps=60", "pause_ms=20"}, 4);
}

TEST_P(HeapKillTest, InPartsToo) {
  EndsAlike({"steps=40", "pause_ms=20", "parts=1"}, 2);
}

#ifdef KEDGE_TEST_default
TEST_P(HeapKillTest, RanksOverOpenMpi) {
  EndsAlike({"steps=30", "pause_ms=50"}, 2, "default", 2);
}
#endif

#ifdef KEDGE_TEST_mpich
TEST_P(HeapKillTest, RanksOverMpich) {
  EndsAlike({"steps=30", "pause_ms=50"}, 1, "mpich", 2);
}
#endif

}  // namespace
}  // namespace kedge::testing
