// Measures handed from the ranks of one launch to the command that started them: a line each, "KIND KEY VALUE".
#pragma once

#include <string>

#include "report.h"

namespace kedge::bench {

// Collects measures, and writes them when asked.
class MeasuresFile {
 public:
  void Text(const std::string& key, const std::string& value);
  void Number(const std::string& key, double value);
  void Flag(const std::string& key, bool value);
  // One repetition of a series.
  void Add(const std::string& key, double seconds);
  // False when the file cannot be written.
  bool Write(const std::string& path) const;

 private:
  std::string lines_;
};

// Puts a file's measures into `report`; false when it cannot be read.
bool ReadMeasures(const std::string& path, Report* report);

}  // namespace kedge::bench
