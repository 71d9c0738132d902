#include "format/name_encoding.h"

#include <xxhash.h>

#include "base/random.h"

namespace kedge {

namespace {

constexpr size_t kPrefixBytesMax = 160;
constexpr char kHexDigits[] = "0123456789ABCDEF";

bool IsSafe(char c, bool first) {
  if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')) return true;
  if (c == '.') return !first;
  return c == '_' || c == '-' || c == '+' || c == '=' || c == '@' || c == ',';
}

int HexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

std::string EncodeName(std::string_view name) {
  std::string encoded;
  encoded.reserve(name.size());
  size_t prefix_bytes = 0;
  for (const char c : name) {
    if (IsSafe(c, encoded.empty())) {
      encoded += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      encoded += {'%', kHexDigits[byte >> 4], kHexDigits[byte & 15]};
    }
    if (encoded.size() <= kPrefixBytesMax) prefix_bytes = encoded.size();
  }
  if (encoded.size() <= kEncodedNameBytesMax) return encoded;
  const XXH128_hash_t hash = XXH3_128bits(name.data(), name.size());
  encoded.resize(prefix_bytes);
  return encoded + '~' + Id128{.high = hash.high64, .low = hash.low64}.ToHex();
}

std::optional<std::string> DecodeEncodedName(std::string_view component) {
  std::string name;
  for (size_t i = 0; i < component.size(); ++i) {
    if (component[i] != '%') {
      name += component[i];
      continue;
    }
    if (component.size() - i < 3) return std::nullopt;
    const int high = HexValue(component[i + 1]);
    const int low = HexValue(component[i + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    name += static_cast<char>(high * 16 + low);
    i += 2;
  }
  // Only what EncodeName itself would write: no second spelling, no hash.
  if (name.empty() || EncodeName(name) != component) return std::nullopt;
  return name;
}

}  // namespace kedge
