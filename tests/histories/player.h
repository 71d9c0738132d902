// Plays a history on a world and holds what it sees against the promises; then the closing: everything is mended, the job is
// launched again and goes on, loses all its nodes, and comes back once more. After both launches the agents leave.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <set>
#include <string>

#include "tests/histories/history.h"
#include "tests/histories/promises.h"
#include "tests/histories/world.h"

namespace kedge::histories {

struct PlayOptions {
  std::function<void(const std::string&)> tell;  // hears each step and what came of it; may be empty
  std::set<std::string> ignored;                 // kinds of violation that are passed over
  const std::atomic<bool>* stopping = nullptr;   // looked at before each step: the rest is left out, and the world goes
};

// Nothing: all promises were kept.
std::optional<Violation> Play(const History& history, World& world, const PlayOptions& options);

}  // namespace kedge::histories
