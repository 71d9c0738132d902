// A modelled device that real threads write to: each transfer blocks its thread for as long as the model says, against the
// wall clock, stretched or shortened by a scale. With 64 to 256 threads on two processors it behaves as the device would.
//
// Threads: any.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <thread>

#include "base/clock.h"
#include "os/testing/modelled_device.h"

namespace kedge::os::testing {

class PacedDevice {
 public:
  // A modelled second takes `time_scale` seconds; it is modelled second 0 when the system's clock says `start_ns`.
  PacedDevice(ModelledDevice device, double time_scale, int64_t start_ns);
  // REQUIRES: no transfer is under way.
  ~PacedDevice();
  PacedDevice(const PacedDevice&) = delete;
  PacedDevice& operator=(const PacedDevice&) = delete;

  // Returns when the device has moved so many bytes for this thread.
  void Transfer(double bytes);

 private:
  struct Waiter {
    std::condition_variable ended_cv;
    bool ended = false;
  };
  double NowSeconds() const;
  void CatchUp();
  void Run();

  ModelledDevice device_;
  const double time_scale_;
  const int64_t start_ns_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<uint64_t, Waiter*> waiters_;
  uint64_t last_id_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace kedge::os::testing
