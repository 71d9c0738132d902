#include "base/byte_size.h"

#include <fmt/format.h>

#include <cmath>

#include "base/quantity.h"

namespace kedge {
namespace {

struct SizeUnit {
  std::string_view name;
  uint64_t bytes;
};
constexpr uint64_t kKibi = 1024;
constexpr uint64_t kKilo = 1000;
constexpr SizeUnit kSizeUnits[] = {
    {"", 1},
    {"B", 1},
    {"K", kKibi},
    {"KiB", kKibi},
    {"kB", kKilo},
    {"M", kKibi* kKibi},
    {"MiB", kKibi* kKibi},
    {"MB", kKilo* kKilo},
    {"G", kKibi* kKibi* kKibi},
    {"GiB", kKibi* kKibi* kKibi},
    {"GB", kKilo* kKilo* kKilo},
    {"T", kKibi* kKibi* kKibi* kKibi},
    {"TiB", kKibi* kKibi* kKibi* kKibi},
    {"TB", kKilo* kKilo* kKilo* kKilo},
    {"P", kKibi* kKibi* kKibi* kKibi* kKibi},
    {"PiB", kKibi* kKibi* kKibi* kKibi* kKibi},
    {"PB", kKilo* kKilo* kKilo* kKilo* kKilo},
};

Status NotAByteSize(std::string_view text, const char* why) {
  return Status(Code::kInvalidArgument,
                fmt::format("'{}' is not a byte count ({}); write a number with an optional unit B, KiB, MiB, GiB, TiB, "
                            "PiB (powers of 1024) or kB, MB, GB, TB, PB (powers of 1000), as in 64MiB, 1.5GB or 4096",
                            text, why));
}

}  // namespace

Result<uint64_t> ParseByteSize(std::string_view text) {
  const auto quantity = ParseQuantity(text);
  if (!quantity) return NotAByteSize(text, "no number with a unit");
  for (const SizeUnit& unit : kSizeUnits) {
    if (!EqualsIgnoringCase(unit.name, quantity->unit)) continue;
    uint64_t bytes = 0;
    if (quantity->is_whole) {
      if (__builtin_mul_overflow(static_cast<uint64_t>(quantity->whole), unit.bytes, &bytes)) {
        return NotAByteSize(text, "too large");
      }
      return bytes;
    }
    const double exact = std::floor(quantity->value * static_cast<double>(unit.bytes));
    if (exact >= 18446744073709551616.0) return NotAByteSize(text, "too large");
    return static_cast<uint64_t>(exact);
  }
  return NotAByteSize(text, "unknown unit");
}

std::string FormatByteSize(uint64_t bytes) {
  if (bytes < 10 * kKibi) return fmt::format("{} B", bytes);
  static constexpr const char* kNames[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes) / kKibi;
  size_t unit = 0;
  while (value >= 999.5 && unit + 1 < std::size(kNames)) {
    value /= kKibi;
    ++unit;
  }
  const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f} {}", value, decimals, kNames[unit]);
}

std::string FormatByteSizeExact(uint64_t bytes) {
  static constexpr const char* kNames[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  size_t unit = 0;
  while (bytes != 0 && bytes % kKibi == 0 && unit + 1 < std::size(kNames)) {
    bytes /= kKibi;
    ++unit;
  }
  return fmt::format("{}{}", bytes, kNames[unit]);
}

}  // namespace kedge
