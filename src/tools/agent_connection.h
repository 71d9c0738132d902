// How commands reach the node's agent.
#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>

#include "base/duration.h"
#include "session/connection.h"
#include "tools/common.h"

namespace kedge::tools {

// For an answer that the agent has ready.
inline constexpr Duration kAnswerTimeout = std::chrono::seconds(10);

struct AgentConnection {
  NodeSettings node;
  std::unique_ptr<Connection> connection;
};

// Connects to the agent of the node that the configuration names. With `start` one is started when none runs;
// without, kUnavailable says where it was looked for.
Result<AgentConnection> ConnectToAgent(const Config& config, bool start);

// A level by its name; an empty one is the last that is scheduled.
Level LevelNamed(const std::string& name);

// What the agent says of itself, as JSON, with the time: of looks that were kept, each tells when it was.
Result<std::string> AskForStatus(const AgentConnection& agent);

}  // namespace kedge::tools
