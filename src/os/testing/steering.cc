// See steering.h. The file holds one rule a line: "CALLS ERRNO PATH", the calls as the bits of a CallSet.
#include "os/testing/steering.h"

#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <sstream>

#include "base/status.h"

namespace kedge::os::testing {

void Steer(const std::string& steering_path, const std::vector<FaultRule>& rules) {
  // Whole or not at all: it is read at any moment.
  const std::string temporary = steering_path + ".new";
  std::ofstream file(temporary);
  for (const FaultRule& rule : rules) file << rule.calls << ' ' << rule.errno_value << ' ' << rule.path_contains << '\n';
  file.close();
  KEDGE_CHECK(file.good() && std::rename(temporary.c_str(), steering_path.c_str()) == 0);
}

void StopSteering(const std::string& steering_path) {
  unlink(steering_path.c_str());
}

void Steering::Look() {
  if (path_.empty()) return;
  std::ifstream file(path_);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const std::lock_guard lock(mutex_);
  if (text == seen_) return;
  seen_ = text;
  plan_->Clear();
  std::istringstream lines(text);
  FaultRule rule;
  rule.count = kForEver;
  while (lines >> rule.calls >> rule.errno_value >> rule.path_contains) plan_->Add(rule);
}

}  // namespace kedge::os::testing
