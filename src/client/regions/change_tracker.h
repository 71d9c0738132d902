// Which bytes of the declared regions have changed since an image was taken of them, as the kernel tells it
// (os/memory/write_tracking.h): what an image that builds on that one need not read (capture/image_capture.h).
//
// A region is tracked by its address, from its first capture on. What has changed is kept until an image with it has ended: one
// that is given up costs nothing. Tracking serves speed alone: wherever it cannot be had, or may be wrong, the region is taken
// whole. The context's lock guards it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "capture/image_capture.h"
#include "client/regions/region_table.h"
#include "client/regions/tracking_pace.h"
#include "client/regions/tracking_worth.h"
#include "os/memory/write_tracking.h"
#include "session/config_keys.h"

namespace kedge::client {

// An image of this process: which session took it, and its number there. 0: none.
struct ImageMark {
  uint64_t session = 0;
  uint64_t serial = 0;

  friend bool operator==(const ImageMark&, const ImageMark&) = default;
};

class ChangeTracker {
 public:
  explicit ChangeTracker(Feature tracking) : tracking_(tracking) {}

  // Whether this process can track at all. Tries it the first time, and says in the log why not.
  bool Available();
  // An image begins. Regions that the last images have not had are tracked no longer: their memory may be another's by now.
  void Begin();
  // Whether the next image may build on the one that has begun.
  bool Tracks() const { return tracking_ == Feature::kOn || pace_.Tracks(); }
  // The region is about to be captured: what has changed of it since `base`, for as long as the next call; nullptr: not known.
  const std::vector<ChangedRange>* Take(const DeclaredRegion& region, const ImageMark& base);
  // Its memory has changed unseen: it is not tracked any more.
  void Distrust(const DeclaredRegion& region);
  // The image of the regions taken since Begin has ended.
  void Captured(const ImageMark& image);

 private:
  struct Tracked {
    size_t bytes = 0;
    int id = 0;
    bool is_tracked = false;
    bool is_refused = false;            // for good
    ImageMark since;                    // the image that `changed` counts from
    std::vector<ChangedRange> changed;  // ascending, not adjacent
    uint64_t taken = 0;                 // the image, by count
    TrackingWorth worth;
  };

  bool Track(const DeclaredRegion& region, Tracked* tracked);
  bool Pauses(Tracked* tracked);
  void ObserveStep();
  // What has changed of it is not known any more, until it is tracked anew.
  void Stop(const void* address, Tracked* tracked);
  void Refuse(const DeclaredRegion& region, Tracked* tracked);

  const Feature tracking_;
  bool tried_ = false;
  std::optional<os::WriteTracking> writes_;
  uint64_t images_ = 0;
  TrackingPace pace_;
  int64_t ended_ns_ = 0;                    // the image before; 0: it has not ended
  std::map<const void*, Tracked> regions_;  // by address
};

}  // namespace kedge::client
