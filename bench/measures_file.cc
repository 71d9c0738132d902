#include "measures_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

namespace kedge::bench {

void MeasuresFile::Text(const std::string& key, const std::string& value) {
  std::string line = value;
  std::replace(line.begin(), line.end(), '\n', ' ');
  lines_ += fmt::format("text {} {}\n", key, line);
}

void MeasuresFile::Number(const std::string& key, double value) {
  lines_ += fmt::format("number {} {}\n", key, value);
}

void MeasuresFile::Flag(const std::string& key, bool value) {
  lines_ += fmt::format("flag {} {}\n", key, value ? 1 : 0);
}

void MeasuresFile::Add(const std::string& key, double seconds) {
  lines_ += fmt::format("series {} {}\n", key, seconds);
}

bool MeasuresFile::Write(const std::string& path) const {
  std::ofstream file(path);
  file << lines_;
  return static_cast<bool>(file.flush());
}

bool ReadMeasures(const std::string& path, Report* report) {
  std::ifstream file(path);
  if (!file) return false;
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(' ');
    const size_t second = line.find(' ', first + 1);
    if (second == std::string::npos) return false;
    const std::string kind = line.substr(0, first);
    const std::string key = line.substr(first + 1, second - first - 1);
    const std::string value = line.substr(second + 1);
    if (kind == "text") {
      report->SetText(key, value);
    } else if (kind == "flag") {
      report->SetFlag(key, value == "1");
    } else if (kind == "number") {
      report->SetNumber(key, std::strtod(value.c_str(), nullptr));
    } else {
      report->Add(key, std::strtod(value.c_str(), nullptr));
    }
  }
  return true;
}

}  // namespace kedge::bench
