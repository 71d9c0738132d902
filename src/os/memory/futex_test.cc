#include "os/memory/futex.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "os/memory/mapping.h"
#include "os/testing/temporary_folder.h"

namespace kedge::os {
namespace {

using namespace std::chrono_literals;

TEST(Futex, ReturnsAtOnceWhenTheWordChanged) {
  std::atomic<uint32_t> word{7};
  EXPECT_EQ(FutexWait(&word, 6, 10s), FutexResult::kChanged);
  EXPECT_EQ(FutexWait(&word, 7, 0s), FutexResult::kTimeout);
  EXPECT_EQ(FutexWait(&word, 7, -1s), FutexResult::kTimeout);
}

TEST(Futex, TimesOutNotTooEarly) {
  std::atomic<uint32_t> word{0};
  const int64_t begin_ns = SystemClock().NowNs();
  EXPECT_EQ(FutexWait(&word, 0, 20ms), FutexResult::kTimeout);
  EXPECT_GE(SystemClock().NowNs() - begin_ns, Duration(20ms).count());
}

TEST(Futex, WakesAWaiter) {
  std::atomic<uint32_t> word{0};
  std::thread waiter([&] {
    while (word.load() == 0) EXPECT_NE(FutexWait(&word, 0, 60s), FutexResult::kTimeout);
  });
  std::this_thread::sleep_for(5ms);
  word = 1;
  FutexWake(&word, 1);
  waiter.join();
  EXPECT_EQ(FutexWakeAll(&word), 0);
}

TEST(Futex, WakesAllWaitersWithoutLimit) {
  std::atomic<uint32_t> word{0};
  std::atomic<int> waiting{0};
  std::vector<std::thread> waiters;
  for (int i = 0; i < 4; ++i) {
    waiters.emplace_back([&] {
      ++waiting;
      while (word.load() == 0) FutexWait(&word, 0, Duration::max());
    });
  }
  while (waiting < 4) std::this_thread::yield();
  word = 1;
  FutexWakeAll(&word);
  for (std::thread& waiter : waiters) waiter.join();
}

TEST(Futex, IsNotEndedBySignals) {
  struct sigaction action {};
  action.sa_handler = [](int) {};
  struct sigaction before {};
  ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);  // without SA_RESTART
  std::atomic<uint32_t> word{0};
  FutexResult result = FutexResult::kWoken;
  int64_t waited_ns = 0;
  std::atomic<bool> started{false};
  std::thread waiter([&] {
    const int64_t begin_ns = SystemClock().NowNs();
    started = true;
    result = FutexWait(&word, 0, 60ms);
    waited_ns = SystemClock().NowNs() - begin_ns;
  });
  while (!started) std::this_thread::yield();
  for (int i = 0; i < 20; ++i) {
    pthread_kill(waiter.native_handle(), SIGUSR1);
    std::this_thread::sleep_for(1ms);
  }
  waiter.join();
  sigaction(SIGUSR1, &before, nullptr);
  EXPECT_EQ(result, FutexResult::kTimeout);
  EXPECT_GE(waited_ns, Duration(60ms).count());
}

TEST(Futex, WorksBetweenProcessesThroughDifferentAddresses) {
  const testing::TemporaryFolder folder("/dev/shm");
  const auto mine = SharedMapping::Create(folder / "word", 4096).value();
  auto* word = reinterpret_cast<std::atomic<uint32_t>*>(mine.data());
  const std::string path = folder / "word";
  const pid_t child = fork();
  if (child == 0) {
    const auto theirs = SharedMapping::Open(path);
    if (!theirs.ok()) _exit(1);
    auto* same = reinterpret_cast<std::atomic<uint32_t>*>(theirs->data());
    while (same->load() == 0) {
      if (FutexWait(same, 0, 60s) == FutexResult::kTimeout) _exit(2);
    }
    same->store(2);
    FutexWake(same, 1);
    _exit(0);
  }
  std::this_thread::sleep_for(5ms);
  word->store(1);
  FutexWake(word, 1);
  while (word->load() == 1) ASSERT_NE(FutexWait(word, 1, 60s), FutexResult::kTimeout);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace kedge::os
