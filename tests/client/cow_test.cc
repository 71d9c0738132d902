// capture.mode = cow: a version is as memory was when its checkpoint was called, whatever is written while it is copied; and what
// may take that memory away waits, or is found out.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "os/memory/held_writes.h"
#include "tests/client/api_fixture.h"

namespace kedge::testing {
namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kPageBytes = 4096;
const std::string kCow = "capture.mode=cow\npool.size=512MiB\n";

class CowTest : public ApiTest {
 protected:
  void SetUp() override {
    if (const Status probed = os::HeldWrites::Probe(); !probed.ok()) GTEST_SKIP() << probed.ToString();
  }
};
INSTANTIATE_TEST_SUITE_P(Modes, CowTest, ::testing::Values(kAgent), ModeName);

// Memory of a mapping of its own, so that it can be given back.
class Mapping {
 public:
  explicit Mapping(size_t bytes, int flags = MAP_PRIVATE) : bytes_(bytes) {
    void* const mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(mapped, MAP_FAILED);
    data_ = static_cast<char*>(mapped);
    std::memset(data_, 1, bytes);
  }
  ~Mapping() { munmap(data_, bytes_); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  char* data() { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_;
  char* data_;
};

// Regions of odd sizes at odd addresses, one of a few bytes, one of shared memory, and threads that write to all of them.
class Writers {
 public:
  explicit Writers(uint64_t seed) : random_(seed), shared_(5 * kMiB, MAP_SHARED) {
    for (size_t i = 0; i < 2; ++i) memory_[i].resize((i == 0 ? 23 : 6) * kMiB + Below(9000));
    memory_[2].resize(1000);
    for (size_t i = 0; i < kRegions; ++i) offsets_[i] = Below(5000) % (Bytes(i) / 2);
    for (size_t i = 0; i < kRegions; ++i) {
      for (size_t at = 0; at < Bytes(i); ++at) At(i)[at] = static_cast<char>(random_());
    }
  }
  ~Writers() { Stop(); }

  void Protect(kedge_context* context) {
    for (size_t i = 0; i < kRegions; ++i) {
      ASSERT_KEDGE_OK(kedge_protect(context, static_cast<int>(i), At(i) + offsets_[i], Bytes(i) - offsets_[i], 1, nullptr));
    }
  }
  void Remember(int64_t version) {
    for (size_t i = 0; i < kRegions; ++i) taken_[version][i].assign(At(i) + offsets_[i], At(i) + Bytes(i));
  }
  bool IsAt(int64_t version) {
    for (size_t i = 0; i < kRegions; ++i) {
      const std::vector<char>& then = taken_.at(version)[i];
      if (std::memcmp(then.data(), At(i) + offsets_[i], then.size()) != 0) return false;
    }
    return true;
  }
  void Start() {
    stop_ = false;
    for (size_t thread = 0; thread < 2; ++thread) {
      threads_.emplace_back([this, seed = random_()] {
        std::mt19937_64 random(seed);
        while (!stop_) {
          const size_t region = random() % kRegions;
          std::atomic_ref(At(region)[random() % Bytes(region)]).store(static_cast<char>(random()));
        }
      });
    }
  }
  void Stop() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }
  uint64_t Below(uint64_t bound) { return random_() % bound; }

 private:
  static constexpr size_t kRegions = 4;
  char* At(size_t region) { return region < 3 ? memory_[region].data() : shared_.data(); }
  size_t Bytes(size_t region) const { return region < 3 ? memory_[region].size() : shared_.bytes(); }

  std::mt19937_64 random_;
  std::array<std::vector<char>, 3> memory_;
  Mapping shared_;
  std::array<size_t, kRegions> offsets_{};
  std::map<int64_t, std::array<std::vector<char>, kRegions>> taken_;
  std::vector<std::thread> threads_;
  std::atomic<bool> stop_{false};
};

TEST_P(CowTest, EveryVersionIsAsMemoryWasWhenTheCallBegan) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE(seed);
    const std::string job = "job.name=seed" + std::to_string(seed) + "\n";
    Writers writers(seed);
    kedge_context* context = Open(kCow + job);
    writers.Protect(context);
    for (int64_t version = 1; version <= 12; ++version) {
      writers.Remember(version);
      ASSERT_KEDGE_OK(kedge_checkpoint(context, "x", version, 0));
      writers.Start();
      // The next one comes while this is copied, or long after.
      if (writers.Below(2) == 0) {
        ASSERT_KEDGE_OK(kedge_wait(context, "x", version, KEDGE_LEVEL_LOCAL, 60));
      }
      if (writers.Below(2) == 0) usleep(static_cast<useconds_t>(writers.Below(20000)));
      writers.Stop();
      if (writers.Below(3) != 0) continue;
      int64_t restored = -1;
      ASSERT_KEDGE_OK(kedge_restart(context, "x", -1, &restored));
      ASSERT_EQ(restored, version);
      ASSERT_TRUE(writers.IsAt(version)) << version;
    }
    const kedge_statistics statistics = Statistics(context);
    EXPECT_EQ(statistics.checkpoints, 12u);
    EXPECT_EQ(statistics.checkpoints_inline, 0u);
    EXPECT_EQ(statistics.flush_failures, 0u) << "the flush compares what it writes with the checksums of capture";
    EXPECT_EQ(statistics.corrupt_copies, 0u);
    EXPECT_GT(statistics.writes_held, 0u);
    EXPECT_LT(statistics.slot_wait_seconds, 4) << "the agent took chunks that are filled later for as many writers";
    Close(context);
    // From the store, without the agent.
    folder_.KillAgent();
    context = Open("job.mode=sync\n" + job);
    writers.Protect(context);
    int64_t restored = -1;
    ASSERT_KEDGE_OK(kedge_restart(context, "x", -1, &restored));
    EXPECT_EQ(restored, 12);
    EXPECT_TRUE(writers.IsAt(12));
    Close(context);
  }
}

TEST_P(CowTest, ACallReturnsBeforeTheVersionIsCaptured) {
  Mapping memory(128 * kMiB);
  kedge_context* context = Open(kCow + "chunk.size=16MiB\n");
  ASSERT_KEDGE_OK(kedge_protect(context, 1, memory.data(), memory.bytes(), 1, nullptr));
  bool was_started = false;
  for (int64_t version = 1; version <= 20 && !was_started; ++version) {
    ASSERT_KEDGE_OK(kedge_checkpoint(context, "x", version, 0));
    kedge_level level = KEDGE_LEVEL_LAST;
    const int waited = kedge_wait(context, "x", version, KEDGE_LEVEL_LOCAL, 0);
    ASSERT_KEDGE_OK(kedge_test(context, "x", version, &level));
    was_started = waited == KEDGE_ERROR_TIMEOUT && level == KEDGE_LEVEL_NONE;
    ASSERT_KEDGE_OK(kedge_wait(context, "x", version, KEDGE_LEVEL_LOCAL, 60));
    ASSERT_KEDGE_OK(kedge_test(context, "x", version, &level));
    EXPECT_GE(level, KEDGE_LEVEL_LOCAL);
  }
  EXPECT_TRUE(was_started);
}

TEST_P(CowTest, WhatGivesMemoryBackWaitsUntilItIsCaptured) {
  kedge_context* context = Open(kCow);
  for (int64_t version = 1; version <= 6; ++version) {
    auto memory = std::make_unique<Mapping>(24 * kMiB);
    std::memset(memory->data(), static_cast<int>(version), memory->bytes());
    ASSERT_KEDGE_OK(kedge_protect(context, 1, memory->data(), memory->bytes(), 1, nullptr));
    void* block = nullptr;
    ASSERT_KEDGE_OK(kedge_alloc(context, "block", 12 * kMiB, 1, nullptr, &block));
    std::memset(block, static_cast<int>(version), 12 * kMiB);
    ASSERT_KEDGE_OK(kedge_checkpoint(context, "x", version, 0));
    if (version % 2 == 0) {
      ASSERT_KEDGE_OK(kedge_free(context, block));
    }
    ASSERT_KEDGE_OK(kedge_unprotect(context, 1));
    memory.reset();
    if (version % 2 != 0) {
      ASSERT_KEDGE_OK(kedge_free(context, block));
    }
    ASSERT_KEDGE_OK(kedge_wait(context, "x", version, KEDGE_LEVEL_LOCAL, 60));
  }
  Mapping memory(24 * kMiB);
  ASSERT_KEDGE_OK(kedge_protect(context, 1, memory.data(), memory.bytes(), 1, nullptr));
  void* block = nullptr;
  ASSERT_KEDGE_OK(kedge_alloc(context, "block", 12 * kMiB, 1, nullptr, &block));
  ASSERT_KEDGE_OK(kedge_restart(context, "x", -1, nullptr));
  EXPECT_EQ(std::vector<char>(memory.data(), memory.data() + memory.bytes()), std::vector<char>(memory.bytes(), 6));
  EXPECT_EQ(std::vector<char>(static_cast<char*>(block), static_cast<char*>(block) + 12 * kMiB), std::vector<char>(12 * kMiB, 6));
}

TEST_P(CowTest, MemoryThatIsGivenBackAllTheSameIsFoundOut) {
  Mapping memory(96 * kMiB);
  kedge_context* context = Open(kCow + "chunk.size=16MiB\n");
  ASSERT_KEDGE_OK(kedge_protect(context, 1, memory.data(), memory.bytes(), 1, nullptr));
  ASSERT_KEDGE_OK(kedge_checkpoint(context, "x", 1, 0));
  ASSERT_KEDGE_OK(kedge_wait(context, "x", 1, KEDGE_LEVEL_LOCAL, 60));
  int64_t version = 1;
  int waited = KEDGE_OK;
  // What is copied last is gone before, unless this thread came late.
  while (waited == KEDGE_OK && version < 20) {
    ASSERT_KEDGE_OK(kedge_checkpoint(context, "x", ++version, 0));
    ASSERT_EQ(madvise(memory.data() + memory.bytes() - kPageBytes, kPageBytes, MADV_DONTNEED), 0);
    waited = kedge_wait(context, "x", version, KEDGE_LEVEL_LOCAL, 60);
  }
  ASSERT_EQ(waited, KEDGE_ERROR_FAILED_PRECONDITION);
  EXPECT_NE(std::string(kedge_error_message()).find("region 1"), std::string::npos) << kedge_error_message();
  EXPECT_NE(std::string(kedge_error_message()).find("given back"), std::string::npos) << kedge_error_message();
  char name[8];
  int64_t failed = 0;
  EXPECT_EQ(kedge_last_flush_error(context, name, sizeof name, &failed), KEDGE_ERROR_FAILED_PRECONDITION);
  EXPECT_EQ(failed, version);
  // The one before is what there is, and the next one is whole again.
  int64_t restored = -1;
  ASSERT_KEDGE_OK(kedge_restart(context, "x", -1, &restored));
  EXPECT_EQ(restored, version - 1);
  std::memset(memory.data(), 9, memory.bytes());
  ASSERT_KEDGE_OK(kedge_checkpoint(context, "x", version + 1, 0));
  std::memset(memory.data(), 8, memory.bytes());
  ASSERT_KEDGE_OK(kedge_restart(context, "x", -1, &restored));
  EXPECT_EQ(restored, version + 1);
  EXPECT_EQ(std::vector<char>(memory.data(), memory.data() + memory.bytes()), std::vector<char>(memory.bytes(), 9));
}

// Before, while or after the image is handed over: a version that is said to be captured is whole, and no other one is.
TEST_P(CowTest, AnAgentThatDiesMeanwhileLeavesNoHalfVersion) {
  Writers writers(7);
  kedge_context* context = Open(kCow);
  writers.Protect(context);
  int64_t captured = 0;
  for (int64_t version = 1; version <= 8; ++version) {
    writers.Remember(version);
    ASSERT_KEDGE_OK(kedge_checkpoint(context, "x", version, 0));
    writers.Start();
    usleep(static_cast<useconds_t>(writers.Below(6000)));
    ASSERT_TRUE(folder_.KillAgent());
    if (kedge_wait(context, "x", version, KEDGE_LEVEL_LOCAL, 60) == KEDGE_OK) captured = version;
    writers.Stop();
    int64_t restored = -1;
    ASSERT_KEDGE_OK(kedge_restart(context, "x", -1, &restored));
    ASSERT_EQ(restored, captured);
    ASSERT_TRUE(writers.IsAt(restored)) << restored;
  }
  EXPECT_GT(captured, 0);
}

// Slots in files take no bytes that come later: the call copies, and says nothing, since all is well.
TEST_P(CowTest, WithoutMemoryForItTheCallCopies) {
  const std::string config = folder_.path() + "/kedge.toml";
  std::ofstream(config) << "[[tier]]\nname = \"files\"\nkind = \"directory\"\npath = \"" << folder_.path()
                        << "/tier\"\ncapacity = \"256MiB\"\n";
  const std::string overrides = Overrides("capture.mode=cow\npool.size=0\n");
  kedge_options options = KEDGE_OPTIONS_INIT;
  options.config_file = config.c_str();
  options.overrides = overrides.c_str();
  kedge_context* context = nullptr;
  ASSERT_KEDGE_OK(kedge_init(&options, nullptr, &context));
  Writers writers(8);
  writers.Protect(context);
  for (int64_t version = 1; version <= 3; ++version) {
    writers.Remember(version);
    ASSERT_KEDGE_OK(kedge_checkpoint(context, "x", version, 0));
    writers.Start();
    usleep(2000);
    writers.Stop();
  }
  ASSERT_KEDGE_OK(kedge_restart(context, "x", -1, nullptr));
  EXPECT_TRUE(writers.IsAt(3));
  EXPECT_EQ(Statistics(context).writes_held, 0u);
  EXPECT_GT(Statistics(context).bytes_directory, 0u);
  EXPECT_KEDGE_OK(kedge_finalize(context, 0));
}

TEST_P(CowTest, WithTrackedPagesItIsRefused) {
  const std::string overrides = Overrides("capture.mode=cow\ncapture.track=auto\n");
  kedge_options options = KEDGE_OPTIONS_INIT;
  options.overrides = overrides.c_str();
  kedge_context* context = nullptr;
  EXPECT_EQ(kedge_init(&options, nullptr, &context), KEDGE_ERROR_INVALID_ARGUMENT);
  EXPECT_NE(std::string(kedge_error_message()).find("capture.track"), std::string::npos) << kedge_error_message();
}

}  // namespace
}  // namespace kedge::testing
