// Images of other nodes that go to the store from here, as whoever publishes sees them (gather/carrier.h).
#pragma once

#include <cstdint>
#include <vector>

#include "agent/flush/publication.h"
#include "base/status.h"
#include "format/identity.h"

namespace kedge {

class Cargo {
 public:
  virtual ~Cargo() = default;
  // More of the version is on its way to here, and worth waiting for.
  virtual bool IsAwaited(const Generation& generation) const = 0;
  virtual bool HasWritten(const Generation& generation) const = 0;
  struct Written {
    uint32_t ranks = 0;  // of the version
    std::vector<WrittenImage> images;
  };
  // Those that are written, which are published now: each is told of below.
  virtual Written TakeWritten(const Generation& generation) = 0;
  virtual void OnPublished(const Generation& generation, uint32_t rank, const Status& status, bool is_complete) = 0;
};

}  // namespace kedge
