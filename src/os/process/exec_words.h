// What execve is given: an environment made from this process's, and pointers to words.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace kedge::os {

// This process's variables without those of `unset` (a name, or a beginning with a * behind it), and with those of `set`.
std::vector<std::string> EnvironmentWith(const std::vector<std::pair<std::string, std::string>>& set,
                                         const std::vector<std::string>& unset = {});
// Ends with a null; valid as long as `words`.
std::vector<char*> PointersTo(std::vector<std::string>& words);

}  // namespace kedge::os
