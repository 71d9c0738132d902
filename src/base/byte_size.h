// Byte counts as people write and read them: "64MiB", "1.5GB", "4096".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace kedge {

// Accepts a non-negative number, whole or with a decimal fraction, and an optional unit: B, KiB, MiB, GiB, TiB, PiB
// (powers of 1024; K, M, G, T, P mean the same) or kB, MB, GB, TB, PB (powers of 1000). Case does not matter; spaces
// around and before the unit are allowed. The result is rounded down to a whole byte. kInvalidArgument names the text
// and the allowed forms.
Result<uint64_t> ParseByteSize(std::string_view text);

// For people: "0 B", "4096 B" below 10 KiB, then three significant digits: "64.0 MiB", "1.50 GiB".
std::string FormatByteSize(uint64_t bytes);

// Exact, and accepted by ParseByteSize: the largest binary unit that divides it, "64MiB", "1500000B".
std::string FormatByteSizeExact(uint64_t bytes);

}  // namespace kedge
