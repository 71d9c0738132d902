// Whoever reads an object in order, a piece at a time, finds the next ones here already: a store that is far away answers late,
// and carries much only over several connections. It begins with the second piece that goes on where the one before ended, and is
// ahead by twice as many ranges with each range that is asked for, up to a limit.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>

#include "base/status.h"

namespace kedge {

// Thread safe. Readers at random places gain nothing by it, and lose nothing.
class ReadAhead {
 public:
  // Begins to fill `into` with what lies at `offset` of the object, and calls `done` once, from any thread; `keeps` has `into`.
  using Fetch = std::function<void(uint64_t offset, std::span<std::byte> into, std::shared_ptr<const void> keeps,
                                   std::function<void(Status)> done)>;
  ReadAhead(uint64_t object_bytes, uint64_t range_bytes, uint32_t ranges_max, Fetch fetch);
  ~ReadAhead();

  // Fills the beginning of `out` from what was read ahead, waiting for it, and says how much that is; 0: none of it was, and the
  // caller reads it. To be asked about each piece that is read, since that tells whether they are in order.
  Result<uint64_t> Take(uint64_t offset, std::span<std::byte> out);

 private:
  struct Range;
  std::shared_ptr<Range> Find(uint64_t offset, uint64_t bytes);
  void Begin();

  const uint64_t object_bytes_, range_bytes_;
  const uint32_t ranges_max_;
  const Fetch fetch_;
  std::mutex mutex_;
  // Guarded by mutex_:
  std::deque<std::shared_ptr<Range>> ranges_;  // one behind the other
  uint64_t next_;                              // where a reader in order goes on
  uint64_t end_ = 0;                           // of what was read ahead
  uint32_t ranges_wanted_ = 0;
};

}  // namespace kedge
