#include "format/wire.h"

#include <algorithm>

namespace kedge {

namespace {
constexpr size_t kGrowBytesMin = 512;
}  // namespace

void Encoder::Grow(size_t bytes) {
  // The buffer's own capacity first: growing into it allocates nothing, but costs the zeros, so not all of it at once.
  const size_t wanted = used_ + std::max({bytes, kGrowBytesMin, used_});
  out_.resize(used_ + bytes <= out_.capacity() ? std::min(wanted, out_.capacity()) : wanted);
}

uint64_t Decoder::LongVarint() {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (at_ == end_) return Fail("cut short"), 0;
    const auto byte = static_cast<uint8_t>(*at_++);
    if (shift == 63 && byte > 1) return Fail("a number has more than 64 bits"), 0;
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) {
      // One value has one encoding, so that equal records have equal bytes.
      if (byte == 0 && shift > 0) return Fail("a number is not in its shortest form"), 0;
      return value;
    }
  }
  return Fail("a number has more than 64 bits"), 0;
}

Status Decoder::status(const char* what) const {
  if (ok()) return Status::Ok();
  return Status(Code::kCorrupt, std::string(what) + ": " + error_ + " at byte " + std::to_string(error_offset_));
}

Status Decoder::Finish(const char* what) {
  if (ok() && remaining() > 0) Fail("bytes are left over");
  return status(what);
}

}  // namespace kedge
