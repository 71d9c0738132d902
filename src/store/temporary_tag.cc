#include "store/temporary_tag.h"

#include "format/name_encoding.h"
#include "store/keys.h"

namespace kedge {

namespace {

constexpr size_t kNodeBytesMax = 48;
constexpr size_t kWriterBytesMax = 24;
constexpr size_t kHashBytes = 32;

// Letters, digits and '_' as they are, the rest as '+' and two digits: neither '.', nor '-', nor '/' remains.
std::string Escape(std::string_view text, size_t bytes_max) {
  std::string escaped;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    if (plain) {
      escaped += c;
    } else {
      constexpr char kDigits[] = "0123456789abcdef";
      const auto byte = static_cast<unsigned char>(c);
      escaped += {'+', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  if (escaped.size() <= bytes_max) return escaped;
  // EncodeName hashes what is long; its hash is its last 32 characters.
  const std::string hashed = EncodeName(std::string(text) + std::string(kEncodedNameBytesMax, '_'));
  return hashed.substr(hashed.size() - std::min(kHashBytes, bytes_max));
}

std::string Unescape(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '+' || text.size() - i < 3) {
      plain += text[i];
      continue;
    }
    const auto value = [](char c) { return c >= 'a' ? c - 'a' + 10 : c - '0'; };
    plain += static_cast<char>(value(text[i + 1]) * 16 + value(text[i + 2]));
    i += 2;
  }
  return plain;
}

}  // namespace

std::string MakeTemporaryTag(const TemporaryOwner& owner) {
  return Escape(owner.node, kNodeBytesMax) + '-' + std::to_string(owner.attempt) + '-' + Escape(owner.writer, kWriterBytesMax);
}

std::optional<TemporaryOwner> ParseTemporaryTag(std::string_view tag) {
  const size_t first = tag.find('-');
  const size_t second = first == std::string_view::npos ? first : tag.find('-', first + 1);
  if (second == std::string_view::npos) return std::nullopt;
  const std::optional<uint32_t> attempt = keys::ParseNumber(tag.substr(first + 1, second - first - 1));
  if (!attempt) return std::nullopt;
  return TemporaryOwner{Unescape(tag.substr(0, first)), *attempt, Unescape(tag.substr(second + 1))};
}

}  // namespace kedge
