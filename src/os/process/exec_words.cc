#include "os/process/exec_words.h"

#include <unistd.h>

#include <algorithm>
#include <string_view>

extern char** environ;

namespace kedge::os {

std::vector<std::string> EnvironmentWith(const std::vector<std::pair<std::string, std::string>>& set,
                                         const std::vector<std::string>& unset) {
  const auto removed = [&](std::string_view name) {
    for (const std::string& pattern : unset) {
      if (!pattern.empty() && pattern.back() == '*'
              ? name.substr(0, pattern.size() - 1) == std::string_view(pattern).substr(0, pattern.size() - 1)
              : name == pattern) {
        return true;
      }
    }
    return std::any_of(set.begin(), set.end(), [&](const auto& item) { return item.first == name; });
  };
  std::vector<std::string> environment;
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    if (!removed(text.substr(0, text.find('=')))) environment.emplace_back(text);
  }
  for (const auto& [name, value] : set) environment.push_back(name + "=" + value);
  return environment;
}

std::vector<char*> PointersTo(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace kedge::os
