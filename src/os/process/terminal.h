// The terminal, for programs that people watch.
#pragma once

#include <optional>

#include "base/duration.h"

namespace kedge::os {

enum class StandardStream { kInput = 0, kOutput = 1, kError = 2 };
bool IsTerminal(StandardStream stream);

// While it lives, keys of standard input come one by one and unechoed; nothing changes where that is no terminal.
class KeyReader {
 public:
  KeyReader();
  ~KeyReader();
  KeyReader(const KeyReader&) = delete;
  KeyReader& operator=(const KeyReader&) = delete;

  // The next key within the time, if any. Sleeps for all of it where standard input is no terminal.
  std::optional<char> Next(Duration at_most);

 private:
  struct Saved;
  Saved* saved_;
};

}  // namespace kedge::os
