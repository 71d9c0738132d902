// Where the bytes of an element of a type lie, and how elements become a message and come out of one.
//
// A type is flattened when it is made: into runs of equal pieces at equal distances, in the order in which they travel, however
// many types it was made of. Pieces that meet are one. So a column of a matrix is one run, and a block of a box one for each of
// its planes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/status.h"
#include "format/wire.h"

namespace kedge::fmi {

class TypeMap {
 public:
  // `count` pieces of `bytes`; each begins `stride` behind the one before.
  struct Run {
    int64_t offset = 0;
    uint64_t bytes = 0;
    uint64_t count = 1;
    int64_t stride = 0;
    friend bool operator==(const Run&, const Run&) = default;
  };
  // `count` elements of `type`, from `offset` on.
  struct Part {
    int64_t offset = 0;
    uint64_t count = 0;
    const TypeMap* type = nullptr;
  };

  // Of nothing.
  TypeMap() = default;
  // A number of the language.
  static TypeMap Basic(size_t bytes, size_t alignment);
  static TypeMap Basic(size_t bytes) { return Basic(bytes, bytes); }
  // All: kInvalidArgument where a type has more than kRunsMax runs, or reaches further than kSpanMax.
  static Result<TypeMap> Contiguous(uint64_t count, const TypeMap& type);
  // `count` blocks of `length` elements; each begins `stride` bytes behind the one before.
  static Result<TypeMap> Vector(uint64_t count, uint64_t length, int64_t stride, const TypeMap& type);
  // Its extent is what C gives such a struct, unless a part was resized.
  static Result<TypeMap> Struct(const std::vector<Part>& parts);
  // Of an array with these sizes, the last of which counts fastest, the part that begins at these places. Its extent is that of
  // the whole array.
  struct Cut {
    uint64_t size = 0;
    uint64_t count = 0;
    uint64_t begin = 0;
  };
  static Result<TypeMap> Subarray(const std::vector<Cut>& cuts, const TypeMap& type);
  static Result<TypeMap> Resized(const TypeMap& type, int64_t lower, int64_t extent);

  uint64_t bytes() const { return bytes_; }
  int64_t lower() const { return lower_; }
  // From an element to the next one.
  int64_t extent() const { return upper_ - lower_; }
  const std::vector<Run>& runs() const { return runs_; }
  // Where the first of its bytes lies, and behind the last one.
  std::pair<int64_t, int64_t> Reach() const;
  // Where the bytes of so many elements begin, if they lie side by side in the order in which they travel.
  std::optional<int64_t> Place(uint64_t count) const;

  void Pack(const void* elements, uint64_t count, std::byte* packed) const;
  // So many bytes, which may end before the last element does.
  void Unpack(const std::byte* packed, uint64_t bytes, void* elements) const;

  void Encode(Encoder* encoder) const;
  static Result<TypeMap> Decode(Decoder* decoder);

  friend bool operator==(const TypeMap&, const TypeMap&) = default;

  static constexpr size_t kRunsMax = size_t{1} << 20;
  static constexpr int64_t kSpanMax = int64_t{1} << 48;

 private:
  // Puts `count` elements of `type` behind what is there, each `stride` behind the one before, the first at `offset`.
  Status Append(int64_t offset, uint64_t count, int64_t stride, const TypeMap& type);
  void AppendRun(Run run);

  std::vector<Run> runs_;
  uint64_t bytes_ = 0;
  int64_t lower_ = 0;
  int64_t upper_ = 0;
  uint64_t alignment_ = 1;
  bool is_resized_ = false;
};

}  // namespace kedge::fmi
