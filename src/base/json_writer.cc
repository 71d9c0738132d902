#include "base/json_writer.h"

#include <charconv>
#include <cmath>

#include "base/status.h"

namespace kedge {
namespace {

// The length of the valid UTF-8 sequence at the start of `text` (RFC 3629: no overlong forms, no surrogates), or 0.
size_t Utf8SequenceBytes(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  size_t bytes = 0;
  uint32_t code = 0;
  uint32_t least = 0;
  if ((first & 0xE0) == 0xC0) {
    bytes = 2, code = first & 0x1Fu, least = 0x80;
  } else if ((first & 0xF0) == 0xE0) {
    bytes = 3, code = first & 0x0Fu, least = 0x800;
  } else if ((first & 0xF8) == 0xF0) {
    bytes = 4, code = first & 0x07u, least = 0x10000;
  } else {
    return 0;
  }
  if (text.size() < bytes) return 0;
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
    code = (code << 6) | (byte(i) & 0x3Fu);
  }
  if (code < least || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) return 0;
  return bytes;
}

}  // namespace

void JsonWriter::NewLine() {
  if (indent_ == 0) return;
  text_ += '\n';
  text_.append(levels_.size() * static_cast<size_t>(indent_), ' ');
}

void JsonWriter::BeforeValue() {
  if (levels_.empty()) {
    KEDGE_CHECK(text_.empty());
    return;
  }
  Level& level = levels_.back();
  if (level.is_object) {
    KEDGE_CHECK(has_key_);
    has_key_ = false;
    return;
  }
  if (!level.is_empty) text_ += ',';
  level.is_empty = false;
  NewLine();
}

JsonWriter& JsonWriter::Begin(bool is_object, char bracket) {
  BeforeValue();
  text_ += bracket;
  levels_.push_back({is_object, true});
  return *this;
}

JsonWriter& JsonWriter::End(bool is_object, char bracket) {
  KEDGE_CHECK(!levels_.empty() && levels_.back().is_object == is_object && !has_key_);
  const bool was_empty = levels_.back().is_empty;
  levels_.pop_back();
  if (!was_empty) NewLine();
  text_ += bracket;
  return *this;
}

JsonWriter& JsonWriter::BeginObject() {
  return Begin(true, '{');
}
JsonWriter& JsonWriter::EndObject() {
  return End(true, '}');
}
JsonWriter& JsonWriter::BeginArray() {
  return Begin(false, '[');
}
JsonWriter& JsonWriter::EndArray() {
  return End(false, ']');
}

JsonWriter& JsonWriter::Key(std::string_view key) {
  KEDGE_CHECK(!levels_.empty() && levels_.back().is_object && !has_key_);
  if (!levels_.back().is_empty) text_ += ',';
  levels_.back().is_empty = false;
  NewLine();
  AppendQuoted(key);
  text_ += indent_ == 0 ? ":" : ": ";
  has_key_ = true;
  return *this;
}

void JsonWriter::AppendQuoted(std::string_view value) {
  static constexpr char kHex[] = "0123456789abcdef";
  text_ += '"';
  while (!value.empty()) {
    const char c = value.front();
    size_t used = 1;
    if (c == '"' || c == '\\') {
      text_ += '\\';
      text_ += c;
    } else if (c == '\n') {
      text_ += "\\n";
    } else if (c == '\t') {
      text_ += "\\t";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      text_ += "\\u00";
      text_ += kHex[static_cast<unsigned char>(c) >> 4];
      text_ += kHex[c & 0xF];
    } else if (const size_t sequence = Utf8SequenceBytes(value); sequence > 0) {
      text_ += value.substr(0, sequence);
      used = sequence;
    } else {
      text_ += "\xEF\xBF\xBD";
    }
    value.remove_prefix(used);
  }
  text_ += '"';
}

JsonWriter& JsonWriter::String(std::string_view value) {
  BeforeValue();
  AppendQuoted(value);
  return *this;
}

JsonWriter& JsonWriter::Int(int64_t value) {
  BeforeValue();
  text_ += std::to_string(value);
  return *this;
}

JsonWriter& JsonWriter::Uint(uint64_t value) {
  BeforeValue();
  text_ += std::to_string(value);
  return *this;
}

JsonWriter& JsonWriter::Double(double value) {
  if (!std::isfinite(value)) return Null();
  BeforeValue();
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value);
  text_.append(buffer, end.ptr);
  return *this;
}

JsonWriter& JsonWriter::Bool(bool value) {
  BeforeValue();
  text_ += value ? "true" : "false";
  return *this;
}

JsonWriter& JsonWriter::Null() {
  BeforeValue();
  text_ += "null";
  return *this;
}

}  // namespace kedge
