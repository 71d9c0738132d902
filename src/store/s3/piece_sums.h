// The checksum of a part out of those of the pieces that it was written in, so that its bytes need not be read once more.
#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <optional>

#include "base/crc32c.h"

namespace kedge::s3 {

class PieceSums {
 public:
  // `crc32c` is that of the piece alone.
  void Add(uint64_t begin, uint64_t bytes, uint32_t crc32c) {
    if (bytes == 0) return;
    const auto after = pieces_.lower_bound(begin);
    if (after != pieces_.end() && after->first < begin + bytes) overlap_ = true;
    if (after != pieces_.begin()) {
      const auto before = std::prev(after);
      const uint64_t end = before->first + before->second.bytes;
      if (end > begin) overlap_ = true;
      if (end == begin) {
        before->second.crc32c = crc32c::Combine(before->second.crc32c, crc32c, bytes);
        before->second.bytes += bytes;
        return;
      }
    }
    pieces_[begin] = {bytes, crc32c};
  }

  // Of the first `bytes`; nothing where pieces overlap or leave gaps.
  std::optional<uint32_t> Of(uint64_t bytes) const {
    uint64_t end = 0;
    uint32_t sum = 0;
    for (const auto& [begin, piece] : pieces_) {
      if (begin != end) return std::nullopt;
      sum = crc32c::Combine(sum, piece.crc32c, piece.bytes);
      end += piece.bytes;
    }
    return overlap_ || end != bytes ? std::nullopt : std::optional(sum);
  }

 private:
  struct Piece {
    uint64_t bytes = 0;
    uint32_t crc32c = 0;
  };
  std::map<uint64_t, Piece> pieces_;  // by where they begin
  bool overlap_ = false;
};

}  // namespace kedge::s3
