#include "report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/json.h"

namespace kedge::bench {

double Quantile(std::vector<double> values, double quantile) {
  std::sort(values.begin(), values.end());
  const auto rank = static_cast<size_t>(std::ceil(quantile * static_cast<double>(values.size())));
  return values[std::clamp<size_t>(rank, 1, values.size()) - 1];
}

void Report::Add(const std::string& key, double seconds) {
  if (series_.find(key) == series_.end()) order_.push_back(key);
  auto& values = series_[key];
  if (seconds >= 0) values.push_back(seconds);
}

double Report::Median(const std::string& key) const {
  const auto values = series_.find(key);
  return values == series_.end() || values->second.empty() ? -1 : Quantile(values->second, 0.5);
}

std::string Report::JsonText() const {
  Json json;
  for (const auto& [key, value] : texts_) json[key] = value;
  for (const auto& [key, value] : flags_) json[key] = value;
  for (const auto& [key, value] : numbers_) {
    const bool is_whole = value == std::floor(value) && std::fabs(value) < 9e15;
    json[key] = is_whole ? Json(static_cast<int64_t>(value)) : Json(value);
  }
  for (const std::string& key : order_) {
    const auto& values = series_.at(key);
    json[key] = values;
    json[key + "_median"] = values.empty() ? Json() : Json(Quantile(values, 0.5));
    if (!values.empty()) json[key + "_p99"] = Quantile(values, 0.99);
  }
  return ToText(json);
}

std::string Report::Table() const {
  std::string table;
  for (const auto& [key, value] : texts_) table += fmt::format("{:<38} {}\n", key, value);
  for (const auto& [key, value] : flags_) table += fmt::format("{:<38} {}\n", key, value ? "yes" : "no");
  for (const auto& [key, value] : numbers_) table += fmt::format("{:<38} {:.6g}\n", key, value);
  const auto bytes = numbers_.find("bytes_total");
  table += fmt::format("{:<38} {:>12} {:>12} {:>10}\n", "seconds", "median", "p99", "GB/s");
  for (const std::string& key : order_) {
    const auto& values = series_.at(key);
    if (values.empty()) {
      table += fmt::format("{:<38} {:>12}\n", key, "not here");
      continue;
    }
    const double median = Quantile(values, 0.5);
    std::string rate;
    if (bytes != numbers_.end() && bytes->second >= 1e6 && median > 0) rate = fmt::format("{:.2f}", bytes->second / median / 1e9);
    table += fmt::format("{:<38} {:>12.6f} {:>12.6f} {:>10}\n", key, median, Quantile(values, 0.99), rate);
  }
  return table;
}

}  // namespace kedge::bench
