// What the space room asks of those who hold images: to let go of what is not needed any more, and what lies where.
#pragma once

#include "agent/tables/tier_unit.h"

namespace kedge {

class RoomGiver {
 public:
  virtual ~RoomGiver() = default;
  // The oldest cached version with a chunk in the unit goes; the newest complete one of a name only with `also_newest`, and when
  // no other is left. False: there is none.
  virtual bool EvictOldest(TierUnit* unit, bool also_newest) = 0;
  // Makes a slot of the unit free whose chunk is in the object of an image that has not ended; false when there is none.
  virtual bool ReleaseFlushed(TierUnit* unit) = 0;
  // Decides now what is to be decided soon of what stays: before somebody decides for want of room.
  virtual void ReconsiderPending() = 0;
  // Whether an image has files of the application's in that tier's folder.
  virtual bool HasFilesIn(const TierUnit& unit) const = 0;
};

}  // namespace kedge
