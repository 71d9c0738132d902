#include "base/quantity.h"

#include <charconv>
#include <cmath>
#include <cstddef>

namespace kedge {
namespace {

bool IsSpace(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}
bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}
bool IsLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
char Lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

std::string_view Trim(std::string_view text) {
  while (!text.empty() && IsSpace(text.front())) text.remove_prefix(1);
  while (!text.empty() && IsSpace(text.back())) text.remove_suffix(1);
  return text;
}

}  // namespace

std::optional<Quantity> ParseQuantity(std::string_view text) {
  text = Trim(text);
  size_t digits = 0;
  while (digits < text.size() && (IsDigit(text[digits]) || text[digits] == '.')) ++digits;
  const std::string_view number = text.substr(0, digits);
  if (number.empty() || !IsDigit(number.front()) || number.back() == '.') return std::nullopt;

  Quantity quantity;
  const char* end = number.data() + number.size();
  const auto parsed = std::from_chars(number.data(), end, quantity.value, std::chars_format::fixed);
  if (parsed.ec != std::errc() || parsed.ptr != end || !std::isfinite(quantity.value)) return std::nullopt;
  const auto whole = std::from_chars(number.data(), end, quantity.whole);
  quantity.is_whole = whole.ec == std::errc() && whole.ptr == end;

  quantity.unit = Trim(text.substr(digits));
  for (const char c : quantity.unit) {
    if (!IsLetter(c)) return std::nullopt;
  }
  return quantity;
}

bool EqualsIgnoringCase(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (Lower(a[i]) != Lower(b[i])) return false;
  }
  return true;
}

}  // namespace kedge
