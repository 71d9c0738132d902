// Which addresses of a heap are in use, in units of 64 KiB: pure arithmetic.
//
// A unit is a multiple of every page size, so that what was saved on one machine fits on another.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace kedge::client {

inline constexpr uint64_t kUnitBytes = uint64_t{64} << 10;

constexpr uint64_t UnitsFor(uint64_t bytes) {
  return bytes / kUnitBytes + (bytes % kUnitBytes != 0 ? 1 : 0);
}

// Units 0 to Count() - 1; all are free at first.
class Units {
 public:
  explicit Units(uint64_t count = 0) { Extend(count); }

  uint64_t Count() const { return count_; }
  // To so many.
  void Extend(uint64_t count);
  // The highest free ones that begin at a multiple of `alignment`; nothing: there are none. `units` > 0.
  std::optional<uint64_t> Take(uint64_t units, uint64_t alignment);
  // Exactly these; false: not all of them are free.
  bool TakeAt(uint64_t first, uint64_t units);
  void Free(uint64_t first, uint64_t units);

 private:
  using Runs = std::map<uint64_t, uint64_t>;  // the first unit of each free run, and how many; no two are adjacent

  void TakeFrom(Runs::iterator run, uint64_t first, uint64_t units);

  uint64_t count_ = 0;
  Runs free_;
};

}  // namespace kedge::client
