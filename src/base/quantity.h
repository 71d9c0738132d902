// A number with a unit, as in "1.5 GB" or "30s": the common part of byte_size and duration.
#pragma once

#include <optional>
#include <string_view>

namespace kedge {

struct Quantity {
  double value = 0;
  unsigned long long whole = 0;  // the value when is_whole; exact where a double is not
  bool is_whole = false;
  std::string_view unit;  // empty when none was given; refers into the parsed text
};

// A non-negative decimal number, optional spaces, then a unit of letters. Nothing when the text is anything else.
std::optional<Quantity> ParseQuantity(std::string_view text);

// ASCII only, so that a locale never changes what a configuration means.
bool EqualsIgnoringCase(std::string_view a, std::string_view b);

}  // namespace kedge
