// One rank of a history as a process (actor.cc): it is told lines and answers lines, is stopped and killed as the history says,
// and is gone in any case when the object is.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "tests/histories/world.h"

namespace kedge::histories {

class RankProcess {
 public:
  // `log_path`: where it writes what it says to people.
  RankProcess(const std::vector<std::string>& command, const std::map<std::string, std::string>& environment,
              const std::string& log_path);
  ~RankProcess();
  RankProcess(const RankProcess&) = delete;
  RankProcess& operator=(const RankProcess&) = delete;

  void Tell(const std::string& line);
  // The answer to the line that was told before; one that does not come in time, or not at all, says so.
  Answer Hear(std::chrono::milliseconds patience);
  void Signal(int signal);
  void Kill();

 private:
  pid_t pid_ = -1;
  int input_ = -1;
  int output_ = -1;
  std::string heard_;
};

}  // namespace kedge::histories
