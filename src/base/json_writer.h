// A streaming JSON writer for the tools' --json and the agent's status: correct escaping, numbers and nesting.
//
// Broken nesting (a value in an object without a key, an End that matches no Begin) is a broken invariant and aborts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace kedge {

class JsonWriter {
 public:
  // indent 0: one line; otherwise that many spaces for each level.
  explicit JsonWriter(int indent = 0) : indent_(indent) {}

  JsonWriter& BeginObject();
  JsonWriter& EndObject();
  JsonWriter& BeginArray();
  JsonWriter& EndArray();
  JsonWriter& Key(std::string_view key);

  // Bytes that are not UTF-8 become U+FFFD, one for each, so that the output is always valid JSON.
  JsonWriter& String(std::string_view value);
  JsonWriter& Int(int64_t value);
  JsonWriter& Uint(uint64_t value);
  // The shortest text that reads back the same; NaN and infinities, which JSON lacks, become null.
  JsonWriter& Double(double value);
  JsonWriter& Bool(bool value);
  JsonWriter& Null();

  // Key and value in one call; numbers, bool and everything that converts to string_view.
  template <typename T>
  JsonWriter& Field(std::string_view key, const T& value) {
    Key(key);
    if constexpr (std::is_same_v<T, bool>) {
      return Bool(value);
    } else if constexpr (std::is_floating_point_v<T>) {
      return Double(static_cast<double>(value));
    } else if constexpr (std::is_integral_v<T> && std::is_signed_v<T>) {
      return Int(static_cast<int64_t>(value));
    } else if constexpr (std::is_integral_v<T>) {
      return Uint(static_cast<uint64_t>(value));
    } else {
      return String(std::string_view(value));
    }
  }

  // The document so far; complete when every Begin has its End.
  const std::string& text() const { return text_; }
  bool IsComplete() const { return levels_.empty() && !text_.empty(); }

 private:
  struct Level {
    bool is_object;
    bool is_empty;
  };
  void BeforeValue();
  void NewLine();
  JsonWriter& Begin(bool is_object, char bracket);
  JsonWriter& End(bool is_object, char bracket);
  void AppendQuoted(std::string_view value);

  std::string text_;
  std::vector<Level> levels_;
  int indent_;
  bool has_key_ = false;  // a key was written and waits for its value
};

}  // namespace kedge
