#include "os/testing/paced_device.h"

#include <algorithm>
#include <chrono>

namespace kedge::os::testing {

PacedDevice::PacedDevice(ModelledDevice device, double time_scale, int64_t start_ns)
    : device_(std::move(device)), time_scale_(time_scale), start_ns_(start_ns), thread_([this] { Run(); }) {}

PacedDevice::~PacedDevice() {
  {
    const std::lock_guard lock(mutex_);
    KEDGE_CHECK(waiters_.empty());
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

double PacedDevice::NowSeconds() const {
  return static_cast<double>(SystemClock().NowNs() - start_ns_) * 1e-9 / time_scale_;
}

// One end after the other: what has ended takes no part in what follows, however late this thread is.
void PacedDevice::CatchUp() {
  const double now = NowSeconds();
  for (;;) {
    const double end = device_.NextEnd();
    device_.Advance(std::min(end, now));
    uint64_t id = 0;
    while (device_.TakeEnded(&id)) {
      Waiter* waiter = waiters_.at(id);
      waiters_.erase(id);
      waiter->ended = true;
      waiter->ended_cv.notify_one();
    }
    if (end > now) return;
  }
}

void PacedDevice::Transfer(double bytes) {
  Waiter waiter;
  std::unique_lock lock(mutex_);
  CatchUp();
  waiters_[++last_id_] = &waiter;
  device_.Begin(last_id_, bytes);
  changed_.notify_all();
  waiter.ended_cv.wait(lock, [&] { return waiter.ended; });
}

void PacedDevice::Run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    CatchUp();
    const double end = device_.NextEnd();
    if (end == ModelledDevice::kNever) {
      changed_.wait(lock);
    } else {
      changed_.wait_for(lock, FromSeconds((end - NowSeconds()) * time_scale_));
    }
  }
}

}  // namespace kedge::os::testing
