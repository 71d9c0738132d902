#include "os/events/event_loop.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"

namespace kedge::os {
namespace {

using namespace std::chrono_literals;

class EventLoopTest : public ::testing::Test {
 protected:
  void SetUp() override {
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    reader_.Reset(ends[0]);
    writer_.Reset(ends[1]);
  }
  void Put() { ASSERT_EQ(write(writer_.get(), "x", 1), 1); }
  void Take() {
    char byte = 0;
    ASSERT_EQ(read(reader_.get(), &byte, 1), 1);
  }
  std::unique_ptr<EventLoop> loop_ = EventLoop::Create().value();
  UniqueFd reader_;
  UniqueFd writer_;
};

TEST_F(EventLoopTest, CallsWhenReadable) {
  int calls = 0;
  const auto id = loop_->Watch(reader_.get(), EventLoop::Interest::kRead, [&](Readiness ready) {
    EXPECT_TRUE(ready.readable);
    EXPECT_FALSE(ready.hung_up);
    ++calls;
    Take();
  });
  ASSERT_TRUE(id.ok());
  ASSERT_TRUE(loop_->RunOnce(0s).ok());
  EXPECT_EQ(calls, 0);
  Put();
  ASSERT_TRUE(loop_->RunOnce(1s).ok());
  EXPECT_EQ(calls, 1);
  ASSERT_TRUE(loop_->ChangeInterest(*id, EventLoop::Interest::kNone).ok());
  Put();
  ASSERT_TRUE(loop_->RunOnce(0s).ok());
  EXPECT_EQ(calls, 1);
  ASSERT_TRUE(loop_->ChangeInterest(*id, EventLoop::Interest::kRead).ok());
  ASSERT_TRUE(loop_->RunOnce(0s).ok());
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(loop_->ChangeInterest(12345, EventLoop::Interest::kRead).code(), Code::kNotFound);
}

TEST_F(EventLoopTest, TellsOfWritabilityAndHangUp) {
  Readiness seen;
  ASSERT_TRUE(loop_->Watch(writer_.get(), EventLoop::Interest::kWrite, [&](Readiness ready) { seen = ready; }).ok());
  ASSERT_TRUE(loop_->RunOnce(0s).ok());
  EXPECT_TRUE(seen.writable);
  EXPECT_FALSE(seen.hung_up);
  reader_.Reset();
  ASSERT_TRUE(loop_->RunOnce(0s).ok());
  EXPECT_TRUE(seen.hung_up);
}

TEST_F(EventLoopTest, NeverCallsWhatWasUnwatchedInTheSameTurn) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd other_reader(ends[0]);
  const UniqueFd other_writer(ends[1]);
  int calls = 0;
  EventLoop::WatchId first = 0;
  EventLoop::WatchId second = 0;
  const auto remove_both = [&](Readiness) {
    ++calls;
    loop_->Unwatch(first);
    loop_->Unwatch(second);
  };
  first = loop_->Watch(reader_.get(), EventLoop::Interest::kRead, remove_both).value();
  second = loop_->Watch(other_reader.get(), EventLoop::Interest::kRead, remove_both).value();
  Put();
  ASSERT_EQ(write(other_writer.get(), "x", 1), 1);
  ASSERT_TRUE(loop_->RunOnce(0s).ok());
  ASSERT_TRUE(loop_->RunOnce(0s).ok());
  EXPECT_EQ(calls, 1);
}

TEST_F(EventLoopTest, RunsTimersInOrderAndNotEarly) {
  std::string order;
  const int64_t begin_ns = SystemClock().NowNs();
  loop_->AddTimer(20ms, [&] {
    EXPECT_GE(SystemClock().NowNs() - begin_ns, Duration(20ms).count());
    order += 'c';
    loop_->Stop();
  });
  loop_->AddTimer(5ms, [&] { order += 'b'; });
  loop_->AddTimer(-1s, [&] { order += 'a'; });
  const auto cancelled = loop_->AddTimer(1ms, [&] { order += 'x'; });
  loop_->CancelTimer(cancelled);
  loop_->CancelTimer(cancelled);
  ASSERT_TRUE(loop_->Run().ok());
  EXPECT_EQ(order, "abc");
}

TEST_F(EventLoopTest, RepeatsPeriodicTimersUntilTheyCancelThemselves) {
  int calls = 0;
  EventLoop::TimerId id = 0;
  id = loop_->AddPeriodic(1ms, [&] {
    if (++calls < 3) return;
    loop_->CancelTimer(id);
    loop_->AddTimer(5ms, [&] { loop_->Stop(); });
  });
  ASSERT_TRUE(loop_->Run().ok());
  EXPECT_EQ(calls, 3);
}

TEST_F(EventLoopTest, SkipsPeriodsThatWereMissed) {
  int calls = 0;
  loop_->AddPeriodic(1ms, [&] {
    if (++calls == 1) std::this_thread::sleep_for(50ms);
  });
  loop_->AddTimer(56ms, [&] { loop_->Stop(); });
  ASSERT_TRUE(loop_->Run().ok());
  EXPECT_LT(calls, 30) << "fifty were missed and are not made up for";
}

TEST_F(EventLoopTest, DueTimersDoNotStarveDescriptors) {
  bool read = false;
  std::function<void()> again = [&] {
    if (!read) loop_->AddTimer(0s, again);
  };
  loop_->AddTimer(0s, again);
  ASSERT_TRUE(loop_
                  ->Watch(reader_.get(), EventLoop::Interest::kRead,
                          [&](Readiness) {
                            read = true;
                            loop_->Stop();
                          })
                  .ok());
  Put();
  ASSERT_TRUE(loop_->Run().ok());
  EXPECT_TRUE(read);
}

TEST_F(EventLoopTest, RunsPostedWorkOfAllThreadsInTheirOrder) {
  constexpr int kThreads = 3;
  constexpr int kEach = 500;
  int done = 0;
  int last[kThreads] = {};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 1; i <= kEach; ++i) {
        loop_->Post([&, t, i] {
          EXPECT_EQ(last[t], i - 1);
          last[t] = i;
          if (++done == kThreads * kEach) loop_->Stop();
        });
      }
    });
  }
  ASSERT_TRUE(loop_->Run().ok());
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(done, kThreads * kEach);
}

TEST_F(EventLoopTest, StopsFromAnotherThreadAndBeforeRunning) {
  loop_->Stop();
  ASSERT_TRUE(loop_->Run().ok());
  std::thread stopper([&] {
    std::this_thread::sleep_for(5ms);
    loop_->Stop();
  });
  ASSERT_TRUE(loop_->Run().ok());
  stopper.join();
}

TEST_F(EventLoopTest, WaitsNoLongerThanToldAndWithoutSpinning) {
  const int64_t begin_ns = SystemClock().NowNs();
  ASSERT_TRUE(loop_->RunOnce(10ms).ok());
  const int64_t took_ns = SystemClock().NowNs() - begin_ns;
  EXPECT_GE(took_ns, Duration(10ms).count());
  loop_->AddTimer(1h, [] {});
  ASSERT_TRUE(loop_->RunOnce(1ms).ok());
  // A timer already in the past leaves the descriptor armed for the right time afterwards.
  bool ran = false;
  loop_->AddTimer(0s, [&] { ran = true; });
  ASSERT_TRUE(loop_->RunOnce(1s).ok());
  EXPECT_TRUE(ran);
}

TEST_F(EventLoopTest, WakesThroughAnEventDescriptor) {
  const EventFd event = EventFd::Create().value();
  int wakes = 0;
  ASSERT_TRUE(loop_
                  ->Watch(event.descriptor(), EventLoop::Interest::kRead,
                          [&](Readiness) {
                            EXPECT_TRUE(event.Drain());
                            EXPECT_FALSE(event.Drain());
                            ++wakes;
                          })
                  .ok());
  event.Signal();
  event.Signal();
  ASSERT_TRUE(loop_->RunOnce(1s).ok());
  ASSERT_TRUE(loop_->RunOnce(0s).ok());
  EXPECT_EQ(wakes, 1);
}

}  // namespace
}  // namespace kedge::os
