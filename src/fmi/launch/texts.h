// Texts, each with a zero behind it: how what fmirun tells others is written.
#pragma once

#include <charconv>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/status.h"

namespace kedge::fmi {

// Puts one text behind the other.
class TextWriter {
 public:
  void Add(std::string_view text) { all_.append(text).push_back('\0'); }
  template <typename Number>
  void AddNumber(Number number) {
    Add(std::to_string(number));
  }
  template <typename Strings>
  void AddAll(const Strings& texts) {
    AddNumber(texts.size());
    for (const std::string& text : texts) Add(text);
  }
  const std::string& all() const { return all_; }

 private:
  std::string all_;
};

// Takes one after the other; kCorrupt names what is read.
class TextReader {
 public:
  TextReader(std::string_view all, std::string what) : left_(all), what_(std::move(what)) {}

  bool is_empty() const { return left_.empty(); }
  Result<std::string> Next() {
    const size_t end = left_.find('\0');
    if (end == std::string_view::npos) return Status(Code::kCorrupt, what_ + " are cut off");
    std::string text(left_.substr(0, end));
    left_.remove_prefix(end + 1);
    return text;
  }
  template <typename Number>
  Result<Number> UpTo(Number most) {
    KEDGE_ASSIGN_OR_RETURN(const std::string text, Next());
    Number number = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
    if (read.ec == std::errc() && read.ptr == text.data() + text.size() && number >= 0 && number <= most) return number;
    return Status(Code::kCorrupt, what_ + " have \"" + text + "\" where a number belongs");
  }
  Result<bool> Flag() {
    KEDGE_ASSIGN_OR_RETURN(const int flag, UpTo(1));
    return flag != 0;
  }
  // What AddAll has written, at most so many.
  Result<std::vector<std::string>> Strings(size_t most) {
    KEDGE_ASSIGN_OR_RETURN(const size_t count, UpTo(most));
    std::vector<std::string> texts;
    for (size_t i = 0; i < count; ++i) {
      KEDGE_ASSIGN_OR_RETURN(std::string text, Next());
      texts.push_back(std::move(text));
    }
    return texts;
  }

 private:
  std::string_view left_;
  const std::string what_;
};

}  // namespace kedge::fmi
