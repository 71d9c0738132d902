#include "os/process/terminal.h"

#include <poll.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <climits>

namespace kedge::os {

struct KeyReader::Saved {
  termios settings;
};

bool IsTerminal(StandardStream stream) {
  return isatty(static_cast<int>(stream)) == 1;
}

KeyReader::KeyReader() : saved_(nullptr) {
  if (!IsTerminal(StandardStream::kInput)) return;
  saved_ = new Saved;
  tcgetattr(STDIN_FILENO, &saved_->settings);
  termios raw = saved_->settings;
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  tcsetattr(STDIN_FILENO, TCSANOW, &raw);
}

KeyReader::~KeyReader() {
  if (saved_ == nullptr) return;
  tcsetattr(STDIN_FILENO, TCSANOW, &saved_->settings);
  delete saved_;
}

std::optional<char> KeyReader::Next(Duration at_most) {
  const auto milliseconds =
      std::clamp<int64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(at_most).count(), 0, INT_MAX);
  pollfd input{STDIN_FILENO, POLLIN, 0};
  // Without a terminal there are no keys: only the sleep remains.
  if (poll(saved_ != nullptr ? &input : nullptr, saved_ != nullptr ? 1 : 0, static_cast<int>(milliseconds)) <= 0)
    return std::nullopt;
  char key = 0;
  if (read(STDIN_FILENO, &key, 1) != 1) return std::nullopt;
  return key;
}

}  // namespace kedge::os
