// capture.track: images that leave out what has not changed come back as whole as any, from the node and from the store.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <liburing.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "os/memory/write_tracking.h"
#include "tests/client/api_fixture.h"

namespace kedge::testing {
namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kPageBytes = 4096;
const std::string kTracked = "capture.track=on\npool.size=256MiB\n";

class TrackedTest : public ApiTest {
 protected:
  void SetUp() override {
    const auto tracking = os::WriteTracking::Create();
    if (!tracking.ok()) GTEST_SKIP() << tracking.status().ToString();
  }
  static void Take(kedge_context* context, const char* name, int64_t version, kedge_level level) {
    ASSERT_KEDGE_OK(kedge_checkpoint(context, name, version, 0));
    if (level == KEDGE_LEVEL_NONE) return;
    ASSERT_KEDGE_OK(kedge_wait(context, name, version, level, 60));
  }
};
INSTANTIATE_TEST_SUITE_P(Modes, TrackedTest, ::testing::Values(kAgent), ModeName);

// Two regions at odd addresses, and a copy of them for each version of each name.
class Program {
 public:
  explicit Program(uint64_t seed) : random_(seed) {
    for (size_t i = 0; i < 2; ++i) {
      memory_[i].resize((i == 0 ? 12 : 5) * kMiB + 4321);
      for (char& byte : memory_[i]) byte = static_cast<char>(random_());
    }
  }
  void Protect(kedge_context* context) {
    for (int i = 0; i < 2; ++i) {
      ASSERT_KEDGE_OK(kedge_protect(context, i, memory_[i].data() + 17, memory_[i].size() - 17, 1, nullptr));
    }
  }
  // Little, much or nothing of it changes.
  void Step() {
    const uint64_t writes = Below(3) == 0 ? 0 : Below(200);
    for (uint64_t i = 0; i < writes; ++i) {
      std::vector<char>& region = memory_[Below(2)];
      const uint64_t at = Below(region.size()), bytes = std::min<uint64_t>(1 + Below(3) * 3000, region.size() - at);
      std::memset(region.data() + at, static_cast<int>(random_()), bytes);
    }
    // Memory that is given back reads as zeros.
    if (Below(4) == 0) {
      char* const page = memory_[0].data() + kPageBytes - reinterpret_cast<uintptr_t>(memory_[0].data()) % kPageBytes;
      ASSERT_EQ(madvise(page + Below(2000) * kPageBytes, 20 * kPageBytes, MADV_DONTNEED), 0);
    }
  }
  // A byte of each n-th page.
  void WriteEachPageOf(size_t n) {
    for (auto& region : memory_) {
      for (size_t at = 20; at < region.size(); at += n * kPageBytes) region[at] = static_cast<char>(random_());
    }
  }
  void Remember(const std::string& name, int64_t version) { taken_[{name, version}] = memory_; }
  void Scribble() {
    for (auto& region : memory_) std::memset(region.data() + 17, 0x55, region.size() - 17);
  }
  bool IsAt(const std::string& name, int64_t version) const {
    for (size_t i = 0; i < 2; ++i) {
      const std::vector<char>& then = taken_.at({name, version})[i];
      if (std::memcmp(then.data() + 17, memory_[i].data() + 17, then.size() - 17) != 0) return false;
    }
    return true;
  }
  uint64_t Below(uint64_t bound) { return random_() % bound; }

 private:
  std::mt19937_64 random_;
  std::array<std::vector<char>, 2> memory_;
  std::map<std::pair<std::string, int64_t>, std::array<std::vector<char>, 2>> taken_;
};

TEST_P(TrackedTest, EveryVersionIsWholeOnTheNodeAndInTheStore) {
  Program program(1);
  kedge_context* context = Open(kTracked);
  program.Protect(context);
  int64_t newest[2] = {0, 0};
  for (int64_t version = 1; version <= 40; ++version) {
    const size_t which = program.Below(2);
    const char* const name = which == 0 ? "x" : "y";
    program.Step();
    // At once one after the other, as far as the agent follows; or when the agent has taken it.
    Take(context, name, version, program.Below(3) == 0 ? KEDGE_LEVEL_NONE : KEDGE_LEVEL_LOCAL);
    program.Remember(name, version);
    newest[which] = version;
    if (program.Below(6) != 0) continue;
    program.Scribble();
    int64_t restored = -1;
    ASSERT_KEDGE_OK(kedge_restart(context, name, -1, &restored));
    ASSERT_EQ(restored, version);
    ASSERT_TRUE(program.IsAt(name, version)) << name << " " << version;
  }
  const kedge_statistics statistics = Statistics(context);
  EXPECT_GT(statistics.bytes_unchanged, statistics.bytes_captured / 4) << "most of it has not changed";
  EXPECT_EQ(statistics.checkpoints_inline, 0u);
  EXPECT_EQ(statistics.flush_failures, 0u) << "the flush compares what it writes with the checksums of capture";
  EXPECT_EQ(statistics.corrupt_copies, 0u);
  Close(context);
  // Without the agent.
  folder_.KillAgent();
  context = Open("job.mode=sync\n");
  program.Protect(context);
  for (size_t which = 0; which < 2; ++which) {
    const char* const name = which == 0 ? "x" : "y";
    program.Scribble();
    int64_t restored = -1;
    ASSERT_KEDGE_OK(kedge_restart(context, name, -1, &restored));
    EXPECT_EQ(restored, newest[which]);
    EXPECT_TRUE(program.IsAt(name, restored)) << name << " " << restored;
  }
}

// The agent dies at any moment: with an image unread in the mailbox, half filled, or taken.
TEST_P(TrackedTest, AnAgentThatDiesTakesNothingWithIt) {
  Program program(2);
  kedge_context* context = Open(kTracked);
  program.Protect(context);
  int64_t version = 0;
  for (int round = 0; round < 8; ++round) {
    for (int i = 0; i < 3; ++i) {
      program.Step();
      Take(context, "x", ++version, i < 2 ? KEDGE_LEVEL_LOCAL : KEDGE_LEVEL_NONE);
      program.Remember("x", version);
    }
    usleep(static_cast<useconds_t>(program.Below(4000)));
    ASSERT_TRUE(folder_.KillAgent());
    program.Scribble();
    int64_t restored = -1;
    ASSERT_KEDGE_OK(kedge_restart(context, "x", -1, &restored));
    ASSERT_EQ(restored, version);
    ASSERT_TRUE(program.IsAt("x", version)) << version;
  }
  const kedge_statistics statistics = Statistics(context);
  EXPECT_GT(statistics.bytes_unchanged, 0u);
  EXPECT_EQ(statistics.flush_failures, 0u);
  EXPECT_EQ(statistics.corrupt_copies, 0u);
}

// While it fills gaps, and around the moment in which it takes the image.
TEST_P(TrackedTest, ASuccessorCompletesWhatTheAgentHadBegunToFill) {
  int attempt = 0;
  for (const char* point : {"gap-fill:1", "gap-fill:300", "image-end-before-record:2", "image-end-after-record:2",
                            "image-end-done:2", "gap-fill:700"}) {
    SCOPED_TRACE(point);
    Program program(3);
    ASSERT_EQ(setenv("KEDGE_TEST_KILL_POINT", point, 1), 0);
    kedge_context* context = Open(kTracked + "job.name=killed" + std::to_string(++attempt) + "\n");
    ASSERT_EQ(unsetenv("KEDGE_TEST_KILL_POINT"), 0);  // for the successor
    const int agent = folder_.AgentPid();
    program.Protect(context);
    for (int version = 1; version <= 4; ++version) {
      program.WriteEachPageOf(16);
      Take(context, "x", version, KEDGE_LEVEL_LOCAL);
      program.Remember("x", version);
    }
    EXPECT_NE(folder_.AgentPid(), agent) << "it was to die, and this test shows nothing";
    program.Scribble();
    int64_t restored = -1;
    ASSERT_KEDGE_OK(kedge_restart(context, "x", -1, &restored));
    EXPECT_EQ(restored, 4);
    EXPECT_TRUE(program.IsAt("x", 4));
    const kedge_statistics statistics = Statistics(context);
    EXPECT_GT(statistics.bytes_unchanged, 0u);
    EXPECT_EQ(statistics.flush_failures, 0u);
    EXPECT_EQ(statistics.corrupt_copies, 0u);
    Close(context);
    folder_.KillAgent();
  }
}

// A buffer that is registered with io_uring is written by the kernel through its own mapping: no page of it counts as written.
TEST_P(TrackedTest, WhatChangesUnseenIsFoundAndTheVersionIsTakenWhole) {
  constexpr size_t kBytes = 4 * kMiB;
  auto* const memory = static_cast<char*>(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(memory, MAP_FAILED);
  std::memset(memory, 1, kBytes);
  io_uring ring;
  if (io_uring_queue_init(8, &ring, 0) != 0) GTEST_SKIP() << "no io_uring here";
  const iovec buffer{memory, kBytes};
  ASSERT_EQ(io_uring_register_buffers(&ring, &buffer, 1), 0);
  const std::string path = folder_.path() + "/file";
  std::ofstream(path) << std::string(kBytes, '\7');
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(file, 0);

  kedge_context* context = Open(kTracked);
  ASSERT_KEDGE_OK(kedge_protect(context, 1, memory, kBytes, 1, nullptr));
  for (int version = 1; version <= 2; ++version) Take(context, "x", version, KEDGE_LEVEL_LOCAL);
  const uint64_t unchanged = Statistics(context).bytes_unchanged;
  EXPECT_EQ(unchanged, kBytes);
  io_uring_sqe* const entry = io_uring_get_sqe(&ring);
  io_uring_prep_read_fixed(entry, file, memory, kBytes, 0, 0);
  ASSERT_EQ(io_uring_submit(&ring), 1);
  io_uring_cqe* done = nullptr;
  ASSERT_EQ(io_uring_wait_cqe(&ring, &done), 0);
  ASSERT_EQ(done->res, static_cast<int>(kBytes));
  for (int version = 3; version <= 4; ++version) Take(context, "x", version, KEDGE_LEVEL_LOCAL);
  EXPECT_EQ(Statistics(context).bytes_unchanged, unchanged) << "both were taken whole";
  std::memset(memory, 0, kBytes);
  ASSERT_KEDGE_OK(kedge_restart(context, "x", -1, nullptr));
  EXPECT_EQ(std::string(memory, kBytes), std::string(kBytes, '\7'));
  Close(context);
  io_uring_queue_exit(&ring);
  close(file);
  munmap(memory, kBytes);
}

TEST_P(TrackedTest, ARegionThatDevicesWriteIsTakenWhole) {
  std::vector<char> memory(4 * kMiB), other(4 * kMiB);
  kedge_context* context = Open(kTracked);
  kedge_region_info info{};
  info.struct_size = sizeof info;
  info.device_written = 1;
  ASSERT_KEDGE_OK(kedge_protect(context, 1, memory.data(), memory.size(), 1, &info));
  for (int version = 1; version <= 3; ++version) Take(context, "x", version, KEDGE_LEVEL_LOCAL);
  EXPECT_EQ(Statistics(context).bytes_unchanged, 0u);
  ASSERT_KEDGE_OK(kedge_protect(context, 2, other.data(), other.size(), 1, nullptr));
  for (int version = 4; version <= 6; ++version) Take(context, "x", version, KEDGE_LEVEL_LOCAL);
  EXPECT_GT(Statistics(context).bytes_unchanged, 0u);
}

}  // namespace
}  // namespace kedge::testing
