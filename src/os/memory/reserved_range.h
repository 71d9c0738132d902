// A range of addresses that nothing else in the process gets: reserved as a whole, given memory piece by piece.
//
// What is only reserved has no memory behind it, counts against nothing but RLIMIT_AS, and cannot be accessed. Offsets and sizes
// are multiples of PageBytes(). A forked child has the range as its parent had it, with its own copy of what lies there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/status.h"

namespace kedge::os {

// Movable owner of the range. One thread at a time.
class ReservedRange {
 public:
  // Exactly there. kAlreadyExists names what lies there; kNoSpace: this process may not have so many addresses, or none there.
  static Result<ReservedRange> At(uint64_t address, uint64_t bytes);

  ReservedRange() = default;
  ReservedRange(ReservedRange&& other) noexcept;
  ReservedRange& operator=(ReservedRange&& other) noexcept;
  // Unmaps all of it.
  ~ReservedRange();

  bool valid() const { return data_ != nullptr; }
  std::byte* data() const { return data_; }
  uint64_t address() const { return reinterpret_cast<uintptr_t>(data_); }
  uint64_t bytes() const { return bytes_; }

  // To so many bytes, from the same address. Errors as At.
  Status Extend(uint64_t bytes);
  // Memory that reads as zeros. kNoSpace: the system has none.
  Status Commit(uint64_t offset, uint64_t bytes);
  // What of that is not touched yet comes in large pages, where these lie whole in the range and the system has them.
  void PreferLargePages(uint64_t offset, uint64_t bytes);
  // Gives the memory back; the addresses stay reserved. An error leaves it as it was.
  Status GiveBack(uint64_t offset, uint64_t bytes);
  // Gives the memory back, and has other memory in its place, which reads as zeros.
  void Clear(uint64_t offset, uint64_t bytes);

  struct Piece {
    uint64_t offset = 0;
    uint64_t bytes = 0;
  };
  // Ends the ownership: these pieces (ascending) stay mapped as they are, nobody's from now on; all else is unmapped.
  void Leave(const std::vector<Piece>& pieces);

 private:
  ReservedRange(std::byte* data, uint64_t bytes) : data_(data), bytes_(bytes) {}

  std::byte* data_ = nullptr;
  uint64_t bytes_ = 0;
};

}  // namespace kedge::os
