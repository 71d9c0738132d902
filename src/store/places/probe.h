// Whether a store can do all that Kedge asks of one, and how fast: tried out in a folder of its own, which is gone afterwards.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "store/store.h"

namespace kedge {

struct StoreProbe {
  double record_seconds = 0;  // to write a small record, median
  double write_bytes_per_second = 0;
  double read_bytes_per_second = 0;
};

// The first thing that it cannot do, in the words of the store.
Result<StoreProbe> ProbeStore(Store& store, const TemporaryOwner& owner, uint64_t object_bytes);

}  // namespace kedge
