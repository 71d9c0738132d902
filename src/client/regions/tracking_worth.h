// Whether tracking a region's writes pays, judged from image to image (capture.track = auto): pure arithmetic.
//
// It saves the copy of what has not changed. It costs the scan, and the first write of each page since the image before, which
// the application pays: a fault of about 0.7 us. So it pays while less than about a quarter of the pages is written. It goes off
// after a few images in a row that lost by it, and is tried again after a pause that doubles each time.
#pragma once

#include <algorithm>
#include <cstdint>

namespace kedge::client {

class TrackingWorth {
 public:
  // Once for each image: whether the region is left alone in this one.
  bool Pauses() {
    if (pause_left_ == 0) return false;
    --pause_left_;
    return true;
  }
  // An image of the tracked region; false: a pause begins.
  bool Observe(uint64_t bytes, uint64_t changed_bytes, double scan_seconds) {
    const double saved = static_cast<double>(bytes - changed_bytes) / kCopyBytesPerSecond;
    const double spent = scan_seconds + static_cast<double>(changed_bytes) / kPageBytes * kFaultSeconds;
    if (saved > spent) {
      losses_ = 0;
      if (++gains_ >= kGainsToForget) next_pause_ = kPauseMin;
      return true;
    }
    gains_ = 0;
    if (++losses_ < kLossesMax) return true;
    losses_ = 0;
    pause_left_ = next_pause_;
    next_pause_ = std::min(2 * next_pause_, kPauseMax);
    return false;
  }

  static constexpr uint32_t kLossesMax = 3;
  static constexpr uint32_t kPauseMin = 8;  // images
  static constexpr uint32_t kPauseMax = 256;
  static constexpr uint32_t kGainsToForget = 8;

 private:
  static constexpr double kCopyBytesPerSecond = 16e9;  // with checksums, of one rank
  static constexpr double kFaultSeconds = 0.7e-6;
  static constexpr double kPageBytes = 4096;

  uint32_t losses_ = 0;  // in a row
  uint32_t gains_ = 0;   // in a row
  uint32_t pause_left_ = 0;
  uint32_t next_pause_ = kPauseMin;
};

}  // namespace kedge::client
