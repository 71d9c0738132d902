// The result of one benchmark run: named series over the repetitions, printed as one JSON object or as a table.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace kedge::bench {

// Of at least one value; quantile in [0, 1], nearest rank.
double Quantile(std::vector<double> values, double quantile);

class Report {
 public:
  void SetText(const std::string& key, const std::string& value) { texts_[key] = value; }
  void SetNumber(const std::string& key, double value) { numbers_[key] = value; }
  void SetFlag(const std::string& key, bool value) { flags_[key] = value; }
  // The median of a series that has been added to; -1 when it could not be measured.
  double Median(const std::string& key) const;
  // Adds one repetition. Negative means "could not be measured here" and is left out of the median.
  void Add(const std::string& key, double seconds);

  // {"ranks": ..., "blocked_seconds": [...], "blocked_seconds_median": ..., "blocked_seconds_p99": ...}
  std::string JsonText() const;
  // Rows of median, p99 and, for series of seconds where `bytes_total` is set, GB/s.
  std::string Table() const;

 private:
  std::map<std::string, std::string> texts_;
  std::map<std::string, double> numbers_;
  std::map<std::string, bool> flags_;
  std::vector<std::string> order_;
  std::map<std::string, std::vector<double>> series_;
};

}  // namespace kedge::bench
