// The primitives of Kedge's encodings: records on disk (envelope.h) and messages on sockets use the same ones.
//
// Integers are little endian; a varint is LEB128 (7 bits a byte, low bits first, at most 10 bytes, shortest form only);
// a signed varint is zigzag of it; a string is a varint length and that many bytes. An Encoder appends to a caller's
// buffer. A Decoder trusts nothing: it never reads outside its bytes, and a count is checked against what the remaining
// bytes could hold before anything is allocated. Its error is sticky: after the first failure every read returns zero
// or empty, so that a decoder is written straight down and asks once, at the end.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace kedge {

static_assert(std::endian::native == std::endian::little, "big-endian machines need byte swaps in wire.h");

using Buffer = std::vector<std::byte>;
using ByteSpan = std::span<const std::byte>;

inline ByteSpan AsBytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}
inline std::string_view AsText(ByteSpan bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Appends to `out`, which must outlive it and is not to be touched between construction and Finish (or destruction):
// the encoder grows it ahead and cuts it to size then. Costs no allocation when `out` has the capacity.
class Encoder {
 public:
  explicit Encoder(Buffer& out) : out_(out), used_(out.size()) {}
  ~Encoder() { Finish(); }
  Encoder(const Encoder&) = delete;
  Encoder& operator=(const Encoder&) = delete;

  void U8(uint8_t value) { Fixed(value); }
  void U16(uint16_t value) { Fixed(value); }
  void U32(uint32_t value) { Fixed(value); }
  void U64(uint64_t value) { Fixed(value); }
  void I64(int64_t value) { Fixed(value); }
  void F64(double value) { Fixed(value); }
  void Varint(uint64_t value) {
    std::byte* at = Reserve(kVarintBytesMax);
    size_t bytes = 0;
    for (; value >= 0x80; value >>= 7) at[bytes++] = static_cast<std::byte>(value | 0x80);
    at[bytes++] = static_cast<std::byte>(value);
    used_ += bytes;
  }
  void SignedVarint(int64_t value) { Varint((static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63)); }
  void Raw(ByteSpan bytes) {
    if (bytes.empty()) return;
    std::memcpy(Reserve(bytes.size()), bytes.data(), bytes.size());
    used_ += bytes.size();
  }
  void String(std::string_view text) {
    Varint(text.size());
    Raw(AsBytes(text));
  }

  // Bytes in the buffer so far, those from before this encoder included.
  size_t size() const { return used_; }
  // What has been written from `from` (a former size()) on. Valid until the next write.
  std::span<std::byte> Written(size_t from) { return {out_.data() + from, used_ - from}; }
  // Cuts the buffer to what was written. Writing may go on after it.
  void Finish() { out_.resize(used_); }

 private:
  static constexpr size_t kVarintBytesMax = 10;

  template <typename T>
  void Fixed(T value) {
    std::memcpy(Reserve(sizeof(T)), &value, sizeof(T));
    used_ += sizeof(T);
  }
  std::byte* Reserve(size_t bytes) {
    if (out_.size() - used_ < bytes) Grow(bytes);
    return out_.data() + used_;
  }
  void Grow(size_t bytes);

  Buffer& out_;
  size_t used_;
};

// Reads from `bytes`, which must outlive it and the views that it returns.
class Decoder {
 public:
  explicit Decoder(ByteSpan bytes) : at_(bytes.data()), end_(bytes.data() + bytes.size()), begin_(bytes.data()) {}

  uint8_t U8() { return Fixed<uint8_t>(); }
  uint16_t U16() { return Fixed<uint16_t>(); }
  uint32_t U32() { return Fixed<uint32_t>(); }
  uint64_t U64() { return Fixed<uint64_t>(); }
  int64_t I64() { return Fixed<int64_t>(); }
  double F64() { return Fixed<double>(); }
  uint64_t Varint() {
    if (at_ != end_ && static_cast<uint8_t>(*at_) < 0x80) return static_cast<uint8_t>(*at_++);
    return LongVarint();
  }
  // A varint that must fit: fails above `max`.
  uint64_t VarintAtMost(uint64_t max) {
    const uint64_t value = Varint();
    if (value > max) return Fail("a number is out of range"), 0;
    return value;
  }
  uint32_t Varint32() { return static_cast<uint32_t>(VarintAtMost(UINT32_MAX)); }
  int64_t SignedVarint() {
    const uint64_t value = Varint();
    return static_cast<int64_t>((value >> 1) ^ (~(value & 1) + 1));
  }
  ByteSpan Raw(size_t bytes) {
    if (remaining() < bytes) return Fail("cut short"), ByteSpan();
    const ByteSpan result(at_, bytes);
    at_ += bytes;
    return result;
  }
  // A view into the decoded bytes.
  std::string_view String(size_t bytes_max) { return AsText(Raw(VarintAtMost(bytes_max))); }
  // The number of elements that follow, each of at least `element_bytes_min` (> 0) bytes: fails when they cannot be
  // there, so that a caller may reserve for the returned number.
  size_t Count(size_t element_bytes_min) {
    const uint64_t count = Varint();
    if (count > remaining() / element_bytes_min) return Fail("more elements announced than bytes are left"), 0;
    return count;
  }

  // Marks the input bad. `why` must be a literal; the first one stays.
  void Fail(const char* why) {
    if (error_ == nullptr) {
      error_ = why;
      error_offset_ = offset();
    }
    at_ = end_;
  }
  // Fails with `why` unless `condition`.
  void Require(bool condition, const char* why) {
    if (!condition) Fail(why);
  }

  bool ok() const { return error_ == nullptr; }
  size_t remaining() const { return static_cast<size_t>(end_ - at_); }
  size_t offset() const { return static_cast<size_t>(at_ - begin_); }
  // Ok, or kCorrupt: "WHAT: REASON at byte N".
  Status status(const char* what) const;
  // As status(); bytes left over are an error too.
  Status Finish(const char* what);

 private:
  template <typename T>
  T Fixed() {
    T value{};
    if (remaining() < sizeof(T)) return Fail("cut short"), value;
    std::memcpy(&value, at_, sizeof(T));
    at_ += sizeof(T);
    return value;
  }
  uint64_t LongVarint();

  const std::byte* at_;
  const std::byte* end_;
  const std::byte* begin_;
  const char* error_ = nullptr;
  size_t error_offset_ = 0;
};

}  // namespace kedge
