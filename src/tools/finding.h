// One thing that `kedge doctor` found out, and what to do about it.
#pragma once

#include <string>

namespace kedge::tools {

enum class State { kOk, kNote, kBad };
inline const char* StateName(State state) {
  switch (state) {
    case State::kOk: return "ok";
    case State::kNote: return "note";
    case State::kBad: return "BAD";
  }
  return "unknown";
}

struct Finding {
  State state;
  std::string subject;
  std::string found;
  std::string advice;  // empty: nothing to do
};

}  // namespace kedge::tools
