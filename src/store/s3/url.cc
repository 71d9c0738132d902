#include "store/s3/url.h"

#include <algorithm>

namespace kedge::s3 {

namespace {

int DigitOf(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

}  // namespace

std::string Encode(std::string_view text, std::string_view also) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : text) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
                          c == '_' || c == '~' || also.find(c) != std::string_view::npos;
    if (is_plain) {
      encoded += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      encoded += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return encoded;
}

std::string Decode(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool is_escape = text[i] == '%' && text.size() - i > 2 && DigitOf(text[i + 1]) >= 0 && DigitOf(text[i + 2]) >= 0;
    if (is_escape) {
      decoded += static_cast<char>(DigitOf(text[i + 1]) * 16 + DigitOf(text[i + 2]));
      i += 2;
    } else {
      decoded += text[i];
    }
  }
  return decoded;
}

std::string QueryText(Pairs query) {
  for (auto& [key, value] : query) {
    key = Encode(key);
    value = Encode(value);
  }
  std::ranges::sort(query);
  std::string text;
  for (const auto& [key, value] : query) text += (text.empty() ? "" : "&") + key + '=' + value;
  return text;
}

}  // namespace kedge::s3
